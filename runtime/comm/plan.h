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

/* Ranges laid end to end, each taking whole blocks: how many blocks. */
uint64_t comm_blocks(const struct comm_range *ranges, size_t n_ranges);

/* Part `part` of `n_parts` nearly equal parts of the blocks [first, end). */
struct comm_span comm_cut(struct comm_span whole, int n_parts, int part);

/* The first `max` blocks at or after `skip` blocks into s (empty past its end). */
struct comm_span comm_chunk(struct comm_span s, uint64_t skip, uint64_t max);

/* The pieces of ranges that lie in a span, in order. */
struct comm_pieces comm_pieces(const struct comm_range *ranges, size_t n_ranges, struct comm_span s);

#endif
