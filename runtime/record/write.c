#include "config.h" /* asprintf */
#include "runtime/record/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/json_read.h"
#include "runtime/base/num.h"
#include "runtime/base/plain.h"
#include "runtime/record/line.h"
#include "runtime/record/number.h"

#define MEMBERS_MAX 1000000 /* bytes */
_Static_assert(MEMBERS_MAX + 128 <= RECORD_LINE_MAX, "with event and t they are a line that is read");

double recorder_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the file ---- */

static int check(int fd, const char *path, ddp_error_t *errp)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(errp, "record %.160s", path);
    if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
        return error_set(errp, DDP_E_USAGE, EMLINK, "record %.160s: it is not a regular file that has one name: name "
                         "another", path);
    if (st.st_uid != geteuid())
        return error_set(errp, DDP_E_USAGE, EPERM, "record %.160s: it belongs to another user: name another", path);
    return 0;
}

/* What a killed process left of its last line would swallow ours. */
static int end_line(int fd, const char *path, ddp_error_t *errp)
{
    char last = '\n';
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > 0 && pread(fd, &last, 1, end - 1) < 0)
        return error_errno(errp, "record %.160s", path);
    if (last != '\n' && write(fd, "\n", 1) != 1)
        return error_errno(errp, "record %.160s", path);
    return 0;
}

int recorder_open(struct recorder *r, const char *path, ddp_error_t *errp)
{
    *r = (struct recorder){.fd = -1};
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0 && errno == ELOOP)
        return error_set(errp, DDP_E_USAGE, ELOOP, "record %.160s: it is a symbolic link: name the file itself", path);
    if (fd < 0)
        return error_errno(errp, "record %.160s", path);
    if (check(fd, path, errp) < 0 || end_line(fd, path, errp) < 0) {
        io_close(fd);
        return -1;
    }
    *r = (struct recorder){.is_open = true, .fd = fd};
    snprintf(r->path, sizeof r->path, "%s", path);
    return 0;
}

static void drop_line(struct recorder *r)
{
    if (r->line)
        fclose(r->line);
    free(r->text);
    r->line = NULL;
    r->text = NULL;
}

void recorder_close(struct recorder *r)
{
    drop_line(r);
    if (r->is_open)
        io_close(r->fd);
    *r = (struct recorder){.fd = -1};
}

FILE *recorder_close_to_read(struct recorder *r)
{
    FILE *f = r->is_open ? fdopen(r->fd, "r") : NULL;
    if (f) {
        rewind(f);
        r->is_open = false; /* the descriptor is f's */
    }
    recorder_close(r);
    return f;
}

/* ---- a line ---- */

static void put_text(FILE *f, const char *text)
{
    char plain[1024];
    snprintf(plain, sizeof plain, "%s", text);
    plain_line(plain);
    putc('"', f);
    for (const char *p = plain; *p; p++) {
        if (*p == '"' || *p == '\\')
            putc('\\', f);
        putc(*p, f);
    }
    putc('"', f);
}

/* False: there is no line. */
static bool put_name(struct recorder *r, const char *name)
{
    if (!r->line)
        return false;
    fflush(r->line); /* so that text has it */
    bool is_first = r->n_bytes > 0 && r->text[r->n_bytes - 1] == '{';
    fputs(is_first ? "" : ", ", r->line);
    put_text(r->line, name);
    fputs(": ", r->line);
    return true;
}

static void put_number(FILE *f, double x)
{
    if (isfinite(x))
        number_put(f, x);
    else
        fputs("null", f);
}

void recorder_begin_at(struct recorder *r, const char *event, double seconds_since_1970)
{
    drop_line(r);
    r->line = r->is_open ? open_memstream(&r->text, &r->n_bytes) : NULL;
    if (!r->line)
        return;
    putc('{', r->line);
    recorder_text(r, "event", event);
    recorder_time(r, "t", seconds_since_1970);
}

void recorder_begin(struct recorder *r, const char *event)
{
    recorder_begin_at(r, event, recorder_now());
}

int recorder_end(struct recorder *r, ddp_error_t *errp)
{
    if (!r->line)
        return 0;
    fputs("}\n", r->line);
    bool is_whole = fclose(r->line) == 0;
    r->line = NULL;
    errno = ENOMEM;
    ssize_t n = -1;
    do {
        n = is_whole ? write(r->fd, r->text, r->n_bytes) : -1;
    } while (n < 0 && errno == EINTR);
    if (n < 0 || (size_t)n != r->n_bytes) {
        errno = n < 0 ? errno : ENOSPC;
        error_errno(errp, "record %.120s cannot be written, and ends here", r->path);
        recorder_close(r);
        return -1;
    }
    drop_line(r);
    return 0;
}

