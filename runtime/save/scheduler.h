/* scheduler.h - what rank 0 requests for the job: a checkpoint, a stop before the job's time is over, a requeue.
 * Applies due.h, deadline.h and requeue.h to a handle. Requests are sent in the tail (reducer.h); ranks other than 0
 * make none. */
#ifndef DDP_RUNTIME_SAVE_SCHEDULER_H
#define DDP_RUNTIME_SAVE_SCHEDULER_H

#include <stdbool.h>

#include "runtime/ddp.h"
#include "runtime/sched/deadline.h"
#include "runtime/sched/due.h"

struct wish {
    bool is_open, has_deadline;
    struct due due;
    struct deadline deadline;
    double asked_s;       /* when Slurm's controller was asked last; -INFINITY: never */
    bool has_ended;       /* a requeue was tried, or is not wanted */
    char *note;           /* the result of ddp_requeue_note */
};

/* Fills sum[STOP_N] (stop.h) with this rank's request to stop. */
void wish_fill_stop(ddp_t *d, double *sum);

/* Fills this rank's requests into the tail: the STOP_N elements from TAIL_STOP on, and TAIL_DUE. */
void wish_fill(ddp_t *d, double *tail);

/* To be called when a step has ended; when a save has begun; when a save has ended. */
void wish_after_step(ddp_t *d);
void wish_save_begun(ddp_t *d);
void wish_save_over(ddp_t *d, bool is_committed);

/* After a stop whose checkpoint is committed: rank 0 has the job requeued if the option requeue says so, while the
 * other ranks wait. Collective. */
int wish_requeue(ddp_t *d, ddp_error_t *errp);

void wish_close(ddp_t *d);

#endif
