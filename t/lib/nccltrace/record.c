/* record.c - writes the trace. Every line goes out at once, so that a killed process leaves all but the polls that it
 * made last. See trace.h. */
#include "t/lib/nccltrace/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1, n_lines;
static pid_t owner;
static struct { /* a run of equal answers */
    char text[TEXT];
    int code, n;
    double from_ms, to_ms;
} polls;

bool record_is_on(void)
{
    return getenv("NCCLTRACE_RECORD") != NULL;
}

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    char line[3 * TEXT];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line - 1, format, ap);
    va_end(ap);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(fd, line, (size_t)n) != n) {
        fprintf(stderr, "nccltrace: the trace cannot be written\n");
        _exit(REFUSED);
    }
}

static void begin(void)
{
    char path[4096];
    const char *size = getenv("WORLD_SIZE"), *about = getenv("NCCLTRACE_ABOUT");
    int version = 0;
    snprintf(path, sizeof path, "%s.rank%d.trace", getenv("NCCLTRACE_RECORD"), own_rank());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        fprintf(stderr, "nccltrace: cannot write %s\n", path);
        _exit(REFUSED);
    }
    owner = getpid();
    under()->ncclGetVersion(&version);
    put("# calls of NCCL's API, recorded by t/lib/nccltrace of slurm-ddp (trace.h says how to read it)");
    put("# NCCL %d.%d.%d%s", version / 10000, version / 100 % 100, version % 100,
        under()->nccldouble_pending ? ", emulated: a double of NCCL answered, no GPU and no NCCL of NVIDIA's" : "");
    put("# rank %d of %s", own_rank(), size ? size : "1");
    if (about)
        put("# %s", about);
}

/* Counts lines; false: no more are written. */
static bool room(void)
{
    if (fd < 0)
        begin();
    if (n_lines == MAX_LINES)
        put("# and more calls");
    return ++n_lines <= MAX_LINES;
}

static void flush(void)
{
    if (polls.n > 0 && room())
        put("%d %.3f %.3f %s = %d x %d", n_lines, polls.from_ms, polls.to_ms - polls.from_ms, polls.text, polls.code,
            polls.n);
    polls.n = 0;
}

void record_flush(void)
{
    pthread_mutex_lock(&lock);
    flush();
    pthread_mutex_unlock(&lock);
}

void record_call(const struct call *k)
{
    pthread_mutex_lock(&lock);
    flush();
    if (room())
        put("%d %.3f %.3f %s = %d%s%s", n_lines, k->at_ms, k->took_ms, k->text, k->code, k->note[0] ? " ; " : "",
            k->note);
    pthread_mutex_unlock(&lock);
}

void record_state(const char *text, int code, double at_ms)
{
    pthread_mutex_lock(&lock);
    if (polls.n > 0 && (polls.code != code || strcmp(polls.text, text) != 0))
        flush();
    if (polls.n++ == 0) {
        snprintf(polls.text, sizeof polls.text, "%s", text);
        polls.code = code;
        polls.from_ms = at_ms;
    }
    polls.to_ms = at_ms;
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void)
{
    if (fd < 0 || getpid() != owner)
        return;
    record_flush();
    if (n_lines < MAX_LINES)
        put("%d %.3f 0.000 end = 0", n_lines + 1, now_ms());
}
