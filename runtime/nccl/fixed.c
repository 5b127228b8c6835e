/* The deterministic mode: nccl/plan.h's schedule over a list of ranges, in rounds of as many as the stage has room for,
 * one behind the other. Their moves of one phase are one group. */
#include <errno.h>
#include <stdlib.h>

#include "kernels/cuda/reduce.h"
#include "runtime/comm/plan.h"
#include "runtime/nccl/impl.h"
#include "runtime/nccl/plan.h"

enum { CUT_BYTES = 256 }; /* slices are cut at its multiples, so that none starts worse aligned than its range */

struct job {
    nccl_t *n;
    struct nccl_range *ranges;
    size_t n_ranges; /* of this round */
    char *stage;
    void *stream;
    struct nccl_move *moves;   /* of one range and phase */
    struct nccl_piece *pieces; /* of a phase */
    int *input;
    const void **in;
};

static struct nccl_fixed fixed_of(const struct world *w, const struct nccl_range *r)
{
    return (struct nccl_fixed){w, r->n_elems, CUT_BYTES / dtype_size(r->dtype)};
}

size_t nccl_fixed_stage_bytes(const struct world *w, const struct nccl_range *ranges, size_t n_ranges)
{
    size_t n = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        struct nccl_fixed f = fixed_of(w, &ranges[i]);
        n += nccl_fixed_stage_elems(&f) * dtype_size(ranges[i].dtype);
    }
    return n;
}

static int move_phase(struct job *j, enum nccl_phase phase, ddp_error_t *errp)
{
    size_t n_pieces = 0;
    char *stage = j->stage;
    for (size_t i = 0; i < j->n_ranges; i++) {
        const struct nccl_range *r = &j->ranges[i];
        struct nccl_fixed f = fixed_of(j->n->world, r);
        size_t size = dtype_size(r->dtype), slot = nccl_fixed_slot_elems(&f, phase) * size;
        size_t n_moves = nccl_fixed_moves(&f, phase, j->moves);
        for (size_t k = 0; k < n_moves; k++) {
            const struct nccl_move *m = &j->moves[k];
            char *at = m->slot < 0 ? (char *)r->data + m->first * size : stage + (size_t)m->slot * slot;
            j->pieces[n_pieces++] = (struct nccl_piece){m->peer, m->is_send, at, m->n, r->dtype};
        }
        stage += nccl_fixed_stage_elems(&f) * size;
    }
    return nccl_exchange(j->n, j->pieces, n_pieces, j->stream, errp);
}

/* What this rank owns of range r. */
static int sum_range(struct job *j, enum nccl_phase phase, const struct nccl_range *r, char *stage, ddp_error_t *errp)
{
    const struct comm_plan *p = comm_plan(j->n->comm);
    const struct nccl_device *d = &j->n->cfg.device;
    struct nccl_fixed f = fixed_of(j->n->world, r);
    size_t first, n_elems, size = dtype_size(r->dtype), slot = nccl_fixed_slot_elems(&f, phase) * size;
    int n_in = (int)nccl_fixed_inputs(&f, phase, j->input, &first, &n_elems), n_slots = n_in;
    char *out = (char *)r->data + first * size;
    if (n_elems == 0 || n_in == 1)
        return 0;
    if (phase == NCCL_ACROSS)
        n_slots = p->n_slots;
    for (int i = 0; i < n_slots; i++) {
        int k = phase == NCCL_ACROSS ? p->slot_node[i] : i;
        j->in[i] = k < 0 ? NULL : j->input[k] < 0 ? out : stage + (size_t)j->input[k] * slot;
    }
    return d->sum(d->ctx, out, j->in, n_slots, n_elems, r->dtype, j->stream, errp);
}

static int sum_phase(struct job *j, enum nccl_phase phase, ddp_error_t *errp)
{
    char *stage = j->stage;
    if (nccl_settle(j->n, errp) < 0)
        return -1;
    for (size_t i = 0; i < j->n_ranges; i++) {
        const struct nccl_range *r = &j->ranges[i];
        struct nccl_fixed f = fixed_of(j->n->world, r);
        if (sum_range(j, phase, r, stage, errp) < 0)
            return nccl_break(j->n, 0, WATCH_IN_NCCL, errp);
        stage += nccl_fixed_stage_elems(&f) * dtype_size(r->dtype);
    }
    return 0;
}

