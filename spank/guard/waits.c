#include "config.h" /* dladdr, close_range */
#include "spank/guard/waits.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/plain.h"
#include "runtime/stack/threads.h"
#include "spank/guard/process.h"

#define PROCESSES_MAX 16 /* of the task */

struct look {
    pid_t pid[PROCESSES_MAX];
    int memory[PROCESSES_MAX]; /* -1: it may not be read */
    size_t n;
    int threads;
    char path[PATH_MAX]; /* ddp-waits */
};

/* In the folder of what this function is in. */
static bool find_program(char path[PATH_MAX])
{
    Dl_info own;
    if (dladdr((void *)(uintptr_t)guard_waits_ask, &own) == 0 || !own.dli_fname)
        return false;
    const char *slash = strrchr(own.dli_fname, '/');
    int len = slash ? (int)(slash + 1 - own.dli_fname) : 0;
    return snprintf(path, PATH_MAX, "%.*s%s", len, own.dli_fname, ANSWER_PROGRAM) < PATH_MAX && access(path, X_OK) == 0;
}

/* In the child. It gets nothing of the guard's or the program's but what it reads: their variables would be those of
 * its linker, too. */
static void work(const void *arg, int out)
{
    const struct look *l = arg;
    char text[PROCESSES_MAX][32], *argv[PROCESSES_MAX + 2] = {(char[]){ANSWER_PROGRAM}}, *env[] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), n = 1;
    sigset_t none;
    if (null < 0 || dup2(l->threads, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        return;
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    for (size_t i = 0; i < l->n; i++) {
        if (l->memory[i] < 0 || fcntl(l->memory[i], F_SETFD, 0) < 0)
            continue;
        snprintf(text[i], sizeof text[i], "%d:%d", (int)l->pid[i], l->memory[i]);
        argv[n++] = text[i];
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(l->path, argv, env);
}

void guard_waits_init(struct guard_waits *w)
{
    *w = (struct guard_waits){.is_asked = false};
    guard_child_init(&w->child);
}

static int open_memory(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void guard_waits_ask(struct guard_waits *w, pid_t program)
{
    struct look l;
    w->is_asked = true;
    if (w->child.pid || !find_program(l.path)) /* it has answered, and ends; or there is none */
        return;
    l.n = process_busiest(program, l.pid, PROCESSES_MAX);
    for (size_t i = 0; i < l.n; i++)
        l.memory[i] = open_memory(l.pid[i]);
    l.threads = threads_list(l.pid, l.n);
    if (l.threads >= 0)
        guard_child_begin(&w->child, NULL, work, &l, GUARD_WAITS_S);
    for (size_t i = 0; i < l.n; i++)
        io_close(l.memory[i]);
    io_close(l.threads);
}

bool guard_waits_hear(struct guard_waits *w, char answer[ANSWER_BYTES])
{
    bool is_late, has = w->child.pid && guard_child_hear(&w->child, answer, ANSWER_BYTES, &is_late);
    if (!w->is_asked || (!has && w->child.pid))
        return false;
    w->is_asked = false;
    if (!has)
        memset(answer, 0, ANSWER_BYTES);
    if (answer[0] != ANSWER_COLLECTIVE && answer[0] != ANSWER_CALL)
        answer[0] = ANSWER_OTHER;
    answer[ANSWER_BYTES - 1] = 0;
    plain_line(answer);
    return true;
}

void guard_waits_drop(struct guard_waits *w)
{
    w->is_asked = false;
    if (w->child.pid)
        guard_child_kill(&w->child);
}
