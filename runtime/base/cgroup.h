/* cgroup.h - how much memory this process's control groups allow. */
#ifndef DDP_BASE_CGROUP_H
#define DDP_BASE_CGROUP_H

#include <stdint.h>

/* The smallest memory limit, in bytes, of the process's groups and those above them, version 2 (memory.max) and version
 * 1 (memory.limit_in_bytes); UINT64_MAX: none. root is "" for the running system, else a folder that holds copies of
 * proc/self/cgroup and sys/fs/cgroup/... What cannot be read counts as no limit. */
uint64_t cgroup_memory_limit(const char *root);

/* How much memory is left, in bytes: over the same groups, the smallest difference between limit and use. Page cache
 * that the kernel gives up first does not count as used (memory.current less inactive_file; version 1
 * memory.usage_in_bytes less total_inactive_file). The use is that of all processes of the group, this one included,
 * and it may grow at any moment. 0: nothing is left; UINT64_MAX: no limit (version 1 may give another number that is
 * larger than any memory). A use that cannot be read counts as 0. */
uint64_t cgroup_memory_left(const char *root);

/* How many processes of this process's own group the kernel has killed because its memory, or that of a group above,
 * was at its limit (oom_kill in memory.events; version 1 memory.oom_control). 0 also where that cannot be read. */
uint64_t cgroup_memory_kills(const char *root);

#endif
