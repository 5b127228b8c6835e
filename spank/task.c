#include "config.h"
#include "spank/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/plain.h"
#include "spank/affinity.h"
#include "spank/arrange.h"
#include "spank/gather/gather.h"
#include "spank/keys/site.h"
#include "spank/nccl.h"
#include "spank/net/listen.h"
#include "spank/watchdog.h"
#include "topology/cache.h"

#define WAITS_S 4.0   /* of all waits together */
#define ALL_S 5.0     /* of everything */
#define CROWD 50      /* both have a second more for each so many tasks to a CPU, which start one after another, */
#define CROWD_S 20    /* up to this */
#define RESOLVE_S 3.0 /* for the resolver; without an answer NCCL chooses by itself */

struct task {
    const struct task_request *r;
    double all_s;      /* of everything */
    uint64_t deadline; /* of waits */
    struct keys o;
    struct step step;
    struct arrangement a;
    struct cpus mask;    /* the process's own, as it is now */
    struct board *board; /* NULL: the node's ranks do not meet */
    char interface[NCCL_INTERFACE_TEXT + 1]; /* "=eth0", towards the step's other nodes; "": not known, or none */
};

/* In place of what the node's own file says. text: of SRUN_KEYS_VARIABLE. */
static int take_from_srun(const char *text, struct keys *site, ddp_error_t *errp)
{
    struct keys step;
    if (keys_parse_srun(text, &step, errp) < 0)
        return -1;
    size_t n = KEYS_OF_STEP - (step.key[KEY_PORT_MIN].is_set ? 0 : KEYS_OF_PORTS);
    for (size_t i = 0; i < n; i++)
        site->key[keys_of_step[i]] = step.key[keys_of_step[i]];
    return 0;
}

int task_options(const struct task_request *r, struct keys *ret, bool *ret_site_missing, ddp_error_t *errp)
{
    struct keys site = {.mode = DDP_MODE_UNSET};
    bool is_missing = false;
    const char *srun = r->lookup(SRUN_KEYS_VARIABLE, r->arg);
    if (keys_asked(r->option, r->lookup, r->arg, ret, errp) < 0)
        return -1;
    /* A step without ddp is not to suffer from a broken site file. */
    if (ret->mode == DDP_MODE_ON && r->site_file && site_load(r->site_file, &site, &is_missing, errp) < 0)
        return -1;
    if (ret->mode == DDP_MODE_ON && srun && take_from_srun(srun, &site, errp) < 0)
        return -1;
    if (keys_resolve(r->option, r->lookup, r->arg, &site, ret, errp) < 0)
        return -1;
    if (ret->mode == DDP_MODE_ON && !ret->key[KEY_ENABLED].b)
        return error_set(errp, DDP_E_USAGE, EPERM, "%.120s has \"enabled\": false: say --ddp=off, or ask your site",
                         r->site_file);
    if (ret_site_missing)
        *ret_site_missing = is_missing;
    return 0;
}

/* What a file of the kernel's says, as far as there is room: "" where it is not there. */
static void read_kernel(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    io_close(fd);
    ret[n > 0 ? n : 0] = 0;
}

/* reserved: room for the list, of which ret borrows. */
static struct port_ephemeral read_ephemeral(char *reserved, size_t size)
{
    char text[64];
    struct port_ephemeral e = {.reserved = reserved};
    read_kernel("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof text);
    port_ephemeral_parse(text, &e.range);
    read_kernel("/proc/sys/net/ipv4/ip_local_reserved_ports", reserved, size);
    return e;
}

static int load_cores(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)arg;
    return inventory_load_cached(CACHE_FOLDER, false, deadline, ret, errp);
}

static int load_all(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)arg;
    return inventory_load_cached(CACHE_FOLDER, true, deadline, ret, errp);
}

