/* One micro-step after the other: marks, buckets that start, and one that arrives. */
#include <errno.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/grads/reducer_impl.h"

/* The same on all ranks. */
static bool is_quiet_pass(const struct reducer *r)
{
    uint64_t pass = r->n_passes + 1;
    bool is_early = pass >= REDUCER_QUIET_FIRST && pass <= REDUCER_QUIET_LAST && pass % 2 == 0;
    bool is_turn = pass % (r->quiet_every ? r->quiet_every : REDUCER_QUIET_MOST) == 0;
    bool is_asked = !r->accumulates && (is_early || is_turn);
    return r->cfg.n_ranks > 1 && (r->tuning.is_measuring || is_asked);
}

void reducer_micro_begin(struct reducer *r, bool is_sync)
{
    memset(r->mark, 0, (size_t)r->layout->n * sizeof *r->mark);
    r->is_sync = is_sync;
    r->accumulates |= !is_sync;
    r->is_quiet = !is_sync || is_quiet_pass(r);
    r->n_marked = r->n_started = r->n_done = 0;
    r->is_bad = false;
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

static struct ddp_hook_info info(const struct reducer *r, int id, size_t first)
{
    return (struct ddp_hook_info){.param = id, .first = first, .n_ranks = r->cfg.n_ranks};
}

/* Sums of this rank's own part, on their way; may run on the communicator's thread. */
static void visit(void *ctx, size_t range, size_t first, const void *data, size_t n_elems)
{
    const struct reducer_bucket *b = ctx;
    const struct reducer *r = b->reducer;
    int id = param_at(b, range);
    if (!r->hook.encode) {
        norm_visit(&r->norm, id, first, data, n_elems);
        return;
    }
    float decoded[NORM_BLOCK];
    for (size_t at = 0, n; at < n_elems; at += n) {
        struct ddp_hook_info i = info(r, id, first + at);
        n = n_elems - at < NORM_BLOCK ? n_elems - at : NORM_BLOCK;
        r->hook.decode(r->hook.ctx, decoded, (const char *)data + at * dtype_size(r->wire_dtype), n, &i);
        norm_visit(&r->norm, id, first + at, decoded, n);
    }
}

static char *on_wire(const struct reducer *r, int id)
{
    return (char *)comm_segment_data(r->wire) + r->wire_offset[id];
}

static float *gradient(const struct reducer *r, int id)
{
    return reducer_grads(r) + r->layout->param[id].offset_bytes / sizeof(float);
}

/* The last touch of a bucket's gradients before they travel. */
static int prepare(struct reducer *r, int b)
{
    for (int i = r->plan.first[b]; i < r->plan.first[b + 1]; i++) {
        int id = r->plan.param[i];
        struct ddp_hook_info whole = info(r, id, 0);
        if (r->prepare && r->prepare(r->prepare_ctx, id, &r->error) < 0)
            return -1;
        if (r->hook.encode)
            r->hook.encode(r->hook.ctx, on_wire(r, id), gradient(r, id), r->layout->param[id].n_elems, &whole);
    }
    return 0;
}

static void decode(struct reducer *r, int b)
{
    for (int i = r->plan.first[b]; r->hook.encode && i < r->plan.first[b + 1]; i++) {
        int id = r->plan.param[i];
        struct ddp_hook_info whole = info(r, id, 0);
        r->hook.decode(r->hook.ctx, gradient(r, id), on_wire(r, id), r->layout->param[id].n_elems, &whole);
    }
}

static int hand_to_carrier(struct reducer *r, int b)
{
    int n;
    const int *id = reducer_bucket(r, b, &n);
    return r->carrier->start(r->carrier->ctx, id, n, &r->error);
}

static int hand_to_comm(struct reducer *r, int b)
{
    int first = r->plan.first[b];
    struct reducer_bucket *bucket = &r->bucket[b];
    struct comm_reduce reduce = {.segment = r->wire,
                                 .ranges = r->range + first,
                                 .n_ranges = (size_t)(r->plan.first[b + 1] - first),
                                 .op = DDP_SUM,
                                 .unit_bytes = reducer_unit_bytes(r),
                                 .owned_only = r->cfg.owned_only,
                                 .visit = visit,
                                 .ctx = bucket,
                                 .done_ns = &bucket->done_ns};
    bucket->work = comm_reduce_start(r->comm, &reduce, &r->error);
    return bucket->work ? 0 : -1;
}

void reducer_start(struct reducer *r, int b)
{
    int rc = prepare(r, b);
    r->bucket[b].started_ns = clock_ns();
    if (rc == 0)
        rc = r->carrier ? hand_to_carrier(r, b) : hand_to_comm(r, b);
    r->is_failed = rc < 0;
    if (rc < 0 && r->carrier)
        comm_abort(r->comm, r->error.text); /* who waits for this bucket does so beside the communicator */
}

/* Buckets start strictly in index order. */
static void start_full_buckets(struct reducer *r)
{
    while (!r->is_failed && r->n_started < r->plan.n_buckets && r->bucket[r->n_started].n_pending == 0)
        reducer_start(r, r->n_started++);
}

static void look_for_done(struct reducer *r)
{
    while (r->n_done < r->n_started && r->bucket[r->n_done].work && comm_is_done(r->bucket[r->n_done].work))
        r->n_done++;
}

void reducer_mark(struct reducer *r, int id, enum reducer_mark mark)
{
    bool is_known = id >= 0 && id < r->layout->n;
    if (!is_known || r->mark[id] != MARK_NONE) {
        if (!r->is_bad) {
            r->is_bad = true;
            r->bad_id = id;
        }
        return;
    }
    r->mark[id] = mark;
    r->is_used[id] |= mark == MARK_READY;
    r->ready_ns[id] = clock_ns();
    r->arrival[r->n_marked++] = id;
    if (r->is_quiet)
        return;
    r->bucket[r->plan.bucket_of[id]].n_pending--;
    start_full_buckets(r);
    if (!r->carrier && r->n_done < r->n_started) {
        comm_progress(r->comm);
        look_for_done(r);
    }
}

int reducer_check(const struct reducer *r, ddp_error_t *errp)
{
    if (r->is_bad && (r->bad_id < 0 || r->bad_id >= r->layout->n))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready was called for parameter %d, which does not exist: "
                         "ids are those that ddp_param_add returned, 0..%d", r->bad_id, r->layout->n - 1);
    if (r->is_bad)
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

int reducer_wait(struct reducer *r, int b, ddp_error_t *errp)
{
    comm_work_t *work = r->bucket[b].work;
    r->bucket[b].work = NULL;
    if (!work) {
        if (errp)
            *errp = r->error;
        return -1;
    }
    if (comm_wait(work, errp) < 0)
        return -1;
    r->n_done = r->n_done > b ? r->n_done : b + 1;
    decode(r, b);
    return 0;
}
