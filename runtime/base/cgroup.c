#include "runtime/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/num.h"

/* "max" and version 1's "no limit" (a huge multiple of the page size) are as good as none. */
static uint64_t read_limit(const char *path)
{
    char text[64];
    uint64_t v;
    FILE *f = fopen(path, "re");
    if (!f)
        return UINT64_MAX;
    if (!fgets(text, sizeof text, f))
        text[0] = 0;
    fclose(f);
    text[strcspn(text, "\n")] = 0;
    return num_u64(text, UINT64_MAX, &v) == 0 ? v : UINT64_MAX;
}

/* The smallest limit from group up to the mount. group is cut short on the way. */
static uint64_t smallest(const char *root, const char *mount, char *group, const char *file)
{
    uint64_t min = UINT64_MAX;
    for (;;) {
        char path[8192];
        snprintf(path, sizeof path, "%s%s%s/%s", root, mount, strcmp(group, "/") == 0 ? "" : group, file);
        uint64_t v = read_limit(path);
        min = v < min ? v : min;
        char *slash = strrchr(group, '/');
        if (!slash)
            return min;
        *slash = 0;
    }
}

static bool has_memory(const char *controllers)
{
    for (const char *p = controllers; *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, "memory", 6) == 0 && (p[6] == ',' || p[6] == 0))
            return true;
    return false;
}

uint64_t cgroup_memory_limit(const char *root)
{
    char path[4096], line[4096];
    uint64_t min = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* ID:CONTROLLERS:GROUP; version 2 is "0::GROUP" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *controllers++ = 0;
        *group++ = 0;
        uint64_t v = UINT64_MAX;
        if (controllers[0] == 0)
            v = smallest(root, "/sys/fs/cgroup", group, "memory.max");
        else if (has_memory(controllers))
            v = smallest(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        min = v < min ? v : min;
    }
    if (f)
        fclose(f);
    return min;
}