void recorder_number(struct recorder *r, const char *name, double x)
{
    if (put_name(r, name))
        put_number(r->line, x);
}

void recorder_time(struct recorder *r, const char *name, double seconds_since_1970)
{
    if (!put_name(r, name))
        return;
    if (seconds_since_1970 > 0)
        number_put_ms(r->line, seconds_since_1970);
    else
        fputs("null", r->line);
}

void recorder_count(struct recorder *r, const char *name, uint64_t n)
{
    if (put_name(r, name))
        fprintf(r->line, "%" PRIu64, n);
}

void recorder_text(struct recorder *r, const char *name, const char *text)
{
    if (!put_name(r, name))
        return;
    if (text)
        put_text(r->line, text);
    else
        fputs("null", r->line);
}

void recorder_numbers(struct recorder *r, const char *name, const double *x, size_t n)
{
    if (!put_name(r, name))
        return;
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "[", r->line);
        put_number(r->line, x[i]);
    }
    fputs(n ? "]" : "[]", r->line);
}

void recorder_counts(struct recorder *r, const char *name, const int *x, size_t n)
{
    if (!put_name(r, name))
        return;
    for (size_t i = 0; i < n; i++)
        fprintf(r->line, "%s%d", i ? ", " : "[", x[i]);
    fputs(n ? "]" : "[]", r->line);
}

void recorder_texts(struct recorder *r, const char *name, const char *const *text, size_t n)
{
    if (!put_name(r, name))
        return;
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "[", r->line);
        put_text(r->line, text[i]);
    }
    fputs(n ? "]" : "[]", r->line);
}

void recorder_enter(struct recorder *r, const char *name)
{
    if (put_name(r, name))
        putc('{', r->line);
}

void recorder_leave(struct recorder *r)
{
    if (r->line)
        putc('}', r->line);
}

/* ---- Slurm's ---- */

void recorder_job(struct recorder *r)
{
    char name[64] = "";
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (job)
        snprintf(name, sizeof name, "%.24s%s%.24s", job, step ? "." : "", step ? step : "");
    recorder_text(r, "job", name);
    recorder_count(r, "requeue", (uint64_t)num_variable("SLURM_RESTART_COUNT", INT32_MAX));
    recorder_time(r, "alloc_t", (double)num_variable("SLURM_JOB_START_TIME", INT64_MAX));
}

/* ---- what a program adds ---- */

bool recorder_is_own(const char *event)
{
    enum record_event known = record_event_of(event);
    return known != RECORD_EVENTS && !record_is_programs(known);
}

bool recorder_is_name(const char *event)
{
    size_t n = event ? strspn(event, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return n > 0 && n < 32 && !event[n];
}

/* With the members that every line has, so that there are no second ones. 0; else ENOMEM, or EINVAL. */
static int json_fault(const char *members)
{
    char *text;
    const char *comma = *members ? ", " : "";
    json_error_t why;
    for (const char *p = members; *p; p++)
        if ((unsigned char)*p < ' ') /* more than one line */
            return EINVAL;
    int n = asprintf(&text, "{\"event\": 0, \"t\": 0%s%s}", comma, members);
    if (n < 0)
        return ENOMEM;
    json_t *json = json_read(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    int fault = json ? 0 : errno;
    json_decref(json);
    free(text);
    return fault;
}

int recorder_members(struct recorder *r, const char *members, ddp_error_t *errp)
{
    members = members ? members : "";
    if (strlen(members) > MEMBERS_MAX)
        return error_set(errp, DDP_E_USAGE, E2BIG, "members of a record have at most %d bytes, not %zu: write less, or "
                         "a file of your own", MEMBERS_MAX, strlen(members));
    int fault = json_fault(members);
    if (fault == ENOMEM)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to look at the members of a record");
    if (fault)
        return error_set(errp, DDP_E_USAGE, EINVAL, "members of a record are JSON on one line, \"name\": value, ..., "
                         "each once, without event and t: not %.80s", members);
    if (r->line && *members)
        fprintf(r->line, ", %s", members);
    return 0;
}
