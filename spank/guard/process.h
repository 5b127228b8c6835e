/* process.h - what a guard does with its own process: the signals and descriptors that it takes over from
 * slurmstepd, a line for the user, its end. */
#ifndef DDP_SPANK_GUARD_PROCESS_H
#define DDP_SPANK_GUARD_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"

/* Of the process that is forked, as the program is to have them. */
struct process_signals {
    sigset_t mask;
    struct sigaction child; /* SIGCHLD's */
};

/* Blocks all signals: so those that are ignored arrive as well (signalfd), and the others' handlers stay as they are.
 * The end of a child leaves a status. Gives both back. */
void process_keep_signals(struct process_signals *ret);
void process_give_back_signals(const struct process_signals *s);

/* Closes all descriptors but stderr and kept[0..n); stdin and stdout become /dev/null, the folder "/". */
void process_let_go(const int *kept, size_t n);

/* Ends of pipes that exec would close become /dev/null: they are slurmstepd's own, and a program's stdin ends only when
 * nobody holds its other end. All else stays, and every number taken: later programs begin in slurmstepd's code, which
 * has a log. */
void process_let_go_pipes(void);

/* A line to the user, without its newline, if stderr takes it within a second. */
ERROR_PRINTF(1, 2) void process_say(const char *format, ...);

/* Sends the signal (and after SIGTERM SIGCONT: who is stopped does not end) to that process, a child that has not been
 * reaped, and then to all that it and they have started, as far as they are still their parents' children. */
void process_signal_tree(pid_t pid, int signo);

/* So also to all that this process has started or, as their reaper, taken in. */
void process_signal_below(int signo);

/* Of a child that has not been reaped, or of what it has started (it may be a shell): it, or its first thread, has
 * ended, and it will leave a status when all of it has. Its sockets may be closed by then, which others see; to let go
 * of a device may take it seconds. */
bool process_is_ending(pid_t pid);

/* The processor time that it has taken so far: false where that is not known; and the sum over all that it has started,
 * as in process_signal_tree. */
bool process_used(pid_t pid, uint64_t *ret_ns);
uint64_t process_used_below(pid_t pid);

/* Of it and all that it has started, up to n that have taken most, that one first. How many. */
size_t process_busiest(pid_t pid, pid_t *ret, size_t n);

/* Ends the process with that wait status, without a core. */
_Noreturn void process_end_as(int status);

#endif
