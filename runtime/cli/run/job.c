/* job.c - the supervisor of `ddp run`. A job goes
 *
 *   RUNNING -> SETTLE (a rank failed, perhaps because of another, whose end is not known yet)
 *           -> GRACE (the failure is told; the others may report) -> TERM (sent SIGTERM) -> KILL (sent SIGKILL)
 *
 * and ends as soon as no rank is left. Its exit code is that of the first failure, and final from GRACE on. A rank that
 * exits with DDP_EXIT_STOPPED has not failed: it was asked to stop and has saved, as the others are about to, in their
 * own time. Where no rank fails, that is the job's exit code. */
#include "config.h" /* strsignal */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pmix/boot_server.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/cli/run/job.h"
#include "runtime/ddp.h"

#define SETTLE_S 0.5 /* a rank whose sockets are closed by its death ends that soon */
#define GRACE_S 2.0  /* from a rank's failure to SIGTERM */
#define TERM_S 3.0   /* from SIGTERM to SIGKILL */
#define END_S 5.0    /* a killed process that is not gone by then hangs in the kernel */
#define NEVER UINT64_MAX

enum phase { RUNNING, SETTLE, GRACE, TERM, KILL };

struct supervisor {
    const struct job *job;
    boot_server_t *server;
    int signal_fd, front_fd;
    bool is_own_group;
    pid_t *pid; /* [n_ranks] 0: not running */
    int n_alive;
    enum phase phase;
    uint64_t next_phase, timeout; /* deadlines */
    int exit_code;
    char failure[256];
};

static void signal_ranks(const struct supervisor *s, int sig)
{
    for (int r = 0; r < s->job->n_ranks; r++)
        if (s->pid[r])
            kill(s->is_own_group ? -s->pid[r] : s->pid[r], sig);
}

static void enter(struct supervisor *s, enum phase phase)
{
    static const double lasts_s[] = {[SETTLE] = SETTLE_S, [GRACE] = GRACE_S, [TERM] = TERM_S};
    bool is_told = s->phase >= GRACE;
    s->phase = phase;
    if (phase >= GRACE && !is_told)
        fprintf(stderr, "ddp run: %s%s\n", s->failure, s->n_alive ? "; ending the job" : "");
    if (phase == TERM) {
        signal_ranks(s, SIGTERM);
        signal_ranks(s, SIGCONT); /* a stopped process takes no SIGTERM */
    }
    if (phase == KILL)
        signal_ranks(s, SIGKILL);
    s->next_phase = phase == KILL ? NEVER : deadline_in(lasts_s[phase]);
}

/* The first failure decides the exit code and ends the job. */
static void fail(struct supervisor *s, int code, enum phase phase, const char *what)
{
    if (s->phase >= GRACE)
        return;
    s->exit_code = code;
    snprintf(s->failure, sizeof s->failure, "%s", what);
    enter(s, phase);
}

/* A rank that another one took down with it may end before that one (the sockets of a dying process close before its
 * end is known): the other, which the boot server names or which a signal killed, is the failure to tell. */
static void rank_failed(struct supervisor *s, int code, bool is_cause, const char *what)
{
    if (s->phase == RUNNING || is_cause)
        fail(s, code, is_cause ? GRACE : SETTLE, what);
}

static void rank_ended(struct supervisor *s, int rank, int status)
{
    char how[64], what[96];
    bool is_killed = WIFSIGNALED(status);
    int code = is_killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (is_killed)
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "exited with code %d", code);
    s->pid[rank] = 0;
    s->n_alive--;
    bool is_cause = is_killed || boot_server_failed_rank(s->server) == rank; /* before it hears of this end from us */
    boot_server_rank_gone(s->server, rank, how);
    snprintf(what, sizeof what, "rank %d %s", rank, how);
    if (code == DDP_EXIT_STOPPED && s->phase == RUNNING)
        s->exit_code = code;
    else if (code)
        rank_failed(s, code, is_cause, what);
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int r = 0; r < s->job->n_ranks; r++) /* none: an orphan of some rank */
            if (s->pid[r] == pid)
                rank_ended(s, r, status);
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            reap(s);
        else if (info.ssi_code != SI_KERNEL) /* the terminal's signals have reached the ranks already */
            signal_ranks(s, (int)info.ssi_signo);
    }
}

static void take_deadlines(struct supervisor *s)
{
    char what[64];
    if (s->phase == RUNNING && deadline_left_ns(s->timeout) == 0) {
        snprintf(what, sizeof what, "the job did not end within %g s", s->job->timeout_s);
        fail(s, JOB_EXIT_TIMEOUT, TERM, what);
    }
    if (deadline_left_ns(s->next_phase) == 0)
        enter(s, s->phase + 1);
}

