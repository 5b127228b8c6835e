/* prometheus.h - a file in Prometheus' text format 0.0.4, which is replaced whole: node_exporter's textfile collector
 * reads such files, *.prom, and never sees half of one.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 *
 * A text is written to FILE.tmp beside FILE, which then takes its name. A process that is killed leaves FILE as it was,
 * or new, and at most that one other file, which goes with the next text. Two processes that write the same FILE at
 * once may lose one text, or mix two. */
#ifndef DDP_RECORD_PROMETHEUS_H
#define DDP_RECORD_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/base/error.h"

struct prometheus {
    bool is_open; /* else every call is allowed, and writes nothing */
    int folder_fd;                    /* that path is relative to */
    char path[256], temporary[264];
    char labels[512];                 /* that every sample has: a="b",c="d" */
    const char *name, *type, *help;   /* of the present family; type NULL: its head is written */
    FILE *text;                       /* between prometheus_begin and prometheus_end; NULL: no memory */
    char *buffer;                     /* [n_bytes] what it holds */
    size_t n_bytes;
};

/* Keeps path, of at most 255 bytes, and the folder that it is relative to now, whatever the program changes to; nothing
 * is written yet. */
void prometheus_open(struct prometheus *p, const char *path);

/* A label that every sample has from here on. NULL and "" are the same as no label, and none is written; nor is one for
 * which there is no room. */
void prometheus_label(struct prometheus *p, const char *name, const char *value);

/* A text: prometheus_begin, then each family once and behind it its samples, and prometheus_end. */
void prometheus_begin(struct prometheus *p);

/* type: "counter" or "gauge"; help: one line without \. The three have to outlive the text. A family without a sample
 * is left out. */
void prometheus_family(struct prometheus *p, const char *name, const char *type, const char *help);

/* labels: behind those of every sample, as in the format, 'part="data"'; NULL: none. A number that is not finite is
 * not known: there is no sample. */
void prometheus_sample(struct prometheus *p, const char *labels, double x);

/* Puts the text in path's place, with mode 0666 less the umask. -1: it is as it was; the error names it and the cure.
 * A path that is there and no regular file is left alone. */
int prometheus_end(struct prometheus *p, ddp_error_t *errp);

/* A label into ret, 'name="value"': " and \ in the value are escaped, and what is not plain becomes "?". -1: it does
 * not fit, and ret is "". Pure. */
int prometheus_quote(char *ret, size_t size, const char *name, const char *value);

void prometheus_close(struct prometheus *p); /* a zeroed struct is allowed; the file stays */

#endif
