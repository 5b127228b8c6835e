#include "spank/step/step.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"

#define TASKS_MAX (1 << 24)
#define HET_GROUPS_MAX 128

struct source {
    lookup_f lookup;
    void *arg;
    ddp_error_t *errp;
};

static const char *get(const struct source *s, const char *name)
{
    return s->lookup(name, s->arg);
}

static int wrong(const struct source *s, const char *name, const char *value)
{
    return error_set(s->errp, DDP_E_BOOT, EINVAL, "Slurm set %s to %s%.64s: cannot tell this task's rank", name,
                     value ? "" : "nothing", value ? value : "");
}

/* A number that must be there, in [min, max]. */
static int need(const struct source *s, const char *name, int min, int max, int *ret)
{
    const char *v = get(s, name);
    return num_int(v, min, max, ret) < 0 ? wrong(s, name, v) : 0;
}

static int number_or(const struct source *s, const char *name, int fallback)
{
    int v;
    return num_int(get(s, name), 0, TASKS_MAX, &v) < 0 ? fallback : v;
}

static int need_id(const struct source *s, const char *name, uint32_t *ret)
{
    uint64_t v;
    const char *text = get(s, name);
    if (num_u64(text, UINT32_MAX, &v) < 0)
        return wrong(s, name, text);
    *ret = (uint32_t)v;
    return 0;
}

int step_tasks_on(const char *tasks_per_node, int index, int *ret, ddp_error_t *errp)
{
    int at = 0;
    for (const char *p = tasks_per_node; *p;) {
        char *end;
        errno = 0;
        long tasks = strtol(p, &end, 10), times = 1;
        if (end == p || *p == '-' || *p == '+')
            break;
        if (end[0] == '(' && end[1] == 'x') {
            p = end + 2;
            times = strtol(p, &end, 10);
            if (end == p || *end != ')')
                break;
            end++;
        }
        if (errno || (*end && *end != ',') || tasks < 0 || tasks > TASKS_MAX || times < 1 || times > TASKS_MAX)
            break;
        if (index < at + times) {
            *ret = (int)tasks;
            return 0;
        }
        at += (int)times;
        p = *end ? end + 1 : end;
    }
    return error_set(errp, DDP_E_DATA, EINVAL, "the list of tasks per node, \"%.64s\", has no node %d", tasks_per_node,
                     index);
}

struct search {
    const char *host; /* looked for */
    int at;
};

static int is_host(const char *host, void *arg)
{
    struct search *s = arg;
    return strcmp(host, s->host) ? (s->at++, 0) : 1;
}

/* Position of host in the list; -1: not there, or not a list. */
static int index_of(const char *list, const char *host)
{
    struct search s = {.host = host};
    return hostlist_each(list, is_host, &s, NULL) == 1 ? s.at : -1;
}

/* The step's nodes by name. */
struct names {
    size_t n;
    char (*name)[HOSTLIST_NAME_MAX + 1];
};