static int run_round(struct job *j, ddp_error_t *errp)
{
    for (int phase = 0; phase < NCCL_PHASES; phase++) {
        if (move_phase(j, phase, errp) < 0)
            return -1;
        if ((phase == NCCL_TO_OWNERS || phase == NCCL_ACROSS) && sum_phase(j, phase, errp) < 0)
            return -1;
    }
    return 0;
}

/* What is left of the ranges. */
struct rest {
    const struct nccl_range *range, *end;
    size_t first; /* elements of *range before this one are done */
};

/* Ranges that the stage has room for; the first of a round is cut where it is too much. The same on all ranks. */
static void fill_round(struct job *j, struct rest *rest, size_t room)
{
    const struct world *w = j->n->world;
    for (j->n_ranges = 0; rest->range < rest->end;) {
        struct nccl_range r = *rest->range;
        size_t size = dtype_size(r.dtype), unit = CUT_BYTES / size, need;
        r.data = (char *)r.data + rest->first * size;
        r.n_elems -= rest->first;
        while ((need = nccl_fixed_stage_bytes(w, &r, 1)) > room && j->n_ranges == 0 && r.n_elems > 0)
            r.n_elems = r.n_elems / 2 / unit * unit;
        if (need > room || (r.n_elems == 0 && rest->range->n_elems > rest->first))
            return;
        j->ranges[j->n_ranges++] = r;
        room -= need;
        rest->first += r.n_elems;
        if (rest->first < rest->range->n_elems)
            return;
        rest->range++;
        rest->first = 0;
    }
}

static int run(struct job *j, struct rest rest, size_t room, ddp_error_t *errp)
{
    while (rest.range < rest.end) {
        fill_round(j, &rest, room);
        if (j->n_ranges == 0) {
            error_set(errp, DDP_E_USAGE, ENOBUFS, "nccl_allreduce_fixed: a stage of %zu bytes is too small", room);
            return nccl_break(j->n, 0, WATCH_IN_NCCL, errp);
        }
        if (run_round(j, errp) < 0)
            return -1;
    }
    return 0;
}

static size_t most_inputs_of(const nccl_t *n)
{
    size_t most = nccl_fixed_most(n->world) / 2, n_slots = (size_t)comm_plan(n->comm)->n_slots;
    return most > n_slots ? most : n_slots;
}

int nccl_check_fixed(const nccl_t *n, ddp_error_t *errp)
{
    size_t most_inputs = most_inputs_of(n);
    if (!n->cfg.device.sum)
        return error_set(errp, DDP_E_USAGE, EINVAL, "the deterministic mode: nccl_config.device says nobody who sums");
    if (most_inputs > CUDA_REDUCE_MAX)
        return error_set(errp, DDP_E_USAGE, E2BIG, "the deterministic mode on GPUs sums at most %d ranks of a node and "
                         "as many nodes, not %zu: leave --ddp-deterministic=on and --shards out", CUDA_REDUCE_MAX,
                         most_inputs);
    return 0;
}

int nccl_allreduce_fixed(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, const struct nccl_stage *stage,
                         void *stream, ddp_error_t *errp)
{
    size_t most = nccl_fixed_most(n->world);
    struct job j = {.n = n, .stage = stage->data, .stream = stream};
    if (nccl_begin(n, errp) < 0 || nccl_check_fixed(n, errp) < 0 || nccl_check_ranges(n, ranges, n_ranges, errp) < 0)
        return -1;
    j.ranges = malloc((n_ranges + 1) * sizeof *j.ranges);
    j.moves = malloc(most * sizeof *j.moves);
    j.pieces = malloc((n_ranges * most + 1) * sizeof *j.pieces);
    j.input = malloc(most * sizeof *j.input);
    j.in = malloc(most_inputs_of(n) * sizeof *j.in);
    int rc = -1;
    if (j.ranges && j.moves && j.pieces && j.input && j.in) {
        rc = run(&j, (struct rest){ranges, ranges + n_ranges, 0}, stage->n_bytes, errp);
    } else {
        error_errno(errp, "the deterministic mode");
        nccl_break(n, 0, WATCH_IN_NCCL, errp);
    }
    free(j.ranges);
    free(j.moves);
    free(j.pieces);
    free(j.input);
    free(j.in);
    return rc;
}
