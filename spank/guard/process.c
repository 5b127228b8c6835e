#include "config.h" /* dup3 */
#include "spank/guard/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

#define SAY_S 1.0
#define LINE_MAX_BYTES 4096
#define TREE_MAX 4096 /* processes */
#define PROCESS_EXITING 0x4 /* PF_EXITING of the kernel's flags in proc_pid_stat(5) */

void process_keep_signals(struct process_signals *ret)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL}; /* ignored, a child's end would leave no status */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &ret->mask);
    sigaction(SIGCHLD, &by_default, &ret->child);
}

void process_give_back_signals(const struct process_signals *s)
{
    sigaction(SIGCHLD, &s->child, NULL);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

static bool is_in(int fd, const int *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == fd)
            return true;
    return false;
}

void process_let_go(const int *kept, size_t n)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), last = STDERR_FILENO;
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd);
    for (size_t i = 0; i < n; i++)
        last = kept[i] > last ? kept[i] : last;
    for (int fd = STDERR_FILENO + 1; fd < last; fd++)
        if (!is_in(fd, kept, n))
            close(fd);
    closefrom(last + 1);
    (void)!chdir("/");
}

static bool is_private_pipe(int fd)
{
    struct stat s;
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) && fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode);
}

void process_let_go_pipes(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && is_private_pipe(fd) && (null < 0 || dup3(null, fd, O_CLOEXEC) < 0))
            close(fd);
    }
    if (d)
        closedir(d);
    io_close(null);
}

/* With one write (dprintf makes several), so that no other line comes between. */
void process_say(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    size_t len = strlen(line);
    line[len] = '\n';
    if (poll(&p, 1, (int)(SAY_S * 1e3)) > 0)
        (void)!write(STDERR_FILENO, line, len + 1);
}

struct list {
    pid_t pid[TREE_MAX];
    size_t n;
};

/* The children of all threads of `pid`. */
static void add_children(struct list *l, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        int child;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, atoi(e->d_name));
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (f && l->n < TREE_MAX && fscanf(f, "%d", &child) == 1)
            l->pid[l->n++] = child;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
}

/* Found first: who ends leaves its children to others. first: 0, or 1 to leave `pid` out. */
static void signal_from(size_t first, pid_t pid, int signo)
{
    struct list l = {.pid = {pid}, .n = 1};
    for (size_t i = 0; i < l.n; i++)
        add_children(&l, l.pid[i]);
    for (size_t i = first; i < l.n; i++) {
        kill(l.pid[i], signo);
        if (signo == SIGTERM)
            kill(l.pid[i], SIGCONT);
    }
}

void process_signal_tree(pid_t pid, int signo)
{
    signal_from(0, pid, signo);
}

void process_signal_below(int signo)
{
    signal_from(1, getpid(), signo);
}

/* False of a zombie, all of whose threads have ended, where it is the parent's to reap. */
static bool is_on_its_way_out(pid_t pid, bool is_ours)
{
    char path[64], text[256], state = 0;
    unsigned flags = 0;
    int n_threads = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    const char *name_end = strrchr(text, ')');
    if (f)
        fclose(f);
    if (!name_end || sscanf(name_end, ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &state,
                            &flags, &n_threads) != 3)
        return false;
    return (flags & PROCESS_EXITING) && (is_ours || state != 'Z' || n_threads > 1);
}

bool process_is_ending(pid_t pid)
{
    struct list l = {.pid = {pid}, .n = 1};
    bool is = is_on_its_way_out(pid, true);
    for (size_t i = 0; i < l.n && !is; i++) {
        add_children(&l, l.pid[i]);
        is = i > 0 && is_on_its_way_out(l.pid[i], false);
    }
    return is;
}

bool process_used(pid_t pid, uint64_t *ret_ns)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return false;
    *ret_ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
    return true;
}

uint64_t process_used_below(pid_t pid)
{
    struct list l = {.pid = {pid}, .n = 1};
    uint64_t sum = 0, used;
    for (size_t i = 0; i < l.n; i++) {
        add_children(&l, l.pid[i]);
        sum += i > 0 && process_used(l.pid[i], &used) ? used : 0;
    }
    return sum;
}

size_t process_busiest(pid_t pid, pid_t *ret, size_t n)
{
    struct list l = {.pid = {pid}, .n = 1};
    uint64_t used_of[TREE_MAX], used;
    size_t n_found = 0;
    for (size_t i = 0; i < l.n; i++) {
        add_children(&l, l.pid[i]);
        if (!process_used(l.pid[i], &used))
            continue;
        size_t at = n_found < n ? n_found++ : n;
        for (; at > 0 && used_of[at - 1] < used; at--)
            if (at < n) {
                used_of[at] = used_of[at - 1];
                ret[at] = ret[at - 1];
            }
        if (at < n) {
            used_of[at] = used;
            ret[at] = l.pid[i];
        }
    }
    return n_found;
}

_Noreturn void process_end_as(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, WTERMSIG(status));
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
