#include "runtime/base/meminfo.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"

/* The value of KEY, "MemAvailable:", in bytes; UINT64_MAX where it is not there. */
static uint64_t read_value_of(const char *root, const char *file, const char *key)
{
    char path[4096], line[128];
    uint64_t bytes = UINT64_MAX;
    unsigned long long kib;
    snprintf(path, sizeof path, "%s/proc/%s", root, file);
    FILE *f = fopen(path, "re");
    while (f && bytes == UINT64_MAX && fgets(line, sizeof line, f))
        if (begins(line, key) && sscanf(line + strlen(key), "%llu kB", &kib) == 1)
            bytes = kib * 1024;
    if (f)
        fclose(f);
    return bytes;
}

static uint64_t read_value(const char *root, const char *key)
{
    return read_value_of(root, "meminfo", key);
}

uint64_t meminfo_available(const char *root)
{
    return read_value(root, "MemAvailable:");
}

uint64_t meminfo_left(const char *root)
{
    uint64_t available = meminfo_available(root), swap = read_value(root, "SwapFree:");
    return available == UINT64_MAX || swap == UINT64_MAX ? available : available + swap;
}

uint64_t meminfo_peak(const char *root)
{
    uint64_t bytes = read_value_of(root, "self/status", "VmHWM:");
    return bytes == UINT64_MAX ? 0 : bytes;
}
