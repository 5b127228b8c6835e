/* world.h - which rank is on which node. */
#ifndef DDP_PMIX_WORLD_H
#define DDP_PMIX_WORLD_H

#include "pmix/boot.h"

#define WORLD_NODE_KEY_MAX 63
#define WORLD_HOST_MAX 63

/* Nodes are numbered in the order of their lowest rank, local ranks in rank order. */
struct world {
    int rank, size, n_nodes;
    int *node_of;        /* [size] node of a rank */
    int *local_of;       /* [size] local rank of a rank */
    int *node_first;     /* [n_nodes + 1] index of a node's first rank in node_ranks */
    int *node_ranks;     /* [size] ranks, grouped by node, ascending within one */
    char (*host)[WORLD_HOST_MAX + 1]; /* [size] a rank's host name, for error messages only */
};

/* Pure: node_key[r] is the key of rank r's node (SLURM_NODEID, or DDP_NODE; never a host name or boot id). host may be
 * NULL. The caller frees with world_destroy. NULL only when memory runs out or size < 1. */
struct world *world_from_keys(int rank, int size, const char *const *node_key, const char *const *host);

/* Exchanges this process's node key (DDP_NODE, else SLURM_NODEID, else "0") and host name over b: one fence. */
struct world *world_exchange(boot_t *b, uint64_t deadline, ddp_error_t *errp);

/* The same, where node and name are not NULL with these in place of the node key and the host name. */
struct world *world_exchange_as(boot_t *b, const char *node, const char *name, uint64_t deadline, ddp_error_t *errp);

void world_destroy(struct world *w); /* NULL is allowed */

int world_local_size(const struct world *w, int node);
int world_rank_at(const struct world *w, int node, int local); /* the rank, or -1 */
int world_min_local_size(const struct world *w);               /* of the smallest node: L of comm/wireup.h */

/* "rank 3 (n2)", for error texts. Returns buf. */
const char *world_rank_name(const struct world *w, int rank, char *buf, size_t size);

#endif
