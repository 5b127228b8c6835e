/* replay.c - answers as a trace says, and holds what is called against it. See trace.h.
 *
 *   next   the trace's next line that is no poll and no text: what must be called next
 *   at     the line of ncclCommGetAsyncError, behind the one taken last, whose answer is given now, since since_ms. The
 *          next one's is given when this one's has been, and has lasted as long as in the trace. */
#include "t/lib/nccltrace/trace.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "t/lib/nccltrace/lines.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lines trace;
static char path[4096];
static pid_t owner;
static size_t next, at;
static int n_taken, n_late;
static bool is_answered; /* the answer at `at` has been given */
static double since_ms;
static bool is_in_group, is_stuck; /* stuck: the trace's process was about to abort, this one goes on for a little */
static char busy[8], last_comm[8]; /* a communicator whose last answer was ncclInProgress; the one named last */

bool replay_is_on(void)
{
    return getenv("NCCLTRACE_REPLAY") != NULL;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[3 * TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fprintf(stderr, "nccltrace: rank %d: %s\n", own_rank(), text);
}

static void refuse(const char *what, const char *came)
{
    if (next < trace.n)
        say("%s line %d is \"%s\", %s: %s", path, trace.line[next].number, trace.line[next].text, what, came);
    else
        say("%s is at its end, %s: %s", path, what, came);
    fflush(NULL);
    _exit(REFUSED);
}

static bool is_free(const struct line *l)
{
    static const char *const names[] = {"state ", "version", "last_error", "error_string "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(l->text, names[i], strlen(names[i])))
            return true;
    return false;
}

static size_t strict_from(size_t i)
{
    while (i < trace.n && is_free(&trace.line[i]))
        i++;
    return i;
}

static void load(void)
{
    if (path[0])
        return;
    snprintf(path, sizeof path, "%s.rank%d.trace", getenv("NCCLTRACE_REPLAY"), own_rank());
    owner = getpid();
    lines_read(&trace, path);
    next = strict_from(0);
}

/* The recorded process was killed here. */
static void die_with_the_trace(void)
{
    say("%d calls of %s replayed, then killed as it was", n_taken, path);
    raise(SIGKILL);
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Is k an operation, or what stands around some? */
static bool is_operation(const char *text)
{
    static const char *const names[] = {"group_", "allreduce ", "reduce_scatter ", "allgather ", "broadcast ", "send ",
                                        "recv "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(text, names[i]))
            return true;
    return false;
}

/* An abort that comes sooner than in the trace: the line that has it. */
static const struct line *abort_ahead(const char *text)
{
    size_t i = next;
    for (int k = 0; begins(text, "abort ") && k <= SLACK && i < trace.n; k++, i = strict_from(i + 1))
        if (!strcmp(trace.line[i].text, text)) {
            next = i;
            return &trace.line[i];
        }
    return NULL;
}

static void check_not_busy(const char *text)
{
    const char *arg = strchr(text, ' ');
    if (!arg || arg[1] != 'c')
        return;
    snprintf(last_comm, sizeof last_comm, "%.*s", (int)strcspn(arg + 1, " "), arg + 1);
    if (!strcmp(last_comm, busy) && !begins(text, "abort "))
        refuse("and its communicator has not said ncclSuccess yet, but what was called", text);
}

bool replay_begin(struct call *k)
{
    pthread_mutex_lock(&lock);
    load();
    const struct line *l = next < trace.n ? &trace.line[next] : NULL;
    if (!l && !trace.has_end)
        die_with_the_trace();
    check_not_busy(k->text);
    if (!l || strcmp(l->text, k->text) != 0)
        l = abort_ahead(k->text);
    if (!l && next < trace.n && begins(trace.line[next].text, "abort ") && is_operation(k->text) && n_late++ < SLACK)
        is_stuck = true;
    else if (!l)
        refuse("but what was called", k->text);
    is_in_group = strcmp(k->text, "group_start") == 0 || (is_in_group && strcmp(k->text, "group_end") != 0);
    if (l) {
        n_taken++;
        next = strict_from(next + 1);
        at = (size_t)(l - trace.line) + 1;
        is_answered = false;
        k->code = l->code;
    }
    k->expected = l;
    pthread_mutex_unlock(&lock);
    bool fails = l && l->code != ncclSuccess && l->code != ncclInProgress;
    return !fails || strcmp(k->text, "group_end") == 0; /* a group that is open must be ended in the double, too */
}

static void sleep_ms(double ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)((ms - (double)(long)(ms / 1e3) * 1e3) * 1e6)};
    nanosleep(&t, NULL);
}

