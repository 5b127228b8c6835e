#include "runtime/nccl/plan.h"

#include <stdlib.h>

int nccl_n_roots(int size, int each, bool is_scalable)
{
    each = each ? each : NCCL_RANKS_PER_ROOT;
    return is_scalable ? (size + each - 1) / each : 1;
}

void nccl_block(int size, int n_roots, int i, int *ret_first, int *ret_end)
{
    int each = size / n_roots, longer = size % n_roots;
    *ret_first = i * each + (i < longer ? i : longer);
    *ret_end = *ret_first + each + (i < longer ? 1 : 0);
}

int nccl_roots(const struct world *w, int n_roots, int *ret_rank)
{
    int *used = calloc((size_t)w->n_nodes, sizeof *used); /* how many roots a node has */
    if (!used)
        return -1;
    for (int i = 0; i < n_roots; i++) {
        int first, end;
        nccl_block(w->size, n_roots, i, &first, &end);
        int best = first;
        for (int r = first + 1; r < end; r++)
            if (used[w->node_of[r]] < used[w->node_of[best]])
                best = r;
        used[w->node_of[best]]++;
        ret_rank[i] = best;
    }
    free(used);
    return 0;
}

/* ---- the deterministic mode ---- */

struct cut {
    size_t first, end;
};

/* Part i of n_parts of whole: equal shares, each cut moved up to a multiple of the unit. */
static struct cut part(const struct nccl_fixed *f, struct cut whole, int n_parts, int i)
{
    size_t n = whole.end - whole.first, parts = (size_t)n_parts, each = n / parts, rest = n % parts;
    size_t at[2];
    for (int k = 0; k < 2; k++) {
        size_t p = (size_t)(i + k), unit = f->unit_elems;
        at[k] = (whole.first + each * p + rest * p / parts + unit - 1) / unit * unit;
        if (p == 0)
            at[k] = whole.first;
        if (p == parts || at[k] > whole.end)
            at[k] = whole.end;
    }
    return (struct cut){at[0], at[1]};
}

static struct cut slice(const struct nccl_fixed *f, int local)
{
    return part(f, (struct cut){0, f->n_elems}, world_min_local_size(f->world), local);
}

static struct cut sub_slice(const struct nccl_fixed *f, int local, int node)
{
    return part(f, slice(f, local), f->world->n_nodes, node);
}

static void add(struct nccl_move *moves, size_t *n, int peer, bool is_send, struct cut c, int slot)
{
    if (c.end > c.first)
        moves[(*n)++] = (struct nccl_move){peer, is_send, c.first, c.end - c.first, is_send ? -1 : slot};
}

static size_t moves_in_node(const struct nccl_fixed *f, bool to_owners, struct nccl_move *moves)
{
    const struct world *w = f->world;
    int me = w->local_of[w->rank], node = w->node_of[w->rank], n_owners = world_min_local_size(w);
    size_t n = 0;
    for (int l = 0; l < world_local_size(w, node); l++) {
        int peer = world_rank_at(w, node, l);
        if (l == me)
            continue;
        if (l < n_owners) /* what l owns */
            add(moves, &n, peer, to_owners, slice(f, l), -1);
        if (me < n_owners)
            add(moves, &n, peer, !to_owners, slice(f, me), l);
    }
    return n;
}

static size_t moves_across(const struct nccl_fixed *f, bool is_back, struct nccl_move *moves)
{
    const struct world *w = f->world;
    int me = w->local_of[w->rank], node = w->node_of[w->rank];
    size_t n = 0;
    for (int k = 0; me < world_min_local_size(w) && k < w->n_nodes; k++) {
        int peer = world_rank_at(w, k, me);
        if (k == node)
            continue;
        add(moves, &n, peer, !is_back, sub_slice(f, me, k), -1);
        add(moves, &n, peer, is_back, sub_slice(f, me, node), k);
    }
    return n;
}

size_t nccl_fixed_moves(const struct nccl_fixed *f, enum nccl_phase phase, struct nccl_move *moves)
{
    bool is_in_node = phase == NCCL_TO_OWNERS || phase == NCCL_TO_ALL;
    bool is_gather = phase == NCCL_BACK || phase == NCCL_TO_ALL;
    size_t n = is_in_node ? moves_in_node(f, !is_gather, moves) : moves_across(f, is_gather, moves);
    for (size_t i = 0; is_gather && i < n; i++)
        moves[i].slot = -1;
    return n;
}

static int most_local(const struct world *w)
{
    int most = 0;
    for (int k = 0; k < w->n_nodes; k++)
        most = world_local_size(w, k) > most ? world_local_size(w, k) : most;
    return most;
}

