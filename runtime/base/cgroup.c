#include "runtime/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/num.h"

#define FOLDER_MAX 8192 /* bytes */

/* How one version of control groups names things. */
struct version {
    const char *mount, *limit, *usage;
    const char *idle; /* key in memory.stat, with the groups below: page cache that is given up first */
    const char *events; /* where oom_kill is */
};

static const struct version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file", "memory.oom_control"};
static const struct version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                                  "memory.events"};

struct memory {
    uint64_t limit, left;
};

/* The number in a line "KEY NUMBER" of dir/file, or in its first line where key is NULL. `none` where there is none:
 * "max", and what cannot be read. */
static uint64_t read_number(const char *dir, const char *file, const char *key, uint64_t none)
{
    char path[FOLDER_MAX + 64], line[256];
    size_t key_n = key ? strlen(key) : 0;
    uint64_t v = none;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (key && (strncmp(line, key, key_n) != 0 || line[key_n] != ' '))
            continue;
        if (num_u64(line + (key ? key_n + 1 : 0), UINT64_MAX, &v) < 0)
            v = none;
        break;
    }
    if (f)
        fclose(f);
    return v;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Version 1's "no limit" is a huge multiple of the page size, which is as good as none. */
static void read_group(const char *dir, const struct version *v, struct memory *m)
{
    uint64_t limit = read_number(dir, v->limit, NULL, UINT64_MAX);
    if (limit == UINT64_MAX)
        return;
    uint64_t used = less(read_number(dir, v->usage, NULL, 0), read_number(dir, "memory.stat", v->idle, 0));
    m->limit = smaller(m->limit, limit);
    m->left = smaller(m->left, less(limit, used));
}

static void put_folder(char *ret, size_t size, const char *root, const struct version *v, const char *group)
{
    snprintf(ret, size, "%s%s%s", root, v->mount, strcmp(group, "/") == 0 ? "" : group);
}

/* Every group from `group` up to the mount. group is cut short on the way. */
static void read_limits(const char *root, const struct version *v, char *group, void *ret)
{
    for (;;) {
        char dir[FOLDER_MAX];
        put_folder(dir, sizeof dir, root, v, group);
        read_group(dir, v, ret);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static void read_kills(const char *root, const struct version *v, char *group, void *ret)
{
    char dir[FOLDER_MAX];
    uint64_t *kills = ret;
    put_folder(dir, sizeof dir, root, v, group);
    *kills += read_number(dir, v->events, "oom_kill", 0);
}

static bool has_memory(const char *controllers)
{
    for (const char *p = controllers; *p; p += strcspn(p, ","), p += *p == ',')
        if (begins(p, "memory") && (p[6] == ',' || p[6] == 0))
            return true;
    return false;
}

/* What a function reads of the process's own groups, of each version; it may change their names. */
static void read_own(const char *root, void read(const char *root, const struct version *v, char *group, void *ret),
                     void *ret)
{
    char path[4096], line[4096];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* ID:CONTROLLERS:GROUP; version 2 is "0::GROUP" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *controllers++ = 0;
        *group++ = 0;
        if (controllers[0] == 0)
            read(root, &v2, group, ret);
        else if (has_memory(controllers))
            read(root, &v1, group, ret);
    }
    if (f)
        fclose(f);
}

static struct memory read_memory(const char *root)
{
    struct memory m = {.limit = UINT64_MAX, .left = UINT64_MAX};
    read_own(root, read_limits, &m);
    return m;
}

uint64_t cgroup_memory_limit(const char *root)
{
    return read_memory(root).limit;
}

uint64_t cgroup_memory_left(const char *root)
{
    return read_memory(root).left;
}

uint64_t cgroup_memory_kills(const char *root)
{
    uint64_t kills = 0;
    read_own(root, read_kills, &kills);
    return kills;
}
