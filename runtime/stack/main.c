/* main.c - ddp-waits: in which call a process waits for others; says on stdout what answer.h has. A guard
 * (spank/guard_waits.c) may read that process's memory where this one may not, and gives it a descriptor of
 * /proc/PID/mem, and what threads_list has made as stdin. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/num.h"
#include "runtime/stack/answer.h"
#include "runtime/stack/callname.h"
#include "runtime/stack/stack.h"
#include "runtime/stack/threads.h"

#define THREADS_MAX 512
#define CALLS_MAX 3
#define NAME_MAX_BYTES 64
#define AND " and "

struct found {
    char call[CALLS_MAX][NAME_MAX_BYTES]; /* sorted, each once */
    int n;
    size_t thread; /* whose frames come, and what lies below a call of its */
    char inner[NAME_MAX_BYTES];
    bool is_left; /* the first thread's frames lie no more in the C library, of whose functions: */
    char first[NAME_MAX_BYTES]; /* the outermost */
};

static void add(struct found *f, const char *call)
{
    int i = f->n;
    for (int k = 0; k < f->n; k++)
        if (!strcmp(f->call[k], call))
            return;
    if (f->n == CALLS_MAX)
        return;
    for (; i > 0 && strcmp(f->call[i - 1], call) > 0; i--)
        memcpy(f->call[i], f->call[i - 1], NAME_MAX_BYTES);
    snprintf(f->call[i], NAME_MAX_BYTES, "%s", call);
    f->n++;
}

static void end_thread(struct found *f)
{
    if (*f->inner)
        add(f, f->inner);
    f->inner[0] = 0;
}

static void take_first(struct found *f, const char *file, const char *symbol)
{
    const char *slash = strrchr(file, '/');
    f->is_left = f->is_left || !slash || (strncmp(slash, "/libc.", 6) != 0 && strncmp(slash, "/libpthread", 11) != 0);
    if (!f->is_left && *symbol)
        snprintf(f->first, sizeof f->first, "%s", symbol + strspn(symbol, "_"));
}

static bool take(void *arg, size_t thread, const char *file, const char *symbol)
{
    struct found *f = arg;
    char name[NAME_MAX_BYTES];
    if (thread != f->thread)
        end_thread(f);
    f->thread = thread;
    if (thread == 0)
        take_first(f, file, symbol);
    enum callname kind = callname_find(symbol, name, sizeof name);
    if (kind == CALLNAME_INNER)
        memcpy(f->inner, name, sizeof name);
    if (kind != CALLNAME_CALL)
        return true;
    f->inner[0] = 0;
    add(f, name);
    return false;
}

static void say(const struct found *f)
{
    char answer[ANSWER_BYTES] = {f->n > 0 ? ANSWER_CALL : ANSWER_OTHER};
    size_t used = 1;
    if (f->n == 0)
        snprintf(answer + 1, sizeof answer - 1, "%s", f->first);
    for (int i = 0; i < f->n && used < sizeof answer; i++)
        used += (size_t)snprintf(answer + used, sizeof answer - used, "%s%s", i ? AND : "", f->call[i]);
    (void)!write(STDOUT_FILENO, answer, sizeof answer);
}

static int open_memory(pid_t pid, ddp_error_t *errp)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_errno(errp, "%s", path) : fd;
}

static size_t read_threads(int fd, struct stack_thread thread[THREADS_MAX])
{
    char line[256];
    size_t n = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    while (f && n < THREADS_MAX && fgets(line, sizeof line, f))
        n += stack_parse(line, &thread[n]);
    return n;
}

int main(int argc, char **argv)
{
    static struct stack_thread thread[THREADS_MAX];
    struct found f = {.n = 0};
    ddp_error_t e;
    int pid, memory = -1;
    if (argc < 2 || argc > 3 || num_int(argv[1], 1, INT_MAX, &pid) < 0 ||
        (argc == 3 && num_int(argv[2], 0, INT_MAX, &memory) < 0)) {
        fprintf(stderr, "usage: %s PID [DESCRIPTOR <THREADS]\n", argv[0]);
        return 2;
    }
    memory = argc == 3 ? memory : open_memory(pid, &e);
    size_t n = read_threads(argc == 3 ? STDIN_FILENO : threads_list(pid), thread);
    if (memory < 0 || stack_walk(pid, memory, thread, n, take, &f, &e) < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
        return 1;
    }
    end_thread(&f);
    say(&f);
    return 0;
}
