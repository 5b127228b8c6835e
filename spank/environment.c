#include "config.h"
#include "spank/environment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/begins.h"
#include "runtime/base/door.h"
#include "runtime/base/num.h"
#include "spank/guards/guards.h"

struct maker {
    const struct step *step;
    const struct keys *o;
    lookup_f lookup;
    void *arg;
    struct environment *env;
    ddp_error_t *errp;
    bool is_full; /* a variable had no place in env */
};

/* DDP_SET's items are joined by commas, so a comma in a value is written otherwise. */
static void escape(const char *value, char *buf, size_t size)
{
    size_t used = 0;
    for (buf[0] = 0; *value && used + 4 <= size; value++)
        used += (size_t)snprintf(buf + used, size - used, *value == ',' || *value == '%' ? "%%%02X" : "%c", *value);
}

static void unescape(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++)
        if (begins(p, "%2C") || begins(p, "%25")) {
            *out++ = p[2] == 'C' ? ',' : '%';
            p += 2;
        } else {
            *out++ = *p;
        }
    *out = 0;
}

void environment_forget(const char *set, lookup_f lookup, void *arg, void (*drop)(const char *name, void *arg))
{
    for (const char *p = set; p && *p;) {
        char item[3 * HOSTLIST_NAME_MAX + 64];
        size_t len = strcspn(p, ",");
        snprintf(item, sizeof item, "%.*s", (int)(len < sizeof item ? len : 0), p);
        char *value = strchr(item, '=');
        if (value) {
            *value++ = 0;
            unescape(value);
            const char *now = lookup(item, arg);
            if (now && !strcmp(now, value))
                drop(item, arg);
        }
        p += len + (p[len] == ',');
    }
}

