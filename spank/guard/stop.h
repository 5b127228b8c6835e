/* stop.h - what a guard without one above does for all of a stop: it knows when, and has the job requeued; and
 * after the loss of a node it has srun wait no longer for that. All take a question to Slurm's controller; scontrol or
 * scancel asks it (runtime/sched), in a child of the guard's that has the task's environment. One thread, no waits:
 * the caller polls guard_stop_fd for at most guard_stop_wait_ms and calls guard_stop_step.
 *
 * The job's end may move: shortly before the stop is due the controller is asked again, and once more at the stop where
 * that is long ago, since the step has been suspended. Where nobody knows the end, a line says so, and there is no stop
 * by time. */
#ifndef DDP_SPANK_GUARD_STOP_H
#define DDP_SPANK_GUARD_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/guard/child.h"
#include "spank/guard/record.h"
#include "spank/guards/guards.h"

#define GUARD_STOP_ASK_AHEAD_S 20   /* how long before a stop the controller is asked again */
#define GUARD_STOP_ASK_S 10         /* for its answer */
#define GUARD_STOP_REQUEUE_S 90     /* for a requeue, which asks up to three times */
#define GUARD_STOP_RELEASE_S 10     /* for its answer where the step is cancelled */

struct guard_stop {
    const struct guards_facts *f;
    const struct guard_record *record;
    int64_t began_s;            /* this guard, since 1970 */
    int64_t end_s;              /* of the job, since 1970; 0: not known */
    bool is_short, is_said;     /* the stop's time was over when this guard began; that is said */
    uint64_t stop_at, ask_at;   /* on our clock; 0: not */
    uint64_t asked_at;          /* the last question, or when this guard began */
    struct guard_child child;
    bool is_requeue, is_release; /* what the child is for, else to ask for the job's end */
    bool is_requeued, is_released; /* it has been tried */
    bool has_asked; /* the child that was to have the job requeued, with whatever success */
};

/* *f and *record, which is told of a requeue, are borrowed. */
void guard_stop_open(struct guard_stop *s, const struct guards_facts *f, const struct guard_record *record);

int guard_stop_fd(const struct guard_stop *s); /* -1: none */
int guard_stop_wait_ms(const struct guard_stop *s); /* -1: until the descriptor is readable */

/* True, once: all are to stop now. */
bool guard_stop_step(struct guard_stop *s);

/* Begins to have the job requeued; what comes of it is said on stderr. The guard is to stay, and to leave its children
 * alone, until guard_stop_is_busy is false. */
void guard_stop_requeue(struct guard_stop *s);
bool guard_stop_is_busy(const struct guard_stop *s);

/* The same to have Slurm cancel the step, of which nothing but this guard is left: else srun waits for tasks of a node
 * that is lost, for SlurmdTimeout, or, where slurmstepd was killed, for ever. */
void guard_stop_release(struct guard_stop *s);

#endif