static int add_name(const char *host, void *arg)
{
    struct names *names = arg;
    strcpy(names->name[names->n++], host);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int sort_names(const char *list, struct names *ret, ddp_error_t *errp)
{
    size_t n;
    ret->n = 0;
    if (hostlist_count(list, &n, errp) < 0)
        return -1;
    ret->name = calloc(n, sizeof *ret->name);
    if (!ret->name)
        return error_errno(errp, "no memory for the names of %zu nodes", n);
    hostlist_each(list, add_name, ret, NULL);
    qsort(ret->name, ret->n, sizeof *ret->name, compare_names);
    return 0;
}

struct first_in {
    const struct names *names;
    size_t *left; /* how many names may still be looked up */
    char *ret;
};

static int first_in(const char *host, void *arg)
{
    struct first_in *f = arg;
    if ((*f->left)-- == 0)
        return 2;
    if (!bsearch(host, f->names->name, f->names->n, sizeof *f->names->name, compare_names))
        return 0;
    strcpy(f->ret, host);
    return 1;
}

/* The first node of the step in the first component that has any. 1: found; 0: none. */
static int find_first(const struct source *s, int groups, const struct names *names, char *ret)
{
    size_t left = HOSTLIST_HOSTS_MAX;
    for (int g = 0; g < groups && g < HET_GROUPS_MAX; g++) {
        char name[48];
        struct first_in f = {names, &left, ret};
        snprintf(name, sizeof name, "SLURM_JOB_NODELIST_HET_GROUP_%d", g);
        const char *group = get(s, name);
        if (!group) { /* `srun A : B` outside a job sets only the old name */
            snprintf(name, sizeof name, "SLURM_JOB_NODELIST_PACK_GROUP_%d", g);
            group = get(s, name);
        }
        int rc = group ? hostlist_each(group, first_in, &f, NULL) : 0;
        if (rc > 0)
            return rc == 1;
    }
    return 0;
}

/* As srun has heard; else the first node of the step that belongs to the first component which has any. */
static int read_master(const struct source *s, const char *list, bool is_het, char *ret)
{
    struct names names;
    const char *told = is_het ? NULL : get(s, FIRST_NODE_VARIABLE);
    if (told && index_of(list, told) >= 0) {
        strcpy(ret, told);
        return 0;
    }
    int groups = is_het ? number_or(s, "SLURM_HET_SIZE", 1) : 1, found = 0;
    if (groups > 1) {
        if (sort_names(list, &names, s->errp) < 0)
            return -1;
        found = find_first(s, groups, &names, ret);
        free(names.name);
    }
    return found ? 0 : hostlist_nth(list, 0, ret, s->errp);
}

/* What was number `node` is, where `first` comes before all. */
static int renumber(int node, int first)
{
    return node == first ? 0 : node < first ? node + 1 : node;
}

static int read_nodes(const struct source *s, bool is_het, struct step *t)
{
    const char *list = get(s, "SLURM_STEP_NODELIST"), *tasks = get(s, "SLURM_STEP_TASKS_PER_NODE");
    const char *name = get(s, "SLURMD_NODENAME");
    if (!list || !tasks || !name || !*name || strlen(name) > HOSTLIST_NAME_MAX)
        return wrong(s, !list ? "SLURM_STEP_NODELIST" : !tasks ? "SLURM_STEP_TASKS_PER_NODE" : "SLURMD_NODENAME", NULL);
    strcpy(t->node_name, name);
    if (read_master(s, list, is_het, t->master) < 0)
        return -1;
    int at = index_of(list, name), first = index_of(list, t->master);
    size_t n = 0;
    if (at < 0)
        return error_set(s->errp, DDP_E_DATA, EINVAL, "node %.64s is not in the step's node list %.80s", name, list);
    hostlist_count(list, &n, NULL);
    t->begins_here = !is_het && t->node == first && first > 0;
    t->node = is_het ? t->node : renumber(t->node, first); /* the list's order is not SLURM_NODEID's */
    t->in_list = n == (size_t)t->n_nodes ? renumber(at, first) : -1;
    if (step_tasks_on(tasks, at, &t->local_size, s->errp) < 0)
        return -1;
    return t->local_rank < t->local_size ? 0 : wrong(s, "SLURM_STEP_TASKS_PER_NODE", tasks);
}

int step_read(lookup_f lookup, void *arg, int n_own_nodes, struct step *ret, ddp_error_t *errp)
{
    const struct source s = {lookup, arg, errp};
    struct step t = {0};
    struct devices gpus;
    if (need(&s, "SLURM_STEP_NUM_TASKS", 1, TASKS_MAX, &t.size) < 0 ||
        need(&s, "SLURM_PROCID", 0, t.size - 1, &t.rank) < 0 ||
        need(&s, "SLURM_LOCALID", 0, t.size - 1, &t.local_rank) < 0 ||
        need(&s, "SLURM_STEP_NUM_NODES", 1, TASKS_MAX, &t.n_nodes) < 0 ||
        need(&s, "SLURM_NODEID", 0, t.n_nodes - 1, &t.node) < 0 ||
        need_id(&s, "SLURM_JOB_ID", &t.job) < 0 || need_id(&s, "SLURM_STEP_ID", &t.step) < 0 ||
        read_nodes(&s, n_own_nodes > 0 && n_own_nodes < t.n_nodes, &t) < 0)
        return -1;
    t.restart = (uint32_t)number_or(&s, "SLURM_RESTART_COUNT", 0);
    t.cpus_on_node = number_or(&s, "SLURM_CPUS_ON_NODE", 0);
    t.cpus_per_task = number_or(&s, "SLURM_CPUS_PER_TASK", 0);
    t.gpus = (struct devices_facts){get(&s, "CUDA_VISIBLE_DEVICES"), get(&s, "ROCR_VISIBLE_DEVICES"),
                                    get(&s, "SLURM_STEP_GPUS")};
    if (devices_list(NULL, &t.gpus, &gpus, NULL) == 0) {
        t.n_gpus = gpus.n;
        t.n_unused_gpus = gpus.n_unused;
    }
    *ret = t;
    return 0;
}
