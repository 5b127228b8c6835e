/* placement_impl.h - what the placement's files share: placement_pools.c (section 1 of doc/placement.md),
 * placement_gpus.c (2), placement_cores.c (3 and 4), placement.c (5, 6 and the answer). */
#ifndef DDP_TOPOLOGY_PLACEMENT_IMPL_H
#define DDP_TOPOLOGY_PLACEMENT_IMPL_H

#include "topology/placement.h"

#define CORESET_WORDS (INVENTORY_CORES_MAX / 64)

/* A set of cores by their place in the inventory. */
struct coreset {
    uint64_t word[CORESET_WORDS];
};

struct pool {
    struct cpus cpus;     /* the union of its ranks' masks, with CPUs that the inventory does not have */
    struct coreset cores; /* the cores that these CPUs touch */
    int n_cores, n_ranks;
};

struct placing {
    const struct placement_request *req;
    const struct inventory *inv;
    int16_t core_of[CPUS_MAX]; /* [cpu]; -1: the inventory does not have the CPU */
    struct coreset home[INVENTORY_GPUS_MAX], package[INVENTORY_GPUS_MAX]; /* empty: the GPU has none */
    bool has_home[INVENTORY_GPUS_MAX];                                    /* home and package count only with it */
    struct coreset near[INVENTORY_GPUS_MAX];                              /* cores that touch its local CPUs */
    bool is_one_pool;      /* some rank sees a GPU that has a home */
    bool is_same_list;     /* all ranks see the same devices */
    int *pool_of, *device; /* [n_ranks] pool; ordinal of the rank's GPU, or -1 */
    struct coreset *cores; /* [n_ranks] the answer: what each rank's CPUs touch */
    struct pool *pool;     /* [n_pools] */
    int n_pools;
};

void coreset_add(struct coreset *set, int core);
bool coreset_has(const struct coreset *set, int core);
bool coreset_touches(const struct coreset *a, const struct coreset *b);
bool coreset_equal(const struct coreset *a, const struct coreset *b);
struct coreset coreset_and(const struct coreset *a, const struct coreset *b);
int coreset_count(const struct coreset *set);

/* The cores that these CPUs touch. */
void placing_cores(const struct placing *pl, const struct cpus *cpus, struct coreset *ret);

/* The rank's GPU in the inventory; -1: none, or not found there. */
int placing_gpu(const struct placing *pl, int rank);

/* The request was checked, and must outlive the result. NULL with DDP_E_SYSTEM: no memory. */
struct placing *placing_create(const struct placement_request *req, ddp_error_t *errp);
void placing_destroy(struct placing *pl); /* NULL is allowed */

/* Each does one section of the rule; to be called in this order. 0, or -1 with DDP_E_SYSTEM: no memory. */
int placing_pools(struct placing *pl, ddp_error_t *errp);
int placing_gpus(struct placing *pl, ddp_error_t *errp);
int placing_deal(struct placing *pl, ddp_error_t *errp);

/* The cost of giving the GPU to the rank, by the place of the rank's pool's cores: 0 if they are at the GPU's home, or
 * if the GPU has no home (or gpu is -1: not in the inventory); 1 if they are in its package; 2 elsewhere. */
int placing_cost(const struct placing *pl, int rank, int gpu);

/* True if the rank keeps its mask, because the request says so or because no other rank's mask touches it. */
bool placing_is_kept(const struct placing *pl, int rank);

#endif
