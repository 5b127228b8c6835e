/* train_probe.c - the reference trainer with probes, for t5002, t5010, t5011, t5401, t6010, t7005 and t7006: linked
 * with ld's --wrap around a few calls of libddp, so that trainer, loop and library are the real ones.
 *
 * PROBE_FAULT plants a fault, which the comparison between one rank and several must notice:
 *   sum           gradients are summed over the ranks, not averaged (losses look right)
 *   accum         micro-steps are summed, not averaged (losses look right)
 *   same-samples  every rank reads rank 0's samples
 *   fold-order    partial sums of shards are added up in another order
 *   die-in-gather rank 1 dies where it would take part in its tenth gathering of values
 * PROBE_WRITE=FILE writes the first step's averaged gradient, seen through plain SGD (gradient = (value before - value
 * after) / learning rate); PROBE_COMPARE=FILE prints how far it is from such a file: "gradient differs by X", X the
 * relative L2 distance. Rank 0 does both.
 * PROBE_SAMPLES=FOLDER writes, on every rank, a line "STEP EPOCH SAMPLE..." per micro-step into FOLDER/RANK, whole even
 * where the process is killed.
 * PROBE_STOP=N stops the job in its Nth micro-step, as a SIGTERM to rank 0 does.
 * PROBE_PACE_MS=N lets every step take N milliseconds more, in which the processor is free for others.
 * PROBE_ALLOCATIONS=1 prints, on every rank, what the heap gave our code after the first ALLOCATIONS_AFTER steps: to
 * the model, and to libddp. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/comm.h"
#include "runtime/ddp.h"

comm_work_t *__real_comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                                      size_t unit_bytes, ddp_error_t *errp);
comm_work_t *__wrap_comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                                      size_t unit_bytes, ddp_error_t *errp);
int __real_ddp_batch_next_sized(ddp_t *d, struct ddp_batch *ret, size_t size, ddp_error_t *errp);
int __real_ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp);
int __real_ddp_step_sized(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp);
void __real_kernel_fold(float *out, const float *const *in, int n_in, size_t n);
void __wrap_kernel_fold(float *out, const float *const *in, int n_in, size_t n);
int __wrap_ddp_batch_next_sized(ddp_t *d, struct ddp_batch *ret, size_t size, ddp_error_t *errp);
int __wrap_ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp);
int __wrap_ddp_step_sized(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp);
void __real_ddp_grad_ready(ddp_t *d, int id);
void __wrap_ddp_grad_ready(ddp_t *d, int id);
void __real_ddp_finalize(ddp_t *d);
void __wrap_ddp_finalize(ddp_t *d);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

enum { ALLOCATIONS_AFTER = 6 }; /* the first steps find the plan */

/* What was allocated; the communicator's thread allocates too. */
struct allocations {
    atomic_size_t in_model, in_libddp, largest;
};
static struct allocations so_far, at_first, at_last; /* before the first step that counts, and after the last one */
static _Thread_local bool in_model;

static void note_allocation(size_t n)
{
    atomic_fetch_add(in_model ? &so_far.in_model : &so_far.in_libddp, 1);
    if (n > so_far.largest)
        so_far.largest = n;
}

void *__wrap_malloc(size_t n)
{
    note_allocation(n);
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    note_allocation(n * size);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    note_allocation(n);
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    note_allocation(n);
    return __real_aligned_alloc(align, n);
}

static void copy_allocations(struct allocations *to)
{
    to->in_model = so_far.in_model;
    to->in_libddp = so_far.in_libddp;
    to->largest = so_far.largest;
}

static void note_step(uint64_t n_steps)
{
    if (n_steps == ALLOCATIONS_AFTER) {
        so_far.largest = 0;
        copy_allocations(&at_first);
    }
    copy_allocations(&at_last);
}

void __wrap_ddp_finalize(ddp_t *d)
{
    if (getenv("PROBE_ALLOCATIONS"))
        printf("allocations: %zu in the model, %zu in libddp, the largest of %zu bytes\n",
               at_last.in_model - at_first.in_model, at_last.in_libddp - at_first.in_libddp, at_last.largest);
    __real_ddp_finalize(d);
}

void __wrap_ddp_grad_ready(ddp_t *d, int id)
{
    in_model = false;
    __real_ddp_grad_ready(d, id);
    in_model = true;
}

static bool fault_is(const char *name)
{
    const char *fault = getenv("PROBE_FAULT");
    return fault && !strcmp(fault, name);
}

void __wrap_kernel_fold(float *out, const float *const *in, int n_in, size_t n)
{
    const float *other[64];
    memcpy(other, in, (size_t)n_in * sizeof *in);
    if (fault_is("fold-order") && n_in >= 3) {
        other[0] = in[1];
        other[1] = in[0];
    }
    __real_kernel_fold(out, other, n_in, n);
}

