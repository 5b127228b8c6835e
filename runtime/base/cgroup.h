/* cgroup.h - how much memory this process's control groups allow. */
#ifndef DDP_BASE_CGROUP_H
#define DDP_BASE_CGROUP_H

#include <stdint.h>

/* The smallest memory limit, in bytes, of the process's groups and those above them, version 2 (memory.max) and version
 * 1 (memory.limit_in_bytes); UINT64_MAX: none. root is "" for the running system, else a folder that holds copies of
 * proc/self/cgroup and sys/fs/cgroup/... What cannot be read counts as no limit. */
uint64_t cgroup_memory_limit(const char *root);

#endif
