/* devices.h - which GPUs a process will see, from the lists that Slurm gives it. Pure. */
#ifndef DDP_TOPOLOGY_DEVICES_H
#define DDP_TOPOLOGY_DEVICES_H

#include "topology/inventory.h"

struct devices {
    int16_t n;                         /* 0: none, or not told */
    int16_t gpu[INVENTORY_GPUS_MAX];   /* [ordinal, as cudaSetDevice counts] place in the inventory; -1: not found there */
};

/* visible: CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES of the task; step_gpus: SLURM_STEP_GPUS; either may be NULL.
 * Names in `visible` that are not numbers (UUIDs, MIG instances: the parent) say it themselves. Numbers in it count from 0
 * again where Slurm hides other devices by cgroup, so where step_gpus has as many items, item i there is Slurm's own
 * number of the GPU of ordinal i; else the numbers in `visible` are taken. Without `visible`, step_gpus alone. As the
 * driver does, a number that is -1 or not a device of the list's kind ends the list; so does a name given twice.
 * 0, or -1 with DDP_E_DATA: an empty item, more than INVENTORY_GPUS_MAX. *ret is untouched then. */
int devices_list(const struct inventory *inv, const char *visible, const char *step_gpus, struct devices *ret,
                 ddp_error_t *errp);

#endif
