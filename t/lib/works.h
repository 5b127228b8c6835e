/* works.h - a random history of works, drawn from a seed, with every result compared bit for bit with a serial
 * reference in the fixed order. The same function for ranks that are processes and ranks that are threads. */
#ifndef DDP_T_LIB_WORKS_H
#define DDP_T_LIB_WORKS_H

#include "t/lib/ranks.h"

struct works_case {
    uint64_t seed;
    size_t max_elems; /* of a range */
    int n_rounds;
};

/* A rank's part in it; j->arg is a struct works_case. */
int works_rank(struct job *j, int rank);

/* A random layout of up to max_ranks ranks over nodes. Returns its size. */
int works_layout(uint64_t seed, int max_ranks, int *node_of);

#endif
