/* plan.h - who reduces what, and in which order nodes combine. Pure functions. */
#ifndef DDP_COMM_PLAN_H
#define DDP_COMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/comm/comm.h"

/* How the nodes' partial results combine: T over n_slots inputs (kernels/reduce.h), slot i being the partial of node
 * slot_node[i], or absent where that is -1. Where every node holds an aligned power-of-two block of ranks, the slots
 * follow the rank numbers, so that the whole is T over all ranks; else slot i is node i. */
struct comm_plan {
    bool by_rank;
    int n_slots;
    int *slot_node;
};

int comm_plan_init(struct comm_plan *p, const struct world *w); /* 0, or -1 when memory runs out */
void comm_plan_clear(struct comm_plan *p);

/* What the bits of sums depend on beside the number of ranks, as text. "ranks": on nothing, the sum is T over the rank
 * numbers. "nodes 3,1": on how ranks lie on the nodes: as many consecutive ranks, each time on a new node, or "@1" on
 * node 1 again; "60 nodes, HASH" where size is too small for that. is_rounded: sums of bf16 or f16 (comm.h). */
void comm_plan_order(const struct comm_plan *p, const struct world *w, bool is_rounded, char *ret, size_t size);

/* How many blocks the ranges take, laid end to end, each in whole blocks. */
uint64_t comm_blocks(const struct comm_range *ranges, size_t n_ranges);

/* Ranges, and the unit in blocks: a range may be cut at multiples of the unit, counted from the range's start. */
struct comm_ranges {
    const struct comm_range *ranges;
    size_t n_ranges;
    uint64_t unit; /* >= 1 */
};

/* Part `part` of n_parts of the blocks in `whole`: equal shares, each cut then moved to the next multiple of the unit
 * or a range's end. Both ends of `whole` are such places themselves. A part differs from an equal share by less than a
 * unit, also where the ranges are small. */
struct comm_span comm_cut(const struct comm_ranges *r, struct comm_span whole, int n_parts, int part);

/* A span cut in the same way every `max` (>= unit) blocks: the number of chunks, and the i-th chunk, which has fewer
 * than max + unit blocks (the last may be empty). */
uint64_t comm_n_chunks(struct comm_span s, uint64_t max);
struct comm_span comm_chunk(const struct comm_ranges *r, struct comm_span s, uint64_t i, uint64_t max);

/* The pieces of ranges that lie in a span, in order. */
struct comm_pieces comm_pieces(const struct comm_range *ranges, size_t n_ranges, struct comm_span s);

#endif
