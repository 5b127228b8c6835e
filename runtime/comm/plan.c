#include "runtime/comm/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pmix/world.h"
#include "runtime/base/hash.h"

/* The length of node's block of ranks if it is an aligned power of two, else 0. */
static int aligned_block(const struct world *w, int node)
{
    int n = w->node_first[node + 1] - w->node_first[node];
    const int *ranks = &w->node_ranks[w->node_first[node]];
    if ((n & (n - 1)) != 0 || ranks[0] % n != 0 || ranks[n - 1] != ranks[0] + n - 1)
        return 0; /* ranks ascend, so first and last tell whether they are consecutive */
    return n;
}

int comm_plan_init(struct comm_plan *p, const struct world *w)
{
    int unit = w->size; /* the smallest block: tree positions below it are inside nodes */
    p->by_rank = true;
    for (int k = 0; k < w->n_nodes; k++) {
        int n = aligned_block(w, k);
        p->by_rank = p->by_rank && n > 0;
        if (n < unit)
            unit = n;
    }
    p->n_slots = p->by_rank ? w->size / unit : w->n_nodes;
    p->slot_node = malloc((size_t)p->n_slots * sizeof *p->slot_node);
    if (!p->slot_node)
        return -1;
    for (int i = 0; i < p->n_slots; i++)
        p->slot_node[i] = p->by_rank ? -1 : i;
    for (int k = 0; p->by_rank && k < w->n_nodes; k++)
        p->slot_node[w->node_ranks[w->node_first[k]] / unit] = k;
    return 0;
}

void comm_plan_clear(struct comm_plan *p)
{
    free(p->slot_node);
    p->slot_node = NULL;
}

/* How many of n >= 2 summands T adds up first. */
static int first_half(int n)
{
    int m = 1;
    while (m * 2 < n)
        m *= 2;
    return m;
}

/* Is T over nodes [first, end) the T over their ranks, where these are consecutive? */
static bool is_tree(const struct world *w, int first, int end)
{
    const int *at = w->node_first, mid = first + first_half(end - first);
    return end - first == 1 || (at[mid] - at[first] == first_half(at[end] - at[first]) && is_tree(w, first, mid) &&
                                is_tree(w, mid, end));
}

/* Is the plan's sum T over the rank numbers? It may be where not every node has a power of two: 3; 2, 2 and 3. */
static bool is_over_ranks(const struct comm_plan *p, const struct world *w)
{
    for (int i = 0; !p->by_rank && i < w->size; i++)
        if (w->node_ranks[i] != i)
            return false;
    return p->by_rank || is_tree(w, 0, w->n_nodes);
}

void comm_plan_order(const struct comm_plan *p, const struct world *w, bool is_rounded, char *ret, size_t size)
{
    bool is_rounded_once = !is_rounded || w->n_nodes == 1 || w->n_nodes == w->size;
    bool is_over = is_rounded_once && is_over_ranks(p, w);
    uint64_t hash = HASH_START;
    size_t n = (size_t)snprintf(ret, size, "%s", is_over ? "ranks" : "nodes ");
    for (int r = 0, end; !is_over && r < w->size; r = end) {
        int node = w->node_of[r];
        bool is_new = world_rank_at(w, node, 0) == r;
        for (end = r + 1; end < w->size && w->node_of[end] == node; end++)
            ;
        hash = hash_step(hash_step(hash, (uint64_t)node), (uint64_t)end);
        if (n < size)
            n += (size_t)snprintf(ret + n, size - n, "%s%d", r ? "," : "", end - r);
        if (n < size && !is_new)
            n += (size_t)snprintf(ret + n, size - n, "@%d", node);
    }
    if (n >= size)
        snprintf(ret, size, "%d nodes, %016" PRIx64, w->n_nodes, hash);
}

static uint64_t range_blocks(const struct comm_range *r)
{
    return (r->n_elems * dtype_size(r->dtype) + COMM_BLOCK - 1) / COMM_BLOCK;
}

uint64_t comm_blocks(const struct comm_range *ranges, size_t n_ranges)
{
    uint64_t n = 0;
    for (size_t i = 0; i < n_ranges; i++)
        n += range_blocks(&ranges[i]);
    return n;
}

/* The first place at or after `block` where the ranges may be cut: a multiple of the unit or a range's end. */
static uint64_t round_up(const struct comm_ranges *r, uint64_t block)
{
    uint64_t base = 0;
    for (size_t i = 0; i < r->n_ranges; i++) {
        uint64_t n = range_blocks(&r->ranges[i]);
        if (block < base + n) {
            uint64_t in = (block - base + r->unit - 1) / r->unit * r->unit;
            return base + (in < n ? in : n);
        }
        base += n;
    }
    return base;
}

struct comm_span comm_cut(const struct comm_ranges *r, struct comm_span whole, int n_parts, int part)
{
    uint64_t n = whole.end - whole.first, parts = (uint64_t)n_parts, p = (uint64_t)part;
    uint64_t each = n / parts, rest = n % parts;
    uint64_t first = whole.first + each * p + rest * p / parts;
    uint64_t end = whole.first + each * (p + 1) + rest * (p + 1) / parts;
    return (struct comm_span){part == 0 ? whole.first : round_up(r, first),
                              part == n_parts - 1 ? whole.end : round_up(r, end)};
}

uint64_t comm_n_chunks(struct comm_span s, uint64_t max)
{
    return (s.end - s.first + max - 1) / max;
}

struct comm_span comm_chunk(const struct comm_ranges *r, struct comm_span s, uint64_t i, uint64_t max)
{
    uint64_t n = s.end - s.first, first = i * max < n ? i * max : n, end = n - first < max ? n : first + max;
    uint64_t from = i == 0 ? s.first : round_up(r, s.first + first), to = round_up(r, s.first + end);
    return (struct comm_span){from < s.end ? from : s.end, end == n || to > s.end ? s.end : to};
}

struct comm_pieces comm_pieces(const struct comm_range *ranges, size_t n_ranges, struct comm_span s)
{
    return (struct comm_pieces){.ranges = ranges, .n_ranges = n_ranges, .span = s};
}

bool comm_piece_next(struct comm_pieces *it, struct comm_piece *ret)
{
    for (; it->i < it->n_ranges && it->base < it->span.end; it->i++) {
        const struct comm_range *r = &it->ranges[it->i];
        uint64_t n = range_blocks(r), base = it->base;
        it->base += n;
        uint64_t first = it->span.first > base ? it->span.first : base;
        uint64_t end = it->span.end < base + n ? it->span.end : base + n;
        if (first >= end)
            continue;
        size_t size = dtype_size(r->dtype), skip = (size_t)(first - base) * COMM_BLOCK;
        size_t stop = (size_t)(end - base) * COMM_BLOCK, all = r->n_elems * size;
        ret->range = it->i;
        ret->first = skip / size;
        ret->offset_bytes = r->offset_bytes + skip;
        ret->n_bytes = (stop < all ? stop : all) - skip;
        ret->n_elems = ret->n_bytes / size;
        ret->dtype = r->dtype;
        ret->packed_bytes = (size_t)(first - it->span.first) * COMM_BLOCK;
        it->i++;
        return true;
    }
    return false;
}
