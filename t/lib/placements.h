/* placements.h - how ranks may lie on nodes, for tests that try them all. */
#ifndef DDP_T_LIB_PLACEMENTS_H
#define DDP_T_LIB_PLACEMENTS_H

#include "t/lib/ranks.h"

struct placement {
    const char *name; /* ranks per node */
    bool by_rank;     /* every node holds an aligned power-of-two block of ranks */
    int size, node_of[RANKS_MAX];
};

/* Runs f on each, until it fails on one, which is printed; j->arg is its struct placement. */
bool placements_run(rank_f *f);
bool placements_run_comm(comm_rank_f *f);

#endif
