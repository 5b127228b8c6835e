/* task.h - what ddp.so does in a task, between Slurm's facts and the program: options, site file, placement,
 * environment. Everything that touches the machine (affinity, /proc, the site file) for it; SPANK itself stays in
 * plugin.c. */
#ifndef DDP_SPANK_TASK_H
#define DDP_SPANK_TASK_H

#include <stdbool.h>

#include "spank/board.h"
#include "spank/environment.h"
#include "spank/keys.h"

struct task_request {
    const char *option;         /* argument of --ddp; NULL: not given */
    const char *site_file;      /* NULL: none configured */
    bool is_bound_by_user;      /* --cpu-bind */
    bool is_memory_users;       /* --mem-bind */
    struct board *board;        /* where the node's tasks meet; NULL: none */
    int n_own_nodes;            /* of the step's component that the task belongs to (step.h) */
    lookup_f lookup;            /* the task's environment */
    void *arg;
    void (*log)(const char *line);  /* one line for the user */
    void (*note)(const char *line); /* one line for the node's log */
};

/* The options of a step or a submission from command line, environment and site file, with the site's veto. A site file
 * that is not there is told through *ret_site_missing (may be NULL); it is read only for a step of ours. 0, or -1. */
int task_options(const struct task_request *r, struct keys *ret, bool *ret_site_missing, ddp_error_t *errp);

/* Places the calling process (CPU mask, memory policy) and fills *ret with the variables to set; ret->n_vars is 0
 * where the step is not ours. Warnings and the verbose lines go to r->log. 0, or -1: the caller is then to end the
 * process.
 *
 * It takes 5 s at most: some of Slurm's ways to end a step do not reach a task that has not begun its program
 * (proctrack/linuxproc kills nobody whose name is still slurmstepd), and one that outlives a cancelled step by
 * UnkillableStepTimeout (60 s unless the site says otherwise) takes its node out of service. Whatever waits does so
 * for one deadline, 4 s from the start, and does what it does when nobody answers: without its siblings a rank keeps
 * its CPUs, without the resolver NCCL chooses its interface, without srun a node's table comes later. What is not done
 * then is ended after 5 s by a watchdog (watchdog.h), which also stays where the result is -1. */
int task_prepare(const struct task_request *r, struct environment *ret, ddp_error_t *errp);

#endif
