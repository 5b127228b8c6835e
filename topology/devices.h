/* devices.h - which GPUs a process will see, from the lists that Slurm gives it. Pure. */
#ifndef DDP_TOPOLOGY_DEVICES_H
#define DDP_TOPOLOGY_DEVICES_H

#include "topology/inventory.h"

/* The variables with these lists; NULL: not set. */
struct devices_facts {
    const char *cuda, *rocr; /* CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES */
    const char *step;        /* SLURM_STEP_GPUS */
};

struct devices {
    int16_t n;                       /* 0: none, or not known */
    int16_t n_unused;                /* MIG instances after the first */
    int16_t gpu[INVENTORY_GPUS_MAX]; /* [ordinal, as cudaSetDevice counts] place in the inventory; -1: not found */
};

/* The name of the variable that counts: one of the driver's if one is set (CUDA's first, unless it is empty and the
 * other is not), else Slurm's. NULL: none is set. */
const char *devices_source(const struct devices_facts *f);

/* Reads the list. An item of the driver's list that is not a number is a device's name: a UUID, or a MIG instance, for
 * which its parent is taken. Numbers in that list count from 0 again if Slurm hides other devices by cgroup; so if
 * SLURM_STEP_GPUS has the same number of items, its item i is taken as Slurm's number of the GPU with ordinal i, else
 * the numbers of the driver's list are taken. As in the driver, a number that is -1 or no device of the list's kind
 * ends the list, and so does a name given twice. Of several MIG instances a process uses the first, says NVIDIA's MIG
 * User Guide of CUDA 11 and 12. inv NULL: devices are not looked up. 0, or -1 with DDP_E_DATA: an empty item, or more
 * than INVENTORY_GPUS_MAX. *ret is untouched then. */
int devices_list(const struct inventory *inv, const struct devices_facts *f, struct devices *ret, ddp_error_t *errp);

#endif
