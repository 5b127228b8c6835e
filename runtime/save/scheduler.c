#include "runtime/save/scheduler.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/save/save.h"
#include "runtime/sched/requeue.h"

/* Before the first save shows how long one takes: a shared disk that is busy, and what every save takes. */
#define GUESS_BYTES_PER_S 100e6
#define GUESS_LEAST_S 5.0

static double now_s(void)
{
    return (double)clock_ns() / 1e9;
}

static double state_bytes(const struct save *save)
{
    if (save->foreign.is_open)
        return (double)foreign_bytes(save);
    return (double)save->state->layout.n_bytes * (1 + save->state->optimizer.rule->n_moments);
}

static void open_due(struct save *save)
{
    struct due_config cfg = {.every = save->config->ckpt_every,
                             .mtbf_s = fmax(0, save->config->mtbf_hours * 3600),
                             .trained_s = save->checkpoint.trained_s,
                             .n_failures = save->checkpoint.state.n_failures,
                             .guess_save_s = GUESS_LEAST_S + state_bytes(save) / GUESS_BYTES_PER_S};
    due_open(&save->scheduler.due, &cfg, save->state->optimizer.n_steps, now_s());
    save->scheduler.asked_s = -INFINITY;
    save->scheduler.is_open = true;
}

/* The end matters to a job that can save before it: one that has opened a folder, or whose state is another
 * framework's. */
double scheduler_end_s(struct save *save)
{
    struct scheduler *w = &save->scheduler;
    if (!w->has_deadline && (save->checkpoint.dir || save->foreign.is_open)) {
        deadline_open(&w->deadline);
        w->has_deadline = true;
    }
    return w->has_deadline ? deadline_end_s(&w->deadline) : DEADLINE_NONE;
}

double scheduler_end_t(const struct save *save)
{
    double end_s = save->scheduler.end_s;
    struct timespec now;
    if (end_s == 0 || !isfinite(end_s) || clock_gettime(CLOCK_REALTIME, &now) < 0)
        return 0;
    return round((double)now.tv_sec + (double)now.tv_nsec / 1e9 + end_s - now_s());
}

/* A stop before the end is what users count on. */
static void warn_once(struct save *save)
{
    struct scheduler *w = &save->scheduler;
    if (w->has_warned || !w->has_deadline || !w->deadline.again_at)
        return;
    w->has_warned = true;
    checkpoint_warn(save, "nobody stops before the job's end, which is not known yet: %s", w->deadline.warning);
}

static enum due_what judge_now(struct save *save)
{
    struct scheduler *w = &save->scheduler;
    double now = now_s();
    w->end_s = scheduler_end_s(save);
    warn_once(save);
    due_suspended(&w->due, w->deadline.suspended_s, now);
    if (due_wants_to_know(&w->due, now, w->end_s, w->asked_s)) {
        deadline_ask(&w->deadline);
        w->asked_s = now;
    }
    return due_judge(&w->due, save->state->optimizer.n_steps + 1, now, w->end_s);
}

/* A stop waits for what is being asked: the end may have moved. The other ranks wait no longer than for any rank. */
static enum due_what judge(struct save *save)
{
    enum due_what what = judge_now(save);
    uint64_t until = deadline_in(fmin(DEADLINE_ASK_S, save->team->timeout_s / 4));
    return what == DUE_STOP && deadline_await(&save->scheduler.deadline, until) ? judge_now(save) : what;
}

static enum due_what fill_stop(struct save *save, double *sum)
{
    enum due_what what = DUE_NOTHING;
    if (save->team->me.rank == 0) {
        if (!save->scheduler.is_open)
            open_due(save);
        what = judge(save);
    }
    stop_fill(&save->stop, what == DUE_STOP, sum);
    return what;
}

void scheduler_fill_stop(struct save *save, double *sum)
{
    fill_stop(save, sum);
}

void scheduler_fill(struct save *save, double *tail)
{
    tail[TAIL_DUE] = fill_stop(save, tail + TAIL_STOP) == DUE_CHECKPOINT;
}

void scheduler_after_step(struct save *save)
{
    if (save->scheduler.is_open)
        due_step(&save->scheduler.due, now_s());
}

void scheduler_save_begun(struct save *save)
{
    if (save->scheduler.is_open)
        due_begun(&save->scheduler.due, save->state->optimizer.n_steps, now_s());
}

void scheduler_save_over(struct save *save, bool is_committed)
{
    struct due *due = &save->scheduler.due;
    if (save->scheduler.is_open)
        due_over(due, is_committed ? now_s() - due->began_s : -1, save->checkpoint.status.blocked_s);
}

int scheduler_requeue(struct save *save, ddp_error_t *errp)
{
    const struct checkpoint *c = &save->checkpoint;
    bool is_saved = c->is_stopping && c->has_last && c->status.last_step == save->state->optimizer.n_steps;
    if (!is_saved || save->config->requeue != REQUEUE_AUTO)
        return 0;
    return scheduler_requeue_now(save, errp);
}

int scheduler_requeue_now(struct save *save, ddp_error_t *errp)
{
    struct scheduler *w = &save->scheduler;
    struct requeue_request r = {.limit = save->config->requeue_limit, .exclude = save->config->requeue_exclude,
                                .patience_s = fmin(REQUEUE_PATIENCE_S, save->team->timeout_s / 4)};
    char is_over = 1;
    if (w->has_ended)
        return 0;
    w->has_ended = true;
    if (save->team->me.rank == 0) /* the others wait no longer than for any rank */
        w->is_requeued = requeue_job(&r, &w->note);
    return comm_bcast(save->team->comm, &is_over, sizeof is_over, 0, errp) < 0 ? team_break(save->team) : 0;
}

void scheduler_close(struct save *save)
{
    if (save->scheduler.has_deadline)
        deadline_close(&save->scheduler.deadline);
    free(save->scheduler.note);
}
