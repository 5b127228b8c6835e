/* task.h - what ddp.so does in a task before its program starts: options, site file, placement, environment. These
 * files touch the machine (affinity, /proc, the site file); only plugin.c calls SPANK. */
#ifndef DDP_SPANK_TASK_H
#define DDP_SPANK_TASK_H

#include <stdbool.h>

#include "spank/board.h"
#include "spank/environment.h"
#include "spank/guards/guards.h"
#include "spank/keys/keys.h"
#include "spank/launcher.h"

struct task_request {
    const char *option;         /* argument of --ddp; NULL: not given */
    const char *site_file;      /* NULL: none configured */
    bool is_bound_by_user;      /* --cpu-bind */
    bool is_memory_users;       /* --mem-bind */
    struct board *board;        /* where the node's tasks meet; NULL: none */
    int n_own_nodes;            /* of the step's component that the task belongs to (step.h) */
    int n_local_tasks;          /* of that component on this node; 0: not known */
    enum launcher launcher;     /* what the task's program is */
    lookup_f lookup;            /* the task's environment */
    void *arg;
    void (*log)(const char *line);  /* one line for the user */
    void (*note)(const char *line); /* one line for the node's log */
};

struct task_result {
    struct environment environment; /* the variables to set */
    bool is_guarded;                /* a guard is to stay beside the program (guard.h) */
    struct guards_facts guard;
};

/* The options of a step or a submission from command line, environment and site file, where the site may forbid the use
 * of ddp. In a task the keys_of_step are srun's. *ret_site_missing (may be NULL) is set if there is no site file; the
 * file is read only for a step that uses ddp. 0, or -1. */
int task_options(const struct task_request *r, struct keys *ret, bool *ret_site_missing, ddp_error_t *errp);

/* Places the calling process (CPU mask, memory policy) and fills *ret; environment.n_vars is 0 if the step does not use
 * ddp. Warnings and the verbose lines go to r->log. 0, or -1: the caller must then end the
 * process.
 *
 * It takes 5 s at most, 25 s where a thousand tasks share a CPU. Some of Slurm's ways to end a step do not reach a task
 * that has not started its program (proctrack/linuxproc does not kill a process whose name is still slurmstepd), and a
 * task that outlives a cancelled step by UnkillableStepTimeout (60 s unless the site sets another) takes its node out
 * of service. All waits share one deadline, a second before that, and each has a fallback: without the node's other
 * ranks a rank keeps its CPUs, without the resolver NCCL chooses its interface, without srun a node's table is printed
 * later. A watchdog (watchdog.h) ends whatever is not done in time; it keeps running if the result is -1. */
int task_prepare(const struct task_request *r, struct task_result *ret, ddp_error_t *errp);

#endif
