/* watchdog.h - ends the calling process when its time is up, whatever it is doing: a last resort beside deadlines, for
 * what computes or blocks without looking at a clock. */
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

/* After `seconds` the process writes `line` (copied, 255 bytes at most, with its newline) to stderr and ends with code
 * 1; where it cannot even do that, the kernel kills it a second later. Takes SIGALRM until watchdog_stop; one at a
 * time. The timers are POSIX timers: neither fork nor exec hands them on. 0, or -1: the user's limit of signals
 * (ulimit -i) lets there be no timer. */
int watchdog_start(struct watchdog *w, double seconds, const char *line, ddp_error_t *errp);

/* As if it had never been: handler and mask are those of before. */
void watchdog_stop(struct watchdog *w);

#endif
