#include "config.h"
#include "spank/prepare.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/io.h"
#include "runtime/base/namespace.h"
#include "runtime/base/secret.h"
#include "runtime/sched/requeue.h"
#include "spank/cmdline.h"
#include "spank/environment.h"
#include "spank/gather/gather.h"
#include "spank/guards/guards.h"
#include "spank/hiding.h"
#include "spank/keys/stop_key.h"
#include "spank/mpi.h"
#include "spank/net/lifeline.h"
#include "spank/task.h"

#define CMDLINE_MAX 65536 /* srun's own options come first on its command line */

static bool is_async; /* srun ends once it has started the step */

const char *prepare_lookup(const char *name, void *arg)
{
    (void)arg;
    return getenv(name);
}

static void drop(const char *name, void *arg)
{
    (void)arg;
    unsetenv(name);
}

/* PMIX_MCA_*, the library's own settings, are the user's. */
static bool is_pmix(const char *variable)
{
    return begins(variable, "PMIX_") && !begins(variable, "PMIX_MCA_");
}

/* What Slurm's PMIx and PMI plugins told the enclosing task: a program of another step that believed it would be one of
 * that step's ranks, or a job of its own. */
static void forget_ranks(void)
{
    static const char *const pmi[] = {"PMI_FD", "PMI_JOBID", "PMI_RANK", "PMI_SIZE"};
    const char *nspace = getenv("PMIX_NAMESPACE");
    bool is_slurms = nspace && namespace_is_slurms(nspace); /* else mpirun's */
    for (size_t i = 0; i < sizeof pmi / sizeof *pmi; i++)
        unsetenv(pmi[i]);
    for (char **e = environ; is_slurms && *e;) {
        char name[128];
        size_t n = strcspn(*e, "=");
        snprintf(name, sizeof name, "%.*s", (int)n, *e);
        if (n < sizeof name && is_pmix(name))
            unsetenv(name); /* what follows moves up */
        else
            e++;
    }
}

void prepare_forget(void)
{
    static const char *const lists[] = {"DDP_SET", SRUN_SET_VARIABLE};
    if (getenv("DDP_SET"))
        forget_ranks();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        environment_forget(getenv(lists[i]), prepare_lookup, NULL, drop);
        unsetenv(lists[i]);
    }
    unsetenv("SLURM_STEP_RESV_PORTS"); /* srun sets it only where it has reserved some */
    unsetenv("SLURM_PTY_PORT"); /* srun has yet to set its own, by which plan_guard knows --pty */
    unsetenv(SRUN_KEYS_VARIABLE);
    unsetenv(GATHER_VARIABLE);
    unsetenv(PORT_DRAW_VARIABLE);
    unsetenv(SECRET_VARIABLE);
    unsetenv(FIRST_NODE_VARIABLE);
    unsetenv(UNEVEN_VARIABLE);
    unsetenv(GUARDS_VARIABLE);
    unsetenv(LIFELINE_VARIABLE);
    unsetenv(STOP_END_VARIABLE);
    unsetenv(REQUEUE_OPTION_VARIABLE);
}

