#include "runtime/save/scheduler.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/handle.h"
#include "runtime/sched/requeue.h"

/* Before the first save shows how long one takes: a shared disk that is busy, and what every save takes. */
#define GUESS_BYTES_PER_S 100e6
#define GUESS_LEAST_S 5.0

static double now_s(void)
{
    return (double)clock_ns() / 1e9;
}

static void open_due(ddp_t *d)
{
    double n_bytes = (double)d->state.layout.n_bytes * (1 + d->state.optimizer.rule->n_moments);
    struct due_config cfg = {.every = d->config.ckpt_every,
                             .mtbf_s = fmax(0, d->config.mtbf_hours * 3600),
                             .trained_s = d->checkpoint.trained_s,
                             .n_failures = d->checkpoint.state.n_failures,
                             .guess_save_s = GUESS_LEAST_S + n_bytes / GUESS_BYTES_PER_S};
    due_open(&d->wish.due, &cfg, d->state.optimizer.n_steps, now_s());
    d->wish.asked_s = -INFINITY;
    d->wish.is_open = true;
}

/* The end matters to a job that can save before it: one that has opened a folder. */
static double end_s(ddp_t *d)
{
    struct wish *w = &d->wish;
    if (!w->has_deadline && d->checkpoint.dir) {
        deadline_open(&w->deadline);
        w->has_deadline = true;
    }
    return w->has_deadline ? deadline_end_s(&w->deadline) : DEADLINE_NONE;
}

static enum due_what judge(ddp_t *d)
{
    struct wish *w = &d->wish;
    double now = now_s(), end = end_s(d);
    if (due_wants_to_know(&w->due, now, end, w->asked_s)) {
        deadline_ask(&w->deadline);
        w->asked_s = now;
    }
    return due_judge(&w->due, d->state.optimizer.n_steps + 1, now, end);
}

static enum due_what fill_stop(ddp_t *d, double *sum)
{
    enum due_what what = DUE_NOTHING;
    if (d->team.me.rank == 0) {
        if (!d->wish.is_open)
            open_due(d);
        what = judge(d);
    }
    stop_fill(&d->stop, what == DUE_STOP, sum);
    return what;
}

void wish_fill_stop(ddp_t *d, double *sum)
{
    fill_stop(d, sum);
}

void wish_fill(ddp_t *d, double *tail)
{
    tail[TAIL_DUE] = fill_stop(d, tail + TAIL_STOP) == DUE_CHECKPOINT;
}

void wish_after_step(ddp_t *d)
{
    if (d->wish.is_open)
        due_step(&d->wish.due, now_s());
}

void wish_save_begun(ddp_t *d)
{
    if (d->wish.is_open)
        due_begun(&d->wish.due, d->state.optimizer.n_steps, now_s());
}

void wish_save_over(ddp_t *d, bool is_committed)
{
    struct due *due = &d->wish.due;
    if (d->wish.is_open)
        due_over(due, is_committed ? now_s() - due->began_s : -1, d->checkpoint.status.blocked_s);
}

int wish_requeue(ddp_t *d, ddp_error_t *errp)
{
    const struct checkpoint *c = &d->checkpoint;
    struct wish *w = &d->wish;
    bool is_saved = c->is_stopping && c->has_last && c->status.last_step == d->state.optimizer.n_steps;
    char is_done = 0;
    if (w->has_ended || !is_saved || d->config.requeue != REQUEUE_AUTO)
        return 0;
    w->has_ended = true;
    if (d->team.me.rank == 0) /* the others wait no longer than for any rank */
        is_done = requeue_job(d->config.requeue_limit, d->config.requeue_exclude,
                              fmin(REQUEUE_PATIENCE_S, d->team.timeout_s / 4), &w->note);
    return comm_bcast(d->team.comm, &is_done, sizeof is_done, 0, errp) < 0 ? team_break(&d->team) : 0;
}

void wish_close(ddp_t *d)
{
    if (d->wish.has_deadline)
        deadline_close(&d->wish.deadline);
    free(d->wish.note);
}

EXPORT const char *ddp_requeue_note(const ddp_t *d)
{
    return d->wish.note;
}
