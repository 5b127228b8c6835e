/* find.c - where Slurm's files are on this machine. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/doctor/doctor.h"

/* A file that cannot be looked for is there: its error says more. */
static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || errno == EACCES;
}

/* The bytes of a path's folder. */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool are_beside(const char *a, const char *b)
{
    size_t n = folder_of(a);
    return n == folder_of(b) && !strncmp(a, b, n);
}

bool doctor_find_conf(const char *printed, const struct doctor_places *p, char *ret, size_t size)
{
    const char *slash = strrchr(printed, '/'), *name = slash ? slash + 1 : printed;
    if (p->conf && are_beside(printed, p->printed) &&
        snprintf(ret, size, "%.*s/%s", (int)folder_of(p->conf), p->conf, name) < (int)size && is_there(ret))
        return true;
    if (is_there(printed)) {
        snprintf(ret, size, "%s", printed);
        return true;
    }
    if (snprintf(ret, size, "%s/%s", p->cache, name) < (int)size && is_there(ret))
        return true;
    snprintf(ret, size, "%s", printed);
    return false;
}

bool doctor_find_plugin(const char *name, const char *dirs, char *ret, size_t size)
{
    while (*name != '/' && *dirs) {
        int n = (int)strcspn(dirs, ":");
        if (n > 0 && snprintf(ret, size, "%.*s/%s", n, dirs, name) < (int)size && is_there(ret))
            return true;
        dirs += n + (dirs[n] == ':');
    }
    snprintf(ret, size, "%s", name);
    return *name == '/';
}
