#include "runtime/comm/engine.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/comm/wireup.h"

/* ---- the queue ---- */

void engine_add(comm_t *c, comm_work_t *w)
{
    struct engine *e = &c->engine;
    w->prev = e->last;
    *(w->prev ? &w->prev->next : &e->first) = w;
    e->last = w;
    e->n_works++;
    if (!e->feeding)
        e->feeding = w;
}

void engine_remove(comm_t *c, comm_work_t *w)
{
    struct engine *e = &c->engine;
    *(w->prev ? &w->prev->next : &e->first) = w->next;
    *(w->next ? &w->next->prev : &e->last) = w->prev;
}

static void end_work(comm_t *c, comm_work_t *w)
{
    c->engine.n_works--;
    if (w->done_ns)
        *w->done_ns = clock_ns();
    atomic_store(&w->is_done, true);
}

/* ---- fed ---- */

static void cut(comm_t *c, struct op *o)
{
    struct comm_span all = {0, comm_blocks(o->ranges.ranges, o->ranges.n_ranges)};
    if (c->local >= c->n_owners)
        return;
    o->slice = comm_cut(&o->ranges, all, c->n_owners, c->local);
    o->is_swapped = net_is_swapped(c, o);
    for (int k = 0; k < c->n_nodes; k++)
        o->subs[k] = o->is_swapped ? o->slice : comm_cut(&o->ranges, o->slice, c->n_nodes, k);
}

static void copy_in(comm_t *c, comm_work_t *w, struct op *o)
{
    size_t left = w->staged.n_bytes - w->staged.fed_bytes, n = left < STAGE_SLOT_BYTES ? left : STAGE_SLOT_BYTES;
    o->stage_number = ++c->engine.n_staged;
    o->out = w->staged.data + w->staged.fed_bytes;
    o->segment = &c->stage;
    o->staged_range = (struct comm_range){.offset_bytes = o->stage_number % STAGE_SLOTS * STAGE_SLOT_BYTES,
                                          .n_elems = n / dtype_size(w->staged.dtype),
                                          .dtype = w->staged.dtype};
    o->ranges = (struct comm_ranges){&o->staged_range, 1, 1};
    stage_copy_in(c, o);
    w->staged.fed_bytes += n;
    w->is_fed = w->staged.fed_bytes == w->staged.n_bytes;
}

static void feed_one(comm_t *c, comm_work_t *w)
{
    struct engine *e = &c->engine;
    uint64_t n = e->fed + 1;
    struct op *o = engine_op(e, n);
    o->work = w;
    o->is_first = !w->is_staged || w->staged.fed_bytes == 0;
    o->stage_number = 0;
    if (w->is_staged) {
        copy_in(c, w, o);
    } else {
        o->segment = w->segment;
        o->ranges = w->ranges;
        w->is_fed = true;
    }
    cut(c, o);
    w->n_open++;
    e->fed = n;
    atomic_store(&engine_slot(c, c->local)->arrived, n);
    if (ENGINE_ALL_AT(c, arrived, c->local_size, n)) /* of two that come at once, one sees both */
        shm_ring(&c->shm);
}

static bool has_room(const comm_t *c, const comm_work_t *w)
{
    const struct engine *e = &c->engine;
    if (e->fed - e->over >= ENGINE_OPS)
        return false;
    return !w->is_staged || e->n_staged < STAGE_SLOTS ||
           ENGINE_ALL_AT(c, finished, c->local_size, e->n_staged + 1 - STAGE_SLOTS);
}

bool engine_feed(comm_t *c)
{
    struct engine *e = &c->engine;
    bool has_moved = false, has_copied = false;
    for (comm_work_t *w; (w = e->feeding) && has_room(c, w) && !has_copied;) {
        has_moved = true;
        if (!w->is_begun) {
            w->call = comm_number(c, w->what, w->args);
            w->number = c->shm.begun;
            w->is_begun = true;
        }
        if (w->is_staged && w->staged.n_bytes == 0) {
            w->is_fed = true;
            end_work(c, w);
        } else {
            feed_one(c, w);
            has_copied = w->is_staged; /* one copy a step */
        }
        if (w->is_fed)
            e->feeding = w->next;
    }
    return has_moved;
}

/* ---- opened ---- */

static bool open_ops(comm_t *c)
{
    struct engine *e = &c->engine;
    bool has_moved = false;
    while (e->opened < e->fed && ENGINE_ALL_AT(c, arrived, c->local_size, e->opened + 1)) {
        const struct op *o = engine_op(e, e->opened + 1);
        if (o->is_first && shm_check_calls(&c->shm, o->work->number, true, NULL) < 0)
            return true;
        e->opened++;
        has_moved = true;
    }
    return has_moved;
}

/* ---- reduced, on one node ---- */

static void do_tile(comm_t *c, struct op *o, const struct comm_piece *p, size_t at, size_t n)
{
    const comm_work_t *w = o->work;
    size_t offset = p->offset_bytes + at * dtype_size(p->dtype);
    if (w->kind == WORK_GATHER) {
        engine_spread(c, o->segment, offset, n * dtype_size(p->dtype));
        return;
    }
    if (o->stage_number > 0) {
        stage_reduce(c, o, p, offset, n);
        return;
    }
    engine_reduce_node(c, o, p, at, n, !w->owned_only);
    if (w->visit)
        w->visit(w->ctx, p->range, p->first + at, segment_part(o->segment, c->local) + offset, n);
}