size_t nccl_fixed_most(const struct world *w)
{
    int most = most_local(w);
    return 2 * (size_t)(most > w->n_nodes ? most : w->n_nodes);
}

size_t nccl_fixed_inputs(const struct nccl_fixed *f, enum nccl_phase phase, int *input, size_t *ret_first,
                         size_t *ret_n)
{
    const struct world *w = f->world;
    int me = w->local_of[w->rank], node = w->node_of[w->rank];
    bool is_in_node = phase == NCCL_TO_OWNERS;
    int own = is_in_node ? me : node, n = is_in_node ? world_local_size(w, node) : w->n_nodes;
    struct cut c = {0, 0};
    if (me < world_min_local_size(w))
        c = is_in_node ? slice(f, me) : sub_slice(f, me, node);
    *ret_first = c.first;
    *ret_n = c.end - c.first;
    for (int i = 0; i < n; i++)
        input[i] = i == own ? -1 : i;
    return (size_t)n;
}

size_t nccl_fixed_slot_elems(const struct nccl_fixed *f, enum nccl_phase phase)
{
    size_t most = 0;
    for (int l = 0; l < world_min_local_size(f->world); l++)
        for (int k = 0; k < (phase == NCCL_ACROSS ? f->world->n_nodes : 1); k++) {
            struct cut c = phase == NCCL_ACROSS ? sub_slice(f, l, k) : slice(f, l);
            most = c.end - c.first > most ? c.end - c.first : most;
        }
    return (most + f->unit_elems - 1) / f->unit_elems * f->unit_elems;
}

size_t nccl_fixed_stage_elems(const struct nccl_fixed *f)
{
    size_t in_node = (size_t)most_local(f->world) * nccl_fixed_slot_elems(f, NCCL_TO_OWNERS);
    size_t across = (size_t)f->world->n_nodes * nccl_fixed_slot_elems(f, NCCL_ACROSS);
    return in_node > across ? in_node : across;
}

/* ---- its reduce-scatter ---- */

int nccl_scatter_summer(const struct world *w, int node, int rank)
{
    return w->local_of[rank] % world_local_size(w, node);
}

size_t nccl_scatter_at(const struct nccl_scatter *s, int rank)
{
    return (size_t)rank * s->n_each + s->first;
}

static struct cut part_of(const struct nccl_scatter *s, int rank)
{
    return (struct cut){nccl_scatter_at(s, rank), nccl_scatter_at(s, rank) + s->n};
}

static size_t scatter_in_node(const struct nccl_scatter *s, struct nccl_move *moves)
{
    const struct world *w = s->world;
    int me = w->local_of[w->rank], node = w->node_of[w->rank], n_local = world_local_size(w, node), slot = 0;
    size_t n = 0;
    for (int r = 0; r < w->size; r++) {
        int summer = nccl_scatter_summer(w, node, r);
        if (summer != me)
            add(moves, &n, world_rank_at(w, node, summer), true, part_of(s, r), -1);
        for (int l = 0; summer == me && l < n_local; l++, slot++)
            if (l != me)
                add(moves, &n, world_rank_at(w, node, l), false, part_of(s, r), slot);
    }
    return n;
}

static size_t scatter_across(const struct nccl_scatter *s, struct nccl_move *moves)
{
    const struct world *w = s->world;
    int me = w->local_of[w->rank], node = w->node_of[w->rank];
    size_t n = 0;
    for (int r = 0; r < w->size; r++)
        if (w->node_of[r] != node && nccl_scatter_summer(w, node, r) == me)
            add(moves, &n, r, true, part_of(s, r), -1);
    for (int k = 0; k < w->n_nodes; k++)
        if (k != node)
            add(moves, &n, world_rank_at(w, k, nccl_scatter_summer(w, k, w->rank)), false, part_of(s, w->rank), k);
    return n;
}

size_t nccl_scatter_moves(const struct nccl_scatter *s, enum nccl_phase phase, struct nccl_move *moves)
{
    return phase == NCCL_TO_OWNERS ? scatter_in_node(s, moves) : scatter_across(s, moves);
}

size_t nccl_scatter_slots(const struct world *w)
{
    size_t most = (size_t)w->n_nodes;
    for (int node = 0; node < w->n_nodes; node++) {
        size_t n_local = (size_t)world_local_size(w, node), shares = 0; /* of one rank */
        for (int k = 0; k < w->n_nodes; k++)
            shares += ((size_t)world_local_size(w, k) + n_local - 1) / n_local;
        most = shares * n_local > most ? shares * n_local : most;
    }
    return most;
}

size_t nccl_scatter_most(const struct world *w)
{
    return nccl_scatter_slots(w) + (size_t)w->size + (size_t)w->n_nodes;
}
