/* main.c - ddp-waits: in which call some processes, of one task, wait for others; says on stdout what answer.h has. A
 * guard (spank/guard/waits.c) may read their memory where this one may not, and gives it descriptors of /proc/PID/mem,
 * and what threads_list has made as stdin. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/stack/answer.h"
#include "runtime/stack/callname.h"
#include "runtime/stack/stack.h"
#include "runtime/stack/threads.h"

#define THREADS_MAX 1024
#define CALLS_MAX 3
#define NAME_MAX_BYTES 64
#define AND " and "
#define STILL_S 0.2 /* who runs within that does not wait, but looks after something now and then */

/* A thread. */
struct waiter {
    enum callname kind;
    char call[NAME_MAX_BYTES];
    bool is_in, is_left; /* its innermost frames lie in the C library; the later ones not any more */
    char own[NAME_MAX_BYTES]; /* the outermost there that has a name, "" */
};

struct task {
    struct thread thread[THREADS_MAX];
    struct waiter of[THREADS_MAX];
    size_t n, base; /* base: the first of the process that is looked at */
};

struct found {
    const char *call[CALLS_MAX + 1];
    size_t n;
    bool are_collectives;
    const char *own;
};

/* ---- threads ---- */

static void take_own(struct waiter *w, const char *file, const char *symbol)
{
    const char *slash = strrchr(file, '/');
    w->is_left = w->is_left || !slash || (!begins(slash, "/libc.") && !begins(slash, "/libpthread"));
    w->is_in |= !w->is_left;
    if (!w->is_left && *symbol)
        snprintf(w->own, sizeof w->own, "%s", symbol + strspn(symbol, "_"));
}

static bool take(void *arg, size_t thread, const char *file, const char *symbol)
{
    struct task *t = arg;
    struct waiter *w = &t->of[t->base + thread];
    take_own(w, file, symbol);
    enum callname kind = callname_find(symbol, w->call, sizeof w->call);
    w->kind = kind != CALLNAME_NONE ? kind : w->kind;
    return kind == CALLNAME_NONE || kind == CALLNAME_INNER;
}

static size_t count_of(const struct task *t, size_t from)
{
    size_t n = 0;
    while (from + n < t->n && t->thread[from + n].pid == t->thread[from].pid)
        n++;
    return n;
}

/* ---- what a process waits in ---- */

/* For another thread of its own, perhaps for the one that is in a call. What is in pthread_join need not have a
 * name. */
static bool is_for_threads(const struct waiter *w)
{
    return w->is_in && (!*w->own || begins(w->own, "pthread_") || begins(w->own, "sem_") ||
                        !strcmp(w->own, "syscall"));
}

/* Sorted, each once. */
static void add(struct found *f, const struct waiter *w)
{
    size_t at = 0;
    while (at < f->n && strcmp(f->call[at], w->call) < 0)
        at++;
    f->are_collectives = (f->n == 0 || f->are_collectives) && w->kind != CALLNAME_MESSAGE;
    if (f->n == CALLS_MAX || (at < f->n && !strcmp(f->call[at], w->call)))
        return;
    memmove(f->call + at + 1, f->call + at, (f->n - at) * sizeof *f->call);
    f->call[at] = w->call;
    f->n++;
}

/* The process whose threads are these. What its first one does is what it does. */
static void add_process(struct task *t, size_t from, size_t n, struct found *f)
{
    const struct waiter *first = NULL;
    for (size_t i = from; i < from + n; i++) {
        if (!threads_is_still(&t->thread[i]))
            t->of[i] = (struct waiter){.kind = CALLNAME_NONE};
        else if (t->thread[i].tid == t->thread[i].pid)
            first = &t->of[i];
    }
    if (!first)
        return;
    f->own = f->own ? f->own : first->own;
    for (size_t i = from; i < from + n; i++)
        if (t->of[i].kind != CALLNAME_NONE && (&t->of[i] == first || is_for_threads(first)))
            add(f, &t->of[i]);
}

/* Several at once may each be of another group. */
static void say(const struct found *f)
{
    bool is_collective = f->n == 1 && f->are_collectives;
    char answer[ANSWER_BYTES] = {f->n == 0 ? ANSWER_OTHER : is_collective ? ANSWER_COLLECTIVE : ANSWER_CALL};
    size_t used = 1;
    if (f->n == 0 && f->own)
        snprintf(answer + 1, sizeof answer - 1, "%s", f->own);
    for (size_t i = 0; i < f->n && used < sizeof answer; i++)
        used += (size_t)snprintf(answer + used, sizeof answer - used, "%s%s", i ? AND : "", f->call[i]);
    (void)!write(STDOUT_FILENO, answer, sizeof answer);
}

/* ---- arguments ---- */

static int open_memory(pid_t pid, ddp_error_t *errp)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_errno(errp, "%s", path) : fd;
}

static void read_threads(struct task *t, int fd)
{
    char line[512];
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    while (f && t->n < THREADS_MAX && fgets(line, sizeof line, f))
        t->n += threads_parse(line, &t->thread[t->n]);
}

/* PID or PID:DESCRIPTOR */
static bool parse(const char *text, pid_t *ret_pid, int *ret_memory)
{
    char *end;
    long pid = strtol(text, &end, 10), memory = *end == ':' ? strtol(end + 1, &end, 10) : -1;
    *ret_pid = (pid_t)pid;
    *ret_memory = (int)memory;
    return !*end && end != text && pid > 0 && pid <= INT_MAX && memory <= INT_MAX;
}

static int walk(struct task *t, pid_t pid, int memory, ddp_error_t *errp)
{
    for (t->base = 0; t->base < t->n && t->thread[t->base].pid != pid; t->base++)
        ;
    int fd = memory < 0 ? open_memory(pid, errp) : memory;
    int rc = fd < 0 ? -1 : stack_walk(pid, fd, t->thread + t->base, count_of(t, t->base), take, t, errp);
    io_close(fd);
    return rc;
}

int main(int argc, char **argv)
{
    static struct task t;
    struct found f = {.n = 0};
    ddp_error_t e;
    pid_t pid[argc];
    int memory[argc], n = argc - 1, n_walked = 0;
    bool is_given = false;
    for (int i = 0; i < n; i++) {
        if (!parse(argv[i + 1], &pid[i], &memory[i]))
            n = 0;
        is_given |= n && memory[i] >= 0;
    }
    if (n < 1) {
        fprintf(stderr, "usage: %s PID...\n", argv[0]);
        return 2;
    }
    uint64_t still = deadline_in(STILL_S);
    read_threads(&t, is_given ? STDIN_FILENO : threads_list(pid, (size_t)n));
    for (int i = 0; i < n; i++)
        n_walked += walk(&t, pid[i], memory[i], &e) == 0;
    if (n_walked == 0) {
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
        return 1;
    }
    poll(NULL, 0, deadline_left_ms(still));
    for (size_t i = 0; i < t.n; i += count_of(&t, i))
        add_process(&t, i, count_of(&t, i), &f);
    say(&f);
    return 0;
}
