/* knob.h - one table per set of settings: name, type, default, range, one line of help. Options, environment, site
 * file, help texts and the manual all read the table, so that a setting is described once. */
#ifndef DDP_BASE_KNOB_H
#define DDP_BASE_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum knob_type { KNOB_BOOL, KNOB_INT, KNOB_DOUBLE, KNOB_ENUM, KNOB_STRING };

struct knob {
    const char *name;    /* as a key: "bind" */
    const char *env;     /* as a variable: "DDP_BIND"; NULL: none */
    enum knob_type type;
    const char *def;     /* default, as text; NULL: unset */
    double min, max;     /* KNOB_INT and KNOB_DOUBLE; for KNOB_STRING max > 0 is the greatest length in bytes */
    const char *choices; /* KNOB_ENUM: "auto|none" */
    const char *help;    /* one line, no full stop */
};

struct knob_value {
    bool is_set; /* false: no default and nobody named it */
    bool b;
    int64_t i;
    double d;
    int choice;         /* index into choices */
    char text[256];     /* as written */
    const char *source; /* where it came from, as passed in; "default" */
};

/* The knob called name (or whose env is name) in knobs[0..n), or NULL. */
const struct knob *knob_find(const struct knob *knobs, size_t n, const char *name);

/* Parses text into *ret. Returns 0, or -1 with an error that names the source ("--ddp", "DDP_BIND", "ddp.json:3"), the
 * key, the value and what is allowed. */
int knob_parse(const struct knob *k, const char *text, const char *source, struct knob_value *ret, ddp_error_t *errp);

/* values[0..n) from defaults, then from the environment (getenv). values must hold n. Returns 0 or -1. */
int knob_load(const struct knob *knobs, size_t n, struct knob_value *values, ddp_error_t *errp);

/* The greatest length in bytes of a KNOB_STRING's value. */
size_t knob_text_max(const struct knob *k);

/* What a value may be, for people: "auto|none", "1..65535", "on|off". Returns buf. */
const char *knob_range(const struct knob *k, char *buf, size_t size);

#endif
