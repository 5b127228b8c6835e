/* trace.h - records what happened when, in a file that chrome://tracing and ui.perfetto.dev show.
 *
 * Format: the JSON array of Google's "Trace Event Format", whose closing bracket is optional, so that the trace of a
 * run that was killed can be read. Times are in microseconds of CLOCK_MONOTONIC; each rank is a process. */
#ifndef DDP_RUNTIME_GRADS_TRACE_H
#define DDP_RUNTIME_GRADS_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"

enum trace_track { TRACE_STEP, TRACE_GRADIENTS, TRACE_BUCKETS, TRACE_GPU, TRACE_TRACKS };

struct trace {
    FILE *file; /* NULL: nothing is written; every call is allowed */
    int rank;
    char path[512]; /* for errors */
};

/* Every %r in pattern becomes the rank; with several ranks there must be one. A file that exists is overwritten;
 * a pipe is refused. */
int trace_open(struct trace *t, const char *pattern, int rank, int n_ranks, ddp_error_t *errp);
void trace_close(struct trace *t); /* a zeroed struct is allowed */

/* An event's name is `what`, followed by a space and `which` where that is not NULL. */
void trace_span(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t from_ns,
                uint64_t to_ns);
void trace_instant(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t at_ns);

/* Flushes the file. -1 if that failed, or if any event since trace_open could not be written: a trace with gaps would
 * mislead. */
int trace_flush(struct trace *t, ddp_error_t *errp);

#endif
