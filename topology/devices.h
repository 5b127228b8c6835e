/* devices.h - which GPUs a process will see, from the lists that Slurm gives it. Pure. */
#ifndef DDP_TOPOLOGY_DEVICES_H
#define DDP_TOPOLOGY_DEVICES_H

#include "topology/inventory.h"

/* The variables that say it; NULL: not set. */
struct devices_facts {
    const char *cuda, *rocr; /* CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES */
    const char *step;        /* SLURM_STEP_GPUS */
};

struct devices {
    int16_t n;                       /* 0: none, or not told */
    int16_t gpu[INVENTORY_GPUS_MAX]; /* [ordinal, as cudaSetDevice counts] place in the inventory; -1: not found there */
};

/* Which of the variables is gone by: the driver's own where one is set, CUDA's first unless it is empty and the other
 * is not; else Slurm's. Its name; NULL: none is set. */
const char *devices_source(const struct devices_facts *f);

/* Names in the driver's list that are not numbers (UUIDs, MIG instances: the parent) say it themselves. Numbers in it
 * count from 0 again where Slurm hides other devices by cgroup, so where SLURM_STEP_GPUS has as many items, item i there
 * is Slurm's own number of the GPU of ordinal i; else the numbers themselves are taken. As the driver does, a number
 * that is -1 or not a device of the list's kind ends the list; so does a name given twice. inv NULL: none is looked for.
 * 0, or -1 with DDP_E_DATA: an empty item, more than INVENTORY_GPUS_MAX. *ret is untouched then. */
int devices_list(const struct inventory *inv, const struct devices_facts *f, struct devices *ret, ddp_error_t *errp);

#endif
