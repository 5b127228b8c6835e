#include "runtime/reducer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/optim.h"
#include "runtime/base/clock.h"

#define UNIT_BYTES (NORM_BLOCK * sizeof(float)) /* so that no block of the norm is cut between ranks */

static size_t tail_elems(const struct reducer *r)
{
    return TAIL_COUNT + r->norm.n_blocks + (size_t)r->layout->n;
}

static int allocate(struct reducer *r, ddp_error_t *errp)
{
    size_t n = (size_t)r->layout->n + 1;
    r->range = calloc(n, sizeof *r->range);
    r->bucket = calloc(n, sizeof *r->bucket);
    r->mark = calloc(n, sizeof *r->mark);
    r->is_used = calloc(n, sizeof *r->is_used);
    r->arrival = calloc(n, sizeof *r->arrival);
    r->ready_ns = calloc(n, sizeof *r->ready_ns);
    if (!r->range || !r->bucket || !r->mark || !r->is_used || !r->arrival || !r->ready_ns)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d parameters", r->layout->n);
    if (bucket_plan_open(&r->plan, r->layout->n, errp) < 0 || norm_open(&r->norm, r->layout, NULL, errp) < 0)
        return -1;
    r->grads = comm_segment_create(r->comm, r->layout->n_bytes, errp);
    r->tail = r->grads ? comm_segment_create(r->comm, tail_elems(r) * sizeof(double), errp) : NULL;
    if (!r->tail)
        return -1;
    r->norm.sums = reducer_tail(r) + TAIL_COUNT;
    return 0;
}

/* Follows the plan. */
static void lay_out(struct reducer *r)
{
    for (int i = 0; i < r->plan.n_params; i++) {
        const struct layout_param *p = &r->layout->param[r->plan.param[i]];
        r->range[i] = (struct comm_range){p->offset_bytes, p->n_elems, DDP_F32};
    }
    r->metrics.n_buckets = r->plan.n_buckets;
}

int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, const struct reducer_config *cfg,
                 ddp_error_t *errp)
{
    *r = (struct reducer){.comm = comm, .layout = layout, .cfg = *cfg, .bad_id = -1};
    if (allocate(r, errp) < 0) {
        reducer_close(r);
        return -1;
    }
    for (int b = 0; b < layout->n; b++)
        r->bucket[b] = (struct reducer_bucket){.reducer = r, .index = b};
    bucket_plan_by_size(&r->plan, NULL, layout, cfg->first_cap_bytes, cfg->cap_bytes);
    lay_out(r);
    return 0;
}

/* Segments, and works in flight, go with the communicator. */
void reducer_close(struct reducer *r)
{
    norm_close(&r->norm);
    bucket_plan_close(&r->plan);
    free(r->range);
    free(r->bucket);
    free(r->mark);
    free(r->is_used);
    free(r->arrival);
    free(r->ready_ns);
    *r = (struct reducer){0};
}

float *reducer_grads(const struct reducer *r)
{
    return comm_segment_data(r->grads);
}

double *reducer_tail(const struct reducer *r)
{
    return comm_segment_data(r->tail);
}

const double *reducer_used(const struct reducer *r)
{
    return reducer_tail(r) + TAIL_COUNT + r->norm.n_blocks;
}

void reducer_zero(struct reducer *r)
{
    memset(reducer_grads(r), 0, r->layout->n_bytes);
    memset(r->is_used, 0, (size_t)r->layout->n * sizeof *r->is_used);
}

void reducer_micro_begin(struct reducer *r, bool is_sync)
{
    memset(r->mark, 0, (size_t)r->layout->n * sizeof *r->mark);
    r->is_sync = is_sync;
    r->n_marked = r->n_started = r->n_done = 0;
    r->bad_id = -1;
    for (int b = 0; b < r->plan.n_buckets; b++)
        r->bucket[b].n_pending = r->plan.first[b + 1] - r->plan.first[b];
    if (is_sync)
        memset(r->norm.sums, 0, r->norm.n_blocks * sizeof *r->norm.sums);
}

