#include "config.h" /* environ */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "topology/apart.h"
#include "topology/cache.h"
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
        inventory_copy(ret, inv);
    else if (is_from_env)
        error_prefix(errp, "HWLOC_XMLFILE");
    free(inv);
    return rc;
}

int inventory_load(const char *xml, bool with_io, struct inventory *ret, ddp_error_t *errp)
{
    return inventory_load_until(xml, with_io, deadline_in(IMPORT_S), ret, errp);
}

/* Then it is not this machine that hwloc would show, or not as it is. In a task these are slurmd's variables. */
static bool is_hwloc_steered(void)
{
    for (char **e = environ; *e; e++)
        if (begins(*e, "HWLOC_"))
            return true;
    return false;
}

/* 1: there is no cache. */
static int load_cached(const char *folder, struct inventory *inv, ddp_error_t *errp)
{
    bool with_io = inv->has_io;
    if (cache_read(folder, inv) < 0)
        return 1;
    inv->has_io = with_io;
    set_origin(inv, NULL);
    return with_io ? import_devices(inv, errp) : 0;
}

int inventory_load_cached(const char *folder, bool with_io, uint64_t deadline, struct inventory *ret,
                          ddp_error_t *errp)
{
    struct inventory *inv = is_hwloc_steered() ? NULL : calloc(1, sizeof *inv);
    int rc = 1; /* nothing there */
    if (inv) {
        inv->has_io = with_io;
        rc = load_cached(folder, inv, errp);
    }
    if (rc == 0)
        inventory_copy(ret, inv);
    free(inv);
    return rc > 0 ? inventory_load_until(NULL, with_io, deadline, ret, errp) : rc;
}

int inventory_store(const char *folder, uint64_t deadline, ddp_error_t *errp)
{
    uint64_t machine;
    int rc = -1;
    cache_forget(folder);
    errno = 0;
    if (cache_machine(&machine) < 0)
        return error_errno(errp, "this machine's boot and CPUs are not known");
    struct inventory *inv = calloc(1, sizeof *inv);
    if (!inv)
        return error_errno(errp, "no memory for the machine's inventory");
    set_origin(inv, NULL);
    if (is_hwloc_steered())
        error_set(errp, DDP_E_USAGE, EINVAL, "HWLOC_ variables are set");
    else if (import_apart(load_quietly, NULL, 0, deadline, inv, errp) < 0)
        error_prefix(errp, "/sys");
    else
        rc = cache_write(folder, machine, inv, errp);
    free(inv);
    return rc;
}
