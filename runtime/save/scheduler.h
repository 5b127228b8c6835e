/* scheduler.h - what rank 0 wishes for the job: a checkpoint, its end before its time is over, another turn in the queue.
 * Due.h, deadline.h and requeue.h for a handle. Wishes ride the tail (reducer.h); the other ranks have none. */
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
    double asked_s;       /* when the controller was asked last; -INFINITY: never */
    bool has_ended;       /* the way into the queue was tried, or is not wanted */
    char *note;           /* ddp_requeue_note */
};

/* Fills sum[STOP_N] (stop.h) with this rank's wish to stop. */
void wish_fill_stop(ddp_t *d, double *sum);

/* Fills this rank's wishes into the tail: TAIL_STOP and the slots behind it, TAIL_DUE. */
void wish_fill(ddp_t *d, double *tail);

/* A step, or a save, has ended; a save begins. */
void wish_after_step(ddp_t *d);
void wish_save_begun(ddp_t *d);
void wish_save_over(ddp_t *d, bool is_committed);

/* After a stop, once its checkpoint is committed: rank 0 has the job requeued, if that is wanted (the option requeue),
 * while the others wait. Collective. */
int wish_requeue(ddp_t *d, ddp_error_t *errp);

void wish_close(ddp_t *d);

#endif
