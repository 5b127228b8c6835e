/* watchdog.h - ends the calling process at a given time, whatever it is doing: a last resort beside deadlines, for code
 * that computes or blocks without looking at a clock. */
#ifndef DDP_SPANK_WATCHDOG_H
#define DDP_SPANK_WATCHDOG_H

#include <signal.h>
#include <time.h>

#include "runtime/base/error.h"

struct watchdog {
    timer_t word, kill; /* SIGALRM; and SIGKILL a second later, for a system call that no other signal ends */
    struct sigaction was_action;
    sigset_t was_mask;
};

/* After `seconds` the process writes `line` (copied, 255 bytes at most, with its newline) to stderr and exits with code
 * 1; if it cannot even do that, the kernel kills it a second later. Uses SIGALRM until watchdog_stop; only one watchdog
 * at a time. The timers are POSIX timers, which neither fork nor exec passes on. 0, or -1: the user's limit of signals
 * (ulimit -i) allows no timer. */
int watchdog_start(struct watchdog *w, double seconds, const char *line, ddp_error_t *errp);

/* Stops the watchdog, and restores the signal handler and mask from before. */
void watchdog_stop(struct watchdog *w);

#endif
