/* job.h - `ddp run`'s job: what it is made of (run.c), one rank's start (spawn.c), its life (job.c). */
#ifndef DDP_CLI_JOB_H
#define DDP_CLI_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/error.h"

#define JOB_RANKS_MAX 4096
#define JOB_EXIT_TIMEOUT 124
#define JOB_EXIT_NOT_EXECUTABLE 126
#define JOB_EXIT_NOT_FOUND 127

struct job {
    int n_ranks;
    int *node;        /* [n_ranks] virtual node of a rank, ascending */
    double timeout_s; /* 0: none */
    const char *boot_addr; /* where ranks meet (boot_wire.h); NULL for job_run: a folder of its own (meeting.h) */
    char **argv;      /* the program and its arguments, NULL at the end */
};

/* What every rank of one job is told alike. */
struct spawn {
    const struct job *job;
    const char *boot_addr, *boot_token;
    int master_port;
    int n_threads;           /* OMP_NUM_THREADS, unless the user set one */
    bool is_own_group;       /* each rank leads a process group of its own */
    const sigset_t *sigmask; /* the mask that the program starts with */
};

/* Starts rank: *ret_pid, once exec has succeeded. -1: error code ENOENT, EACCES, ... when the program cannot be run. */
int spawn_rank(const struct spawn *s, int rank, pid_t *ret_pid, ddp_error_t *errp);

/* Runs the job to its end and returns its exit code; says on stderr what went wrong. Nothing of it is left running:
 *
 *   ddp (guard.c: passes signals on, waits) -> supervisor (job.c: boot server, ranks) -> ranks -> what they start
 *
 * Both upper processes adopt orphans. When ddp is killed, the supervisor ends all below it; when the supervisor is
 * killed, the ranks die with it and ddp ends what they started. Whichever of the two is left removes the folder that
 * the ranks met in. */
int job_run(const struct job *job);

/* The supervisor's life. front_fd: a pidfd of ddp; sigmask: the mask that the ranks start with. */
int job_supervise(const struct job *job, int front_fd, const sigset_t *sigmask, bool is_own_group);

/* The signals that are passed on to the ranks, and SIGCHLD: blocked in both processes. */
void job_signals(sigset_t *ret);

/* SIGKILLs and reaps every child of this process, and the orphans that it adopts by that, within a few seconds. */
void job_end_descendants(void);

#endif
