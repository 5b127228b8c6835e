#include "topology/cores.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

/* hwloc opens its plugins before it looks at any filter, so their folder is hidden while it starts. */
static const char plugins_path[] = "HWLOC_PLUGINS_PATH";

static int load_topology(hwloc_topology_t *ret)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) < 0)
        return -1;
    if (hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE) < 0 ||
        hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return -1;
    }
    *ret = t;
    return 0;
}

static int load_without_plugins(hwloc_topology_t *ret)
{
    const char *was = getenv(plugins_path);
    char *saved = was ? strdup(was) : NULL;
    if (was && !saved)
        return -1;
    int rc = setenv(plugins_path, "/nonexistent", 1) < 0 ? -1 : load_topology(ret);
    int err = errno;
    if (saved)
        setenv(plugins_path, saved, 1);
    else
        unsetenv(plugins_path);
    free(saved);
    errno = err;
    return rc;
}

static void add_cpuset(struct cpus *set, hwloc_const_cpuset_t from)
{
    unsigned cpu;
    hwloc_bitmap_foreach_begin(cpu, from)
    {
        cpus_add(set, cpu);
    }
    hwloc_bitmap_foreach_end();
}

struct cores *cores_load(ddp_error_t *errp)
{
    hwloc_topology_t t;
    errno = 0;
    if (load_without_plugins(&t) < 0) {
        error_errno(errp, "hwloc cannot read this machine's cores");
        return NULL;
    }
    /* Some virtual machines report no cores: then each hardware thread counts as one. */
    hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int n = hwloc_get_nbobjs_by_type(t, type);
    struct cores *c = calloc(1, sizeof *c);
    if (c && n > 0)
        c->core = calloc((size_t)n, sizeof *c->core);
    if (!c || !c->core) {
        error_set(errp, DDP_E_SYSTEM, n > 0 ? ENOMEM : ENODEV, "hwloc found %d cores on this machine", n);
        cores_destroy(c);
        c = NULL;
    } else {
        c->n = (size_t)n;
        for (int i = 0; i < n; i++)
            add_cpuset(&c->core[i], hwloc_get_obj_by_type(t, type, (unsigned)i)->cpuset);
    }
    hwloc_topology_destroy(t);
    return c;
}

void cores_destroy(struct cores *c)
{
    int saved = errno;
    if (c)
        free(c->core);
    free(c);
    errno = saved;
}
