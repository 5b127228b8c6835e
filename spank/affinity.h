/* affinity.h - the calling process's CPU mask and memory policy, and how many cores a mask has, from the kernel
 * alone. */
#ifndef DDP_SPANK_AFFINITY_H
#define DDP_SPANK_AFFINITY_H

#include <stdbool.h>

#include "runtime/base/error.h"
#include "topology/cpus.h"

/* 0, or -1 with DDP_E_SYSTEM. */
int affinity_get(struct cpus *ret, ddp_error_t *errp);

/* Sets the mask and puts into *ret what the kernel made of it: a cpuset may allow less, and where it allows nothing of
 * it the mask stays. 0, or -1 with DDP_E_SYSTEM where the mask cannot be read. */
int affinity_set(const struct cpus *want, struct cpus *ret, ddp_error_t *errp);

/* Cores that the set touches, as /sys tells; where it does not, each CPU counts as a core. */
size_t affinity_count_cores(const struct cpus *set);

/* Prefers the memory of NUMA node `os_index` where the process has no policy yet. False: it has one, or the kernel or
 * the container does not let it, which is no error. */
bool affinity_prefer_memory(int os_index);

#endif
