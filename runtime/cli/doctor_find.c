/* doctor_find.c - where Slurm's files are on this machine. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/doctor.h"

/* A file that cannot be looked for is there: its error says more. */
static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || errno == EACCES;
}

bool doctor_find_conf(const char *printed, const char *conf, const char *cache, char *ret, size_t size)
{
    const char *slash = strrchr(printed, '/'), *name = slash ? slash + 1 : printed;
    const char *conf_slash = conf ? strrchr(conf, '/') : NULL;
    if (conf_slash && snprintf(ret, size, "%.*s/%s", (int)(conf_slash - conf), conf, name) < (int)size && is_there(ret))
        return true;
    if (is_there(printed)) {
        snprintf(ret, size, "%s", printed);
        return true;
    }
    if (snprintf(ret, size, "%s/%s", cache, name) < (int)size && is_there(ret))
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
