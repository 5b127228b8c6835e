/* bench.h - `ddp bench`: its main, and what its verbs share. */
#ifndef DDP_RUNTIME_BENCH_BENCH_H
#define DDP_RUNTIME_BENCH_BENCH_H

#include <stddef.h>
#include <stdio.h>

#include "runtime/base/knob.h"
#include "runtime/base/stats.h"
#include "runtime/ddp.h"

#define BENCH_USAGE 2

/* argv[0] is "bench"; returns the exit code (BENCH_USAGE: wrong usage). */
int bench_main(int argc, char **argv);

/* A verb runs on every rank of an open handle; rank 0 prints. Returns an exit code, or -1 with *errp filled. */
struct bench_verb {
    const char *name, *summary;
    int (*run)(ddp_t *d, int argc, char **argv, ddp_error_t *errp);
    void (*help)(FILE *f);
};
extern const struct bench_verb bench_allreduce, bench_reducer, bench_step;

/* A size in bytes, at least 1, as text: digits, then K, M or G (powers of 1024) or nothing. 0, or -1 with an error that
 * names option. */
int bench_bytes(const char *option, const char *text, size_t *ret, ddp_error_t *errp);

/* stats_of over each element's maximum over all ranks, since an iteration lasts until its slowest rank is done.
 * Collective. */
int bench_stats_over_ranks(ddp_t *d, double *x, size_t n, struct stats *ret, ddp_error_t *errp);

/* ,"NAME": {"median": ..., "q1": ..., "q3": ..., "min": ..., "max": ...} without the comma; values times scale. */
void bench_json_stats(FILE *f, const char *name, struct stats s, double scale);

/* Sum over all ranks. Collective. */
int bench_sum_over_ranks(ddp_t *d, int64_t *x, ddp_error_t *errp);

double bench_now_s(void);

/* Memory of this rank whose pages are touched already, 64-byte aligned; the caller frees it with free(). NULL with
 * *errp filled. */
void *bench_private(size_t n_bytes, ddp_error_t *errp);

#endif
