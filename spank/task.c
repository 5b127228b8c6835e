#include "config.h"
#include "spank/task.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "spank/binding.h"
#include "spank/site.h"
#include "topology/cores.h"

int task_options(const struct task_request *r, struct options *ret, bool *ret_site_missing, ddp_error_t *errp)
{
    struct options site = {.mode = DDP_MODE_UNSET};
    bool is_missing = false;
    /* A step without ddp is not to suffer from a broken site file. */
    if (options_resolve(r->option, r->lookup, r->arg, NULL, ret, errp) < 0)
        return -1;
    if (ret->mode == DDP_MODE_ON && r->site_file) {
        if (site_load(r->site_file, &site, &is_missing, errp) < 0 ||
            options_resolve(r->option, r->lookup, r->arg, &site, ret, errp) < 0)
            return -1;
    }
    if (ret->mode == DDP_MODE_ON && !ret->key[KEY_ENABLED].b)
        return error_set(errp, DDP_E_USAGE, EPERM, "%.120s has \"enabled\": false: leave --ddp out, or ask your site",
                         r->site_file);
    if (ret_site_missing)
        *ret_site_missing = is_missing;
    return 0;
}

static struct port_range read_ephemeral(void)
{
    char text[64] = "";
    struct port_range r = {0, 0};
    int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    io_close(fd);
    if (n > 0)
        port_ephemeral_parse(text, &r);
    return r;
}

static int get_mask(struct cpus *ret, ddp_error_t *errp)
{
    memset(ret, 0, sizeof *ret);
    if (sched_getaffinity(0, sizeof *ret, (cpu_set_t *)ret) < 0)
        return error_errno(errp, "cannot read the task's CPU mask");
    return 0;
}

static int bind_task(const struct task_request *r, const struct step *step, const struct options *o,
                     struct binding *ret, struct environment_cpus *ret_cpus, ddp_error_t *errp)
{
    struct cpus mask;
    struct cores *cores = cores_load(errp);
    if (!cores)
        return -1;
    int rc = get_mask(&mask, errp);
    if (rc == 0) {
        struct binding_facts f = {o->key[KEY_BIND].choice == BIND_AUTO, r->is_bound_by_user,
                                  r->lookup("SLURM_CPU_BIND_LIST", r->arg), step->local_rank, step->local_size,
                                  step->cpus_on_node, &mask};
        *ret = binding_choose(&f, cores);
        if (ret->is_changed && sched_setaffinity(0, sizeof ret->cpus, (const cpu_set_t *)&ret->cpus) < 0)
            rc = error_errno(errp, "cannot bind rank %d", step->rank);
        *ret_cpus = (struct environment_cpus){cpus_count(&ret->cpus), binding_cores(cores, &ret->cpus), ret->n_sharing};
    }
    cores_destroy(cores);
    return rc;
}

static void log_placement(const struct task_request *r, const struct step *t, const struct binding *b)
{
    char line[384], list[128];
    snprintf(line, sizeof line, "ddp: rank %d of %d on %.64s (node %d of %d), local rank %d of %d, CPUs %s (%s)", t->rank,
             t->size, t->node_name, t->node, t->n_nodes, t->local_rank, t->local_size,
             cpus_format(&b->cpus, list, sizeof list), b->why);
    r->log(line);
}

int task_prepare(const struct task_request *r, struct environment *ret, ddp_error_t *errp)
{
    struct options o;
    struct step step;
    struct binding binding;
    struct environment_cpus cpus;
    bool is_site_missing = false;
    ret->n_vars = ret->n_warnings = 0;
    if (task_options(r, &o, &is_site_missing, errp) < 0)
        return -1;
    if (o.mode != DDP_MODE_ON)
        return 0;
    if (step_read(r->lookup, r->arg, &step, errp) < 0 || bind_task(r, &step, &o, &binding, &cpus, errp) < 0 ||
        environment_make(&step, &o, &cpus, read_ephemeral(), r->lookup, r->arg, ret, errp) < 0)
        return -1;
    for (size_t i = 0; i < ret->n_warnings; i++) {
        char line[sizeof ret->warning[0] + 16];
        snprintf(line, sizeof line, "ddp: warning: %s", ret->warning[i]);
        r->log(line);
    }
    if (is_site_missing && step.local_rank == 0) {
        char line[384];
        snprintf(line, sizeof line, "ddp: this node has no site file %.200s: the built-in defaults hold", r->site_file);
        r->note(line);
    }
    if (o.key[KEY_VERBOSE].b)
        log_placement(r, &step, &binding);
    return 0;
}
