/* The calls of comm.h that start works and wait for them. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/comm/wireup.h"

static int check_range(const comm_segment_t *s, const struct comm_range *r, size_t i, ddp_error_t *errp)
{
    size_t size = dtype_size(r->dtype);
    if (size == 0 || r->offset_bytes % COMM_BLOCK != 0 || r->offset_bytes > s->n_bytes ||
        r->n_elems > (s->n_bytes - r->offset_bytes) / size)
        return error_set(
            errp, DDP_E_USAGE, EINVAL,
            "range %zu (%zu x %s at byte %zu) does not lie in its segment of %zu bytes on a 64-byte boundary", i,
            r->n_elems, dtype_name(r->dtype), r->offset_bytes, s->n_bytes);
    return 0;
}

static int check_op(enum ddp_op op, ddp_error_t *errp)
{
    if (op == DDP_SUM || op == DDP_MIN || op == DDP_MAX)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "unknown reduction operator %d", (int)op);
}

static int check_unit(size_t unit_bytes, ddp_error_t *errp)
{
    if (unit_bytes == 0 || ((unit_bytes & (unit_bytes - 1)) == 0 && unit_bytes >= COMM_BLOCK &&
                            unit_bytes <= COMM_UNIT_MAX))
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "a unit of %zu bytes is not a power of two from %d to %d", unit_bytes,
                     COMM_BLOCK, COMM_UNIT_MAX);
}

static struct comm_ranges ranges_of(const struct comm_range *ranges, size_t n_ranges, size_t unit_bytes)
{
    return (struct comm_ranges){ranges, n_ranges, unit_bytes ? unit_bytes / COMM_BLOCK : 1};
}

static comm_work_t *refuse(comm_t *c, comm_work_t *w, ddp_error_t *errp)
{
    free(w);
    progress_lock(c);
    comm_fail(c, errp);
    progress_unlock(c);
    return NULL;
}

static comm_work_t *work_create(comm_t *c, enum work_kind kind, ddp_error_t *errp)
{
    comm_work_t *w = calloc(1, sizeof *w);
    if (!w) {
        error_errno(errp, "work");
        return refuse(c, NULL, errp);
    }
    w->comm = c;
    w->kind = kind;
    w->what = kind == WORK_GATHER ? WATCH_IN_ALLGATHER : WATCH_IN_ALLREDUCE;
    return w;
}

/* Over ranges of a segment. */
static comm_work_t *work_on(comm_t *c, enum work_kind kind, comm_segment_t *s, const struct comm_ranges *r,
                            ddp_error_t *errp)
{
    comm_work_t *w = work_create(c, kind, errp);
    if (!w)
        return NULL;
    w->segment = s;
    w->ranges = *r;
    w->args = comm_mix(comm_mix((uint64_t)kind, r->n_ranges), comm_mix(r->unit, s->number));
    for (size_t i = 0; i < r->n_ranges; i++) {
        const struct comm_range *at = &r->ranges[i];
        if (check_range(s, at, i, errp) < 0)
            return refuse(c, w, errp);
        w->args = comm_mix(comm_mix(comm_mix(w->args, at->offset_bytes), at->n_elems), (uint64_t)at->dtype);
    }
    return w;
}

/* What the caller does after a start. */
enum then { GOES_ON, MAY_WAIT, WAITS };

/* Tells the other ranks at once that this one has arrived, if nothing stands before. */
static comm_work_t *start(comm_t *c, comm_work_t *w, enum then then, ddp_error_t *errp)
{
    if (watch_is_broken(c->watch)) {
        free(w);
        watch_error(c->watch, errp);
        return NULL;
    }
    progress_lock(c);
    engine_add(c, w);
    engine_feed(c);
    if (then == GOES_ON)
        progress_wake(c);
    else if (then == MAY_WAIT)
        progress_wake_soon(c);
    progress_unlock(c);
    return w;
}

static comm_work_t *start_reduce(comm_t *c, const struct comm_reduce *r, enum then then, ddp_error_t *errp)
{
    struct comm_ranges ranges = ranges_of(r->ranges, r->n_ranges, r->unit_bytes);
    if (check_unit(r->unit_bytes, errp) < 0 || check_op(r->op, errp) < 0)
        return refuse(c, NULL, errp);
    comm_work_t *w = work_on(c, WORK_REDUCE, r->segment, &ranges, errp);
    if (!w)
        return NULL;
    w->op = r->op;
    if (r->is_scatter)
        w->what = WATCH_IN_REDUCE_SCATTER;
    w->owned_only = r->owned_only;
    w->visit = r->visit;
    w->ctx = r->ctx;
    w->done_ns = r->done_ns;
    w->args = comm_mix(comm_mix(w->args, (uint64_t)r->op), r->owned_only + 2 * (r->visit != NULL));
    return start(c, w, then, errp);
}

comm_work_t *comm_reduce_start(comm_t *c, const struct comm_reduce *r, ddp_error_t *errp)
{
    return start_reduce(c, r, GOES_ON, errp);
}

