/* The deterministic mode's reduce-scatter: the first half of nccl/fixed.c's all-reduce, cut so that each rank's share
 * is its own. Where the stage is small, in rounds of a part of every share. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/comm/plan.h"
#include "runtime/nccl/impl.h"
#include "runtime/nccl/plan.h"

enum { CUT_BYTES = 256 }; /* slots are its multiples, so that none starts worse aligned than the stage */

struct job {
    nccl_t *n;
    char *data, *stage;
    size_t elem_bytes;
    enum ddp_dtype dtype;
    void *stream;
    struct nccl_scatter plan; /* of this round */
    struct nccl_move *moves;
    struct nccl_piece *pieces;
    const void **in;
};

static char *slot(const struct job *j, size_t i)
{
    return j->stage + i * j->plan.n * j->elem_bytes;
}

static int move_phase(struct job *j, enum nccl_phase phase, ddp_error_t *errp)
{
    size_t n = nccl_scatter_moves(&j->plan, phase, j->moves);
    for (size_t i = 0; i < n; i++) {
        const struct nccl_move *m = &j->moves[i];
        char *at = m->slot < 0 ? j->data + m->first * j->elem_bytes : slot(j, (size_t)m->slot);
        j->pieces[i] = (struct nccl_piece){m->peer, m->is_send, at, m->n, j->dtype};
    }
    return nccl_exchange(j->n, j->pieces, n, j->stream, errp);
}

/* j->in[0..n_in), of which in[own] is in place, in share `rank`. */
static int sum(struct job *j, int rank, int own, int n_in, ddp_error_t *errp)
{
    const struct nccl_device *d = &j->n->cfg.device;
    char *out = j->data + nccl_scatter_at(&j->plan, rank) * j->elem_bytes;
    j->in[own] = out;
    if (n_in > 1 && d->sum(d->ctx, out, j->in, n_in, j->plan.n, j->dtype, j->stream, errp) < 0)
        return nccl_break(j->n, 0, WATCH_IN_NCCL, errp);
    return 0;
}

/* Every share that this rank sums for its node. */
static int sum_in_node(struct job *j, ddp_error_t *errp)
{
    const struct world *w = j->n->world;
    int node = w->node_of[w->rank], me = w->local_of[w->rank], n_in = world_local_size(w, node);
    size_t i = 0;
    for (int r = 0; r < w->size; r++) {
        if (nccl_scatter_summer(w, node, r) != me)
            continue;
        for (int l = 0; l < n_in; l++)
            j->in[l] = slot(j, i++);
        if (sum(j, r, me, n_in, errp) < 0)
            return -1;
    }
    return 0;
}

static int sum_across(struct job *j, ddp_error_t *errp)
{
    const struct world *w = j->n->world;
    const struct comm_plan *p = comm_plan(j->n->comm);
    int own = 0;
    for (int i = 0; i < p->n_slots; i++) {
        int k = p->slot_node[i];
        own = k == w->node_of[w->rank] ? i : own;
        j->in[i] = k < 0 ? NULL : slot(j, (size_t)k);
    }
    return sum(j, w->rank, own, p->n_slots, errp);
}

static int run_round(struct job *j, ddp_error_t *errp)
{
    if (move_phase(j, NCCL_TO_OWNERS, errp) < 0 || nccl_settle(j->n, errp) < 0 || sum_in_node(j, errp) < 0)
        return -1;
    if (j->n->world->n_nodes == 1)
        return 0;
    return move_phase(j, NCCL_ACROSS, errp) < 0 || nccl_settle(j->n, errp) < 0 || sum_across(j, errp) < 0 ? -1 : 0;
}

static int run(struct job *j, size_t n_each, size_t room_bytes, ddp_error_t *errp)
{
    size_t n = room_bytes / nccl_scatter_slots(j->n->world) / CUT_BYTES * CUT_BYTES / j->elem_bytes;
    if (n == 0) {
        error_set(errp, DDP_E_USAGE, ENOBUFS, "nccl_reduce_scatter_fixed: a stage of %zu bytes is too small",
                  room_bytes);
        return nccl_break(j->n, 0, WATCH_IN_NCCL, errp);
    }
    for (size_t first = 0; first < n_each; first += n) {
        j->plan = (struct nccl_scatter){j->n->world, n_each, first, n_each - first < n ? n_each - first : n};
        if (run_round(j, errp) < 0)
            return -1;
    }
    return 0;
}

int nccl_reduce_scatter_fixed(nccl_t *n, void *data, size_t n_each, enum ddp_dtype t, const struct nccl_stage *stage,
                              void *stream, ddp_error_t *errp)
{
    const struct nccl_range all = {data, n_each, t};
    struct job j = {
        .n = n, .data = data, .stage = stage->data, .elem_bytes = dtype_size(t), .dtype = t, .stream = stream};
    if (nccl_begin(n, errp) < 0 || nccl_check_fixed(n, errp) < 0 || nccl_check_ranges(n, &all, 1, errp) < 0)
        return -1;
    size_t most = nccl_scatter_most(n->world), n_in = (size_t)comm_plan(n->comm)->n_slots + (size_t)n->world->size;
    j.moves = malloc(most * sizeof *j.moves);
    j.pieces = malloc(most * sizeof *j.pieces);
    j.in = malloc(n_in * sizeof *j.in);
    int rc = -1;
    if (j.moves && j.pieces && j.in) {
        rc = run(&j, n_each, stage->n_bytes, errp);
    } else {
        error_errno(errp, "the deterministic mode");
        nccl_break(n, 0, WATCH_IN_NCCL, errp);
    }
    free(j.moves);
    free(j.pieces);
    free(j.in);
    return rc;
}
