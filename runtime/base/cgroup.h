/* cgroup.h - how much memory this process's control groups allow. */
#ifndef DDP_BASE_CGROUP_H
#define DDP_BASE_CGROUP_H

#include <stdint.h>

/* The smallest memory limit, in bytes, of the process's groups and those above them, version 2 (memory.max) and version
 * 1 (memory.limit_in_bytes); UINT64_MAX: none. root is "" for the running system, else a folder that holds copies of
 * proc/self/cgroup and sys/fs/cgroup/... What cannot be read counts as no limit. */
uint64_t cgroup_memory_limit(const char *root);

/* What is left of it, in bytes: of the same groups the smallest limit less what is used there already, where page cache
 * that the kernel gives up first does not count as used (memory.current less inactive_file; version 1
 * memory.usage_in_bytes less total_inactive_file). It counts all that the group's processes use, this one's memory
 * included, and another process may take it the next moment. 0: nothing; UINT64_MAX: no limit (version 1 may say
 * another number beyond all memory). A use that cannot be read counts as none. */
uint64_t cgroup_memory_left(const char *root);

#endif