bool reducer_has_begun(const struct reducer *r)
{
    return r->n_marked > 0;
}

static int param_at(const struct reducer_bucket *b, size_t range)
{
    const struct bucket_plan *plan = &b->reducer->plan;
    return plan->param[(size_t)plan->first[b->index] + range];
}

/* Sums of this rank's own part, on their way; may run on the communicator's thread. */
static void visit(void *ctx, size_t range, size_t first, const void *data, size_t n_elems)
{
    const struct reducer_bucket *b = ctx;
    norm_visit(&b->reducer->norm, param_at(b, range), first, data, n_elems);
}

static void prepare(struct reducer *r, int b)
{
    for (int i = r->plan.first[b]; r->prepare && i < r->plan.first[b + 1]; i++)
        r->prepare(r->prepare_ctx, r->plan.param[i]);
}

static void start(struct reducer *r, int b)
{
    int first = r->plan.first[b];
    struct reducer_bucket *bucket = &r->bucket[b];
    struct comm_reduce reduce = {.segment = r->grads,
                                 .ranges = r->range + first,
                                 .n_ranges = (size_t)(r->plan.first[b + 1] - first),
                                 .op = DDP_SUM,
                                 .unit_bytes = UNIT_BYTES,
                                 .owned_only = r->cfg.owned_only,
                                 .visit = visit,
                                 .ctx = bucket};
    prepare(r, b);
    bucket->started_ns = clock_ns();
    bucket->work = comm_reduce_start(r->comm, &reduce, &r->error);
    r->is_failed = !bucket->work;
}

/* Buckets start strictly in index order. */
static void start_full_buckets(struct reducer *r)
{
    while (!r->is_failed && r->n_started < r->plan.n_buckets && r->bucket[r->n_started].n_pending == 0)
        start(r, r->n_started++);
}

static void look_for_done(struct reducer *r)
{
    while (r->n_done < r->n_started && r->bucket[r->n_done].work && comm_is_done(r->bucket[r->n_done].work))
        r->bucket[r->n_done++].done_ns = clock_ns();
}

void reducer_mark(struct reducer *r, int id, enum reducer_mark mark)
{
    bool is_known = id >= 0 && id < r->layout->n;
    if (!is_known || r->mark[id] != MARK_NONE) {
        if (r->bad_id < 0)
            r->bad_id = is_known ? id : r->layout->n;
        return;
    }
    r->mark[id] = mark;
    r->is_used[id] |= mark == MARK_READY;
    r->ready_ns[id] = clock_ns();
    r->arrival[r->n_marked++] = id;
    if (!r->is_sync)
        return;
    r->bucket[r->plan.bucket_of[id]].n_pending--;
    start_full_buckets(r);
    if (r->n_done < r->n_started) {
        comm_progress(r->comm);
        look_for_done(r);
    }
}

