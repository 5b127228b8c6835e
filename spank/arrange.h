/* arrange.h - the ranks of one node agree on each rank's CPUs and GPU: they exchange facts (board.h), use one inventory
 * and place by one rule (topology/placement.h). Only decides; task.c applies the decision.
 *
 * The inventory is read once for all ranks of the node: with devices only if a rank has GPUs or the user wants to see
 * them, and not at all if masks do not overlap, no rank has a GPU and the user does not want to see the placement.
 * Measured on a node of two cores, medians of 15 in turn (contrib/bench/launch --nodes 1 --runs 15): `srun --ddp=on
 * true` takes 1.01x of `srun --mpi=pmix true` with one task, 1.02x and 1.03x (two runs) with eight, 1.00x with eight
 * and four GPUs; quartiles 2% to 5% apart. */
#ifndef DDP_SPANK_ARRANGE_H
#define DDP_SPANK_ARRANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/board.h"
#include "spank/keys/keys.h"
#include "spank/step/step.h"
#include "topology/placement.h"
#include "topology/show.h"

struct arrange_facts {
    const struct step *step;
    const struct keys *keys;
    bool is_bound_by_user;                /* --cpu-bind */
    struct cpus mask;                     /* of the calling task */
    struct board *board;                  /* of the step's local_size ranks; NULL: none */
    uint64_t deadline;                    /* for waiting for the node's other ranks, and for reading (clock.h) */
    board_load_f *load[2];                /* reads this machine: [0] cores only, [1] GPUs and NICs too */
    board_load_f *load_record;            /* reads the record that topo= names; arg: its path */
};

struct arrangement {
    const struct inventory *inventory; /* NULL: it was not needed */
    struct placement_request request;  /* request.rank is always set; request.inventory is `inventory` */
    const struct place *mine;          /* the calling rank's place */
    bool is_trial;                     /* bind=print: change nothing */
    bool is_recorded;                  /* the inventory is that of a recorded machine */
    bool is_alone;                     /* not all ranks arrived in time: each rank decides for itself */
    int n_same_mask;                   /* ranks of the node that Slurm gave this task's mask, itself included: all where
                                          they did not meet */
    int n_same;                        /* ranks of the node known to run on the CPUs that this one runs on, itself
                                          included: 1 where they did not meet */
    char warning[320];                 /* for the user; "": none */
    /* private */
    struct board *board;
    struct inventory *own_inventory;
    struct placement_rank *own_rank;
    struct place *place, one;
};

/* Fills *ret, which the caller frees with arrange_destroy. A failure between the ranks or in reading this machine, or
 * more than PLACEMENT_RANKS_MAX ranks, is only a warning: the task then keeps its mask. 0, or -1: the file of topo= is
 * wrong, or there is no memory. */
int arrange(const struct arrange_facts *f, struct arrangement *ret, ddp_error_t *errp);

/* Fills *ret with the placement of the node's ranks, to be shown; false: there is nothing to show. */
bool arrange_show(const struct arrangement *a, struct show *ret);

/* NULL is allowed, and so is a struct that arrange failed to fill. */
void arrange_destroy(struct arrangement *a);

#endif
