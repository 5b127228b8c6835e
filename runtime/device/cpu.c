/* cpu.c - the memory that the processor has left. */
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/cgroup.h"
#include "runtime/device/device.h"

/* MemAvailable of /proc/meminfo; 0 where it is not there. */
static uint64_t memory_available(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib * 1024;
}

size_t device_cpu_memory_free(void)
{
    uint64_t left = cgroup_memory_left(""), there = memory_available();
    return there && there < left ? there : left < UINT64_MAX ? left : there;
}
