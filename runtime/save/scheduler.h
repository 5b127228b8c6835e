/* scheduler.h - what rank 0 requests for the job: a checkpoint, a stop before the job's time is over, a requeue.
 * Applies due.h, deadline.h and requeue.h to a job. Requests are sent in the tail (reducer.h); ranks other than 0
 * make none. */
#ifndef DDP_RUNTIME_SAVE_SCHEDULER_H
#define DDP_RUNTIME_SAVE_SCHEDULER_H

#include <stdbool.h>

#include "runtime/ddp.h"
#include "runtime/sched/deadline.h"
#include "runtime/sched/due.h"

struct save;

struct scheduler {
    bool is_open, has_deadline;
    struct due due;
    struct deadline deadline;
    double end_s;         /* scheduler_end_s, as of the last step; 0: none yet */
    bool has_warned;      /* that nobody knows the job's end */
    double asked_s;       /* when Slurm's controller was asked last; -INFINITY: never */
    bool has_ended;       /* a requeue was tried, or is not wanted */
    bool is_requeued;     /* the job is, by rank 0 or somebody else; on other ranks false */
    char *note;           /* the result of ddp_requeue_note */
};

/* Fills sum[STOP_N] (stop.h) with this rank's request to stop. */
void scheduler_fill_stop(struct save *save, double *sum);

/* Fills this rank's requests into the tail: the STOP_N elements from TAIL_STOP on, and TAIL_DUE. */
void scheduler_fill(struct save *save, double *tail);

/* On rank 0: when the job's time is over, in seconds on the clock of clock_ns(); INFINITY: never, or not known.
 * Cheap. */
double scheduler_end_s(struct save *save);

/* The same in seconds since 1970, as of the last step; 0: never, or not known. On other ranks 0. */
double scheduler_end_t(const struct save *save);

/* To be called when a step has ended; when a save has begun; when a save has ended. */
void scheduler_after_step(struct save *save);
void scheduler_save_begun(struct save *save);
void scheduler_save_over(struct save *save, bool is_committed);

/* After a stop whose checkpoint is committed: rank 0 has the job requeued if the option requeue says so, while the
 * other ranks wait. Collective. */
int scheduler_requeue(struct save *save, ddp_error_t *errp);

/* The same whatever is saved and the option says; nothing where it was tried before. */
int scheduler_requeue_now(struct save *save, ddp_error_t *errp);

void scheduler_close(struct save *save);

#endif