static int load_record(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    return inventory_load_until(arg, true, deadline, ret, errp);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One line for the user. */
static void say(const struct task *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct task *t, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    t->r->log(line);
}

static const char *get(const struct task *t, const char *name)
{
    return t->r->lookup(name, t->r->arg);
}

static int arrange_task(struct task *t, ddp_error_t *errp)
{
    const struct task_request *r = t->r;
    struct arrange_facts f = {.step = &t->step, .keys = &t->o, .is_bound_by_user = r->is_bound_by_user,
                              .board = t->board, .deadline = t->deadline, .load = {load_cores, load_all},
                              .load_record = load_record};
    if (affinity_get(&f.mask, errp) < 0 || arrange(&f, &t->a, errp) < 0)
        return -1;
    t->mask = f.mask;
    if (t->a.warning[0] && (t->step.local_rank == 0 || t->a.is_alone))
        say(t, "ddp: warning: rank %d on %.64s: %s", t->step.rank, t->step.node_name, t->a.warning);
    return 0;
}

/* Leaves in t->mask what the kernel made of it. */
static int apply(struct task *t, ddp_error_t *errp)
{
    char want[128], got[128];
    const struct place *p = t->a.mine;
    if (t->a.is_trial)
        return 0;
    if (!cpus_equal(&p->cpus, &t->mask)) {
        if (affinity_set(&p->cpus, &t->mask, errp) < 0)
            return -1;
        if (!cpus_equal(&p->cpus, &t->mask))
            say(t, "ddp: warning: rank %d on %.64s runs on CPUs %s, not on %s: the system does not let it",
                t->step.rank, t->step.node_name, cpus_format(&t->mask, got, sizeof got),
                cpus_format(&p->cpus, want, sizeof want));
    }
    if (t->a.inventory && t->a.inventory->n_numas > 1 && p->numa >= 0 && !t->r->is_memory_users)
        affinity_prefer_memory(t->a.inventory->numa[p->numa].os_index);
    return 0;
}

/* Which of the task's GPUs are NVIDIA's: the inventory knows, else the variable's name says. */
static bool has_nvidia(const struct task *t)
{
    const struct arrangement *a = &t->a;
    const char *cuda = get(t, "CUDA_VISIBLE_DEVICES");
    bool is_found = false;
    if (a->mine->device < 0 || !cuda || !*cuda)
        return false;
    const struct placement_rank *own = &a->request.rank[t->step.local_rank];
    for (int i = 0; a->inventory && !a->is_recorded && i < own->n_devices; i++) {
        is_found |= own->device[i] >= 0;
        if (own->device[i] >= 0 && a->inventory->gpu[own->device[i]].vendor == VENDOR_NVIDIA)
            return true;
    }
    return !is_found;
}

static int find_route(void *arg, uint64_t deadline, char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp)
{
    const struct task *t = arg;
    const char *users = get(t, "MASTER_ADDR"), *list = t->step.node == 0 ? get(t, "SLURM_STEP_NODELIST") : NULL;
    const char *master = users && *users ? users : t->step.master;
    return nccl_step_interface(master, list, t->step.node_name, deadline, buf, errp);
}

/* The first of the node's ranks looks while the others start. */
static void find_interface(struct task *t)
{
    uint64_t deadline = earlier(deadline_in(RESOLVE_S), t->deadline);
    char own[NCCL_INTERFACE_TEXT];
    const char *found = own;
    if (t->step.n_nodes < 2)
        return;
    if (t->board)
        found = board_interface(t->board, find_route, t, deadline, NULL);
    else if (find_route(t, deadline, own, NULL) < 0)
        found = NULL;
    if (found)
        snprintf(t->interface, sizeof t->interface, "=%s", found);
}

/* What NCCL should hear about one of its variables: the site's word, else what was found; never over what the user or a
 * nccl.conf says. */
static const char *find_nccl(const struct task *t, const char *name, enum ddp_key key, const char *found)
{
    const struct knob_value *site = &t->o.key[key];
    if (nccl_is_configured(name, t->r->lookup, t->r->arg))
        return NULL;
    return site->is_set ? site->text : found;
}

/* What gloo and TensorPipe should hear: one name. What the site says for NCCL may be such a one, or more than that. */
static const char *find_gloo(const struct task *t, const char *found)
{
    const struct knob_value *site = &t->o.key[KEY_NCCL_SOCKET_IFNAME];
    if (site->is_set && site->text[0] == '=' && site->text[1] && !strchr(site->text, ','))
        found = site->text;
    return found ? found + 1 : NULL;
}

/* guard: NULL without one. */
static int make_environment(struct task *t, const struct guards_facts *guard, struct environment *ret,
                            ddp_error_t *errp)
{
    const struct arrangement *a = &t->a;
    const char *interface = t->interface[0] ? t->interface : NULL;
    bool is_ours = a->inventory && !a->is_trial;
    struct environment_place p = {
        .n_cpus = cpus_count(&t->mask),
        .n_cores = is_ours ? inventory_count_cores(a->inventory, &t->mask) : affinity_count_cores(&t->mask),
        .n_sharing = is_ours ? a->mine->n_sharing : a->n_same_mask,
        .n_same = a->n_same,
        .device = t->step.n_gpus > 0 ? a->mine->device : -1,
        .gloo_socket_ifname = find_gloo(t, interface),
        .launcher = t->r->launcher,
        .has_door = guard && guard->is_whole,
        .is_requeued_by_guards = guard && guard->requeues,
    };
    if (p.device >= 0) {
        p.has_nvidia = has_nvidia(t);
        p.nccl_socket_ifname = find_nccl(t, "NCCL_SOCKET_IFNAME", KEY_NCCL_SOCKET_IFNAME, interface);
        p.nccl_ib_hca = find_nccl(t, "NCCL_IB_HCA", KEY_NCCL_IB_HCA, NULL);
    }
    char reserved[4096];
    struct port_ephemeral e = read_ephemeral(reserved, sizeof reserved);
    return environment_make(&t->step, &t->o, &p, &e, t->r->lookup, t->r->arg, ret, errp);
}

/* Who is to listen there would only say "address already in use", if that; its peers may meet somebody else. */
static void check_port(const struct task *t, int port)
{
    const char *cure = t->o.key[KEY_PORT].is_set ? "take another port=" : "start the step again, with another port";
    if (t->step.rank == 0 && port && listen_is_taken(port))
        say(t, "ddp: warning: MASTER_PORT=%d is taken on %.64s, so that no program of this step can listen there: %s",
            port, t->step.node_name, cure);
}

/* One line for this rank. */
static void log_place(const struct task *t)
{
    char list[128], device[32] = "";
    const struct step *s = &t->step;
    const struct place *p = t->a.mine;
    if (p->device >= 0)
        snprintf(device, sizeof device, ", device %d", p->device);
    say(t, "ddp: rank %d of %d on %.64s (node %d of %d), local rank %d of %d, CPUs %s%s (%s)", s->rank, s->size,
        s->node_name, s->node, s->n_nodes, s->local_rank, s->local_size, cpus_format(&p->cpus, list, sizeof list),
        device, placement_why(&t->a.request, p));
}

static const char *trial_note(const struct task *t)
{
    if (!t->a.is_trial)
        return "";
    return t->a.is_recorded ? "note: a record of another machine (topo): nothing is bound\n"
                            : "note: bind=print: nothing is bound\n";
}

/* The caller frees it; NULL: memory is short. */
static char *make_table(const struct task *t, const struct show *s)
{
    char *table = show_table(s), *text = NULL;
    const char *first =
        t->step.begins_here ? "note: the step's rank 0 is on this node, from which nodes are counted\n" : "";
    if (table && asprintf(&text, "%s%s%s", table, first, trial_note(t)) < 0)
        text = NULL;
    free(table);
    return text;
}

/* Local rank 0 hands the table to srun, which prints it once for all nodes that look alike; the node's other ranks wait
 * for that, so that no program speaks before it. Ranks that decided alone, or without an inventory, each speak for
 * themselves. */
static void log_placement(const struct task *t)
{
    struct show s;
    struct gather_request g = {t->r->lookup, t->r->arg, t->step.node_name, t->deadline, t->r->log, t->r->note};
    bool has_table = !t->a.is_alone && arrange_show(&t->a, &s), is_first = t->step.local_rank == 0;
    char *table = has_table && is_first ? make_table(t, &s) : NULL;
    if (!has_table)
        log_place(t);
    if (is_first)
        gather_send(&g, table ? table : "");
    if (t->board && is_first)
        board_shown(t->board);
    else if (t->board && has_table)
        board_wait_shown(t->board, t->deadline);
    free(table);
}

/* The key's value is the user's own, not the site's, which srun hands on, or the table's. */
static bool is_users(const struct knob_value *v)
{
    return v->is_set && strcmp(v->source, DEFAULT_SOURCE) && strcmp(v->source, SITE_SOURCE) &&
           strcmp(v->source, SRUN_KEYS_VARIABLE);
}

/* Of what the user asked for and a step without guards has not. */
static void warn_of_terminal(const struct task *t)
{
    bool has_stop = keys_have_stop(&t->o) && is_users(&t->o.key[KEY_STOP]);
    if (t->step.rank == 0 && t->o.key[KEY_GUARD].b && (has_stop || is_users(&t->o.key[KEY_GUARD])))
        say(t, "ddp: warning: %s: not in a step with a terminal of its own (srun --pty), which has no guards",
            has_stop ? "stop" : "guard");
}

/* Not with a terminal of the step's own (srun --pty): its keys send signals to guard and program alike. */
static int plan_guard(const struct task *t, struct task_result *ret, ddp_error_t *errp)
{
    const struct task_request *r = t->r;
    ret->is_guarded = t->o.key[KEY_GUARD].b && !get(t, "SLURM_PTY_PORT");
    if (!ret->is_guarded && t->o.key[KEY_RESTARTS].i > 0)
        return error_set(errp, DDP_E_USAGE, GUARDS_REFUSED_BY_ALL, "restarts: not with a terminal of the step's own "
                         "(srun --pty): say restarts=0, or leave out --pty");
    if (!ret->is_guarded) {
        warn_of_terminal(t);
        return 0;
    }
    return guards_plan(&t->step, &t->o, r->n_own_nodes, r->lookup, r->arg, &ret->guard, errp);
}

static int place_task(struct task *t, struct task_result *ret, ddp_error_t *errp)
{
    struct environment *e = &ret->environment;
    find_interface(t);
    if (arrange_task(t, errp) < 0 || apply(t, errp) < 0 || plan_guard(t, ret, errp) < 0 ||
        make_environment(t, ret->is_guarded ? &ret->guard : NULL, e, errp) < 0)
        return -1;
    for (size_t i = 0; i < e->n_warnings; i++)
        say(t, "ddp: warning: %s", e->warning[i]);
    check_port(t, e->master_port);
    if (t->o.key[KEY_VERBOSE].b)
        log_placement(t);
    return 0;
}

/* What watches over the rest of task_prepare. */
static int start_watchdog(const struct task *t, struct watchdog *ret, ddp_error_t *errp)
{
    char line[256];
    const char *node = get(t, "SLURMD_NODENAME");
    snprintf(line, sizeof line, "ddp: %.64s: this task was not ready for its program after %g s and was ended: tell "
             "your site (srun --ddp=off runs it without the plugin)\n", node ? node : "this node", t->all_s);
    plain_lines(line);
    return watchdog_start(ret, t->all_s, line, errp);
}

static int crowd_s(const struct task_request *r)
{
    int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), held;
    if (num_int(r->lookup("SLURM_CPUS_ON_NODE", r->arg), 1, n_cpus, &held) == 0)
        n_cpus = held;
    int more = r->n_local_tasks / (n_cpus > 0 ? n_cpus : 1) / CROWD;
    return more < CROWD_S ? more : CROWD_S;
}

