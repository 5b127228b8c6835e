/* plan.h - what of the NCCL communicator can be decided without NCCL: who makes ids, and who sends what to whom in
 * the deterministic mode. Pure functions. */
#ifndef DDP_RUNTIME_NCCL_PLAN_H
#define DDP_RUNTIME_NCCL_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "pmix/world.h"

/* ---- wire-up ---- */

/* A root makes an id and listens for the ranks of its block: all ranks connect to it during the wire-up. */
#define NCCL_RANKS_PER_ROOT 128

/* How many roots: one, or where ncclCommInitRankScalable is there one per `each` ranks begun; each 0: 128. */
int nccl_n_roots(int size, int each, bool is_scalable);

/* The ranks that root i of n_roots serves: [*ret_first, *ret_end), as NCCL itself deals them out (bootstrap.cc,
 * rootIdFromRank): consecutive, the first size % n_roots blocks one rank longer. */
void nccl_block(int size, int n_roots, int i, int *ret_first, int *ret_end);

/* ret_rank[i]: the rank that makes id i, one of its block; no node has two before every node of that block has one.
 * -1 when memory runs out. */
int nccl_roots(const struct world *w, int n_roots, int *ret_rank);

/* ---- the deterministic mode ----
 *
 * NCCL sums in an order that depends on its rings and trees. This schedule moves data only, so that our own kernel adds
 * in the order T of doc/architecture.md, as the host communicator does. Over n elements on each rank, with L the
 * smallest number of ranks on a node; local indices below L own slices:
 *
 *   NCCL_TO_OWNERS  each rank sends slice s to its node's owner s; the owner then sums its node's ranks in order of
 *                   their local indices: T over nccl_fixed_inputs(.., NCCL_TO_OWNERS, ..)
 *   NCCL_ACROSS     each owner sends sub-slice k of its sum to node k's owner of the same local index, which then sums
 *                   the nodes: T over nccl_fixed_inputs(.., NCCL_ACROSS, ..) in comm_plan's slots, some of them absent
 *   NCCL_BACK       each owner sends the finished sub-slice to the owners of the same local index
 *   NCCL_TO_ALL     each owner sends its finished slice to its node's ranks
 *
 * The result is in place on all ranks. A rank moves what an ordinary all-reduce moves, where nodes hold equally many
 * ranks: 2 (local_size - 1)/local_size n within the node, and an owner 2 (n_nodes - 1)/n_nodes of its slice between
 * them. */
enum nccl_phase { NCCL_TO_OWNERS, NCCL_ACROSS, NCCL_BACK, NCCL_TO_ALL };
enum { NCCL_PHASES = 4 };

/* One send, or one receipt, of elements [first, first + n) of the range. What is received goes to the same elements in
 * place (slot -1), or into slot `slot` of the stage: slots are nccl_fixed_slot_elems of the phase apart. */
struct nccl_move {
    int peer;
    bool is_send;
    size_t first, n;
    int slot;
};

/* Cuts are at multiples of unit_elems (>= 1) from the range's start. */
struct nccl_fixed {
    const struct world *world;
    size_t n_elems, unit_elems;
};

/* This rank's moves of a phase, at most nccl_fixed_most(world) of them, to be issued as one group; none of no elements.
 * Moves of one pair of ranks stand in the same order on both. Returns how many. */
size_t nccl_fixed_moves(const struct nccl_fixed *f, enum nccl_phase phase, struct nccl_move *moves);
size_t nccl_fixed_most(const struct world *w);

/* What this rank sums after NCCL_TO_OWNERS and after NCCL_ACROSS: elements [*ret_first, *ret_first + *ret_n) (none: not
 * an owner), T over n inputs: input[i] is the slot where rank i's, or node i's, elements lie, -1 where they lie in
 * place. input holds local_size, or n_nodes, numbers. Returns how many. The sum goes in place. */
size_t nccl_fixed_inputs(const struct nccl_fixed *f, enum nccl_phase phase, int *input, size_t *ret_first,
                         size_t *ret_n);

/* Elements from one slot to the next, a multiple of the unit, in NCCL_TO_OWNERS or NCCL_ACROSS; and of the whole stage,
 * which the phases use one after the other. Not much more than the range. The same on every rank. */
size_t nccl_fixed_slot_elems(const struct nccl_fixed *f, enum nccl_phase phase);
size_t nccl_fixed_stage_elems(const struct nccl_fixed *f);

/* ---- its reduce-scatter ----
 *
 * The range is a share for each rank, of n_each elements, in the order of ranks. On each node one rank sums a share over
 * the node's ranks: on its owner's node that is the owner, elsewhere the one of the owner's local index (modulo the
 * node's size); then the owner sums over the nodes. So NCCL_TO_OWNERS and NCCL_ACROSS move what they do in an all-reduce,
 * and nothing comes back. */

/* Elements [first, first + n) of each share: a round. */
struct nccl_scatter {
    const struct world *world;
    size_t n_each, first, n;
};

/* The local index of who sums rank's share for the node. */
int nccl_scatter_summer(const struct world *w, int node, int rank);

/* Where rank's part of the round begins, in elements of the range. */
size_t nccl_scatter_at(const struct nccl_scatter *s, int rank);

/* This rank's moves of NCCL_TO_OWNERS or NCCL_ACROSS, at most nccl_scatter_most(world), as above. Slots are n elements
 * apart: of this rank's i-th share to sum for its node (by rising rank), local rank l's part comes into slot
 * i * local_size + l; and the sum of node k into slot k. nccl_scatter_slots: how many there are on the rank that has
 * most, or more. */
size_t nccl_scatter_moves(const struct nccl_scatter *s, enum nccl_phase phase, struct nccl_move *moves);
size_t nccl_scatter_most(const struct world *w);
size_t nccl_scatter_slots(const struct world *w);

#endif
