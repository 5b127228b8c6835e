/* deadline.h - when the job's time is over. Only rank 0 finds this out; the other ranks learn of it through the tail.
 *
 * From 23.02 on, Slurm sets SLURM_JOB_END_TIME. Otherwise a thread asks the controller, while training goes on, until
 * it has answered once. A job's limit can be extended while it runs, and a suspension moves its end, so the controller
 * is asked again shortly before the end. */
#ifndef DDP_RUNTIME_SCHED_DEADLINE_H
#define DDP_RUNTIME_SCHED_DEADLINE_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/sched/slurm.h"

#define DEADLINE_NONE INFINITY
#define DEADLINE_ASK_S 10.0 /* how long to wait for an answer */
#define DEADLINE_AGAIN_S 60.0 /* until the next try, where there was none */

struct deadline {
    bool is_in_job;
    char id[SLURM_ID_MAX + 1];
    double end_s;         /* see deadline_end_s */
    double suspended_s;   /* how long the job was suspended in all, by the last answer */
    bool has_thread;      /* a thread asks the controller */
    unsigned long thread; /* pthread_t */
    int cancel_fd[2];     /* pipe: closing [1] ends the query */
    _Atomic int answer;   /* enum in deadline.c */
    int64_t answer_end_s, answer_suspended_s; /* the thread owns them until the answer has come */
    uint64_t again_at;    /* clock.h: nobody has answered yet, and it is asked again then; 0: not */
    char warning[256];    /* why the controller could not be asked; "": it could. The thread's, while there is one */
};

/* Finds the job that this process is in, if any, and starts to ask the controller if the environment does not have the
 * time. */
void deadline_open(struct deadline *d);
void deadline_close(struct deadline *d); /* at once, also during a query; a zeroed struct is allowed */

/* Starts to ask the controller (again), unless a query is under way or there is no job. */
void deadline_ask(struct deadline *d);

/* Waits for a query that is under way until `deadline` (clock.h). True: it has ended, with an answer or without. A
 * zeroed struct is allowed. */
bool deadline_await(struct deadline *d, uint64_t deadline);

/* When the job's time is over, in seconds on the clock of clock_ns(), as far as is known now; DEADLINE_NONE: never, or
 * not known. Cheap. */
double deadline_end_s(struct deadline *d);

#endif
