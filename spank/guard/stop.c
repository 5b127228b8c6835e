#include "config.h"
#include "spank/guard/stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/settings.h"
#include "runtime/sched/requeue.h"
#include "runtime/sched/slurm.h"
#include "spank/guard/process.h"

#define SAME_S 2    /* ends that differ by less are one */
#define OLD_S (GUARD_STOP_ASK_AHEAD_S + GUARD_STOP_ASK_S + 2) /* at a stop, a question of a step that stood still */

/* ---- in the child ---- */

static void ask(const void *stop, int out)
{
    const struct guard_stop *s = stop;
    char id[SLURM_ID_MAX + 1];
    struct slurm_job job;
    ddp_error_t e;
    if (!slurm_job_id(id))
        return;
    if (slurm_ask(id, deadline_in(GUARD_STOP_ASK_S), -1, &job, &e) == 0)
        (void)!write(out, &job.end_s, sizeof job.end_s);
    else if (s->end_s == 0)
        process_say("ddp: warning: nobody is stopped before the job's end, which is not known: %s", e.text);
}

/* The program's arguments, each ended by a null byte. The caller frees them. */
static char *join_arguments(const struct guards_facts *f, size_t *ret_n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_n);
    for (int i = 0; out && i < f->argc; i++) {
        fputs(f->argv[i], out);
        fputc(0, out);
    }
    if (!out || fclose(out) == 0)
        return out ? text : NULL;
    free(text);
    return NULL;
}

static void say_line(const char *line)
{
    process_say("ddp: %s", line);
}

/* The user is told of whatever comes of it. */
static void have_requeued(const struct guard_stop *s)
{
    static const struct knob limit = {.name = "requeue-limit", SETTING_REQUEUE_LIMIT};
    struct knob_value v;
    ddp_error_t e;
    char *note = NULL;
    struct requeue_request r = {.exclude = getenv("DDP_REQUEUE_EXCLUDE"), .patience_s = REQUEUE_PATIENCE_S,
                                .say = say_line};
    if (knob_load(&limit, 1, &v, &e) < 0) {
        process_say("ddp: the job is not requeued: %s", e.text);
        return;
    }
    r.limit = (int)v.i;
    r.args = join_arguments(s->f, &r.n_args);
    if (requeue_job(&r, &note) && note)
        guard_record_requeue(s->record, note);
}

static void requeue(const void *stop, int out)
{
    const struct guard_stop *s = stop;
    have_requeued(s);
    (void)!write(out, &s->end_s, sizeof s->end_s); /* a word: it has come to its end */
}

static void release(const void *stop, int out)
{
    const struct guard_stop *s = stop;
    (void)out;
    if (*s->f->step)
        slurm_cancel(s->f->step, deadline_in(GUARD_STOP_RELEASE_S), NULL);
}

/* ---- in the guard ---- */

static void begin(struct guard_stop *s, void work(const void *stop, int out), double within_s)
{
    guard_child_begin(&s->child, s->f->env, work, s, within_s);
}

static uint64_t on_our_clock(int64_t unix_s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double left_s = (double)(unix_s - (int64_t)now.tv_sec) - (double)now.tv_nsec / 1e9;
    return deadline_in(left_s > 0 ? left_s : 0);
}

/* The job ends then; not asked again where that is known of late. */
static void plan(struct guard_stop *s, int64_t end_s)
{
    int64_t stop_s = end_s - s->f->stop.before_s;
    s->end_s = end_s;
    if (end_s > 0 && stop_s <= s->began_s) { /* programs would be stopped while they start, and so again and again */
        s->stop_at = s->ask_at = 0;
        s->is_short = true;
        return;
    }
    s->stop_at = end_s > 0 ? on_our_clock(stop_s) : 0;
    s->ask_at = end_s > 0 ? on_our_clock(stop_s - GUARD_STOP_ASK_AHEAD_S) : 0;
    if (deadline_is_past(s->ask_at))
        s->ask_at = 0;
}

