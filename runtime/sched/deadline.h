/* deadline.h - when the job's time is over. Rank 0 alone looks; the others hear of it through the tail.
 *
 * Slurm says it in SLURM_JOB_END_TIME from 23.02 on, else the controller is asked, once, by a thread, beside training.
 * A limit can be extended while the job runs: so the controller is asked again shortly before it would matter. */
#ifndef DDP_RUNTIME_SCHED_DEADLINE_H
#define DDP_RUNTIME_SCHED_DEADLINE_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/sched/slurm.h"

#define DEADLINE_NONE INFINITY
#define DEADLINE_ASK_S 10.0 /* how long an answer is waited for */

struct deadline {
    bool is_in_job;
    char id[SLURM_ID_MAX + 1];
    double end_s;         /* see deadline_end_s */
    bool has_thread;      /* an answer is awaited */
    unsigned long thread; /* pthread_t */
    int cancel_fd[2];     /* pipe: closing [1] ends what is being asked */
    _Atomic int answer;   /* enum in deadline.c */
    int64_t answer_end_s; /* the thread's, until the answer is there */
    char warning[256];    /* why the controller could not be asked; "": it could */
};

/* Finds the job that this process is in, if any, and begins to ask where the environment does not say. */
void deadline_open(struct deadline *d);
void deadline_close(struct deadline *d); /* at once, also while an answer is awaited; a zeroed struct is allowed */

/* Begins to ask the controller (again), unless an answer is awaited or there is no job. */
void deadline_ask(struct deadline *d);

/* On the clock of clock_ns(), in seconds, as far as is known now; DEADLINE_NONE: never, or not known. Cheap. */
double deadline_end_s(struct deadline *d);

#endif
