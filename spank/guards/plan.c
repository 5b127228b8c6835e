/* plan.c - where a task's guard stands in the tree of guards.h. */
#include "spank/guards/guards.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/num.h"
#include "spank/net/lifeline.h"
#include "spank/net/port.h"

#define PORT_TRIES 64

struct find {
    const char *name;
    int n, found;
};

static int find_name(const char *host, void *arg)
{
    struct find *f = arg;
    if (!strcmp(host, f->name))
        f->found = f->n;
    return f->n++, f->found >= 0;
}

/* The name of node `node`, counted from rank 0's, which is `first`; the others keep the list's order. */
static int name_node(const char *list, const char *first, int node, char *ret, ddp_error_t *errp)
{
    struct find f = {.name = first, .found = -1};
    if (hostlist_each(list, find_name, &f, errp) < 0)
        return -1;
    int at = node == 0 ? f.found : node <= f.found ? node - 1 : node;
    return hostlist_nth(list, (size_t)at, ret, errp);
}

static struct guards_ports read_ports(const struct step *s, const struct keys *o, lookup_f lookup, void *arg)
{
    const char *users = lookup("MASTER_PORT", arg);
    struct guards_ports p = {.facts = {.job = s->job, .step = s->step, .restart = s->restart},
                             .range = {(int)o->key[KEY_PORT_MIN].i, (int)o->key[KEY_PORT_MAX].i}};
    port_take_secrets(&p.facts, lookup(PORT_DRAW_VARIABLE, arg), lookup(GUARDS_VARIABLE, arg));
    p.program = o->key[KEY_PORT].is_set ? (int)o->key[KEY_PORT].i : port_derive(&p.facts, p.range);
    if (users)
        num_int(users, 1, 65535, &p.program); /* what is no number stays as it is */
    return p;
}

static bool is_new(const struct guards_ports *p, int port, const int *others, int n)
{
    bool is = port != p->program;
    for (int i = 0; i < n; i++)
        is = is && port != others[i];
    return is;
}

void guards_choose_ports(const struct guards_ports *p, int node, int ret[GUARDS_PORTS])
{
    int n = 0;
    for (int tries = 0; n < GUARDS_PORTS && tries < PORT_TRIES; tries++) {
        int port = port_derive_other(&p->facts, PORT_OF_GUARDS, node, tries, p->range);
        if (is_new(p, port, ret, n))
            ret[n++] = port;
    }
    while (n < GUARDS_PORTS)
        ret[n++] = 0;
}

static int find_node(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    guards_choose_ports(&f->ports, node, ret_port);
    return name_node(f->list, f->first, node, ret_name, NULL);
}

static int wrong(ddp_error_t *errp, const char *format, int a, int b)
{
    return error_set(errp, DDP_E_USAGE, GUARDS_REFUSED_BY_ALL, format, a, b);
}

/* A node can take another's place where each has the same number of tasks, with ranks in a row. */
static int plan_spares(const struct step *s, const struct keys *o, bool is_even, struct guards_facts *ret,
                       ddp_error_t *errp)
{
    int n = s->n_nodes, spares = (int)o->key[KEY_SPARES].i, least = (int)o->key[KEY_MIN_NODES].i;
    ret->is_elastic = keys_are_elastic(o);
    ret->spares = spares;
    ret->min_nodes = least ? least : n - spares;
    if (!ret->is_elastic)
        return 0;
    if (spares >= n)
        return wrong(errp, "spares=%d of %d nodes would leave none for the programs: start the step on more nodes",
                     spares, n);
    if (least > n - spares)
        return wrong(errp, "min_nodes=%d, but without the spares the step has %d nodes only: start it on more", least,
                     n - spares);
    if (!is_even || s->size != n * s->local_size || s->rank != s->node * s->local_size + s->local_rank)
        return error_set(errp, DDP_E_USAGE, is_even ? EINVAL : GUARDS_REFUSED_BY_ALL, "spares and min_nodes need as "
                         "many tasks on each node, with ranks in a row, in one component: srun --ntasks-per-node=N "
                         "--distribution=block");
    return ret->is_whole ? 0 : error_set(errp, DDP_E_USAGE, EINVAL, "spares and min_nodes need srun to start the step, "
                                         "with this plugin");
}

