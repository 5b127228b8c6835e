/* job.h - the job of `ddp run`: its options (../run.c), the start of one rank (spawn.c), and the job from start to end
 * (job.c). */
#ifndef DDP_RUNTIME_CLI_RUN_JOB_H
#define DDP_RUNTIME_CLI_RUN_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/error.h"

#define JOB_RANKS_MAX 4096
#define JOB_EXIT_USAGE 2
#define JOB_EXIT_TIMEOUT 124
#define JOB_EXIT_NOT_EXECUTABLE 126
#define JOB_EXIT_NOT_FOUND 127

struct job {
    int n_ranks;
    int *node;        /* [n_ranks] virtual node of a rank, ascending */
    double timeout_s; /* 0: none */
    const char *boot_addr; /* of the boot server (boot_wire.h); NULL for job_run: in a folder of its own (meeting.h) */
    char **argv;      /* the program and its arguments, NULL at the end */
};

/* What is the same for every rank of a job. */
struct spawn {
    const struct job *job;
    const char *boot_addr, *boot_token;
    int master_port;
    int n_threads;           /* OMP_NUM_THREADS, unless the user set one */
    bool is_own_group;       /* each rank leads a process group of its own */
    const sigset_t *sigmask; /* the mask that the program starts with */
};

/* Starts a rank. *ret_pid is its process, once exec has succeeded. -1: error code ENOENT, EACCES, ... if the program
 * cannot be run. */
int spawn_rank(const struct spawn *s, int rank, pid_t *ret_pid, ddp_error_t *errp);

/* Runs the job to its end and returns its exit code; reports errors on stderr. No process of the job is left:
 *
 *   ddp (guard.c: passes signals on, waits) -> supervisor (job.c: boot server, ranks) -> ranks -> what they start
 *
 * The two upper processes adopt orphans. If ddp is killed, the supervisor ends all processes below it; if the
 * supervisor is killed, the ranks die with it and ddp ends what they have started. The one of the two that is left
 * removes the folder with the boot server's socket. */
int job_run(const struct job *job);

/* What the supervisor does, from start to end. front_fd: a pidfd of ddp; sigmask: the mask that the ranks start
 * with. */
int job_supervise(const struct job *job, int front_fd, const sigset_t *sigmask, bool is_own_group);

/* The signals that are passed on to the ranks, and SIGCHLD: blocked in both processes. */
void job_signals(sigset_t *ret);

/* Kills (SIGKILL) and reaps every child of this process, and the orphans that it then adopts, within a few seconds. */
void job_end_descendants(void);

#endif
