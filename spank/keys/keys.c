#include "spank/keys/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/nearest.h"
#include "runtime/base/settings.h"
#include "spank/keys/stop_key.h"

const struct knob ddp_keys[KEY_COUNT] = {
    [KEY_BIND] = {.name = "bind", .env = "DDP_BIND", .type = KNOB_ENUM, .def = "auto",
                  .choices = "auto|none|print",
                  .help = "put each rank of a node on cores beside its GPU, or on its share of the cores, unless "
                          "--cpu-bind was given; print: only show where"},
    [KEY_GUARD] = {.name = "guard", .env = "DDP_GUARD", .type = KNOB_BOOL, .def = "off",
                   .help = "a process of the plugin's stays beside each program"},
    [KEY_INTERFACE] = {.name = "interface", SETTING_INTERFACE},
    [KEY_MIN_NODES] = {.name = "min_nodes", .env = "DDP_MIN_NODES", .type = KNOB_INT, .def = "0", .min = 0,
                       .max = 100000,
                       .help = "on how few nodes programs are started again when one is lost and no spare is left; 0: "
                               "on as many as at first"},
    [KEY_MPI] = {.name = "mpi", .env = "DDP_MPI", .type = KNOB_ENUM, .def = "auto", .choices = "auto|pmix|pmi2|none",
                 .help = "srun's --mpi where none was given: auto takes pmix where it loads, else pmi2"},
    [KEY_OMP] = {.name = "omp", .env = "DDP_OMP", .type = KNOB_INT, .def = "0", .min = 0, .max = 4096,
                 .help = "OMP_NUM_THREADS of each rank; 0: what -c says, else its share of the cores"},
    [KEY_PORT] = {.name = "port", .env = "DDP_PORT", .type = KNOB_INT, .min = 1024, .max = 65535,
                  .help = "MASTER_PORT; unset: srun draws one for every step"},
    [KEY_REQUEUE] = {.name = "requeue", SETTING_REQUEUE},
    [KEY_RESTARTS] = {.name = "restarts", .env = "DDP_RESTARTS", .type = KNOB_INT, .def = "0", .min = 0, .max = 1000,
                      .help = "how often all programs of the step are started again, in the same allocation, when one "
                              "dies; from 1 on guard=on"},
    [KEY_RESV_PORTS] = {.name = "resv_ports", .env = "DDP_RESV_PORTS", .type = KNOB_BOOL,
                        .help = "MASTER_PORT is the first port that Slurm reserved; unset: on under srun --resv-ports"},
    [KEY_SPARES] = {.name = "spares", .env = "DDP_SPARES", .type = KNOB_INT, .def = "0", .min = 0, .max = 100000,
                    .help = "how many nodes, the last ones, wait to take the place of one that is lost; with restarts"},
    [KEY_STOP] = {.name = "stop", .env = "DDP_STOP", .type = KNOB_STRING, .max = 31, .value = "SIGNAL@SECONDS",
                  .help = "the signal by which all programs are asked to save and end, and how many seconds before the "
                          "job's end, as in USR1@120, or none; with it guard=on"},
    [KEY_STOP_CODE] = {.name = "stop_code", .env = "DDP_STOP_CODE", .type = KNOB_INT, .def = "75", .min = 1, .max = 255,
                       .help = "exit code of a program that was asked to stop and has saved"},
    [KEY_TIMEOUT] = {.name = "timeout", SETTING_TIMEOUT},
    [KEY_TOPO] = {.name = "topo", .env = "DDP_TOPO", .type = KNOB_STRING, .max = 255, .value = "FILE",
                  .help = "place by this XML record of hwloc instead of the machine, as bind=print"},
    [KEY_VERBOSE] = {.name = "verbose", .env = "DDP_VERBOSE", .type = KNOB_BOOL, .def = "off",
                     .help = "print where each rank runs"},
    [KEY_CKPT_PRIVATE] = {.name = "ckpt_private", SETTING_CKPT_PRIVATE},
    [KEY_ENABLED] = {.name = "enabled", .type = KNOB_BOOL, .def = "on",
                     .help = "false refuses --ddp on this cluster or node"},
    [KEY_GUARD_SILENT] = {.name = "guard_silent", .type = KNOB_INT, .def = "3", .min = 3, .max = 86400,
                          .help = "seconds of silence after which guards take a node for dead"},
    [KEY_NCCL_IB_HCA] = {.name = "nccl_ib_hca", .type = KNOB_STRING, .max = 200,
                         .help = "NCCL_IB_HCA of steps with GPUs"},
    [KEY_NCCL_SOCKET_IFNAME] = {.name = "nccl_socket_ifname", .type = KNOB_STRING, .max = 200,
                                .help = "NCCL_SOCKET_IFNAME of steps with GPUs; unset: the route to MASTER_ADDR"},
    [KEY_PORT_MIN] = {.name = "port_min", .type = KNOB_INT, .def = "20000", .min = 1024, .max = 65535,
                      .help = "first port of the range that MASTER_PORT is derived into"},
    [KEY_PORT_MAX] = {.name = "port_max", .type = KNOB_INT, .def = "29999", .min = 1024, .max = 65535,
                      .help = "last port of that range"},
    [KEY_SRUN_PORT_MIN] = {.name = "srun_port_min", .type = KNOB_INT, .min = 1, .max = 65535,
                           .help = "first port that srun may listen at in verbose steps and those with guards, as "
                                   "SrunPortRange; unset: any"},
    [KEY_SRUN_PORT_MAX] = {.name = "srun_port_max", .type = KNOB_INT, .min = 1, .max = 65535,
                           .help = "last port of that range"},
};

