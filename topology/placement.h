/* placement.h - which GPU, CPUs, memory node and NIC each rank of a node gets. Pure and deterministic: every rank of
 * the node computes the whole placement from the same facts. doc/placement.md states the rule, in sections that the
 * code follows; t/data/topology has the expected placements of known machines. */
#ifndef DDP_TOPOLOGY_PLACEMENT_H
#define DDP_TOPOLOGY_PLACEMENT_H

#include "topology/inventory.h"

enum { PLACEMENT_RANKS_MAX = 4096 };

/* What Slurm gave one rank. */
struct placement_rank {
    struct cpus mask;                       /* its CPU mask; CPUs that the inventory does not have do not count */
    int16_t n_devices;                      /* GPUs that its process will see; 0: none, or not known */
    int16_t device[INVENTORY_GPUS_MAX];     /* [ordinal] place in inventory's gpu table; -1: not found there */
};

struct placement_request {
    const struct inventory *inventory;
    int n_ranks;                       /* of this node, at least 1 */
    const struct placement_rank *rank; /* [n_ranks] by local rank */
    const char *keep;                  /* not NULL: masks stay as they are, for this reason ("--cpu-bind was given") */
};

enum place_reason {
    PLACE_KEPT,   /* request.keep says why */
    PLACE_OWN,    /* no GPU here, and no other rank's mask overlaps: Slurm gave it CPUs of its own */
    PLACE_GPU,    /* beside its GPU */
    PLACE_SHARE,  /* no GPU, or one without locality: an equal share, neighbours together */
    PLACE_SHARED, /* more ranks than cores: one core, with others */
};

struct place {
    struct cpus cpus;     /* within the union of the masks; empty only where the rank's mask was */
    int n_cores;          /* cores that cpus touches */
    int n_near;           /* of these, cores that touch the GPU's local CPUs; 0 without a GPU */
    int n_sharing;        /* ranks that have at least one of these cores, this one included */
    int device;           /* ordinal of its GPU among the process's devices, for cudaSetDevice; -1: none */
    int gpu;              /* place in the inventory; -1: none, or not found there */
    int n_gpu_sharing;    /* ranks with the same device, this one included; 0 without a GPU */
    int numa;             /* memory node; -1: none is best */
    int nic;              /* nearest active NIC; -1: none, or not looked for */
    enum inventory_distance nic_distance; /* from its GPU, or from its cores; DISTANCE_ACROSS without a NIC */
    enum place_reason reason;
};

/* Fills ret[n_ranks]. 0, or -1 with DDP_E_USAGE: more than PLACEMENT_RANKS_MAX ranks, a device listed that is not in
 * the inventory's range, or with DDP_E_SYSTEM: no memory. *ret is untouched then. Takes 2 ms at most for 256 cores, 16
 * GPUs and up to 256 ranks, 0.35 s for 4096 of each and 64 GPUs (t/lib/placebench). */
int placement_choose(const struct placement_request *req, struct place *ret, ddp_error_t *errp);

/* For people: "beside its GPU", "an equal share of the cores", request.keep, ... */
const char *placement_why(const struct placement_request *req, const struct place *p);

#endif
