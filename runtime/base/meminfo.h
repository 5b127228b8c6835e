/* meminfo.h - the memory that this machine has left, whoever may use it; cgroup.h says what this process may. */
#ifndef DDP_BASE_MEMINFO_H
#define DDP_BASE_MEMINFO_H

#include <stdint.h>

/* Bytes that can be had without swapping (MemAvailable of proc/meminfo below root, as in cgroup.h); UINT64_MAX: not
 * known. */
uint64_t meminfo_available(const char *root);

/* These and the swap that is free: beyond that the kernel kills. */
uint64_t meminfo_left(const char *root);

/* The most that this process has held in memory at a time, in bytes (VmHWM of proc/self/status); 0: not known. */
uint64_t meminfo_peak(const char *root);

#endif
