/* How the plan is found. Pass 1 runs by the caps in reverse registration order; after it gradients travel in the order
 * in which they came on rank 0. Where buckets are planned, the next REDUCER_MEASURED passes go by a ladder of bucket
 * sizes, each twice the one before, which travel one by one after the backward pass and are timed, while the times at
 * which gradients are ready are taken undisturbed. From then on the plan stays. Rank 0 decides, all follow; sums and
 * norms have the same bits in every plan: sums are element by element, and the norm's blocks lie within parameters. The
 * first plan stays with find-unused, with zero=1 and on GPUs; on one rank, or where a size is named, the caps stay. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/grads/planner.h"
#include "runtime/grads/reducer_impl.h"

#define LADDER_BYTES (64 << 10)

static int rebuild(struct reducer *r, ddp_error_t *errp)
{
    if (comm_bcast(r->comm, r->arrival, (size_t)r->layout->n * sizeof *r->arrival, 0, errp) < 0)
        return -1;
    bucket_plan_by_size(&r->plan, r->arrival, r->layout, r->cfg.first_cap_bytes, r->cfg.cap_bytes);
    reducer_lay_out(r);
    return 0;
}

static size_t wire_bytes(const struct reducer *r, int id)
{
    return r->layout->param[id].n_elems * dtype_size(r->wire_dtype);
}

/* This rank's lack, which the others are told. */
static int no_memory(const struct reducer *r, ddp_error_t *errp)
{
    error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a plan of %d parameters", r->layout->n);
    return comm_fail(r->comm, errp);
}

static int climb(struct reducer *r, ddp_error_t *errp)
{
    int n = r->layout->n, n_buckets = 0, *end = malloc(((size_t)n + 1) * sizeof *end);
    if (!end)
        return no_memory(r, errp);
    size_t held = 0, cap = LADDER_BYTES;
    for (int i = 0; i < n; i++) {
        held += wire_bytes(r, r->plan.param[i]);
        if (held < cap && i + 1 < n)
            continue;
        end[n_buckets++] = i + 1;
        held = 0;
        cap *= 2;
    }
    bucket_plan_by_cuts(&r->plan, r->plan.param, end, n_buckets);
    reducer_lay_out(r);
    free(end);
    return 0;
}

int reducer_measure(struct reducer *r, ddp_error_t *errp)
{
    double *took = r->tuning.took_s + (size_t)r->tuning.n_measured * (size_t)r->layout->n;
    uint64_t *ready = r->tuning.ready_ns + (size_t)r->tuning.n_measured * (size_t)r->layout->n;
    for (int i = 0; i < r->layout->n; i++)
        ready[i] = r->ready_ns[i] - r->ready_ns[r->arrival[0]];
    if (comm_barrier(r->comm, errp) < 0)
        return -1;
    for (int b = 0; b < r->plan.n_buckets; b++) {
        reducer_start(r, b);
        r->n_started = b + 1;
        if (reducer_wait(r, b, errp) < 0)
            return -1;
        took[b] = (double)(r->bucket[b].done_ns - r->bucket[b].started_ns) / 1e9;
    }
    return 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

/* When the parameter at each position of the plan is ready: the median over the passes, of the rank that has it
 * last. */
static int ready_times(struct reducer *r, double *ret, ddp_error_t *errp)
{
    size_t n = (size_t)r->layout->n;
    for (size_t i = 0; i < n; i++) {
        double seen[REDUCER_MEASURED];
        for (size_t k = 0; k < REDUCER_MEASURED; k++)
            seen[k] = (double)r->tuning.ready_ns[k * n + (size_t)r->plan.param[i]] / 1e9;
        ret[i] = median(seen, REDUCER_MEASURED);
    }
    return comm_allreduce(r->comm, ret, n, DDP_F64, DDP_MAX, errp);
}

static struct planner_model fit(const struct reducer *r, size_t *bytes, double *seconds)
{
    for (int b = 0; b < r->plan.n_buckets; b++) {
        double seen[REDUCER_MEASURED];
        for (int k = 0; k < REDUCER_MEASURED; k++)
            seen[k] = r->tuning.took_s[(size_t)k * (size_t)r->layout->n + (size_t)b];
        seconds[b] = median(seen, REDUCER_MEASURED) + 1e-9; /* above 0 */
        bytes[b] = 0;
        for (int i = r->plan.first[b]; i < r->plan.first[b + 1]; i++)
            bytes[b] += wire_bytes(r, r->plan.param[i]);
    }
    return planner_fit(bytes, seconds, r->plan.n_buckets);
}

/* What rank 0 tells. */
struct decision {
    struct planner_model model;
    int n_buckets; /* below 0: it could not */
    int end[];
};

static int decide(struct reducer *r, struct decision *d, double *ready, double *seconds, size_t *bytes,
                  ddp_error_t *errp)
{
    int n = r->layout->n;
    size_t d_bytes = sizeof *d + (size_t)n * sizeof *d->end;
    if (ready_times(r, ready, errp) < 0)
        return -1;
    d->model = fit(r, bytes, seconds);
    for (int i = 0; i < n; i++)
        bytes[i] = wire_bytes(r, r->plan.param[i]);
    d->n_buckets = planner_cut(&d->model, ready, bytes, n, d->end);
    if (comm_bcast(r->comm, d, d_bytes, 0, errp) < 0)
        return -1;
    if (d->n_buckets < 0)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank 0 has no memory for a plan of %d parameters", n);
    bucket_plan_by_cuts(&r->plan, r->plan.param, d->end, d->n_buckets);
    reducer_lay_out(r);
    r->metrics.alpha_s = d->model.alpha_s;
    r->metrics.beta_s_per_byte = d->model.beta_s_per_byte;
    return 0;
}

static int plan(struct reducer *r, ddp_error_t *errp)
{
    size_t n = (size_t)r->layout->n;
    struct decision *d = calloc(1, sizeof *d + n * sizeof *d->end);
    double *ready = malloc(n * sizeof *ready), *seconds = malloc(n * sizeof *seconds);
    size_t *bytes = malloc(n * sizeof *bytes);
    int rc = d && ready && seconds && bytes ? decide(r, d, ready, seconds, bytes, errp)
                                            : no_memory(r, errp);
    free(d);
    free(ready);
    free(seconds);
    free(bytes);
    return rc;
}

int reducer_tune(struct reducer *r, ddp_error_t *errp)
{
    struct reducer_tuning *t = &r->tuning;
    if (r->layout->n == 0 || r->cfg.find_unused || r->cfg.is_fixed)
        return 0;
    if (r->n_passes == 1) {
        t->is_measuring = r->cfg.plan;
        return rebuild(r, errp) < 0 || (r->cfg.plan && climb(r, errp) < 0) ? -1 : 0;
    }
    if (!t->is_measuring || ++t->n_measured < REDUCER_MEASURED)
        return 0;
    t->is_measuring = false;
    return plan(r, errp);
}
