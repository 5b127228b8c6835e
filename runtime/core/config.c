#include <config.h> /* environ */

#include "runtime/core/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/nearest.h"
#include "runtime/ddp.h"

#define PREFIX "--ddp-"
#define VARIABLES "DDP_"
#define LIBRARY_LINE "libddp="

#define ROW(type, field, scope, ...) {KNOB_FIELD(struct config, field), __VA_ARGS__},
const struct knob config_knobs[] = {CONFIG_SETTINGS(ROW)};

#define SCOPE(type, field, scope, ...) CONFIG_##scope,
static const enum config_scope scope_of[] = {CONFIG_SETTINGS(SCOPE)};

#define N_KNOBS (sizeof config_knobs / sizeof *config_knobs)
const size_t config_n_knobs = N_KNOBS;

/* The plugin's keys, which a user may set as variables, too, and DDP_RESTART, which every task has beside DDP_RESTARTS;
 * without DDP_STOP, beside which a program may well have a DDP_STEP, and DDP_MIN_NODES (DDP_MAX_NODES). */
static const char *const plugins[] = {
    "DDP_BIND", "DDP_GUARD", "DDP_MPI", "DDP_OMP", "DDP_PORT", "DDP_RESTART", "DDP_RESTARTS", "DDP_RESV_PORTS",
    "DDP_SPARES", "DDP_STOP_CODE", "DDP_TOPO", "DDP_VERBOSE"};

/* The one setting whose first words these are; NULL: there is none, or several. */
static const char *begun_by(const char *key)
{
    size_t n = strcspn(key, "=");
    const char *found = NULL;
    for (size_t i = 0; i < N_KNOBS; i++) {
        if (strncmp(config_knobs[i].name, key, n) != 0 || config_knobs[i].name[n] != '-')
            continue;
        if (found)
            return NULL;
        found = config_knobs[i].name;
    }
    return found;
}

static int unknown(const char *prefix, const char *key, ddp_error_t *errp)
{
    char meant[80];
    struct nearest near = nearest_to(key, 2);
    for (size_t i = 0; i < N_KNOBS; i++)
        nearest_try(&near, config_knobs[i].name);
    const char *found = near.found ? near.found : begun_by(key);
    snprintf(meant, sizeof meant, found ? ", did you mean %s%s?" : ":", prefix, found);
    return error_set(errp, DDP_E_USAGE, EINVAL, "unknown option %s%.60s%s libddp(7) lists them", prefix, key, meant);
}

/* A variable that is a setting but for a slip would be one that nobody reads. */
static int check_variable(const char *variable, ddp_error_t *errp)
{
    char meant[80];
    if (!begins(variable, VARIABLES))
        return 0;
    struct nearest near = nearest_to_variable(variable, strlen(VARIABLES));
    for (size_t i = 0; i < N_KNOBS; i++)
        nearest_try(&near, config_knobs[i].env);
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        nearest_try(&near, plugins[i]);
    if (!nearest_is_slip(&near))
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "the variable %.*s is no setting%s Unset it, also if it is another "
                     "program's", (int)strcspn(variable, "="), variable, nearest_text(&near, "", meant, sizeof meant));
}

static int check_variables(ddp_error_t *errp)
{
    for (char **e = environ; e && *e; e++)
        if (check_variable(*e, errp) < 0)
            return -1;
    return 0;
}

/* argument is "--ddp-KEY=VALUE". */
static int read_argument(struct knob_value *values, const char *argument, ddp_error_t *errp)
{
    char option[48];
    const char *word = argument + strlen(PREFIX), *value = NULL;
    const struct knob *k = knob_split(config_knobs, N_KNOBS, word, &value);
    if (!k)
        return unknown(PREFIX, word, errp);
    if (!value)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s lacks a value: write %s=VALUE", argument, argument);
    snprintf(option, sizeof option, PREFIX "%s", k->name);
    struct knob named = *k; /* as the user wrote it, should its value be refused */
    named.name = option;
    return knob_parse(&named, value, "command line", &values[k - config_knobs], errp);
}

int config_load(struct config *cfg, int *argc, char ***argv, ddp_error_t *errp)
{
    struct knob_value values[N_KNOBS];
    if (check_variables(errp) < 0 || knob_load(config_knobs, N_KNOBS, values, errp) < 0)
        return -1;
    for (int i = 1; argc && argv && i < *argc; i++)
        if (begins((*argv)[i], PREFIX) && read_argument(values, (*argv)[i], errp) < 0)
            return -1;
    knob_clear(config_knobs, N_KNOBS, cfg);
    knob_store(config_knobs, N_KNOBS, values, cfg);
    if (!argc || !argv)
        return 0;
    char **v = *argv;
    int kept = 1;
    for (int i = 1; i < *argc; i++)
        if (!begins(v[i], PREFIX))
            v[kept++] = v[i];
    if (*argc > 0) {
        *argc = kept;
        v[kept] = NULL;
    }
    return 0;
}

int config_set(struct config *cfg, const char *key, const char *value, ddp_error_t *errp)
{
    struct knob_value v;
    const struct knob *k = knob_find(config_knobs, N_KNOBS, key);
    if (!k)
        return unknown("", key, errp);
    if (scope_of[k - config_knobs] == CONFIG_EARLY)
        return error_set(errp, DDP_E_USAGE, EINVAL, "option %s takes effect in ddp_init: set %s or pass "
                         PREFIX "%s=%.60s", k->name, k->env, k->name, value);
    if (knob_parse(k, value, "ddp_option", &v, errp) < 0)
        return -1;
    knob_store(k, 1, &v, cfg);
    return 0;
}

char *config_shared_text(const struct config *cfg, const char *hook)
{
    char *text = NULL, value[sizeof(knob_text_t)];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (size_t i = 0; i < N_KNOBS; i++)
        if (scope_of[i] == CONFIG_ALIKE)
            fprintf(f, "%s=%s\n", config_knobs[i].name, knob_format(&config_knobs[i], cfg, value, sizeof value));
    fprintf(f, "hook=%s\n" LIBRARY_LINE DDP_VERSION "\n", hook);
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

int config_explain(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp)
{
    size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
    while (*a && *b && na == nb && !memcmp(a, b, na)) {
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
        na = strcspn(a, "\n");
        nb = strcspn(b, "\n");
    }
    bool is_library = begins(a, LIBRARY_LINE);
    return error_set(errp, DDP_E_USAGE, EINVAL, "ranks have different settings: %.*s on rank %d, %.*s on rank %d; %s",
                     (int)(na < 60 ? na : 60), a, rank_a, (int)(nb < 60 ? nb : 60), b, rank_b,
                     is_library ? "install the same libddp on all nodes"
                                : "start every rank with the same options and DDP_* variables");
}