static bool reduce_here(comm_t *c)
{
    struct engine *e = &c->engine;
    size_t budget = ENGINE_BUDGET;
    if (e->reduced == e->opened)
        return false;
    struct op *o = engine_op(e, e->reduced + 1);
    if (!e->is_walking) {
        e->walk = comm_pieces(o->ranges.ranges, o->ranges.n_ranges, o->slice);
        e->is_walking = true;
        e->has_piece = false;
    }
    while (budget > 0) {
        if (!e->has_piece && !comm_piece_next(&e->walk, &e->piece)) {
            engine_end_share(c);
            return true;
        }
        if (!e->has_piece)
            e->piece_at = 0;
        size_t tile = ENGINE_TILE / dtype_size(e->piece.dtype), left = e->piece.n_elems - e->piece_at;
        size_t n = left < tile ? left : tile, bytes = n * dtype_size(e->piece.dtype);
        do_tile(c, o, &e->piece, e->piece_at, n);
        e->piece_at += n;
        e->has_piece = e->piece_at < e->piece.n_elems;
        budget -= bytes < budget ? bytes : budget;
    }
    return true;
}

/* ---- over ---- */

static bool end_ops(comm_t *c)
{
    struct engine *e = &c->engine;
    bool has_moved = false;
    while (e->over < e->opened && ENGINE_ALL_AT(c, reduced, c->n_owners, e->over + 1)) {
        struct op *o = engine_op(e, e->over + 1);
        comm_work_t *w = o->work;
        if (o->stage_number > 0) {
            stage_copy_out(c, o);
            atomic_store(&engine_slot(c, c->local)->finished, o->stage_number);
            if (ENGINE_ALL_AT(c, finished, c->local_size, o->stage_number))
                shm_ring(&c->shm);
        }
        e->over++;
        has_moved = true;
        if (--w->n_open == 0 && w->is_fed)
            end_work(c, w);
    }
    return has_moved;
}

/* ---- all ---- */

bool engine_step(comm_t *c)
{
    struct engine *e = &c->engine;
    if (watch_is_broken(c->watch))
        return false;
    bool has_moved = engine_feed(c);
    has_moved = open_ops(c) || has_moved;
    if (e->net)
        has_moved = net_step(c) || has_moved;
    else if (c->n_nodes == 1)
        has_moved = reduce_here(c) || has_moved;
    return end_ops(c) || has_moved;
}

static int rank_of(const comm_t *c, int local)
{
    return world_rank_at(c->world, c->node, local);
}

/* Does this rank's oldest operation wait for that local rank? */
static bool waits_for(const comm_t *c, int l)
{
    const struct engine *e = &c->engine;
    const struct shm_slot *s = engine_slot(c, l);
    if (l == c->local)
        return false;
    if (e->over == e->fed) /* nothing is fed: a stage slot is not free yet */
        return e->feeding && e->n_staged >= STAGE_SLOTS && atomic_load(&s->finished) < e->n_staged + 1 - STAGE_SLOTS;
    return atomic_load(&s->arrived) <= e->over ||
           (e->opened > e->over && l < c->n_owners && atomic_load(&s->reduced) <= e->over);
}

int engine_suspect(comm_t *c)
{
    const struct engine *e = &c->engine;
    if (e->net && e->opened > e->over && e->reduced == e->over) {
        int rank = net_suspect(c);
        if (rank >= 0)
            return rank;
    }
    for (int l = 0; l < c->local_size; l++)
        if (waits_for(c, l))
            return rank_of(c, l);
    return -1;
}

void engine_look(comm_t *c)
{
    struct engine *e = &c->engine;
    bool is_fed = e->over < e->fed; /* else a work may wait for a stage slot */
    const comm_work_t *w = is_fed ? engine_op(e, e->over + 1)->work : e->feeding;
    if (!w || (is_fed && shm_check_calls(&c->shm, w->number, false, NULL) < 0))
        return;
    for (int l = 0; l < c->local_size; l++) /* a rank comes before it leaves: what is read first is whether it left */
        if (watch_has_left(c->watch, rank_of(c, l)) && waits_for(c, l))
            watch_raise(c->watch, WATCH_LEFT, rank_of(c, l), c->rank, w->what);
}

int engine_init(comm_t *c, ddp_error_t *errp)
{
    struct comm_span *subs = calloc((size_t)ENGINE_OPS * (size_t)c->n_nodes, sizeof *subs);
    if (!subs)
        return error_errno(errp, "communicator");
    c->engine.bypass = bypass_init();
    for (size_t i = 0; i < ENGINE_OPS; i++)
        c->engine.ops[i].subs = subs + i * (size_t)c->n_nodes;
    return c->tcp ? net_init(c, errp) : 0;
}

void engine_clear(comm_t *c)
{
    struct engine *e = &c->engine;
    for (comm_work_t *w = e->first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    net_clear(c);
    free(e->ops[0].subs);
}
