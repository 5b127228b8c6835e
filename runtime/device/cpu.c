/* cpu.c - the memory that the processor has left. */
#include <stdint.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/meminfo.h"
#include "runtime/device/device.h"

size_t device_cpu_memory_free(void)
{
    uint64_t left = cgroup_memory_left(""), there = meminfo_available("");
    uint64_t least = there < left ? there : left;
    return least < UINT64_MAX ? least : 0;
}