const enum ddp_key keys_of_step[KEYS_OF_STEP] = {
    KEY_GUARD,     KEY_GUARD_SILENT, KEY_MIN_NODES, KEY_REQUEUE,    KEY_RESTARTS, KEY_SPARES, KEY_STOP,
    KEY_STOP_CODE, KEY_PORT,         KEY_PORT_MIN,  KEY_PORT_MAX,   KEY_RESV_PORTS};

int keys_unknown(const char *name, size_t n, int domain, const char *source, const char *cure, ddp_error_t *errp)
{
    char meant[80];
    struct nearest near = nearest_to(name, 2);
    for (size_t i = 0; i < n; i++)
        nearest_try(&near, ddp_keys[i].name);
    return error_set(errp, domain, EINVAL, "%s: unknown key \"%.32s\"%s %s", source, name,
                     nearest_text(&near, ";", meant, sizeof meant), cure);
}

static int unknown_item(const char *name, const char *source, ddp_error_t *errp)
{
    char cure[200] = "use on, off or one of ";
    size_t used = strlen(cure);
    for (size_t i = 0; i < KEY_USER_COUNT && used < sizeof cure; i++)
        used += (size_t)snprintf(cure + used, sizeof cure - used, "%s%s", i ? ", " : "", ddp_keys[i].name);
    return keys_unknown(name, KEY_USER_COUNT, DDP_E_USAGE, source, cure, errp);
}

static int set_mode(struct keys *o, enum ddp_mode mode, const char *source, ddp_error_t *errp)
{
    if (o->mode != DDP_MODE_UNSET && o->mode != mode)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: on and off together: give one of them", source);
    o->mode = mode;
    return 0;
}

/* n: of the table's keys are allowed. */
static int parse_item(char *item, const char *source, size_t n, struct keys *o, ddp_error_t *errp)
{
    if (!strcmp(item, "on"))
        return set_mode(o, DDP_MODE_ON, source, errp);
    if (!strcmp(item, "off"))
        return set_mode(o, DDP_MODE_OFF, source, errp);
    if (!*item)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: an empty item: use on, off or KEY=VALUE[,KEY=VALUE...]",
                         source);
    const char *value = NULL;
    const struct knob *k = knob_split(ddp_keys, n, item, &value);
    if (!k) {
        item[strcspn(item, "=")] = 0;
        return unknown_item(item, source, errp);
    }
    if (!value && k->type != KNOB_BOOL) {
        char range[64];
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: %s needs a value: %s=%s", source, k->name, k->name,
                         knob_range(k, range, sizeof range));
    }
    return knob_parse(k, value ? value : "on", source, &o->key[k - ddp_keys], errp);
}

static int parse(const char *text, const char *source, size_t n, struct keys *ret, ddp_error_t *errp)
{
    char copy[KEYS_TEXT_MAX + 1];
    struct keys o = {.mode = DDP_MODE_UNSET};
    size_t len = strnlen(text, sizeof copy);
    if (len == sizeof copy)
        return error_set(errp, DDP_E_USAGE, E2BIG, "%s: longer than %d bytes", source, KEYS_TEXT_MAX);
    memcpy(copy, text, len + 1);
    for (char *item = copy, *next; item; item = next) {
        next = strchr(item, ',');
        if (next)
            *next++ = 0;
        if (parse_item(item, source, n, &o, errp) < 0)
            return -1;
    }
    if (o.mode == DDP_MODE_UNSET)
        o.mode = DDP_MODE_ON;
    *ret = o;
    return 0;
}

int keys_parse(const char *text, const char *source, struct keys *ret, ddp_error_t *errp)
{
    return parse(text, source, KEY_USER_COUNT, ret, errp);
}

int keys_parse_srun(const char *text, struct keys *ret, ddp_error_t *errp)
{
    *ret = (struct keys){.mode = DDP_MODE_UNSET};
    return *text ? parse(text, SRUN_KEYS_VARIABLE, KEY_COUNT, ret, errp) : 0;
}