int reducer_check(const struct reducer *r, ddp_error_t *errp)
{
    if (r->bad_id == r->layout->n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready was called for a parameter that does not exist");
    if (r->bad_id >= 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready was called twice for parameter %s",
                         r->layout->param[r->bad_id].name);
    for (int i = 0; !r->cfg.find_unused && r->n_marked < r->layout->n && i < r->layout->n; i++)
        if (r->mark[i] == MARK_NONE)
            return error_set(errp, DDP_E_USAGE, EINVAL,
                             "parameter %s was not used: call ddp_grad_ready or ddp_grad_unused for every parameter "
                             "before ddp_backward_end, or set find-unused=on",
                             r->layout->param[i].name);
    return 0;
}

static void mark_rest_unused(struct reducer *r)
{
    for (int i = r->layout->n - 1; r->n_marked < r->layout->n && i >= 0; i--)
        if (r->mark[i] == MARK_NONE)
            reducer_mark(r, i, MARK_UNUSED);
}

static int wait_for_buckets(struct reducer *r, ddp_error_t *errp)
{
    for (int b = 0; b < r->n_started; b++) {
        comm_work_t *work = r->bucket[b].work;
        r->bucket[b].work = NULL;
        if (work && comm_wait(work, errp) < 0)
            return -1;
        if (r->n_done <= b)
            r->bucket[r->n_done++].done_ns = clock_ns();
    }
    if (r->is_failed && errp)
        *errp = r->error;
    return r->is_failed ? -1 : 0;
}

static int sum_tail(struct reducer *r, ddp_error_t *errp)
{
    struct comm_range all = {0, tail_elems(r), DDP_F64};
    double *used = reducer_tail(r) + TAIL_COUNT + r->norm.n_blocks;
    for (int i = 0; i < r->layout->n; i++)
        used[i] = r->is_used[i];
    return comm_reduce_ranges(r->comm, r->tail, &all, 1, DDP_SUM, errp);
}

/* Once, after the first pass: from then on gradients travel in the order in which they came on rank 0. */
static int rebuild(struct reducer *r, ddp_error_t *errp)
{
    if (r->n_passes != 1 || r->cfg.find_unused || r->cfg.owned_only)
        return 0;
    if (comm_bcast(r->comm, r->arrival, (size_t)r->layout->n * sizeof *r->arrival, 0, errp) < 0)
        return -1;
    bucket_plan_by_size(&r->plan, r->arrival, r->layout, r->cfg.first_cap_bytes, r->cfg.cap_bytes);
    lay_out(r);
    return 0;
}

static void measure(struct reducer *r)
{
    uint64_t now = clock_ns(), first = r->layout->n ? r->ready_ns[r->arrival[0]] : r->end_ns;
    first = first < r->end_ns ? first : r->end_ns; /* found unused, and marked, at the end */
    r->n_passes++;
    r->metrics.steps++;
    r->metrics.backward_s += (double)(r->end_ns - first) / 1e9;
    r->metrics.wait_s += (double)(now - r->end_ns) / 1e9;
    for (int i = 0; i < r->layout->n; i++)
        r->metrics.bytes_reduced += r->range[i].n_elems * dtype_size(r->range[i].dtype);
}

int reducer_micro_end(struct reducer *r, ddp_error_t *errp)
{
    r->end_ns = clock_ns();
    mark_rest_unused(r);
    if (!r->is_sync)
        return 0;
    if (wait_for_buckets(r, errp) < 0 || sum_tail(r, errp) < 0)
        return -1;
    measure(r);
    return rebuild(r, errp);
}

void reducer_owned(const struct reducer *r, reducer_owned_f *f, void *ctx)
{
    struct comm_piece p;
    for (int b = 0; b < r->plan.n_buckets; b++) {
        int first = r->plan.first[b], n = r->plan.first[b + 1] - first;
        struct comm_pieces it = comm_owned(r->comm, r->range + first, (size_t)n, UNIT_BYTES);
        while (comm_piece_next(&it, &p))
            f(ctx, r->plan.param[(size_t)first + p.range], p.first, p.n_elems);
    }
}

int reducer_gather(struct reducer *r, comm_segment_t *values, ddp_error_t *errp)
{
    for (int b = 0; b < r->plan.n_buckets; b++) {
        int first = r->plan.first[b], n = r->plan.first[b + 1] - first;
        r->bucket[b].work = comm_gather_start(r->comm, values, r->range + first, (size_t)n, UNIT_BYTES, errp);
        if (!r->bucket[b].work)
            return -1;
    }
    for (int b = 0; b < r->plan.n_buckets; b++) {
        comm_work_t *work = r->bucket[b].work;
        r->bucket[b].work = NULL;
        if (comm_wait(work, errp) < 0)
            return -1;
    }
    return 0;
}