static void warn(struct maker *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct maker *m, const char *fmt, ...)
{
    struct environment *e = m->env;
    va_list ap;
    if (m->step->rank != 0 || e->n_warnings == ENVIRONMENT_WARNINGS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(e->warning[e->n_warnings], sizeof e->warning[0], fmt, ap);
    va_end(ap);
    e->n_warnings++;
}

/* The variable as the user set it, or NULL. */
static const char *get_users(const struct maker *m, const char *name)
{
    return m->lookup(name, m->arg);
}

static void set(struct maker *m, const char *name, const char *value)
{
    struct environment *e = m->env;
    if (e->n_vars == ENVIRONMENT_VARS_MAX) {
        m->is_full = true;
        return;
    }
    e->var[e->n_vars].name = name;
    snprintf(e->var[e->n_vars].value, sizeof e->var[0].value, "%s", value);
    e->n_vars++;
}

void environment_list(struct environment *e)
{
    size_t used = 0;
    for (size_t i = 0; i < e->n_vars && used < sizeof e->set; i++) {
        char escaped[3 * HOSTLIST_NAME_MAX + 1];
        escape(e->var[i].value, escaped, sizeof escaped);
        used += (size_t)snprintf(e->set + used, sizeof e->set - used, "%s%s=%s", used ? "," : "", e->var[i].name,
                                 escaped);
    }
}

const char *environment_get(const struct environment *e, const char *name)
{
    for (size_t i = 0; i < e->n_vars; i++)
        if (!strcmp(e->var[i].name, name))
            return e->var[i].value;
    return NULL;
}

/* Sets name unless the user did. All tasks start with the same value of the user's, so a variable that must differ
 * between them (n_distinct > 1) contradicts whatever it holds. Returns the user's value, or NULL. */
static const char *offer(struct maker *m, const char *name, int value, int n_distinct)
{
    char text[16];
    const char *users = get_users(m, name);
    snprintf(text, sizeof text, "%d", value);
    if (!users)
        set(m, name, text);
    else if (n_distinct > 1)
        warn(m, "your %s=%.32s stays, but the tasks of this step need %d different ones: unset %s", name, users,
             n_distinct, name);
    else if (strcmp(users, text))
        warn(m, "your %s=%.32s stays, but this step has %s: unset %s", name, users, text, name);
    return users;
}

static int make_master_addr(struct maker *m)
{
    const struct step *t = m->step;
    const char *users = get_users(m, "MASTER_ADDR");
    if (!users && t->rank == 0 && strcmp(t->node_name, t->master))
        return error_set(m->errp, DDP_E_USAGE, EINVAL,
                         "rank 0 runs on %.64s, not on %.64s, the first node: set MASTER_ADDR=%.64s for the step, or "
                         "use another --distribution", t->node_name, t->master, t->node_name);
    if (!users)
        set(m, "MASTER_ADDR", t->master);
    else if (strcmp(users, t->node_name))
        warn(m, "your MASTER_ADDR=%.64s stays, but rank 0 runs on %.64s: unset MASTER_ADDR", users, t->node_name);
    return 0;
}

/* Where MpiParams is set Slurm reserves ports for every step: that there are some is not that they were asked for. */
static bool wants_reserved(const struct maker *m)
{
    const struct knob_value *key = &m->o->key[KEY_RESV_PORTS];
    const char *asked = get_users(m, "SLURM_RESV_PORTS");
    return key->is_set ? key->b : asked && strcmp(asked, "0") && get_users(m, "SLURM_STEP_RESV_PORTS");
}

static int choose_port(struct maker *m, int *ret, bool *ret_is_derived)
{
    const struct step *t = m->step;
    const struct knob_value *key = m->o->key;
    const char *reserved = get_users(m, "SLURM_STEP_RESV_PORTS");
    *ret_is_derived = false;
    if (key[KEY_PORT].is_set) {
        *ret = (int)key[KEY_PORT].i;
        return 0;
    }
    if (!wants_reserved(m)) {
        m->env->port_range = (struct port_range){(int)key[KEY_PORT_MIN].i, (int)key[KEY_PORT_MAX].i};
        m->env->port = (struct port_facts){.job = t->job, .step = t->step, .restart = t->restart};
        port_take_secrets(&m->env->port, get_users(m, PORT_DRAW_VARIABLE), get_users(m, GUARDS_VARIABLE));
        *ret = port_derive(&m->env->port, m->env->port_range);
        *ret_is_derived = m->env->is_port_derived = true;
        return 0;
    }
    if (!reserved)
        return error_set(m->errp, DDP_E_USAGE, ENOENT, "resv_ports: Slurm reserved no ports for this step: use srun "
                         "--resv-ports (the site needs MpiParams=ports=... in slurm.conf), or drop resv_ports");
    return port_first_reserved(reserved, ret, m->errp);
}

static int make_master_port(struct maker *m, const struct port_ephemeral *ephemeral)
{
    int port;
    bool is_derived;
    char text[16];
    if (choose_port(m, &port, &is_derived) < 0)
        return -1;
    const char *users = get_users(m, "MASTER_PORT");
    if (!users && is_derived && port_is_ephemeral(port, ephemeral))
        warn(m, "MASTER_PORT=%d lies among the ports that this node gives to any program (%d-%d) and may be taken: ask "
             "for a port_min and port_max outside them in the site file", port, ephemeral->range.min,
             ephemeral->range.max);
    if (!users || m->o->key[KEY_PORT].is_set) /* else: a port of the user's choice contradicts nothing */
        offer(m, "MASTER_PORT", port, 1);
    snprintf(text, sizeof text, "%d", port);
    if (!get_users(m, "JAX_COORDINATOR_PORT")) /* else JAX takes one that follows from the job's number */
        set(m, "JAX_COORDINATOR_PORT", users ? users : text);
    m->env->master_port = users ? 0 : port;
    return 0;
}

/* The user's OMP_NUM_THREADS stays. It can contradict the omp= of the same user, not the site's. */
static void check_threads(struct maker *m, const char *users, int64_t n_cpus)
{
    int64_t n;
    const struct knob_value *omp = &m->o->key[KEY_OMP];
    if (num_i64(users, 1, INT64_MAX, &n) < 0)
        return; /* a list, for nested regions */
    if (omp->i > 0 && omp->i != n && strcmp(omp->source, SITE_SOURCE))
        warn(m, "your OMP_NUM_THREADS=%.16s stays, but %s says omp=%d: unset OMP_NUM_THREADS", users, omp->source,
             (int)omp->i);
    else if (n > n_cpus)
        warn(m, "your OMP_NUM_THREADS=%.16s stays, but each rank may use %d CPUs only", users, (int)n_cpus);
}

/* A launcher gives its own number to each rank that it starts, unless one is set. What a script starts where one task
 * has several GPUs is most likely one, too. */
static bool leaves_threads(const struct maker *m, const struct environment_place *place)
{
    const struct step *t = m->step;
    return m->o->key[KEY_OMP].i == 0 &&
           (place->launcher == LAUNCHER_TORCH || (t->local_size == 1 && t->n_gpus > 1));
}

static void make_threads(struct maker *m, const struct environment_place *place)
{
    int64_t threads = m->o->key[KEY_OMP].i, n_cpus = (int64_t)place->n_cpus, share = n_cpus / place->n_same;
    int per_task = m->step->cpus_per_task;
    const char *users = get_users(m, "OMP_NUM_THREADS");
    char text[24];
    if (threads == 0 && per_task > 0) {
        threads = per_task < share ? per_task : share;
        if (per_task > n_cpus)
            warn(m, "SLURM_CPUS_PER_TASK=%d, but rank 0 may use %d of the CPUs: give srun itself -c %d; where it has "
                 "that, --overcommit or --cpu-bind takes the rest",
                 per_task, (int)n_cpus, per_task);
    } else if (threads == 0) {
        int64_t cores = (int64_t)place->n_cores;
        if (m->step->cpus_on_node > 0 && cores > m->step->cpus_on_node) /* a mask that Slurm did not confine */
            cores = m->step->cpus_on_node;
        threads = cores / place->n_sharing;
    }
    snprintf(text, sizeof text, "%lld", (long long)(threads > 0 ? threads : 1));
    if (users)
        check_threads(m, users, n_cpus);
    else if (!leaves_threads(m, place))
        set(m, "OMP_NUM_THREADS", text);
}

/* OMP_PLACES alone would make libgomp bind: it pins the main thread to one core, and each thread that the program
 * starts later inherits that. So only for a user who asked for binding. */
static void make_places(struct maker *m)
{
    const char *bind = get_users(m, "OMP_PROC_BIND");
    if (bind && *bind && strcasecmp(bind, "false") && !get_users(m, "OMP_PLACES"))
        set(m, "OMP_PLACES", "cores");
}

/* A DDP_DEVICE that names no GPU, but what to compute on ("cpu"), contradicts none. */
static bool is_word(const char *users)
{
    int64_t n;
    return users && num_i64(users, INT64_MIN, INT64_MAX, &n) < 0;
}

/* CUDA's own order is "fastest first": its ordinals would name other devices than Slurm's. gloo and TensorPipe, by
 * themselves, tell their peers the address of the host's own name, which may be a loopback address. */
static void make_devices(struct maker *m, const struct environment_place *place)
{
    const struct {
        const char *name, *value;
    } quiet[] = {
        {"CUDA_DEVICE_ORDER", place->has_nvidia ? "PCI_BUS_ID" : NULL},
        {"NCCL_SOCKET_IFNAME", place->nccl_socket_ifname},
        {"NCCL_IB_HCA", place->nccl_ib_hca},
        {"GLOO_SOCKET_IFNAME", place->gloo_socket_ifname},
        {"TP_SOCKET_IFNAME", place->gloo_socket_ifname},
    };
    if (place->device >= 0 && !is_word(get_users(m, "DDP_DEVICE")))
        offer(m, "DDP_DEVICE", place->device, m->step->n_gpus < m->step->local_size ? m->step->n_gpus
                                                                                    : m->step->local_size);
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (quiet[i].value && !get_users(m, quiet[i].name))
            set(m, quiet[i].name, quiet[i].value);
}

/* What the options or the site said for libddp. Where that is the user's own variable, it stays the user's. */
static void make_libddp(struct maker *m, const struct environment_place *place)
{
    static const enum ddp_key keys[] = {KEY_CKPT_PRIVATE, KEY_INTERFACE, KEY_REQUEUE, KEY_TIMEOUT};
    set(m, "DDP_VERSION", PACKAGE_VERSION);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct knob_value *v = &m->o->key[keys[i]];
        const char *name = ddp_keys[keys[i]].env, *users = get_users(m, name);
        const char *text = keys[i] == KEY_REQUEUE && place->is_requeued_by_guards ? "off" : v->text;
        if (v->is_set && (!users || strcmp(users, text)))
            set(m, name, text);
    }
}

