/* trace.h - what happened when, as a file that chrome://tracing and ui.perfetto.dev show.
 *
 * Format: the JSON array of Google's "Trace Event Format" (its closing bracket is optional there, so that a trace of a
 * run that was killed can be read); times in microseconds of CLOCK_MONOTONIC, one process per rank. */
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

/* Every %r in pattern becomes the rank; with several ranks there must be one. A file that exists is written anew. */
int trace_open(struct trace *t, const char *pattern, int rank, int n_ranks, ddp_error_t *errp);
void trace_close(struct trace *t); /* a zeroed struct is allowed */

/* The name is `what`, followed by a space and `which` where that is not NULL. */
void trace_span(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t from_ns,
                uint64_t to_ns);
void trace_instant(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t at_ns);

/* Hands what was written to the system. -1 where that, or anything since trace_open, could not be written: a trace with
 * holes shows what did not happen. */
int trace_flush(struct trace *t, ddp_error_t *errp);

#endif
