/* plugin.c - ddp.so: the plugin's face to Slurm, and the only file of it that includes spank.h.
 *
 * Who runs what:
 *   srun, sbatch, salloc (the user)  slurm_spank_init, the option's callback, init_post_opt
 *   srun (the user)                  local_user_init, exit: questions to slurmctld; a verbose step's tables (gather.h)
 *   slurmd (root)                    slurm_spank_init: has a child process read the cores for the tasks (cache.h)
 *   slurmstepd (root)                slurm_spank_init, the option's callback: these copy at most 4 KiB, parse nothing
 *   slurmstepd (root)                init_post_opt: looks whether a variable is there, maps the board
 *   slurmstepd (euid user)           user_init: looks at three variables
 *   slurmstepd (root)                task_exit: looks for two variables, waits a moment for the step's last words
 *   the task (the user)              task_init: everything
 * Failing in slurmstepd before the task exists drains the node or goes unnoticed, so only srun, sbatch, salloc and the
 * task ever say no. Callbacks may come twice. What slurmstepd learned before the fork is in `plugin` after it. */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>

/* Slurm finds the callbacks by name; ddp.map hides the rest. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(ddp, 1)
#pragma GCC visibility pop

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/plain.h"
#include "runtime/sched/requeue.h"
#include "spank/gather/gather.h"
#include "spank/guard/guard.h"
#include "spank/keys/keys.h"
#include "spank/keys/site.h"
#include "spank/keys/stop_key.h"
#include "spank/layout.h"
#include "spank/net/port.h"
#include "spank/prepare.h"
#include "spank/task.h"
#include "topology/cache.h"

#define FIRST_SPECIAL_STEP 0xfffffffau /* interactive, batch, external and pending steps have ids from here on */
#define MAPPED_BYTES (128 << 10)       /* an allocation from here on is a mapping of its own */
#define COLLECT_S 3.0                  /* how long the first node's table waits for the last one's */
#define STORE_S 5.0                    /* how long slurmd's start waits for the cores to be read */
#define LAST_WORDS_MS 500              /* that a step which fails has left to be heard */
#define LINE_BYTES 1024                /* of a line in a log */

static struct {
    bool has_option, is_bound_by_user, is_memory_users;
    bool has_begun, has_made_task;     /* init, and task_init, have been called: twice where plugstack.conf says so */
    bool is_prepared;                  /* srun: prepare_step was here */
    bool wants_end;                    /* srun: tasks are to hear when the job ends */
    ddp_error_t refusal;               /* srun, sbatch, salloc: of the first --ddp that cannot be read; code 0: none */
    gather_t *gather;                  /* srun's; NULL: none */
    bool has_failed;                   /* slurmstepd: a task of this node has */
    struct board *board;               /* where the tasks of a node meet; slurmstepd only hands it on to them */
    char option[KEYS_TEXT_MAX + 2]; /* of --ddp; one byte more than allowed, so that the parser sees the excess */
    char site_file[PATH_MAX];          /* "" : none configured */
    char bad_argument[64];             /* of the line in plugstack.conf; "" : none */
} plugin;

/* A copy of a line that may quote anybody's words, fit for a log: each line there is one of ours. */
static const char *make_plain(const char *line, char buf[LINE_BYTES])
{
    snprintf(buf, LINE_BYTES, "%s", line);
    plain_line(buf);
    return buf;
}

static void log_user(const char *line)
{
    char buf[LINE_BYTES];
    slurm_spank_log("%s", make_plain(line, buf));
}

static void log_node(const char *line)
{
    char buf[LINE_BYTES];
    slurm_info("%s", make_plain(line, buf));
}

/* "ddp: WHO: TEXT"; who may be "". */
static void log_text(const char *who, const char *text)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "ddp: %s%s%s", who, *who ? ": " : "", text);
    log_user(line);
}

static void log_warning(const char *text)
{
    log_text("warning", text);
}

