/* main.c - ddp-waits: in which call a process waits for others. Started by a guard (spank/guard_waits.c), which may
 * read that process's memory where we may not: ddp-waits PID DESCRIPTOR <THREADS, the descriptor that of /proc/PID/mem,
 * THREADS a line "TID SYSCALL" for each thread (stack.h). Says on stdout what answer.h has. */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/stack/answer.h"
#include "runtime/stack/callname.h"
#include "runtime/stack/stack.h"

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

int main(int argc, char **argv)
{
    static struct stack_thread thread[THREADS_MAX];
    struct found f = {.n = 0};
    char line[256];
    size_t n = 0;
    ddp_error_t e;
    if (argc != 3) {
        fprintf(stderr, "usage: %s PID DESCRIPTOR <THREADS\n", argv[0]);
        return 2;
    }
    while (n < THREADS_MAX && fgets(line, sizeof line, stdin))
        n += stack_parse(line, &thread[n]);
    if (stack_walk(atoi(argv[1]), atoi(argv[2]), thread, n, take, &f, &e) < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
        return 1;
    }
    end_thread(&f);
    say(&f);
    return 0;
}