/* Until no rank is left, or ddp is gone (then the caller ends what is left). */
static void watch(struct supervisor *s)
{
    enum { SIGNALS, FRONT, SERVER };
    struct pollfd p[] = {
        [SIGNALS] = {.fd = s->signal_fd, .events = POLLIN},
        [FRONT] = {.fd = s->front_fd, .events = POLLIN},
        [SERVER] = {.fd = boot_server_fd(s->server), .events = POLLIN},
    };
    ddp_error_t e;
    while (s->n_alive > 0) {
        uint64_t next = s->phase == RUNNING ? s->timeout : s->next_phase;
        int n = poll(p, 3, next == NEVER ? -1 : deadline_left_ms(next));
        if (n > 0 && p[FRONT].revents)
            return;
        if (n > 0 && p[SERVER].revents && boot_server_step(s->server, 0, &e) < 0)
            fail(s, 1, GRACE, e.text);
        if (n > 0 && p[SIGNALS].revents)
            take_signals(s);
        take_deadlines(s);
    }
    if (s->phase == SETTLE)
        enter(s, GRACE);
}

/* A port of 127.0.0.1 that was free just now; 0 when there is none. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin_port);
    io_close(fd);
    return port;
}

static int cores_per_rank(int n_ranks)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) / n_ranks : 1;
    return n > 1 ? n : 1;
}

/* 0, or the exit code. */
static int start(struct supervisor *s, const char *token, const sigset_t *sigmask)
{
    struct spawn spawn = {.job = s->job, .boot_addr = boot_server_addr(s->server), .boot_token = token,
                          .master_port = free_port(), .n_threads = cores_per_rank(s->job->n_ranks),
                          .is_own_group = s->is_own_group, .sigmask = sigmask};
    ddp_error_t e;
    for (int r = 0; r < s->job->n_ranks; r++) {
        if (spawn_rank(&spawn, r, &s->pid[r], &e) < 0) {
            fprintf(stderr, "ddp run: %s\n", e.text);
            return e.code == ENOENT ? JOB_EXIT_NOT_FOUND : JOB_EXIT_NOT_EXECUTABLE;
        }
        s->n_alive++;
    }
    return 0;
}

static int prepare(struct supervisor *s, char *token, ddp_error_t *errp)
{
    sigset_t set;
    job_signals(&set);
    s->pid = calloc((size_t)s->job->n_ranks, sizeof *s->pid);
    s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (!s->pid || s->signal_fd < 0)
        return error_errno(errp, "signalfd");
    if (io_random_hex(token, BOOT_TOKEN_BYTES, errp) < 0)
        return -1;
    s->server = boot_server_create(s->job->boot_addr, token, s->job->n_ranks, errp);
    return s->server ? 0 : -1;
}

void job_signals(sigset_t *ret)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD};
    sigemptyset(ret);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(ret, signals[i]);
}

static void kill_children(void)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    while (fscanf(f, "%d", &pid) == 1)
        kill(pid, SIGKILL);
    fclose(f);
}

void job_end_descendants(void)
{
    uint64_t deadline = deadline_in(END_S), left;
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    while ((left = deadline_left_ns(deadline)) > 0) {
        pid_t pid;
        kill_children();
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0)
            return;
        /* A child's death makes its children ours before SIGCHLD comes. */
        struct timespec ts = {.tv_sec = (time_t)(left / NS_PER_S), .tv_nsec = (long)(left % NS_PER_S)};
        sigtimedwait(&chld, NULL, &ts);
    }
}

int job_supervise(const struct job *job, int front_fd, const sigset_t *sigmask, bool is_own_group)
{
    struct supervisor s = {.job = job, .front_fd = front_fd, .signal_fd = -1, .is_own_group = is_own_group,
                           .next_phase = NEVER, .timeout = job->timeout_s > 0 ? deadline_in(job->timeout_s) : NEVER};
    char token[2 * BOOT_TOKEN_BYTES + 1];
    ddp_error_t e;
    if (prepare(&s, token, &e) < 0) {
        fprintf(stderr, "ddp run: %s\n", e.text);
        s.exit_code = e.domain == DDP_E_USAGE ? JOB_EXIT_USAGE : EXIT_FAILURE;
    } else {
        s.exit_code = start(&s, token, sigmask);
        if (s.exit_code == 0)
            watch(&s);
    }
    job_end_descendants();
    boot_server_destroy(s.server);
    io_close(s.signal_fd);
    free(s.pid);
    return s.exit_code;
}
