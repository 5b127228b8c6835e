/* spawn.c - one rank: its environment, its standard input, its death with its parent, its exec. */
#include "config.h" /* pipe2 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cli/run/job.h"

static void set_int(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_env(const struct spawn *s, int rank)
{
    const struct job *j = s->job;
    int node = j->node[rank], local = 0, local_size = 0;
    for (int r = 0; r < j->n_ranks; r++) {
        local += r < rank && j->node[r] == node;
        local_size += j->node[r] == node;
    }
    set_int("RANK", rank);
    set_int("WORLD_SIZE", j->n_ranks);
    set_int("LOCAL_RANK", local);
    set_int("LOCAL_WORLD_SIZE", local_size);
    set_int("NODE_RANK", node);
    set_int("GROUP_RANK", node);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_int("MASTER_PORT", s->master_port);
    if (!getenv("OMP_NUM_THREADS"))
        set_int("OMP_NUM_THREADS", s->n_threads);
    setenv("DDP_BOOT_ADDR", s->boot_addr, 1);
    setenv("DDP_BOOT_TOKEN", s->boot_token, 1);
    set_int("DDP_RANK", rank);
    set_int("DDP_SIZE", j->n_ranks);
    set_int("DDP_NODE", node);
}

static int close_stdin(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
        return -1;
    return 0;
}

/* In the child: does not return. What failed goes through `report` as an errno. */
static void become_rank(const struct spawn *s, int rank, pid_t parent, int report)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before prctl */
        _exit(128 + SIGKILL);
    if (s->is_own_group)
        setpgid(0, 0);
    if (rank == 0 || close_stdin() == 0) {
        set_env(s, rank);
        sigprocmask(SIG_SETMASK, s->sigmask, NULL);
        execvp(s->job->argv[0], s->job->argv);
    }
    int e = errno;
    ssize_t sent = write(report, &e, sizeof e);
    _exit(sent == (ssize_t)sizeof e ? JOB_EXIT_NOT_FOUND : JOB_EXIT_NOT_EXECUTABLE);
}

/* What the child says through the pipe: 0 when exec closed it, else the errno. */
static int read_report(int fd)
{
    int e = 0;
    ssize_t n;
    do
        n = read(fd, &e, sizeof e);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof e ? e : 0;
}

/* A folder of PATH has a file of that name, or the name is a path. Of a folder that may not be searched, and so has
 * none, execvp says EACCES, too. */
static bool is_there(const char *program)
{
    const char *at = getenv("PATH");
    struct stat st;
    bool found = !at || strchr(program, '/');
    while (!found && at) {
        char file[PATH_MAX];
        size_t n = strcspn(at, ":");
        snprintf(file, sizeof file, "%.*s/%s", n ? (int)n : 1, n ? at : ".", program);
        found = stat(file, &st) == 0 && S_ISREG(st.st_mode);
        at = at[n] ? at + n + 1 : NULL;
    }
    return found;
}

int spawn_rank(const struct spawn *s, int rank, pid_t *ret_pid, ddp_error_t *errp)
{
    int report[2];
    pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(errp, "rank %d: pipe", rank);
    pid_t pid = fork();
    if (pid == 0)
        become_rank(s, rank, parent, report[1]);
    int e = errno;
    close(report[1]);
    if (pid > 0)
        e = read_report(report[0]);
    close(report[0]);
    if (pid < 0) {
        errno = e;
        return error_errno(errp, "rank %d: fork", rank);
    }
    if (e) {
        waitpid(pid, NULL, 0);
        if (e == EACCES && !is_there(s->job->argv[0]))
            e = ENOENT;
        return error_set(errp, DDP_E_SYSTEM, e, "%.150s cannot be run: %s", s->job->argv[0],
                         e == ENOENT ? "no such program" : strerror(e));
    }
    *ret_pid = pid;
    return 0;
}
