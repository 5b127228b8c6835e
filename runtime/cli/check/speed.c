/* speed.c - clocks, and the memory's speed with all ranks at once. */
#include <stdlib.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/stats.h"
#include "runtime/cli/check/check.h"

#define N_CLOCKS 20
#define ARRAY_BYTES ((size_t)32 << 20) /* each of three: together more than most caches */
#define CHUNK (((size_t)1 << 20) / sizeof(double))
#define MEMORY_S 0.5
#define CHUNKS_MAX 8192

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Rank 0 reads its clock after all have read theirs (the barrier) and before any reads its again (the broadcast): so
 * what it read lies between the two, and the middle is off by half of what is between them. */
int check_clocks(ddp_t *d, struct check_speed *ret, ddp_error_t *errp)
{
    ret->skew_bound_s = 1e9;
    for (int i = 0; i < N_CLOCKS; i++) {
        double before = now_s(CLOCK_REALTIME), zero = 0;
        if (ddp_barrier(d, errp) < 0)
            return -1;
        zero = now_s(CLOCK_REALTIME);
        if (ddp_bcast(d, &zero, 1, DDP_F64, 0, errp) < 0)
            return -1;
        double after = now_s(CLOCK_REALTIME);
        if ((after - before) / 2 < ret->skew_bound_s) {
            ret->skew_bound_s = (after - before) / 2;
            ret->skew_s = (before + after) / 2 - zero;
        }
    }
    if (ddp_world(d)->rank == 0)
        ret->skew_s = ret->skew_bound_s = 0;
    return 0;
}

/* a = b + 3 c, chunk by chunk, until `end_s` of the wall clock, and at least once; the fastest quarter of them counts,
 * since others may have had the core, or the machine, during the rest. Returns the CPU time. */
static double triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n, double *took,
                    double end_s, double *ret_gbs)
{
    size_t n_took = 0;
    double start = now_s(CLOCK_THREAD_CPUTIME_ID), cpu = 0;
    uint64_t last = clock_ns();
    bool is_over = now_s(CLOCK_REALTIME) >= end_s;
    for (size_t at = 0; n_took == 0 || (!is_over && n_took < CHUNKS_MAX); at = at + 2 * CHUNK <= n ? at + CHUNK : 0) {
        for (size_t i = at; i < at + CHUNK; i++)
            a[i] = b[i] + 3 * c[i];
        uint64_t now = clock_ns();
        took[n_took++] = (double)(now - last) / 1e9;
        last = now;
        cpu = is_over ? 0 : now_s(CLOCK_THREAD_CPUTIME_ID) - start;
        is_over = now_s(CLOCK_REALTIME) >= end_s;
    }
    *ret_gbs = 3 * CHUNK * sizeof(double) / stats_of(took, n_took).q1 / 1e9;
    return cpu;
}

/* All compute for the same MEMORY_S, by rank 0's clock: a rank that comes late to it, since others have its core, and
 * would compute alone then, has used that much less of it. */
int check_memory(ddp_t *d, uint64_t left_bytes, struct check_speed *ret, ddp_error_t *errp)
{
    uint64_t share = left_bytes / 8 / (uint64_t)ddp_world(d)->local_size;
    size_t n = share < ARRAY_BYTES ? (size_t)share / sizeof(double) : ARRAY_BYTES / sizeof(double);
    double *a = NULL, *b = NULL, *c = NULL, *took = calloc(CHUNKS_MAX, sizeof *took);
    n -= n % CHUNK;
    if (n > 0) {
        a = malloc(n * sizeof *a);
        b = malloc(n * sizeof *b);
        c = malloc(n * sizeof *c);
    }
    bool is_there = a && b && c && took;
    for (size_t i = 0; is_there && i < n; i++) {
        a[i] = 0;
        b[i] = 1;
        c[i] = (double)i;
    }
    double start_s = 0;
    int rc = ddp_barrier(d, errp);
    if (rc == 0) {
        start_s = now_s(CLOCK_REALTIME);
        rc = ddp_bcast(d, &start_s, 1, DDP_F64, 0, errp);
    }
    if (rc == 0 && is_there)
        ret->cpu = triad(a, b, c, n, took, start_s + ret->skew_s + MEMORY_S, &ret->memory_gbs) / MEMORY_S;
    volatile double used = is_there ? a[n / 2] : 0;
    (void)used;
    free(a);
    free(b);
    free(c);
    free(took);
    return rc < 0 ? -1 : ddp_barrier(d, errp);
}
