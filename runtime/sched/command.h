/* command.h - runs another program with a deadline and without a shell, and takes its output. */
#ifndef DDP_RUNTIME_SCHED_COMMAND_H
#define DDP_RUNTIME_SCHED_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* Runs argv[0], looked up in PATH, with argv (NULL at its end) and standard input closed. out[size] gets what it writes
 * to standard output and standard error, cut at size - 1 bytes. It is killed at `deadline` (clock.h), or as soon as
 * cancel_fd (-1: none) can be read. SLURM_TIME_FORMAT is %s for it, so that scontrol prints times as seconds since
 * 1970. Signals are as in a new process, but those that end a job are blocked: scontrol's own request to requeue the
 * job makes Slurm send them, and scontrol has to finish. Any thread may call.
 *
 * 0: the program ended with exit code 0. -1: it ended otherwise, and the error has the last line of its output; or it
 * could not be started (DDP_E_SYSTEM; code ENOENT: there is no such program); or DDP_E_TIMEOUT. */
int command_run(const char *const argv[], uint64_t deadline, int cancel_fd, char *out, size_t size, ddp_error_t *errp);

#endif
