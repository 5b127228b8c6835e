/* knob.h - one table per set of settings: name, type, default, range, one line of help, and the field that a value goes
 * to. Options, environment, site file and help texts all read the table, so that a setting is described once. */
#ifndef DDP_BASE_KNOB_H
#define DDP_BASE_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"

#define KNOB_TEXT_MAX 255 /* bytes of a KNOB_STRING at most */

typedef char knob_text_t[KNOB_TEXT_MAX + 1];

/* KNOB_STRING is copied; KNOB_PATH is of any length and borrowed. */
enum knob_type { KNOB_BOOL, KNOB_INT, KNOB_DOUBLE, KNOB_ENUM, KNOB_STRING, KNOB_PATH };

struct knob {
    const char *name;    /* of the key, "bind", or of the option, "--steps" */
    const char *env;     /* of the environment variable, "DDP_BIND"; NULL: none */
    enum knob_type type;
    const char *def;     /* default, as text; NULL: unset */
    double min, max;     /* KNOB_INT and KNOB_DOUBLE; for KNOB_STRING max > 0 is the greatest length in bytes, and
                            min 1 for KNOB_PATH: it may not be empty */
    const char *choices; /* KNOB_ENUM: "auto|none" */
    const char *help;    /* one line, no full stop */
    size_t offset, size; /* KNOB_FIELD: where knob_store puts the value; size 0: nowhere */
    const char *value;   /* what help calls the value: "FILE"; NULL: by the type */
};

/* offset and size for a field of a struct: bool, int or 64 bits, double, int or enum, knob_text_t, const char * in the
 * order of knob_type. */
#define KNOB_FIELD(type, field) .offset = offsetof(type, field), .size = sizeof ((type *)0)->field

struct knob_value {
    bool is_set; /* false: the knob has no default, and no source gives a value */
    bool b;
    int64_t i;
    double d;
    int choice;         /* index into choices */
    knob_text_t text;   /* as written, cut where it is longer */
    const char *path;   /* as given, borrowed */
    const char *source; /* the source of the value, as it was passed in; "default" */
};

/* The knob called name (or whose env is name) in knobs[0..n), or NULL. */
const struct knob *knob_find(const struct knob *knobs, size_t n, const char *name);

/* The knob whose name is `word`, or the part of `word` before a "="; *ret_value becomes the text after the "=", or NULL
 * without one. NULL: there is no such knob, and *ret_value is unchanged. */
const struct knob *knob_split(const struct knob *knobs, size_t n, const char *word, const char **ret_value);

/* Parses text into *ret. Returns 0, or -1 with an error that names the source ("--ddp", "DDP_BIND", "ddp.json:3"), the
 * key, the value and what is allowed. */
int knob_parse(const struct knob *k, const char *text, const char *source, struct knob_value *ret, ddp_error_t *errp);

/* values[0..n) from defaults, then from the environment (getenv). values must hold n. Returns 0 or -1. */
int knob_load(const struct knob *knobs, size_t n, struct knob_value *values, ddp_error_t *errp);

/* ---- a command line: "--steps 30", "--steps=30", "-n 30"; a KNOB_BOOL alone is on ---- */

/* Reads the option at argv[*i]. If its value is the next word, *i advances to that word (a word that begins with "--"
 * is no value). 0, or -1 with an error that names the option and the cure; lister: the command that lists the options,
 * "train --help". */
int knob_take(const struct knob *knobs, size_t n, const char *lister, int argc, char **argv, int *i,
              struct knob_value *values, ddp_error_t *errp);

/* values[0..n): knob_load, then the options of argv[1..argc), which end at "--" or at the first word that is none.
 * *ret_rest: the index of what follows, argc where nothing does; NULL: nothing may. 0; 1: --help or -h is among them;
 * -1 as knob_take. */
int knob_argv(const struct knob *knobs, size_t n, const char *lister, int argc, char **argv, struct knob_value *values,
              int *ret_rest, ddp_error_t *errp);

/* A line or more for each knob: option, value, help, choices, [default]. */
void knob_help(FILE *f, const struct knob *knobs, size_t n);

/* ---- fields ---- */

/* Sets the fields of the struct at `object` to what they are without any value: numbers -1, texts empty or NULL, false,
 * 0. */
void knob_clear(const struct knob *knobs, size_t n, void *object);

/* Copies those of the values that are set to their fields. */
void knob_store(const struct knob *knobs, size_t n, const struct knob_value *values, void *object);

/* A field's value as a text that knob_parse would read, or "(unset)". Returns buf. */
const char *knob_format(const struct knob *k, const void *object, char *buf, size_t size);

/* ---- for people ---- */

/* The greatest length in bytes of a KNOB_STRING's value. */
size_t knob_text_max(const struct knob *k);

/* The values that are allowed, for people: "auto|none", "1..65535", "on|off". Returns buf. */
const char *knob_range(const struct knob *k, char *buf, size_t size);

#endif