void replay_end(struct call *k)
{
    const struct line *l = k->expected;
    bool is_good = k->code == ncclSuccess || k->code == ncclInProgress;
    pthread_mutex_lock(&lock);
    if (l && l->took_ms > 1)
        sleep_ms(l->took_ms < MOST_CALL_MS ? l->took_ms : MOST_CALL_MS);
    if (!is_good && l && (l->code == ncclSuccess || l->code == ncclInProgress)) {
        char came[2 * TEXT];
        const char *why = under()->ncclGetLastError(NULL);
        snprintf(came, sizeof came, "%s = %d (%.200s)", k->text, k->code, why ? why : "");
        refuse("but before that the double itself refused", came);
    }
    if (l)
        k->code = l->code;
    else if (is_in_group || !strcmp(k->text, "group_start"))
        k->code = ncclSuccess;
    else
        k->code = ncclInProgress;
    if (k->code == ncclInProgress && !is_in_group)
        snprintf(busy, sizeof busy, "%s", last_comm);
    since_ms = now_ms();
    pthread_mutex_unlock(&lock);
}

/* Goes on to the next answer for that communicator if this one's time is over. */
static const struct line *answer_now(const char *text)
{
    const struct line *now = NULL;
    for (size_t i = at; i < trace.n && is_free(&trace.line[i]); i++) {
        const struct line *l = &trace.line[i];
        double lasts = l->took_ms < MOST_STATE_MS ? l->took_ms : MOST_STATE_MS;
        if (strcmp(l->text, text) != 0)
            continue;
        if (now) { /* behind the one that was given */
            at = i;
            is_answered = false;
            since_ms = now_ms();
        }
        now = l;
        if (!is_answered || now_ms() - since_ms < lasts) {
            at = i;
            is_answered = true;
            return now;
        }
    }
    return now; /* the last one stays */
}

int replay_state(const char *text, int of_double)
{
    pthread_mutex_lock(&lock);
    load();
    if (next >= trace.n && !trace.has_end)
        die_with_the_trace();
    const struct line *l = is_stuck ? NULL : answer_now(text);
    int code = is_stuck ? ncclInProgress : l ? l->code : ncclSuccess;
    if (code == ncclSuccess && of_double == ncclInProgress)
        code = ncclInProgress;
    if (code == ncclSuccess)
        busy[0] = 0;
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- what may be asked at any time ---- */

int replay_version(void)
{
    pthread_mutex_lock(&lock);
    load();
    int version = 0;
    for (size_t i = 0; i < trace.n && version == 0; i++)
        if (!strcmp(trace.line[i].text, "version"))
            version = atoi(trace.line[i].note);
    pthread_mutex_unlock(&lock);
    return version;
}

const char *replay_last_error(void)
{
    const char *text = NULL;
    pthread_mutex_lock(&lock);
    load();
    for (size_t i = at; i < trace.n && !text; i++)
        if (!strcmp(trace.line[i].text, "last_error"))
            text = trace.line[i].note;
    pthread_mutex_unlock(&lock);
    return text;
}

__attribute__((destructor)) static void end(void)
{
    if (!path[0] || getpid() != owner)
        return;
    if (next < trace.n || !trace.has_end)
        refuse("but this process", trace.has_end ? "ends" : "ends, which the recorded one did not");
    say("%d calls of %s replayed to its end", n_taken, path);
}