/* Each key is looked for among all of the task's variables: the first character spares nearly all calls. */
static const char *lookup_job(const char *name, void *arg)
{
    size_t n = strlen(name);
    for (char **e = arg; e && *e; e++)
        if ((*e)[0] == name[0] && !strncmp(*e, name, n) && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static const char *site_file(void)
{
    return plugin.site_file[0] ? plugin.site_file : NULL;
}

static struct task_request make_request(const char *option, lookup_f lookup, void *arg)
{
    return (struct task_request){.option = option, .site_file = site_file(),
                                 .is_bound_by_user = plugin.is_bound_by_user,
                                 .is_memory_users = plugin.is_memory_users, .board = plugin.board, .lookup = lookup,
                                 .arg = arg, .log = log_user, .note = log_node};
}

static bool is_submitting(void)
{
    return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

static int check_arguments(ddp_error_t *errp)
{
    if (!plugin.bad_argument[0])
        return 0;
    return error_set(errp, DDP_E_USAGE, 1, "plugstack.conf: ddp.so takes site=/PATH only, not \"%s\": ask your site",
                     plugin.bad_argument);
}

/* In srun, sbatch and salloc: says what is wrong while the user is looking. */
static int check_locally(void)
{
    ddp_error_t e = plugin.refusal;
    struct keys o;
    struct task_request r = make_request(plugin.has_option ? plugin.option : NULL, prepare_lookup, NULL);
    if (!e.code && task_options(&r, &o, NULL, &e) == 0 && (o.mode != DDP_MODE_ON || check_arguments(&e) == 0))
        return 0;
    log_text("", e.text);
    return -1;
}

/* The job's --ddp comes first, then this command's own, of each component: the last one holds, and what the site file
 * and variables make of it is seen behind them all (init_post_opt). */
static int take_option(int val, const char *argument, int remote)
{
    struct keys any;
    (void)val;
    snprintf(plugin.option, sizeof plugin.option, "%s", argument ? argument : "");
    plugin.has_option = true;
    if (!remote && !plugin.refusal.code)
        keys_parse(plugin.option, "--ddp", &any, &plugin.refusal);
    return 0;
}

static void read_arguments(int ac, char **av)
{
    for (int i = 0; i < ac; i++) {
        const char *path = site_argument(av[i]);
        if (path)
            snprintf(plugin.site_file, sizeof plugin.site_file, "%s", path);
        else
            snprintf(plugin.bad_argument, sizeof plugin.bad_argument, "%s", av[i]);
    }
}

/* slurm_spank_exit may leave gather.h's thread behind, and leaves lifeline.h's, and Slurm unloads us after that. */
static bool stay_loaded(void)
{
    Dl_info info;
    return dladdr((const void *)(uintptr_t)stay_loaded, &info) && info.dli_fname &&
           dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Without it every node prints its own table. */
static void prepare_gather(const struct keys *o)
{
    struct gather_options g = {.out_fd = STDERR_FILENO, .collect_s = COLLECT_S, .ports = prepare_range(o)};
    plugin.gather = gather_create(&g, NULL);
    if (plugin.gather)
        setenv(GATHER_VARIABLE, gather_address(plugin.gather), 1);
}

static void warn_of_slips(void)
{
    char text[160];
    for (char **e = environ; e && *e; e++)
        if (keys_have_slip(*e, text, sizeof text))
            log_warning(text);
}

/* What tasks must hear of before there is a step: srun copies its environment once for each component of a
 * heterogeneous one, before local_user_init, and all are to hear the same. */
static int prepare_step(void)
{
    ddp_error_t e;
    struct keys o;
    struct task_request r = make_request(plugin.has_option ? plugin.option : NULL, prepare_lookup, NULL);
    if (plugin.is_prepared || task_options(&r, &o, NULL, NULL) < 0 || o.mode != DDP_MODE_ON)
        return 0;
    plugin.is_prepared = true;
    warn_of_slips();
    plugin.wants_end = keys_have_stop(&o);
    if (o.key[KEY_VERBOSE].b && stay_loaded())
        prepare_gather(&o);
    if ((!o.key[KEY_GUARD].b || prepare_guards(&o, stay_loaded(), &e) == 0) && prepare_port(&e) == 0)
        return 0;
    log_text("", e.text);
    return -1;
}

static bool is_real_step(spank_t sp)
{
    uint32_t step = FIRST_SPECIAL_STEP;
    return spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step < FIRST_SPECIAL_STEP;
}

static enum launcher find_launcher(spank_t sp)
{
    int argc = 0;
    char **argv = NULL;
    return spank_get_item(sp, S_JOB_ARGV, &argc, &argv) == ESPANK_SUCCESS ? launcher_of(argc, argv) : LAUNCHER_NONE;
}

static char **job_environment(spank_t sp)
{
    char **env = NULL;
    return spank_get_item(sp, S_JOB_ENV, &env) == ESPANK_SUCCESS ? env : NULL;
}

/* What is wrong with the request or the site file is wrong for all tasks of the node, and some of it for all of the
 * step: one of them says so. */
static bool is_to_say(spank_t sp, const ddp_error_t *e)
{
    const char *rank = lookup_job("SLURM_PROCID", job_environment(sp));
    int local = 0;
    if (e->domain == DDP_E_USAGE && e->code == GUARDS_REFUSED_BY_ALL && rank)
        return !strcmp(rank, "0");
    return (e->domain != DDP_E_USAGE && e->domain != DDP_E_DATA) ||
           spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS || local == 0;
}

/* Ends the task before its program starts. Where plugstack.conf says "required", Slurm itself ends a task whose
 * task_init returns -1, also with code 1; where it says "optional", which is safer for slurmd, it ignores the -1 and
 * starts a rank that is not one. This process is the task itself, forked and with the user's rights, a moment before
 * exec: nobody else ends with it, and _exit runs no handler and flushes no buffer that it inherited from slurmstepd. */
static _Noreturn void fail_task(spank_t sp, const ddp_error_t *e)
{
    char host[HOST_NAME_MAX + 1] = "this node";
    const char *node = lookup_job("SLURMD_NODENAME", job_environment(sp));
    gethostname(host, sizeof host - 1);
    if (is_to_say(sp, e))
        log_text(node ? node : host, e->text);
    _exit(1);
}

static void set_variable(spank_t sp, const char *name, const char *value)
{
    ddp_error_t e;
    if (spank_setenv(sp, name, value, 1) == ESPANK_SUCCESS)
        return;
    error_set(&e, DDP_E_SYSTEM, ENOMEM, "Slurm does not take %s into the task's environment: no rank may start so",
              name);
    fail_task(sp, &e);
}

/* For each, Slurm allocates 256 KiB of zeros (setenvf, 22.05 to 26.05), of which it writes to a few bytes: in the heap
 * they would be filled each time, 0.15 ms of a core for a task's. */
static void set_variables(spank_t sp, const struct environment *env)
{
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    for (size_t i = 0; i < env->n_vars; i++)
        set_variable(sp, env->var[i].name, env->var[i].value);
    if (env->n_vars)
        set_variable(sp, "DDP_SET", env->set);
}

/* Slurm tells tasks what sbatch or salloc was given, and not what their own srun was. */
static void set_option(spank_t sp)
{
    const char *option = plugin.has_option ? plugin.option : lookup_job("SLURM_DDP", job_environment(sp));
    if (option)
        set_variable(sp, REQUEUE_OPTION_VARIABLE, option);
}

/* A slurmd that is not root's could write nothing that a task believes. */
static void store_cores(void)
{
    char line[LINE_BYTES];
    ddp_error_t e;
    if (geteuid() != 0 || inventory_store(CACHE_FOLDER, deadline_in(STORE_S), &e) == 0)
        return;
    snprintf(line, sizeof line, "ddp: steps read this node's cores themselves, which takes longer: %s", e.text);
    log_node(line);
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
    static char usage[4096], name[] = "ddp", arginfo[] = "on|off|KEY=VALUE[,...]";
    static struct spank_option option = {name, arginfo, usage, 1, 0, take_option};
    if (plugin.has_begun) /* a second line in plugstack.conf, of which Slurm itself warns */
        return 0;
    plugin.has_begun = true;
    read_arguments(ac, av);
    keys_help(usage, sizeof usage);
    if (spank_option_register(sp, &option) != ESPANK_SUCCESS)
        slurm_error("ddp: cannot register --ddp");
    if (is_submitting())
        prepare_forget();
    if (spank_context() == S_CTX_LOCAL)
        prepare_srun(&(struct prepare_facts){site_file(), (const void *)(uintptr_t)slurm_spank_log, log_warning});
    if (spank_context() == S_CTX_SLURMD)
        store_cores();
    return 0;
}

/* With the code that the user wants of Slurm's errors. Of an "optional" plugin Slurm ignores -1, and the job would wait
 * in the queue to fail. */
static _Noreturn void end_locally(void)
{
    const char *code = getenv("SLURM_EXIT_ERROR");
    exit(code && atoi(code) ? atoi(code) : EXIT_FAILURE);
}

/* In slurmstepd, before it forks the tasks. As root: where slurmstepd locks all that it maps (LaunchParameters=
 * slurmstepd_memlock_all), the limit on that (ulimit -l), which a user's mappings count against, is used up already.
 * Whether the step uses ddp is not known yet; each task finds that out by itself later. So a step with ddp=off pays for
 * a board that it does not use: one mmap. */
static void map_board(spank_t sp)
{
    uint32_t n_tasks = 0;
    if (!plugin.board && is_real_step(sp) && (plugin.has_option || lookup_job("SLURM_DDP", job_environment(sp))) &&
        spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &n_tasks) == ESPANK_SUCCESS && n_tasks > 1 &&
        n_tasks <= PLACEMENT_RANKS_MAX)
        plugin.board = board_create((int)n_tasks);
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    int rc = is_submitting() ? check_locally() : 0;
    if (spank_context() == S_CTX_REMOTE)
        map_board(sp);
    if (rc == 0 && spank_context() == S_CTX_LOCAL)
        rc = prepare_step();
    if (rc < 0)
        end_locally();
    return 0;
}

/* Which node has rank 0, and where the others are, is in no variable of Slurm's (step.h). A heterogeneous step's tasks
 * would not hear of it: srun has copied its environment for them already. */
static void tell_first_node(spank_t sp)
{
    uint32_t n_nodes = 0, job, step;
    char name[HOSTLIST_NAME_MAX + 1];
    bool is_even;
    if (spank_get_item(sp, S_JOB_NNODES, &n_nodes) != ESPANK_SUCCESS || n_nodes < 2 ||
        spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS || layout_first_node(job, step, name, &is_even) < 0)
        return;
    setenv(FIRST_NODE_VARIABLE, name, 1);
    if (!is_even)
        setenv(UNEVEN_VARIABLE, "1", 1);
}

static void tell_end(spank_t sp)
{
    uint32_t job;
    int64_t end;
    char text[24];
    if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS || layout_end_time(job, &end) < 0)
        return;
    snprintf(text, sizeof text, "%lld", (long long)end);
    setenv(STOP_END_VARIABLE, text, 1);
}

/* In srun, when the step is there and srun's shepherd has been forked; once for each component. */
int slurm_spank_local_user_init(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    if (plugin.is_prepared && !getenv(FIRST_NODE_VARIABLE))
        tell_first_node(sp);
    if (plugin.wants_end && !getenv(STOP_END_VARIABLE))
        tell_end(sp);
    if (plugin.gather)
        gather_start(plugin.gather, NULL);
    return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
    (void)sp, (void)ac, (void)av;
    gather_destroy(plugin.gather);
    plugin.gather = NULL;
    plugin.has_begun = false;
    return 0;
}

/* SLURM_CPU_BIND and SLURM_MEM_BIND as srun sent them; Slurm overwrites them later with what it chose itself. "quiet"
 * and "verbose" bind nothing. srun says "threads", "cores" or "sockets" also where the user gave no --cpu-bind but
 * --hint, --threads-per-core, --ntasks-per-core or --ntasks-per-socket, which count CPUs and do not say who gets
 * which. */
static bool is_binding(const char *bind)
{
    static const char *const words[] = {"quiet", "verbose"};
    for (size_t i = 0; bind && i < sizeof words / sizeof *words; i++)
        if (begins(bind, words[i]))
            bind += strlen(words[i]);
    return bind && *bind && strcmp(bind, ",");
}

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    char **env = job_environment(sp);
    plugin.is_bound_by_user = is_binding(lookup_job("SLURM_CPU_BIND", env)) && !lookup_job(UNBOUND_VARIABLE, env);
    plugin.is_memory_users = is_binding(lookup_job("SLURM_MEM_BIND", env));
    return 0;
}

/* Of a step of ours, which srun has not ended yet: it does that by SIGTERM. */
static bool has_failed(spank_t sp)
{
    int status = 0;
    return is_real_step(sp) && lookup_job(PORT_DRAW_VARIABLE, job_environment(sp)) &&
           spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS && status != 0 &&
           !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* In slurmstepd, before srun hears of a task's end. By --kill-on-bad-exit srun ends the step at the first task that
 * failed, and then reads no more of what the others have written: who died, which they say within a moment. */
int slurm_spank_task_exit(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    uint32_t n_tasks = 0;
    if (!plugin.has_failed && has_failed(sp) &&
        spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &n_tasks) == ESPANK_SUCCESS &&
        (n_tasks > 1 || lookup_job("SLURM_HET_SIZE", job_environment(sp)))) {
        plugin.has_failed = true;
        poll(NULL, 0, LAST_WORDS_MS);
    }
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    ddp_error_t e;
    struct task_result t;
    if (!is_real_step(sp) || plugin.has_made_task)
        return 0;
    plugin.has_made_task = true;
    enum launcher launcher = find_launcher(sp);
    if (launcher == LAUNCHER_MPI)
        return 0; /* its ranks are mpirun's to place, on all that the job has of the node */
    uint32_t n_nodes = 0, n_tasks = 0;
    struct task_request r = make_request(plugin.has_option ? plugin.option : NULL, lookup_job, job_environment(sp));
    if (spank_get_item(sp, S_JOB_NNODES, &n_nodes) == ESPANK_SUCCESS)
        r.n_own_nodes = (int)n_nodes;
    if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &n_tasks) == ESPANK_SUCCESS)
        r.n_local_tasks = (int)n_tasks;
    r.launcher = launcher;
    int rc = task_prepare(&r, &t, &e);
    board_destroy(plugin.board); /* exec would end this view of it, too */
    plugin.board = NULL;
    if (rc < 0 || (t.environment.n_vars && check_arguments(&e) < 0))
        fail_task(sp, &e);
    set_variables(sp, &t.environment); /* before a fork, behind which each write copies a page */
    if (t.environment.n_vars)
        set_option(sp);
    t.guard.env = job_environment(sp);
    if (spank_get_item(sp, S_JOB_ARGV, &t.guard.argc, &t.guard.argv) != ESPANK_SUCCESS)
        t.guard.argc = 0;
    struct seat seat;
    rc = t.is_guarded ? guard_start(&t.guard, &seat, &e) : 0;
    if (rc < 0) /* it would miss a guard's part in the others' boot and restarts */
        fail_task(sp, &e);
    bool is_seated = t.is_guarded && t.guard.is_elastic;
    if (rc > 0)
        environment_renew(&t.environment, rc, &seat);
    if (is_seated)
        environment_seat(&t.environment, &seat);
    if (rc > 0 || is_seated)
        set_variables(sp, &t.environment);
    return 0;
}
