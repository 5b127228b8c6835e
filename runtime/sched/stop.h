/* stop.h - requests that the job stop, which come as signals. The signal handler only sets a flag; the flag is sent
 * with the next reduction of gradients, so that all ranks stop after the same step. Also, a rank that Slurm terminates
 * because another rank died can still report that: Slurm sends SIGTERM some 60 ms after the death, when a rank that
 * computes does not know of it yet. So signals are caught from ddp_data_open on, whether or not there are checkpoints.
 *
 * Slurm sends signals more than once: SIGTERM comes again at the end of a GraceTime, and after --signal=USR1@60. So
 * only the first signal counts, and later ones are ignored, so that they do not end a process that is saving. But a
 * second SIGINT ends it at once, as a user at a terminal expects. */
#ifndef DDP_RUNTIME_SCHED_STOP_H
#define DDP_RUNTIME_SCHED_STOP_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/base/error.h"

/* The reason for a stop: one of the signals, or the end of the job's time (due.h). Each has an element of its own in
 * the tail. */
enum stop_reason { STOP_TERM, STOP_USR1, STOP_USR2, STOP_INT, STOP_N_SIGNALS, STOP_DEADLINE = STOP_N_SIGNALS, STOP_N };

struct stop {
    unsigned caught; /* signals whose handler is ours, as bits 1 << enum stop_reason */
    bool is_leaving; /* the ranks have agreed to stop */
};

/* Parses "TERM,USR1" into *ret, one bit for each signal; "none" gives no bit. Other words are an error that lists the
 * allowed ones. Pure. */
int stop_parse(const char *text, unsigned *ret, ddp_error_t *errp);

/* Installs the handler for the signals of `set` whose disposition is the default one; a program's own handler and
 * SIG_IGN stay. */
void stop_catch(struct stop *s, unsigned set);

/* Gives back those signals that the program has not taken since; a zeroed struct is allowed. A process that is about to
 * leave is not to be ended on its way: a requeue sends SIGTERM, and so does srun to all others as soon as one rank has
 * left with another code than 0 (a rank 20 ms behind another made srun's exit code 143). So where a signal has arrived
 * at any rank, all but SIGINT are then ignored. */
void stop_release(struct stop *s);

/* The first signal since stop_catch (enum stop_reason), or -1. */
int stop_wanted(const struct stop *s);

/* Fills tail[STOP_N] with this rank's request; is_late: the end of the job's time is near, which is a request too. */
void stop_fill(const struct stop *s, bool is_late, double *tail);

/* stop_agreed: the reason in the sums over all ranks (the first in the order of enum stop_reason), or -1. stop_signal:
 * a reason's signal, or 0. */
int stop_agreed(struct stop *s, const double *tail);
int stop_signal(int reason);

/* "TERM" of SIGTERM; NULL: it is none of these signals. */
const char *stop_signal_name(int signum);

#endif