void guard_stop_open(struct guard_stop *s, const struct guards_facts *f, const struct guard_record *record)
{
    *s = (struct guard_stop){.f = f, .record = record, .began_s = (int64_t)time(NULL), .asked_at = clock_ns()};
    guard_child_init(&s->child);
    if (!f->stop.before_s)
        return;
    if (f->end_s > 0)
        plan(s, f->end_s);
    else
        s->ask_at = clock_ns();
}

int guard_stop_fd(const struct guard_stop *s)
{
    return s->child.in;
}

int guard_stop_wait_ms(const struct guard_stop *s)
{
    const uint64_t when[] = {s->child.pid ? s->child.until : s->stop_at, s->child.pid ? 0 : s->ask_at};
    int ms = -1;
    for (size_t i = 0; i < sizeof when / sizeof *when; i++)
        if (when[i] && (ms < 0 || deadline_left_ms(when[i]) < ms))
            ms = deadline_left_ms(when[i]);
    return ms;
}

/* What the child has said, or that it has ended. */
static void hear(struct guard_stop *s)
{
    int64_t end_s;
    bool is_late;
    bool has_said = guard_child_hear(&s->child, &end_s, sizeof end_s, &is_late);
    if (has_said && s->is_requeue)
        s->has_asked = true;
    else if (has_said && (end_s > s->end_s + SAME_S || end_s < s->end_s - SAME_S))
        plan(s, end_s);
    if (s->child.pid)
        return;
    if (is_late && s->is_requeue && !s->has_asked)
        process_say("ddp: the job is not requeued: no answer within %d s", GUARD_STOP_REQUEUE_S);
    else if (s->is_requeue && !s->has_asked)
        process_say("ddp: the job is not requeued: who was to ask for it was killed (out of memory, perhaps)");
    s->is_requeue = s->is_release = false;
}

/* Ahead of the stop; and at it after a suspension, by which Slurm has moved the end since it was asked. */
static bool wants_to_ask(const struct guard_stop *s)
{
    bool is_old = clock_ns() - s->asked_at > (uint64_t)OLD_S * NS_PER_S;
    return deadline_is_past(s->ask_at) || (deadline_is_past(s->stop_at) && is_old);
}

bool guard_stop_step(struct guard_stop *s)
{
    if (s->child.pid)
        hear(s);
    if (!s->child.pid && wants_to_ask(s)) {
        s->ask_at = 0;
        s->asked_at = clock_ns();
        begin(s, ask, GUARD_STOP_ASK_S + 1);
    }
    if (s->is_short && !s->is_said) {
        s->is_said = true;
        process_say("ddp: warning: the job ends in less than the %d s that stop= asks for: nobody is stopped before",
                    s->f->stop.before_s);
    }
    if (s->child.pid || !deadline_is_past(s->stop_at)) /* what is asked is waited for */
        return false;
    s->stop_at = s->ask_at = 0;
    return true;
}

/* Whatever the child asks. */
static void stop_asking(struct guard_stop *s)
{
    if (!s->child.pid)
        return;
    s->child.until = clock_ns();
    hear(s);
}

void guard_stop_requeue(struct guard_stop *s)
{
    if (s->is_requeued)
        return;
    s->is_requeued = true;
    stop_asking(s);
    begin(s, requeue, GUARD_STOP_REQUEUE_S);
    s->is_requeue = s->child.pid > 0;
    if (!s->is_requeue)
        process_say("ddp: the job is not requeued: no process to ask for it: %s", strerror(errno));
}

void guard_stop_release(struct guard_stop *s)
{
    if (s->is_released)
        return;
    s->is_released = true;
    stop_asking(s);
    begin(s, release, GUARD_STOP_RELEASE_S + 1);
    s->is_release = s->child.pid > 0;
}

bool guard_stop_is_busy(const struct guard_stop *s)
{
    return s->is_requeue || s->is_release;
}
