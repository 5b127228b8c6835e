/* matching.h - one device for each rank at the least sum of costs. Pure. */
#ifndef DDP_TOPOLOGY_MATCHING_H
#define DDP_TOPOLOGY_MATCHING_H

#include <stdint.h>

#include "runtime/base/error.h"

enum { MATCHING_COST_MAX = 2 };

struct matching {
    int n_ranks, n_devices; /* at least 1 each; n_devices at most INVENTORY_GPUS_MAX */
    const uint8_t *cost;    /* [n_ranks][n_devices] 0..MATCHING_COST_MAX */
    int at_least, at_most;  /* ranks that get the same device: n_devices * at_least <= n_ranks <= n_devices * at_most */
};

/* ret_device[n_ranks]: of all assignments within these bounds those of least sum; of these the one where rank 0 has the
 * device of least (device - 0) mod n_devices, then rank 1 that of least (device - 1) mod n_devices given rank 0's, and
 * so on. 0, or -1 with DDP_E_SYSTEM: no memory. Takes n_ranks * n_devices^2 steps, give or take a small factor.
 *
 * How: a flow of least cost by successive shortest paths (Ahuja, Magnanti, Orlin, "Network Flows", 9.7), over a graph
 * whose nodes are the devices alone: an edge a -> b is the cheapest move of a rank from a to b. */
int matching_choose(const struct matching *m, int *ret_device, ddp_error_t *errp);

#endif