/* When the job ends, for programs that are asked to stop before. */
static void make_stop(struct maker *m)
{
    const char *end = get_users(m, STOP_END_VARIABLE);
    if (!end)
        end = get_users(m, "SLURM_JOB_END_TIME");
    if (keys_have_stop(m->o) && end && !get_users(m, "DDP_END_TIME"))
        set(m, "DDP_END_TIME", end);
}

/* TORCHELASTIC_* are torchrun's names. */
static void make_guard(struct maker *m, const struct environment_place *p)
{
    char door[DOOR_NAME_MAX];
    if (p->has_door)
        set(m, DOOR_VARIABLE, door_name(get_users(m, GUARDS_VARIABLE), DOOR_OF_RANK, m->step->rank, door));
    if (m->o->key[KEY_RESTARTS].i == 0)
        return;
    set(m, "DDP_RESTART", "0");
    set(m, "TORCHELASTIC_RESTART_COUNT", "0");
    set(m, "TORCHELASTIC_MAX_RESTARTS", m->o->key[KEY_RESTARTS].text);
}

static void warn_gpus(struct maker *m, const struct environment_place *place)
{
    const struct step *t = m->step;
    if (t->n_unused_gpus > 0)
        warn(m, "each task on %.64s has %d MIG instances, of which CUDA uses the first only: ask for one per task "
             "(--gpus-per-task=1)", t->node_name, t->n_gpus + t->n_unused_gpus);
    if (t->local_size == 1 && t->n_gpus > 1 && place->launcher != LAUNCHER_TORCH)
        warn(m, "one task on %.64s with %d GPUs: data-parallel training wants one per GPU: srun --ntasks-per-node=%d, "
             "or torchrun in the task", t->node_name, t->n_gpus, t->n_gpus);
}

