/* guard.c - the front process of `ddp run`: it holds the pid that the user knows, and outlives the supervisor. */
#include "config.h" /* strsignal */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/cli/run/job.h"
#include "runtime/cli/run/meeting.h"

/* The terminal sends its signals to ddp's whole process group; elsewhere each rank leads a group of its own, so that a
 * signal to ddp's group does not reach the ranks twice. */
static bool is_at_terminal(void)
{
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static int supervisor(const struct job *job, pid_t front, const sigset_t *sigmask, bool is_own_group)
{
    int front_fd = (int)syscall(SYS_pidfd_open, front, 0);
    if (front_fd < 0 || getppid() != front) {
        fprintf(stderr, "ddp run: cannot watch over process %d: %s\n", (int)front, strerror(errno));
        return 1;
    }
    if (is_own_group)
        setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int rc = job_supervise(job, front_fd, sigmask, is_own_group);
    io_close(front_fd);
    return rc;
}

/* What the terminal sends to ddp's process group has reached the supervisor already, where that is in it; a hang-up
 * goes to the session's leader alone, which ddp may be. */
static bool is_for_supervisor(const siginfo_t *info, bool is_own_group)
{
    return is_own_group || info->si_signo == SIGHUP || info->si_code != SI_KERNEL;
}

/* Passes signals on to the supervisor until it ends; its wait status. */
static int guard(pid_t pid, const sigset_t *set, bool is_own_group)
{
    int status;
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(set, &info);
        if (sig < 0)
            continue;
        if (sig != SIGCHLD && is_for_supervisor(&info, is_own_group))
            kill(pid, sig);
        if (sig == SIGCHLD && waitpid(pid, &status, WNOHANG) == pid)
            return status;
    }
}

/* In the child: the folder goes with the supervisor; where that is killed, with the front process. */
static void supervise(const struct job *job, const struct meeting *m, pid_t front, const sigset_t *sigmask,
                      bool is_own_group)
{
    int rc = supervisor(job, front, sigmask, is_own_group);
    meeting_close(m);
    exit(rc);
}

static int run(const struct job *job, const struct meeting *m, const sigset_t *signals, const sigset_t *before)
{
    pid_t front = getpid();
    bool is_own_group = !is_at_terminal();
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, children cannot be waited for */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "ddp run: fork: %s\n", strerror(errno));
        meeting_close(m);
        return 1;
    }
    if (pid == 0)
        supervise(job, m, front, before, is_own_group);
    int status = guard(pid, signals, is_own_group);
    job_end_descendants();
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    meeting_close(m);
    fprintf(stderr, "ddp run: the supervisor was killed by signal %d (%s)\n", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    return 128 + WTERMSIG(status);
}

int job_run(const struct job *job)
{
    struct job here = *job;
    struct meeting m = {.dir = ""};
    sigset_t signals, before;
    ddp_error_t e;
    int rc = 1;
    job_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    if (!job->boot_addr && meeting_open(&m, &e) < 0) {
        fprintf(stderr, "ddp run: %s\n", e.text);
    } else {
        here.boot_addr = job->boot_addr ? job->boot_addr : m.addr;
        rc = run(&here, &m, &signals, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}
