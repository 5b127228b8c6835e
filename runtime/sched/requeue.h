/* requeue.h - after a stop and its checkpoint: puts the batch job back into the queue, once, so that it continues by
 * itself. Where that is not possible, the user gets the command that continues the job.
 *
 * Only nodes that the user names are excluded. Slurm gives no job a node that is down or drained; and when a rank dies,
 * nothing shows whether its node or the program is to blame: a program that runs out of memory everywhere would exclude
 * one node after another until none is left. */
#ifndef DDP_RUNTIME_SCHED_REQUEUE_H
#define DDP_RUNTIME_SCHED_REQUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/sched/slurm.h"

#define REQUEUE_PATIENCE_S 20.0 /* for an answer of the controller */
#define REQUEUE_OPTION_VARIABLE "DDP_OPTION" /* from the plugin to its tasks: --ddp's text, of their own srun */

enum requeue_mode { REQUEUE_OFF, REQUEUE_AUTO };

enum requeue_what {
    REQUEUE_DO,
    REQUEUE_DONE,        /* the job is requeued already: by a preemption, or by scontrol requeue */
    REQUEUE_CANCELLED,   /* the job is being ended for another reason than its time limit: somebody wants that */
    REQUEUE_INTERACTIVE, /* the job has no script to run again */
    REQUEUE_FORBIDDEN,   /* --no-requeue */
    REQUEUE_OFTEN        /* it was restarted `limit` times */
};

/* Pure. */
enum requeue_what requeue_judge(const struct slurm_job *job, int restarts, int limit);

struct requeue_request {
    int limit;           /* restarts after which the job is not requeued */
    const char *exclude; /* nodes, as a host list; NULL or "": none */
    double patience_s;   /* for each answer of the controller */
    void (*say)(const char *line); /* NULL: the caller says what *ret_note says */
    const char *command; /* what goes on, for the user; NULL: requeue_command's */
    const char *args;    /* of the program, as requeue_command takes them; NULL: this process is the program */
    size_t n_args;       /* bytes */
};

/* Has the job that this process is in, by its environment, requeued if requeue_judge says so, and excludes those nodes
 * in addition to those that the job excludes already. Takes up to 3 times patience_s, during which Slurm sends SIGTERM
 * to the job's processes. The batch script's shell ends by that, and with it (proctrack/cgroup) the script's srun, by
 * which the user hears anything: so r->say is told that the job is requeued before Slurm is asked to, and told more
 * where that went wrong. *ret_note: one line for the user, malloc; NULL: no memory. True: the job is requeued, by this
 * call or by somebody else. */
bool requeue_job(const struct requeue_request *r, char **ret_note);

/* The command that runs this process' step again: an srun line made from Slurm's variables (or a `ddp run` line), and
 * the program's arguments args[0..n), each ended by a null byte, as in /proc/self/cmdline. Quoted for a shell. malloc;
 * NULL: no memory. */
char *requeue_command(const char *args, size_t n);

#endif
