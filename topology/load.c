#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "topology/load_impl.h"
#include "topology/record.h"

#define IMPORT_S 10 /* a record of 1000 cores takes 0.1 s */

/* What hwloc finds in the environment while it loads. */
static const struct {
    const char *name, *value;
} settings[] = {
    /* It opens its plugins before it looks at any filter, and a blacklist would name those that we know. */
    {"HWLOC_PLUGINS_PATH", "/nonexistent"},
    {"HWLOC_HIDE_ERRORS", "2"},             /* firmware's contradictions, told on stderr: not ours to mend */
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* Returns how many of the settings are made, all unless memory is short; saved[i] is the caller's to free. */
static size_t set_environment(char **saved)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *was = getenv(settings[i].name);
        if ((was && !(saved[i] = strdup(was))) || setenv(settings[i].name, settings[i].value, 1) < 0)
            return i;
    }
    return N_SETTINGS;
}

static void restore_environment(char *const *saved, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (saved[i])
            setenv(settings[i].name, saved[i], 1);
        else
            unsetenv(settings[i].name);
}

static int load_quietly(const char *xml, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    char *saved[N_SETTINGS] = {NULL};
    size_t n_set = set_environment(saved);
    int rc = n_set == N_SETTINGS ? import_topology(xml, n, inv, errp)
                                 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to load the topology");
    restore_environment(saved, n_set);
    for (size_t i = 0; i < N_SETTINGS; i++)
        free(saved[i]);
    return rc;
}

static void set_origin(struct inventory *inv, const char *xml)
{
    const char *slash = xml ? strrchr(xml, '/') : NULL;
    if (xml)
        snprintf(inv->origin, sizeof inv->origin, "%s", slash ? slash + 1 : xml);
    else if (gethostname(inv->origin, sizeof inv->origin - 1) < 0 || !inv->origin[0])
        strcpy(inv->origin, "this machine");
}

/* Not what lies unused between the tables: a quarter of a megabyte that the reader would have to allocate. */
static void copy(struct inventory *to, const struct inventory *from)
{
    memcpy(to, from, offsetof(struct inventory, core));
    memcpy(to->core, from->core, from->n_cores * sizeof from->core[0]);
    memcpy(to->numa, from->numa, from->n_numas * sizeof from->numa[0]);
    memcpy(to->gpu, from->gpu, from->n_gpus * sizeof from->gpu[0]);
    memcpy(to->nic, from->nic, from->n_nics * sizeof from->nic[0]);
    memcpy(to->link_mbps, from->link_mbps, from->n_gpus * sizeof from->link_mbps[0]);
}

int inventory_load_until(const char *xml, bool with_io, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    struct inventory *inv = calloc(1, sizeof *inv);
    if (!inv)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the machine's inventory");
    bool is_from_env = !xml && (xml = getenv("HWLOC_XMLFILE")); /* as for all that use hwloc, but read with care */
    inv->has_io = with_io;
    set_origin(inv, xml);
    struct record_reader reader = {load_quietly, import_major(), deadline};
    int rc = xml ? record_load(&reader, xml, inv, errp) : load_quietly(NULL, 0, inv, errp);
    if (rc == 0)
        copy(ret, inv);
    else if (is_from_env)
        error_prefix(errp, "HWLOC_XMLFILE");
    free(inv);
    return rc;
}

int inventory_load(const char *xml, bool with_io, struct inventory *ret, ddp_error_t *errp)
{
    return inventory_load_until(xml, with_io, deadline_in(IMPORT_S), ret, errp);
}