comm_work_t *comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                               size_t unit_bytes, ddp_error_t *errp)
{
    struct comm_ranges r = ranges_of(ranges, n_ranges, unit_bytes);
    if (check_unit(unit_bytes, errp) < 0)
        return refuse(c, NULL, errp);
    comm_work_t *w = work_on(c, WORK_GATHER, s, &r, errp);
    return w ? start(c, w, GOES_ON, errp) : NULL;
}

/* The segment whose own part holds all of data, 64-byte aligned; NULL: none. */
static comm_segment_t *segment_of(const comm_t *c, const char *data, size_t n_bytes)
{
    for (comm_segment_t *s = c->segments; s; s = s->next) {
        const char *part = segment_part(s, c->local);
        if (data >= part && data < part + s->n_bytes && n_bytes <= (size_t)(part + s->n_bytes - data) &&
            (size_t)(data - part) % COMM_BLOCK == 0)
            return s;
    }
    return NULL;
}

static comm_work_t *start_allreduce(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op,
                                    enum then then, ddp_error_t *errp)
{
    size_t size = dtype_size(dtype);
    if (size == 0) {
        error_set(errp, DDP_E_USAGE, EINVAL, "all-reduce: unknown element type %d", (int)dtype);
        return refuse(c, NULL, errp);
    }
    if (check_op(op, errp) < 0)
        return refuse(c, NULL, errp);
    if (n_elems > PTRDIFF_MAX / size) {
        error_set(errp, DDP_E_USAGE, EINVAL, "all-reduce: %zu x %s is more than memory can hold", n_elems,
                  dtype_name(dtype));
        return refuse(c, NULL, errp);
    }
    comm_segment_t *s = segment_of(c, data, n_elems * size);
    comm_work_t *w = work_create(c, WORK_REDUCE, errp);
    if (!w)
        return NULL;
    w->op = op;
    w->args = comm_mix(comm_mix(n_elems, (uint64_t)dtype), (uint64_t)op);
    if (s) {
        size_t offset = (size_t)((char *)data - segment_part(s, c->local));
        w->segment = s;
        w->own_range = (struct comm_range){offset, n_elems, dtype};
        w->ranges = (struct comm_ranges){&w->own_range, 1, 1};
        w->args = comm_mix(comm_mix(w->args, s->number), offset);
    } else if (c->world->size == c->n_nodes) { /* nobody to share memory with: straight out of the caller's */
        w->alias = (struct comm_segment){.comm = c, .map = data, .n_bytes = n_elems * size};
        w->segment = &w->alias;
        w->own_range = (struct comm_range){0, n_elems, dtype};
        w->ranges = (struct comm_ranges){&w->own_range, 1, 1};
    } else {
        w->is_staged = true;
        w->staged.data = data;
        w->staged.n_bytes = n_elems * size;
        w->staged.dtype = dtype;
    }
    return start(c, w, then, errp);
}

comm_work_t *comm_allreduce_start(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op,
                                  ddp_error_t *errp)
{
    return start_allreduce(c, data, n_elems, dtype, op, MAY_WAIT, errp);
}

void comm_progress(comm_t *c)
{
    if (c->engine.has_thread || pthread_mutex_trylock(&c->engine.lock) != 0)
        return;
    while (engine_step(c))
        ;
    progress_unlock(c);
}

bool comm_is_done(const comm_work_t *w)
{
    return atomic_load(&w->is_done);
}

int comm_wait(comm_work_t *w, ddp_error_t *errp)
{
    if (!w)
        return 0;
    comm_t *c = w->comm;
    int rc = atomic_load(&w->is_done) ? 0 : progress_wait(c, w, errp);
    progress_lock(c);
    engine_remove(c, w);
    progress_unlock(c);
    free(w);
    return rc;
}

int comm_reduce_ranges(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges, enum ddp_op op,
                       ddp_error_t *errp)
{
    struct comm_reduce r = {.segment = s, .ranges = ranges, .n_ranges = n_ranges, .op = op};
    comm_work_t *w = start_reduce(c, &r, WAITS, errp);
    return w ? comm_wait(w, errp) : -1;
}

int comm_allreduce(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp)
{
    comm_work_t *w = start_allreduce(c, data, n_elems, dtype, op, WAITS, errp);
    return w ? comm_wait(w, errp) : -1;
}

struct comm_pieces comm_owned(const comm_t *c, const struct comm_range *ranges, size_t n_ranges, size_t unit_bytes)
{
    struct comm_ranges r = ranges_of(ranges, n_ranges, unit_bytes);
    struct comm_span all = {0, comm_blocks(ranges, n_ranges)}, none = {0, 0};
    if (c->local >= c->n_owners)
        return comm_pieces(ranges, n_ranges, none);
    return comm_pieces(ranges, n_ranges, comm_cut(&r, comm_cut(&r, all, c->n_owners, c->local), c->n_nodes, c->node));
}
