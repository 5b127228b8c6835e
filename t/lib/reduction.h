/* reduction.h - a job for the reducer, drawn from a seed: parameters, placement, settings and the order of marks. Every
 * sum, norm and count is compared exactly with one made serially, of small integers. The same function for ranks that
 * are processes and ranks that are threads. */
#ifndef DDP_T_LIB_REDUCTION_H
#define DDP_T_LIB_REDUCTION_H

#include "runtime/grads/reducer.h"
#include "t/lib/ranks.h"

enum { REDUCTION_PARAMS = 12 };

struct reduction {
    uint64_t seed;
    int size, node_of[RANKS_MAX];
    int n_params, accum;
    size_t elems[REDUCTION_PARAMS];
    struct reducer_config cfg;
    bool has_unused;
    struct ddp_hook hook; /* encode NULL: none */
};

/* Every rank draws the same. */
struct reduction reduction_draw(uint64_t seed);

/* A rank's part in it; j->arg is a struct reduction. */
int reduction_rank(struct job *j, int rank);

/* One rank's communicator and a reducer over parameters "p0", "p1", ... of so many float32 elements. -1: as *errp says,
 * and nothing is left. */
struct reduction_kit {
    struct world *world;
    comm_t *comm;
    struct layout layout;
    struct reducer reducer;
};
int reduction_open(struct reduction_kit *k, struct job *j, int rank, const size_t *elems, int n_params,
                   const struct reducer_config *cfg, ddp_error_t *errp);
void reduction_close(struct reduction_kit *k);

/* Parameter id's gradient. */
float *reduction_grad(const struct reduction_kit *k, int id);

#endif
