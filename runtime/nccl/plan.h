/* plan.h - what the NCCL communicator can decide without NCCL: which ranks make ids, and which rank sends what to which
 * in the deterministic mode. Pure functions. */
#ifndef DDP_RUNTIME_NCCL_PLAN_H
#define DDP_RUNTIME_NCCL_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "pmix/world.h"

/* ---- wire-up ---- */

/* A root makes an id and listens for the ranks of its block: all ranks connect to it during the wire-up. */
#define NCCL_RANKS_PER_ROOT 128

/* The number of roots: one; or with ncclCommInitRankScalable (is_scalable) size / each, rounded up. each 0: 128. */
int nccl_n_roots(int size, int each, bool is_scalable);

/* The ranks that root i of n_roots serves: [*ret_first, *ret_end), as NCCL itself assigns them (bootstrap.cc,
 * rootIdFromRank): consecutive ranks, where the first size % n_roots blocks are one rank longer. */
void nccl_block(int size, int n_roots, int i, int *ret_first, int *ret_end);

/* ret_rank[i]: the rank that makes id i, one of the ranks that this root serves; no node has two roots before every
 * node of the block has one. -1 when memory runs out. */
int nccl_roots(const struct world *w, int n_roots, int *ret_rank);

/* ---- the deterministic mode ----
 *
 * NCCL sums in an order that depends on its rings and trees. In this schedule NCCL only moves data, and our own kernel
 * adds in the order T of doc/architecture.md, as the host communicator does. Over n elements on each rank, with L the
 * smallest number of ranks on a node, local indices below L own slices:
 *
 *   NCCL_TO_OWNERS  each rank sends slice s to its node's owner s; the owner then sums its node's ranks in order of
 *                   their local indices: T over nccl_fixed_inputs(.., NCCL_TO_OWNERS, ..)
 *   NCCL_ACROSS     each owner sends sub-slice k of its sum to node k's owner of the same local index, which then sums
 *                   the nodes: T over nccl_fixed_inputs(.., NCCL_ACROSS, ..) in comm_plan's slots, some of them absent
 *   NCCL_BACK       each owner sends the finished sub-slice to the owners of the same local index
 *   NCCL_TO_ALL     each owner sends its finished slice to its node's ranks
 *
 * The result is in place on all ranks. Where all nodes have the same number of ranks, a rank moves as much as in an
 * ordinary all-reduce: 2 (local_size - 1)/local_size n within the node, and an owner 2 (n_nodes - 1)/n_nodes of its
 * slice between nodes. */
enum nccl_phase { NCCL_TO_OWNERS, NCCL_ACROSS, NCCL_BACK, NCCL_TO_ALL };
enum { NCCL_PHASES = 4 };

/* One send or one receive of elements [first, first + n) of the range. Received elements go to the same place in the
 * range (slot -1), or into slot `slot` of the stage, whose slots are nccl_fixed_slot_elems of the phase apart. */
struct nccl_move {
    int peer;
    bool is_send;
    size_t first, n;
    int slot;
};

/* The range is cut only at multiples of unit_elems (>= 1) from its start. */
struct nccl_fixed {
    const struct world *world;
    size_t n_elems, unit_elems;
};

/* Fills moves with this rank's moves of a phase, at most nccl_fixed_most(world), which are to be issued as one group;
 * no move is empty. The moves between two ranks are in the same order on both. Returns how many there are. */
size_t nccl_fixed_moves(const struct nccl_fixed *f, enum nccl_phase phase, struct nccl_move *moves);
size_t nccl_fixed_most(const struct world *w);

/* What this rank sums after NCCL_TO_OWNERS and after NCCL_ACROSS: elements [*ret_first, *ret_first + *ret_n) (none if
 * it is no owner), T over n inputs. input[i] is the slot that holds the elements of local rank i, or of node i; -1:
 * they lie in the range itself. input has room for local_size, or n_nodes, numbers. Returns n. The sum goes to the same
 * elements of the range. */
size_t nccl_fixed_inputs(const struct nccl_fixed *f, enum nccl_phase phase, int *input, size_t *ret_first,
                         size_t *ret_n);

/* nccl_fixed_slot_elems: elements from one slot to the next, a multiple of the unit, in NCCL_TO_OWNERS or NCCL_ACROSS.
 * nccl_fixed_stage_elems: elements of the whole stage, which the phases use one after the other; not much more than the
 * range has. Both are the same on every rank. */
size_t nccl_fixed_slot_elems(const struct nccl_fixed *f, enum nccl_phase phase);
size_t nccl_fixed_stage_elems(const struct nccl_fixed *f);

/* ---- the reduce-scatter of the deterministic mode ----
 *
 * The range holds a share of n_each elements for each rank, in the order of ranks. On each node one rank, the summer,
 * sums a share over the node's ranks: on the node of the share's owner that is the owner, on other nodes the rank with
 * the owner's local index (modulo the node's size). Then the owner sums over the nodes. So NCCL_TO_OWNERS and
 * NCCL_ACROSS move as much as in an all-reduce, and the other two phases do not happen. */

/* One round: elements [first, first + n) of each share. */
struct nccl_scatter {
    const struct world *world;
    size_t n_each, first, n;
};

/* The local index of the rank that sums the share of `rank` for the node. */
int nccl_scatter_summer(const struct world *w, int node, int rank);

/* The index in the range of the first element of the round in the share of `rank`. */
size_t nccl_scatter_at(const struct nccl_scatter *s, int rank);

/* This rank's moves of NCCL_TO_OWNERS or NCCL_ACROSS, at most nccl_scatter_most(world), as nccl_fixed_moves. Slots are
 * n elements apart. In NCCL_TO_OWNERS, local rank l's part of the i-th share that this rank sums (by rising rank) goes
 * to slot i * local_size + l; in NCCL_ACROSS, the sum of node k goes to slot k. nccl_scatter_slots: an upper bound of
 * the slots that any rank needs. */
size_t nccl_scatter_moves(const struct nccl_scatter *s, enum nccl_phase phase, struct nccl_move *moves);
size_t nccl_scatter_most(const struct world *w);
size_t nccl_scatter_slots(const struct world *w);

#endif