bool keys_are_elastic(const struct keys *o)
{
    return o->key[KEY_SPARES].i > 0 || o->key[KEY_MIN_NODES].i > 0;
}

int keys_asked(const char *text, lookup_f lookup, void *arg, struct keys *ret, ddp_error_t *errp)
{
    const char *env = text ? NULL : lookup("SLURM_DDP", arg);
    if (text)
        return keys_parse(text, "--ddp", ret, errp);
    if (env)
        return keys_parse(env, "SLURM_DDP", ret, errp);
    *ret = (struct keys){.mode = DDP_MODE_OFF};
    return 0;
}

int keys_resolve(const char *text, lookup_f lookup, void *arg, const struct keys *site, struct keys *ret,
                    ddp_error_t *errp)
{
    struct keys o;
    if (keys_asked(text, lookup, arg, &o, errp) < 0)
        return -1;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct knob *k = &ddp_keys[i];
        const char *value = k->env ? lookup(k->env, arg) : NULL;
        if (o.key[i].is_set || o.mode == DDP_MODE_OFF)
            continue;
        if (value) {
            if (knob_parse(k, value, k->env, &o.key[i], errp) < 0)
                return -1;
        } else if (site && site->key[i].is_set) {
            o.key[i] = site->key[i];
        } else if (k->def && knob_parse(k, k->def, DEFAULT_SOURCE, &o.key[i], errp) < 0) {
            return -1;
        }
    }
    if (o.key[KEY_TOPO].is_set && o.key[KEY_TOPO].text[0])
        o.key[KEY_BIND].choice = BIND_PRINT;
    if (o.key[KEY_BIND].choice == BIND_PRINT)
        o.key[KEY_VERBOSE].b = true;
    struct stop_key stop = {0};
    const struct knob_value *s = &o.key[KEY_STOP];
    if (s->is_set && stop_key_parse(s->text, s->source, &stop, errp) < 0)
        return -1;
    if (o.key[KEY_RESTARTS].i > 0 || stop.signal)
        o.key[KEY_GUARD].b = true;
    const struct knob_value *elastic = &o.key[o.key[KEY_SPARES].i > 0 ? KEY_SPARES : KEY_MIN_NODES];
    if (keys_are_elastic(&o) && o.key[KEY_RESTARTS].i == 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: %s is for programs that are started again: add restarts=N, "
                         "how often", elastic->source, ddp_keys[elastic - o.key].name);
    *ret = o;
    return 0;
}

bool keys_have_stop(const struct keys *o)
{
    return o->key[KEY_STOP].is_set && strcmp(o->key[KEY_STOP].text, "none") != 0;
}

bool keys_have_slip(const char *variable, char *buf, size_t size)
{
    static const char prefix[] = "DDP_";
    char meant[80];
    if (!begins(variable, prefix))
        return false;
    struct nearest near = nearest_to_variable(variable, strlen(prefix));
    for (size_t i = 0; i < KEY_USER_COUNT; i++)
        if (ddp_keys[i].env && i != KEY_STOP && i != KEY_MIN_NODES) /* beside DDP_STEP, DDP_MAX_NODES of a program's */
            nearest_try(&near, ddp_keys[i].env);
    nearest_try(&near, "DDP_RESTART"); /* which a task has, beside DDP_RESTARTS */
    if (!nearest_is_slip(&near))
        return false;
    snprintf(buf, size, "the variable %.*s is no key of --ddp, and nobody reads it%s", (int)strcspn(variable, "="),
             variable, nearest_text(&near, "", meant, sizeof meant));
    return true;
}

const char *keys_help(char *buf, size_t size)
{
    size_t used = (size_t)snprintf(buf, size,
                                   "make the step one data-parallel job: set RANK, WORLD_SIZE, LOCAL_RANK, "
                                   "MASTER_ADDR, MASTER_PORT and the like in every task (your own values stay), wire "
                                   "up through PMIx or PMI, share out GPUs and cores. Keys, comma-separated:");
    for (size_t i = 0; i < KEY_USER_COUNT && used < size; i++) {
        char range[64];
        const struct knob *k = &ddp_keys[i];
        used += (size_t)snprintf(buf + used, size - used, " %s=%s (%s%s%s)%s", k->name,
                                 knob_range(k, range, sizeof range), k->help, k->def ? "; default " : "",
                                 k->def ? k->def : "", i + 1 < KEY_USER_COUNT ? "," : ".");
    }
    if (used < size)
        snprintf(buf + used, size - used,
                 " Each key may also be given as a variable (DDP_BIND=none) and the whole as SLURM_DDP.");
    return buf;
}
