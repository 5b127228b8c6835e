#include <config.h> /* pipe2 */

#include "runtime/sched/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

extern char **environ;

static char time_variable[] = "SLURM_TIME_FORMAT=%s";

/* The environment with that variable; free() frees it, its strings are borrowed. */
static char **make_environment(void)
{
    size_t n = 0, kept = 1, len = strlen("SLURM_TIME_FORMAT=");
    while (environ && environ[n])
        n++;
    char **env = calloc(n + 2, sizeof *env);
    if (!env)
        return NULL;
    env[0] = time_variable;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], time_variable, len) != 0)
            env[kept++] = environ[i];
    return env;
}

/* What a job's processes are sent when it is to end. */
static const int end_signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/* 0, or an errno. */
static int start(const char *const argv[], int out_fd, pid_t *ret)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t blocked, all;
    char **env = make_environment();
    if (!env)
        return ENOMEM;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof end_signals / sizeof *end_signals; i++)
        sigaddset(&blocked, end_signals[i]);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &blocked);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    int rc = posix_spawnp(ret, argv[0], &files, &attr, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    free(env);
    return rc;
}

/* Reads what there is; false at the end of the output. What does not fit is dropped. */
static bool take(int fd, char *out, size_t size, size_t *n)
{
    char scrap[512];
    bool has_room = *n + 1 < size;
    ssize_t got = has_room ? read(fd, out + *n, size - 1 - *n) : read(fd, scrap, sizeof scrap);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (has_room)
        *n += (size_t)got;
    return got > 0;
}

enum ending { ENDED, LATE, CANCELLED, UNWATCHED };

/* Until the program has ended. */
static enum ending follow(pid_t pid, int fd, int cancel_fd, uint64_t deadline, char *out, size_t size)
{
    enum { OUTPUT, END, CANCEL };
    size_t n = 0;
    enum ending how = ENDED;
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p[] = {[OUTPUT] = {.fd = fd, .events = POLLIN},
                         [END] = {.fd = pid_fd, .events = POLLIN},
                         [CANCEL] = {.fd = cancel_fd, .events = POLLIN}};
    if (pid_fd < 0)
        how = UNWATCHED;
    for (bool is_over = false; how == ENDED && !(is_over && p[OUTPUT].fd < 0);) {
        int ready = is_over ? poll(p, 1, 0) : poll(p, 3, deadline_left_ms(deadline));
        if (ready > 0 && p[OUTPUT].revents && !take(fd, out, size, &n))
            p[OUTPUT].fd = -1;
        else if (is_over && ready <= 0) /* all is read; a child of its own may hold the pipe */
            p[OUTPUT].fd = -1;
        if (!is_over && ready > 0 && p[CANCEL].revents)
            how = CANCELLED;
        if (!is_over && ready > 0 && p[END].revents)
            is_over = true;
        if (!is_over && how == ENDED && deadline_left_ns(deadline) == 0)
            how = LATE;
    }
    out[n] = 0;
    io_close(pid_fd);
    return how;
}

/* The last line of out that is not empty, in place. */
static const char *last_line(char *out)
{
    size_t n = strlen(out);
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
        out[--n] = 0;
    char *line = strrchr(out, '\n');
    return line ? line + 1 : out;
}

static int judge(const char *name, enum ending how, int status, char *out, ddp_error_t *errp)
{
    if (how == UNWATCHED)
        return error_set(errp, DDP_E_SYSTEM, ENOSYS, "%s: this kernel cannot watch a process (pidfd_open)", name);
    if (how == LATE)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not answer in time and was ended", name);
    if (how == CANCELLED)
        return error_set(errp, DDP_E_SYSTEM, ECANCELED, "%s was ended", name);
    if (WIFSIGNALED(status))
        return error_set(errp, DDP_E_SYSTEM, ECHILD, "%s was killed by signal %d", name, WTERMSIG(status));
    if (WEXITSTATUS(status))
        return error_set(errp, DDP_E_SYSTEM, ECHILD, "%s: exit code %d: %.150s", name, WEXITSTATUS(status),
                         last_line(out));
    return 0;
}

int command_run(const char *const argv[], uint64_t deadline, int cancel_fd, char *out, size_t size, ddp_error_t *errp)
{
    int fd[2], status = 0;
    pid_t pid;
    out[0] = 0;
    if (pipe2(fd, O_CLOEXEC) < 0)
        return error_errno(errp, "%s: pipe", argv[0]);
    int e = start(argv, fd[1], &pid);
    close(fd[1]);
    if (e) {
        close(fd[0]);
        return error_set(errp, DDP_E_SYSTEM, e, "%s cannot be run: %s", argv[0],
                         e == ENOENT ? "there is no such program in PATH" : strerror(e));
    }
    enum ending how = follow(pid, fd[0], cancel_fd, deadline, out, size);
    close(fd[0]);
    if (how != ENDED)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) /* where the program itself waits for all: status stays 0 */
        ;
    return judge(argv[0], how, status, out, errp);
}
