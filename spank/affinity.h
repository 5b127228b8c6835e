/* affinity.h - the calling process's CPU mask and memory policy, and the number of cores of a mask; asks only the
 * kernel. */
#ifndef DDP_SPANK_AFFINITY_H
#define DDP_SPANK_AFFINITY_H

#include <stdbool.h>

#include "runtime/base/error.h"
#include "topology/cpus.h"

/* 0, or -1 with DDP_E_SYSTEM. */
int affinity_get(struct cpus *ret, ddp_error_t *errp);

/* Sets the mask; *ret becomes the mask that the process then has. A cpuset may allow only a part of `want`; if it
 * allows nothing of it, the mask is unchanged. 0, or -1 with DDP_E_SYSTEM if the mask cannot be read. */
int affinity_set(const struct cpus *want, struct cpus *ret, ddp_error_t *errp);

/* The number of cores that the set touches, according to /sys; a CPU that /sys does not describe counts as a core. */
size_t affinity_count_cores(const struct cpus *set);

/* Makes the process prefer the memory of NUMA node `os_index`, if it has no memory policy yet. False: it has one, or
 * the kernel or the container does not allow it; this is no error. */
bool affinity_prefer_memory(int os_index);

#endif