int task_prepare(const struct task_request *r, struct task_result *ret, ddp_error_t *errp)
{
    bool is_site_missing = false;
    int more = crowd_s(r);
    struct task t = {.r = r, .all_s = ALL_S + more, .deadline = deadline_in(WAITS_S + more)};
    struct watchdog dog;
    ret->environment.n_vars = ret->environment.n_warnings = 0;
    ret->is_guarded = false;
    if (keys_asked(r->option, r->lookup, r->arg, &t.o, errp) < 0)
        return -1;
    if (t.o.mode != DDP_MODE_ON) /* which no site file changes */
        return 0;
    if (start_watchdog(&t, &dog, errp) < 0 || task_options(r, &t.o, &is_site_missing, errp) < 0 ||
        step_read(r->lookup, r->arg, r->n_own_nodes, &t.step, errp) < 0)
        return -1;
    t.board = r->board && board_size(r->board) == t.step.local_size ? r->board : NULL;
    int rc = place_task(&t, ret, errp);
    arrange_destroy(&t.a);
    if (rc == 0 && is_site_missing && t.step.local_rank == 0) {
        char line[384];
        snprintf(line, sizeof line, "ddp: this node has no site file %.200s: the built-in defaults hold", r->site_file);
        r->note(line);
    }
    if (rc == 0)
        watchdog_stop(&dog);
    return rc;
}
