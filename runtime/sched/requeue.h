/* requeue.h - after a checkpoint on request: the batch job is put back into the queue, once, so that it goes on by
 * itself. Where that cannot be, the user is told how to go on.
 *
 * Nodes are excluded only where the user names them. Slurm gives no job a node that is down or drained; and of a rank
 * that died nobody can tell whether its node or the program is to blame: a program that runs out of memory everywhere
 * would exclude one node after another until none is left. */
#ifndef DDP_RUNTIME_SCHED_REQUEUE_H
#define DDP_RUNTIME_SCHED_REQUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/sched/slurm.h"

#define REQUEUE_PATIENCE_S 20.0 /* for an answer of the controller */

enum requeue_mode { REQUEUE_OFF, REQUEUE_AUTO };

enum requeue_what {
    REQUEUE_DO,
    REQUEUE_DONE,        /* the scheduler, or somebody, has done it already: a preemption, scontrol requeue */
    REQUEUE_CANCELLED,   /* it is being ended for another reason than its time limit: somebody wants that */
    REQUEUE_INTERACTIVE, /* no script to run again */
    REQUEUE_FORBIDDEN,   /* --no-requeue */
    REQUEUE_OFTEN        /* it was restarted `limit` times */
};

/* Pure. */
enum requeue_what requeue_judge(const struct slurm_job *job, int restarts, int limit);

/* Has this process' job requeued where requeue_judge says so, and keeps it off the nodes `exclude` (a host list; NULL or
 * "": none) and those that it is kept off already. Takes up to 3 times patience_s; the job's processes get SIGTERM from
 * Slurm meanwhile. *ret_note: one line for the user, malloc; NULL: no memory. True: it is requeued, by
 * this call or another. */
bool requeue_job(int limit, const char *exclude, double patience_s, char **ret_note);

/* The command that runs this process' step again: an srun line from what Slurm says of it (or `ddp run`), and the
 * program's arguments args[0..n), each ended by a null byte, as in /proc/self/cmdline. Fit for a shell. malloc; NULL: no
 * memory. */
char *requeue_command(const char *args, size_t n);

#endif