comm_work_t *__wrap_comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                                      size_t unit_bytes, ddp_error_t *errp)
{
    static int n_calls;
    const char *rank = getenv("RANK");
    if (fault_is("die-in-gather") && rank && !strcmp(rank, "1") && ++n_calls == 10)
        raise(SIGKILL);
    return __real_comm_gather_start(c, s, ranges, n_ranges, unit_bytes, errp);
}

static void note_samples(const ddp_t *d, const struct ddp_batch *b)
{
    static FILE *f;
    char path[4096];
    const char *folder = getenv("PROBE_SAMPLES");
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%d", folder, ddp_world(d)->rank);
    if (!f && !(f = fopen(path, "ae")))
        abort();
    fprintf(f, "%" PRIu64 " %" PRIu64, ddp_steps_done(d) + 1, b->epoch);
    for (size_t i = 0; i < b->n_samples; i++)
        fprintf(f, " %" PRIu64, b->sample[i]);
    fputc('\n', f);
    fflush(f);
}

int __wrap_ddp_batch_next_sized(ddp_t *d, struct ddp_batch *ret, size_t size, ddp_error_t *errp)
{
    int rc = __real_ddp_batch_next_sized(d, ret, size, errp);
    if (rc == 0)
        note_samples(d, ret);
    if (rc == 0 && fault_is("same-samples"))
        rc = ddp_bcast(d, (void *)ret->sample, ret->n_samples, DDP_I64, 0, errp);
    in_model = true;
    return rc;
}

static void stop(const ddp_t *d)
{
    static int n_calls;
    const char *at = getenv("PROBE_STOP");
    if (at && ddp_world(d)->rank == 0 && ++n_calls == atoi(at))
        raise(SIGTERM);
}

/* A smaller count makes the gradient larger; the loss is scaled with it, so that it gives nothing away. */
int __wrap_ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp)
{
    in_model = false;
    stop(d);
    uint64_t divisor = fault_is("sum") ? (uint64_t)ddp_world(d)->size : fault_is("accum") ? 2 : 1;
    return __real_ddp_backward_end(d, loss_sum / (double)divisor, n_tokens / divisor, errp);
}

/* All values, one after the other. */
static double *values_of(const ddp_t *d, size_t *ret_n)
{
    double *all = NULL;
    *ret_n = 0;
    for (int id = 0; ddp_param_get(d, id).value; id++) {
        struct ddp_param p = ddp_param_get(d, id);
        all = realloc(all, (*ret_n + p.n_elems) * sizeof *all);
        for (size_t i = 0; i < p.n_elems; i++)
            all[(*ret_n)++] = ((const float *)p.value)[i];
    }
    return all;
}

static void write_gradient(const char *path, const double *g, size_t n)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite(g, sizeof *g, n, f) != n || fclose(f))
        abort();
}

static void compare_gradient(const char *path, const double *g, size_t n)
{
    double *want = malloc((n + 1) * sizeof *want), apart = 0, size = 0;
    FILE *f = fopen(path, "r");
    if (!f || fread(want, sizeof *want, n + 1, f) != n)
        abort();
    fclose(f);
    for (size_t i = 0; i < n; i++) {
        apart += (g[i] - want[i]) * (g[i] - want[i]);
        size += want[i] * want[i];
    }
    printf("gradient differs by %.3e\n", sqrt(apart / size));
    free(want);
}

static int step(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp)
{
    const char *write = getenv("PROBE_WRITE"), *compare = getenv("PROBE_COMPARE");
    if (ddp_world(d)->rank != 0 || (!write && !compare))
        return __real_ddp_step_sized(d, ret, size, errp);
    size_t n;
    double *before = values_of(d, &n);
    int rc = __real_ddp_step_sized(d, ret, size, errp);
    if (rc == 0 && ret->step == 1) {
        double *after = values_of(d, &n);
        for (size_t i = 0; i < n; i++)
            after[i] = (before[i] - after[i]) / ret->lr;
        if (write)
            write_gradient(write, after, n);
        if (compare)
            compare_gradient(compare, after, n);
        free(after);
    }
    free(before);
    return rc;
}

static void pace(void)
{
    const char *ms = getenv("PROBE_PACE_MS");
    if (ms)
        nanosleep(&(struct timespec){.tv_nsec = atol(ms) * 1000000}, NULL);
}

int __wrap_ddp_step_sized(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp)
{
    pace();
    int rc = step(d, ret, size, errp);
    if (rc == 0)
        note_step(ret->step);
    return rc;
}
