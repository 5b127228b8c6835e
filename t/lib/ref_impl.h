/* ref_impl.h - what the files of the rule's second writing share: ref_place.c, ref_deal.c (sections 3 and 4). */
#ifndef DDP_T_REF_IMPL_H
#define DDP_T_REF_IMPL_H

#include "t/lib/ref_place.h"

enum { CORES = 512, RANKS = 64 };

struct ref {
    const struct placement_request *req;
    const struct inventory *inv;
    int n, pool_of[RANKS]; /* pool_of: the lowest rank of the same pool */
    bool is_one_pool, is_same;
    int device[RANKS];
    bool in_pool[RANKS][CORES]; /* the pool of this lowest rank has (part of) this core */
    bool has[RANKS][CORES];     /* the answer: rank has (part of) this core */
};

/* Its GPU's place in the inventory, or -1. gpu -1 has no home, and no core is in it. */
int ref_gpu_of(const struct ref *f, int rank);
bool ref_has_home(const struct inventory *inv, int gpu);
bool ref_in_home(const struct inventory *inv, int gpu, int core);
bool ref_in_package(const struct inventory *inv, int gpu, int core);

/* ret_owner[core * RANKS + rank]: of a pool (by its lowest rank) this rank has the core. */
void ref_deal(const struct ref *f, int pool, bool *ret_owner);

#endif