/* --ddp of this srun: its flag, else what sbatch or salloc left in the job's environment. */
static const char *find_option(const char *flag)
{
    static const char *const names[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_ddp_ddp", "_SLURM_SPANK_OPTION_ddp_ddp"};
    for (size_t i = 0; !flag && i < sizeof names / sizeof *names; i++)
        flag = getenv(names[i]);
    return flag;
}

static const char *choose_mpi(int choice, const struct prepare_facts *f, const struct cmdline *c)
{
    char folder[PATH_MAX] = "", text[400];
    bool is_broken;
    const char *theirs = c->mpi ? c->mpi : getenv("SLURM_MPI_TYPE");
    if (choice == MPI_AUTO && theirs)
        return theirs;
    mpi_folder(f->slurm, folder, sizeof folder);
    const char *mpi = mpi_choose(choice, folder, mpi_loads, &is_broken);
    if (is_broken) {
        snprintf(text, sizeof text, "Slurm's PMIx plugin does not load on this host, as its line above says: the step "
                 "starts %s, and a program that needs PMIx (Open MPI) as single ones. Install what is missing (Debian "
                 "12: libpmix-dev), or set mpi=pmi2 in the site file", mpi ? "over PMI" : "without it");
        f->warn(text);
    }
    return mpi;
}

/* Sets a variable of srun's own unless the user did, and notes it in `set`. */
static void offer(char *set, size_t size, const char *name, const char *value)
{
    size_t used = strlen(set);
    if (getenv(name))
        return;
    setenv(name, value, 1);
    snprintf(set + used, size - used, "%s%s=%s", used ? "," : "", name, value);
}

/* The flag comes before the user's variable, as it does for srun itself: tasks hear of it by the variable alone. */
static void insist(char *set, size_t size, const char *name, const char *flag)
{
    const char *value = *flag && strtol(flag, NULL, 10) == 0 ? "0" : "1", *users = getenv(name);
    if (users && strcmp(users, value))
        unsetenv(name);
    offer(set, size, name, value);
}

/* slurmstepd tells a task its mask in the words of --cpu-bind, which an srun in there would take for the user's. A mask
 * that the user gave that task looks the same, and was for that task. */
static void forget_mask(void)
{
    static const char *const names[] = {"SLURM_CPU_BIND_VERBOSE", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST"};
    const char *rest = getenv("SLURM_CPU_BIND"), *type = getenv("SLURM_CPU_BIND_TYPE");
    if (!rest || !type || strcmp(type, "mask_cpu:"))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *part = getenv(names[i]);
        size_t n = part ? strlen(part) : 0;
        if (!n || strncmp(rest, part, n))
            return;
        rest += n + (i == 0 && rest[n] == ',');
    }
    if (*rest)
        return; /* exported since */
    unsetenv("SLURM_CPU_BIND");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* What tasks that lack srun's environment, or have another site file, would not know. */
static void hand_on(const struct keys *o, bool has_site_file)
{
    char text[1024] = "";
    size_t n_plain = KEYS_OF_STEP - KEYS_OF_PORTS, n = has_site_file ? KEYS_OF_STEP : n_plain;
    for (size_t i = 0, used = 0; i < n && used < sizeof text; i++) {
        const struct knob_value *v = &o->key[keys_of_step[i]];
        if (v->is_set && (i >= n_plain || strcmp(v->source, DEFAULT_SOURCE)))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", used ? "," : "",
                                     ddp_keys[keys_of_step[i]].name, v->text);
    }
    setenv(SRUN_KEYS_VARIABLE, text, 1);
}

static void set_variables(const struct prepare_facts *f, const struct keys *o, const struct cmdline *c,
                          bool has_site_file)
{
    char set[512] = "", text[320];
    const char *mpi = choose_mpi(o->key[KEY_MPI].choice, f, c);
    if (mpi)
        offer(set, sizeof set, "SLURM_MPI_TYPE", mpi);
    bool is_elastic = keys_are_elastic(o);
    if (c->kill_on_bad_exit)
        insist(set, sizeof set, "SLURM_KILL_BAD_EXIT", c->kill_on_bad_exit);
    else
        offer(set, sizeof set, "SLURM_KILL_BAD_EXIT", is_elastic ? "0" : "1");
    if (is_elastic) /* the step is to outlive its nodes */
        offer(set, sizeof set, "SLURM_NO_KILL", "set");
    if (is_elastic && getenv("MASTER_ADDR"))
        f->warn("MASTER_ADDR is set, and stays as it is when that node is lost: leave it to the plugin (unset it)");
    if (c->resv_ports)
        insist(set, sizeof set, "SLURM_RESV_PORTS", c->resv_ports);
    else if (o->key[KEY_RESV_PORTS].b)
        offer(set, sizeof set, "SLURM_RESV_PORTS", "1");
    else if (mpi && !strcmp(mpi, "pmi2"))
        offer(set, sizeof set, "SLURM_RESV_PORTS", "0"); /* pmi2 would take as many as tasks are on a node */
    if (!c->cpu_bind)
        forget_mask();
    if (!c->cpu_bind && !getenv("SLURM_CPU_BIND"))
        offer(set, sizeof set, UNBOUND_VARIABLE, "1");
    hand_on(o, has_site_file);
    setenv(SRUN_SET_VARIABLE, set, 1);
    if (hiding_warn(c, prepare_lookup, NULL, text, sizeof text))
        f->warn(text);
}

void prepare_srun(const struct prepare_facts *f)
{
    struct keys o;
    char *args = malloc(CMDLINE_MAX);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = args && fd >= 0 ? read(fd, args, CMDLINE_MAX) : -1;
    io_close(fd);
    if (n > 0) {
        args[n - 1] = 0;
        struct cmdline c = cmdline_read(args, (size_t)n);
        is_async = c.async != NULL;
        struct task_request r = {.option = find_option(c.ddp), .site_file = f->site_file, .lookup = prepare_lookup};
        bool is_mpirun = c.command && launcher_of(1, (char *[]){(char *)c.command}) == LAUNCHER_MPI;
        bool is_missing;
        if (!is_mpirun && task_options(&r, &o, &is_missing, NULL) == 0 && o.mode == DDP_MODE_ON)
            set_variables(f, &o, &c, f->site_file && !is_missing);
    }
    free(args);
}

/* Nobody but the user is to know the step's port beforehand (port.h). A port that all can compute would be no cure. */
int prepare_port(ddp_error_t *errp)
{
    uint32_t draw;
    char text[16], secret[SECRET_LEN + 1];
    if (io_random(&draw, sizeof draw, errp) < 0)
        return error_prefix(errp, "no number for this step's MASTER_PORT");
    snprintf(text, sizeof text, "%u", draw);
    setenv(PORT_DRAW_VARIABLE, text, 1);
    if (io_random_hex(secret, SECRET_LEN / 2, errp) < 0)
        return error_prefix(errp, "no secret for this step's boot");
    setenv(SECRET_VARIABLE, secret, 1);
    return 0;
}

struct port_range prepare_range(const struct keys *o)
{
    struct port_range any = {0, 0};
    return o->key[KEY_SRUN_PORT_MIN].is_set
               ? (struct port_range){(int)o->key[KEY_SRUN_PORT_MIN].i, (int)o->key[KEY_SRUN_PORT_MAX].i}
               : any;
}

int prepare_guards(const struct keys *o, bool is_kept, ddp_error_t *errp)
{
    char token[GUARDS_TOKEN_LEN + 1], port[16];
    if (io_random_hex(token, GUARDS_TOKEN_LEN / 2, errp) < 0)
        return error_prefix(errp, "no token for this step's guards");
    setenv(GUARDS_VARIABLE, token, 1);
    bool has_thread = keys_are_elastic(o), has_none = is_async || (has_thread && !is_kept);
    int n = has_none ? -1 : lifeline_listen(prepare_range(o), has_thread ? token : NULL, NULL);
    snprintf(port, sizeof port, "%d", n);
    if (n > 0)
        setenv(LIFELINE_VARIABLE, port, 1);
    return 0;
}