static const char *value_of(const struct maker *m, const char *name)
{
    const char *value = environment_get(m->env, name);
    return value ? value : get_users(m, name);
}

/* torchrun's options, and so accelerate launch's, as torchrun reads them (PyTorch's
 * torch/distributed/argparse_util.py); its own on the command line come first. Where a node has several tasks each of
 * them is a rank. */
static void make_torchrun(struct maker *m)
{
    const struct step *t = m->step;
    const char *addr = value_of(m, "MASTER_ADDR"), *port = value_of(m, "MASTER_PORT");
    bool is_bare_ipv6 = strchr(addr, ':') && addr[0] != '[';
    char text[HOSTLIST_NAME_MAX + 1];
    if (t->size != t->n_nodes)
        return;
    offer(m, "PET_NNODES", t->n_nodes, 1);
    offer(m, "PET_NODE_RANK", t->node, t->n_nodes);
    int n = snprintf(text, sizeof text, is_bare_ipv6 ? "[%s]:%s" : "%s:%s", addr, port);
    if (n < (int)sizeof text && !get_users(m, "PET_RDZV_ENDPOINT"))
        set(m, "PET_RDZV_ENDPOINT", text);
    if (t->n_gpus > 0 && !get_users(m, "PET_NPROC_PER_NODE"))
        offer(m, "PET_NPROC_PER_NODE", t->n_gpus, 1);
}

int environment_make(const struct step *step, const struct keys *o, const struct environment_place *place,
                     const struct port_ephemeral *ephemeral, lookup_f lookup, void *arg, struct environment *ret,
                     ddp_error_t *errp)
{
    struct maker m = {step, o, lookup, arg, ret, errp, false};
    memset(ret, 0, sizeof *ret);
    offer(&m, "RANK", step->rank, step->size);
    offer(&m, "WORLD_SIZE", step->size, 1);
    offer(&m, "LOCAL_RANK", step->local_rank, step->local_size);
    offer(&m, "LOCAL_WORLD_SIZE", step->local_size, 1);
    offer(&m, "NODE_RANK", step->node, step->n_nodes);
    offer(&m, "GROUP_RANK", step->node, step->n_nodes);
    if (make_master_addr(&m) < 0 || make_master_port(&m, ephemeral) < 0)
        return -1;
    make_threads(&m, place);
    make_places(&m);
    make_devices(&m, place);
    make_libddp(&m, place);
    make_stop(&m);
    make_torchrun(&m);
    make_guard(&m, place);
    if (m.is_full)
        return error_set(errp, DDP_E_SYSTEM, E2BIG, "more than %d variables for a task: raise ENVIRONMENT_VARS_MAX",
                         ENVIRONMENT_VARS_MAX);
    environment_list(ret);
    warn_gpus(&m, place);
    return 0;
}
