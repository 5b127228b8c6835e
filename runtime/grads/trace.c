#include "runtime/grads/trace.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int path_of(const char *pattern, int rank, int n_ranks, char *path, size_t size, ddp_error_t *errp)
{
    size_t n = 0;
    if (n_ranks > 1 && !strstr(pattern, "%r"))
        return error_set(errp, DDP_E_USAGE, EINVAL, "trace=%.150s: each rank needs a file of its own: put %%r, which "
                         "becomes the rank, into the name", pattern);
    for (const char *p = pattern; *p && n + 16 < size; p++) {
        if (p[0] == '%' && p[1] == 'r') {
            n += (size_t)snprintf(path + n, size - n, "%d", rank);
            p++;
        } else {
            path[n++] = *p;
        }
    }
    path[n] = 0;
    return 0;
}

int trace_open(struct trace *t, const char *pattern, int rank, int n_ranks, ddp_error_t *errp)
{
    static const char *const track[TRACE_TRACKS] = {"steps", "gradients", "buckets", "GPU"};
    char path[sizeof t->path];
    struct stat st;
    if (path_of(pattern, rank, n_ranks, path, sizeof path, errp) < 0)
        return -1;
    if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        return error_set(errp, DDP_E_USAGE, EINVAL, "trace %.160s: it is a pipe, which holds up training while nobody "
                         "reads it: name a file", path);
    FILE *f = fopen(path, "we");
    if (!f)
        return error_errno(errp, "trace %.200s", path);
    fprintf(f, "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    for (int i = 0; i < TRACE_TRACKS; i++)
        fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", rank,
                i, track[i]);
    *t = (struct trace){.file = f, .rank = rank};
    memcpy(t->path, path, sizeof path);
    return 0;
}

void trace_close(struct trace *t)
{
    if (t->file) {
        fputs("]\n", t->file);
        fclose(t->file);
    }
    *t = (struct trace){0};
}

/* In microseconds; all digits, and a point in every language. */
static void put_time(struct trace *t, const char *name, uint64_t ns)
{
    fprintf(t->file, ",\"%s\":%llu.%03u", name, (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void begin(struct trace *t, enum trace_track track, const char *ph, const char *what, const char *which,
                  uint64_t at_ns)
{
    fprintf(t->file, ",\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", ph, t->rank, (int)track);
    put_time(t, "ts", at_ns);
    fprintf(t->file, ",\"name\":\"%s%s", what, which ? " " : "");
    for (const char *p = which ? which : ""; *p; p++) {
        if (*p == '"' || *p == '\\')
            putc('\\', t->file);
        putc(*p, t->file);
    }
    putc('"', t->file);
}

void trace_span(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t from_ns,
                uint64_t to_ns)
{
    if (!t->file)
        return;
    begin(t, track, "X", what, which, from_ns);
    put_time(t, "dur", to_ns - from_ns);
    putc('}', t->file);
}

void trace_instant(struct trace *t, enum trace_track track, const char *what, const char *which, uint64_t at_ns)
{
    if (!t->file)
        return;
    begin(t, track, "i", what, which, at_ns);
    fputs(",\"s\":\"t\"}", t->file);
}

int trace_flush(struct trace *t, ddp_error_t *errp)
{
    errno = 0;
    if (!t->file || (!fflush(t->file) && !ferror(t->file)))
        return 0;
    int code = errno ? errno : EIO; /* 0 where an earlier write had failed */
    return error_set(errp, DDP_E_SYSTEM, code, "trace %.120s cannot be written: %s: name another file, or train "
                     "without a trace", t->path, strerror(code));
}
