/* main.c - ddp-waits: in which call a process waits for others; says on stdout what answer.h has. A guard
 * (spank/guard_waits.c) may read that process's memory where this one may not, and gives it a descriptor of
 * /proc/PID/mem, and what threads_list has made as stdin. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/stack/answer.h"
#include "runtime/stack/callname.h"
#include "runtime/stack/stack.h"
#include "runtime/stack/threads.h"

#define THREADS_MAX 512
#define CALLS_MAX 3
#define NAME_MAX_BYTES 64
#define AND " and "
#define STILL_S 0.2 /* who runs within that does not wait, but looks after something now and then */

struct threads {
    struct thread of[THREADS_MAX];
    char call[THREADS_MAX][NAME_MAX_BYTES]; /* "": none */
    size_t n;
    bool is_left; /* the first thread's frames lie no more in the C library, of whose functions: */
    char first[NAME_MAX_BYTES]; /* the outermost */
};

static void take_first(struct threads *t, const char *file, const char *symbol)
{
    const char *slash = strrchr(file, '/');
    t->is_left = t->is_left || !slash || (strncmp(slash, "/libc.", 6) != 0 && strncmp(slash, "/libpthread", 11) != 0);
    if (!t->is_left && *symbol)
        snprintf(t->first, sizeof t->first, "%s", symbol + strspn(symbol, "_"));
}

static bool take(void *arg, size_t thread, const char *file, const char *symbol)
{
    struct threads *t = arg;
    if (thread == 0)
        take_first(t, file, symbol);
    return callname_find(symbol, t->call[thread], NAME_MAX_BYTES) != CALLNAME_CALL;
}

static void forget_the_busy(pid_t pid, struct threads *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (threads_is_still(pid, &t->of[i]))
            continue;
        t->call[i][0] = 0;
        t->first[0] = i == 0 ? 0 : t->first[0];
    }
}

/* The calls, sorted, each once. */
static size_t collect(const struct threads *t, const char *call[CALLS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const char *own = t->call[i];
        size_t at = 0;
        while (at < n && strcmp(call[at], own) < 0)
            at++;
        if (!*own || n == CALLS_MAX || (at < n && !strcmp(call[at], own)))
            continue;
        memmove(call + at + 1, call + at, (n - at) * sizeof *call);
        call[at] = own;
        n++;
    }
    return n;
}

static void say(const struct threads *t)
{
    const char *call[CALLS_MAX + 1];
    size_t n = collect(t, call), used = 1;
    char answer[ANSWER_BYTES] = {n > 0 ? ANSWER_CALL : ANSWER_OTHER};
    if (n == 0)
        snprintf(answer + 1, sizeof answer - 1, "%s", t->first);
    for (size_t i = 0; i < n && used < sizeof answer; i++)
        used += (size_t)snprintf(answer + used, sizeof answer - used, "%s%s", i ? AND : "", call[i]);
    (void)!write(STDOUT_FILENO, answer, sizeof answer);
}

static int open_memory(pid_t pid, ddp_error_t *errp)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_errno(errp, "%s", path) : fd;
}

static void read_threads(struct threads *t, int fd)
{
    char line[512];
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    while (f && t->n < THREADS_MAX && fgets(line, sizeof line, f))
        t->n += threads_parse(line, &t->of[t->n]);
}

int main(int argc, char **argv)
{
    static struct threads t;
    ddp_error_t e;
    int pid, memory = -1;
    if (argc < 2 || argc > 3 || num_int(argv[1], 1, INT_MAX, &pid) < 0 ||
        (argc == 3 && num_int(argv[2], 0, INT_MAX, &memory) < 0)) {
        fprintf(stderr, "usage: %s PID [DESCRIPTOR <THREADS]\n", argv[0]);
        return 2;
    }
    uint64_t still = deadline_in(STILL_S);
    memory = argc == 3 ? memory : open_memory(pid, &e);
    read_threads(&t, argc == 3 ? STDIN_FILENO : threads_list(pid));
    if (memory < 0 || stack_walk(pid, memory, t.of, t.n, take, &t, &e) < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
        return 1;
    }
    poll(NULL, 0, deadline_left_ms(still));
    forget_the_busy(pid, &t);
    say(&t);
    return 0;
}