static int plan_stop(const struct keys *o, lookup_f lookup, void *arg, struct guards_facts *ret, ddp_error_t *errp)
{
    const struct knob_value *stop = &o->key[KEY_STOP], *requeue = &o->key[KEY_REQUEUE];
    const char *end = lookup(STOP_END_VARIABLE, arg);
    if (stop->is_set && stop_key_parse(stop->text, stop->source, &ret->stop, errp) < 0)
        return -1;
    ret->stop_code = (int)o->key[KEY_STOP_CODE].i;
    ret->requeues = ret->is_whole && requeue->is_set && !strcmp(requeue->text, "auto");
    ret->saves = ret->requeues || (ret->is_whole && ret->stop.signal);
    if (!end)
        end = lookup("SLURM_JOB_END_TIME", arg); /* from Slurm 23.02 on */
    if (!end || num_i64(end, 1, INT64_MAX, &ret->end_s) < 0)
        ret->end_s = 0;
    return 0;
}

static void plan_srun(const struct step *s, lookup_f lookup, void *arg, struct guards_facts *ret)
{
    const char *job = lookup("SLURM_JOB_ID", arg), *step = lookup("SLURM_STEP_ID", arg);
    const char *srun = lookup("SLURM_SRUN_COMM_HOST", arg), *port = lookup(LIFELINE_VARIABLE, arg);
    if (job && step)
        snprintf(ret->step, sizeof ret->step, "%.11s.%.11s", job, step);
    if (!srun)
        srun = lookup("SLURM_LAUNCH_NODE_IPADDR", arg); /* as in gather/send.c */
    if (s->local_rank == 0 && (ret->node == 0 || ret->is_elastic) && srun && port) {
        snprintf(ret->srun_host, sizeof ret->srun_host, "%s", srun);
        snprintf(ret->srun_port, sizeof ret->srun_port, "%s", port);
    }
}

int guards_plan(const struct step *s, const struct keys *o, int n_own_nodes, lookup_f lookup, void *arg,
                struct guards_facts *ret, ddp_error_t *errp)
{
    const char *token = lookup(GUARDS_VARIABLE, arg), *list = lookup("SLURM_STEP_NODELIST", arg);
    const char *kill = lookup("SLURM_KILL_BAD_EXIT", arg);
    bool is_one = n_own_nodes == 0 || n_own_nodes == s->n_nodes, has_all = s->in_list >= 0;
    *ret = (struct guards_facts){.rank = s->rank, .size = s->size, .local_rank = s->local_rank,
                                 .local_size = s->local_size, .node = has_all ? s->in_list : s->node,
                                 .n_nodes = has_all ? s->n_nodes : 1,
                                 .restarts = (int)o->key[KEY_RESTARTS].i, .join_s = GUARDS_JOIN_S,
                                 .stuck_s = GUARDS_STUCK_S, .wake_s = GUARDS_WAKE_S, .idle_s = GUARDS_IDLE_S,
                                 .silent_s = (int)o->key[KEY_GUARD_SILENT].i};
    if (ret->restarts > 0 && !has_all)
        return error_set(errp, DDP_E_USAGE, EINVAL, "restarts: not in a step whose list of nodes does not have all of "
                         "them (SLURM_STEP_NODELIST)");
    bool is_kept = kill && strcmp(kill, "0") == 0, is_elastic = keys_are_elastic(o);
    ret->ends_step = !is_kept || is_elastic;
    ret->heed_s = is_kept || is_elastic ? 0 : GUARDS_HEED_S;
    ret->ports = read_ports(s, o, lookup, arg);
    int n_ports = ret->ports.range.max - ret->ports.range.min + 1;
    if (ret->n_nodes > 1 && n_ports < PORT_LEAST_OF_GUARDS && (ret->restarts > 0 || keys_have_stop(o)))
        return wrong(errp, "stop and restarts need %d ports between nodes, and port_min to port_max has %d: leave them "
                     "out, or ask your site for more", PORT_LEAST_OF_GUARDS, n_ports);
    ret->find = find_node;
    ret->list = list;
    snprintf(ret->first, sizeof ret->first, "%s", s->master);
    snprintf(ret->name, sizeof ret->name, "%s", s->node_name);
    if (token && strlen(token) == GUARDS_TOKEN_LEN)
        strcpy(ret->token, token);
    ret->is_whole = has_all && *ret->token;
    bool is_even = is_one && !lookup(UNEVEN_VARIABLE, arg);
    if (plan_stop(o, lookup, arg, ret, errp) < 0 || plan_spares(s, o, is_even, ret, errp) < 0)
        return -1;
    plan_srun(s, lookup, arg, ret);
    guards_choose_ports(&ret->ports, ret->node, ret->port);
    if (ret->node == 0 || !has_all || !list)
        return 0;
    int above = (ret->node - 1) / GUARDS_FAN;
    guards_choose_ports(&ret->ports, above, ret->port_above);
    return name_node(list, s->master, above, ret->above, errp);
}
