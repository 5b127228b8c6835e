/* stop.h - the wish that the job end: signals, as flags. A handler sets a flag and nothing else; the flag rides the next
 * reduction of gradients, so that all ranks stop after the same step, and a rank that Slurm terminates because another
 * died still gets to say so: Slurm does that some 60 ms after the death, when a rank that computes has not heard of it.
 * So signals are caught from ddp_data_open on, whether or not there are checkpoints.
 *
 * Slurm repeats itself: it sends SIGTERM again at the end of a GraceTime, and after --signal=USR1@60. So the first
 * signal counts, and those that follow are ignored, so that they do not end a process that is saving; but a second
 * SIGINT ends it at once, as a person at a terminal expects. */
#ifndef DDP_RUNTIME_SCHED_STOP_H
#define DDP_RUNTIME_SCHED_STOP_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/base/error.h"

/* Why: one of the signals, or the end of the job's time (due.h). Each has a slot of its own in the tail. */
enum stop_reason { STOP_TERM, STOP_USR1, STOP_USR2, STOP_INT, STOP_N_SIGNALS, STOP_DEADLINE = STOP_N_SIGNALS, STOP_N };

struct stop {
    unsigned caught; /* of these (1 << enum stop_reason) we are the handler */
    bool is_leaving; /* the ranks have agreed to stop */
};

/* "TERM,USR1": *ret = those signals, as bits; "none": no bit. Whatever else there is in the text is an error that lists
 * what there may be. Pure. */
int stop_parse(const char *text, unsigned *ret, ddp_error_t *errp);

/* Catches the signals of `set` whose disposition is the default one: a program's own handler and SIG_IGN stay. */
void stop_catch(struct stop *s, unsigned set);

/* Gives back those signals that the program has not taken since; a zeroed struct is allowed. A process that is about to
 * leave is not to be ended on its way: a requeue sends SIGTERM, and so does srun to all others as soon as one rank has
 * left with another code than 0 (a rank 20 ms behind another made srun's exit code 143). So where a signal has arrived
 * at any rank, all but SIGINT are then ignored. */
void stop_release(struct stop *s);

/* The first signal since stop_catch (enum stop_reason), or -1. */
int stop_wanted(const struct stop *s);

/* Fills tail[STOP_N] with this rank's wish; is_late: the end of its time is one. */
void stop_fill(const struct stop *s, bool is_late, double *tail);

/* Of the sums over all ranks: the reason (the first in the order above), or -1. And that reason's signal; 0: none. */
int stop_agreed(struct stop *s, const double *tail);
int stop_signal(int reason);

#endif
