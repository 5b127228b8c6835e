#include "runtime/sched/due.h"

#include <math.h>

#define COST_MIN_S 1e-3 /* less cannot be told from noise */
#define OLD_S 10.0      /* see due_wants_to_know */
#define EARLY_S 2.0     /* a node stops its processes, or lets them go on, that much later than the controller says */

void due_open(struct due *d, const struct due_config *cfg, uint64_t step, double now_s)
{
    *d = (struct due){.cfg = *cfg, .opened_s = now_s, .step_s = now_s, .began_s = now_s, .saved_step = step};
}

void due_step(struct due *d, double now_s)
{
    double took_s = now_s - d->step_s;
    d->step_s = now_s;
    recent_add(&d->steps, took_s);
    if (d->is_saving) {
        d->n_saving++;
        d->saving_s += took_s;
    } else {
        recent_add(&d->calm, took_s);
    }
}

static void shorten(struct recent *r, double s)
{
    if (recent_max_s(r) + EARLY_S >= s)
        recent_shorten(r, s);
}

void due_suspended(struct due *d, double total_s, double now_s)
{
    double s = total_s - d->suspended_s;
    d->suspended_s = total_s;
    if (s <= 0)
        return;
    if (now_s - d->step_s + EARLY_S >= s) {
        d->step_s = fmin(now_s, d->step_s + s);
        return;
    }
    shorten(&d->steps, s);
    shorten(&d->calm, s);
}

void due_begun(struct due *d, uint64_t step, double now_s)
{
    d->is_saving = true;
    d->n_saving = 0;
    d->saving_s = 0;
    d->began_s = now_s;
    d->saved_step = step;
}

/* The steps beside which a save ran took longer than others by this: it is part of what the save cost. */
static double slowed_s(const struct due *d)
{
    return d->calm.n ? d->saving_s - d->n_saving * recent_mean_s(&d->calm) : 0;
}

void due_over(struct due *d, double took_s, double blocked_s)
{
    if (!d->is_saving)
        return;
    d->is_saving = false;
    if (took_s < 0)
        return;
    recent_add(&d->saves, took_s);
    recent_add(&d->costs, fmax(fmax(blocked_s, slowed_s(d)), COST_MIN_S));
}

double due_interval_s(const struct due *d, double now_s)
{
    double mtbf_s = d->cfg.mtbf_s;
    if (!d->costs.n)
        return DUE_FIRST_S;
    if (!(mtbf_s > 0))
        mtbf_s = interval_mtbf_s(d->cfg.trained_s + now_s - d->opened_s, d->cfg.n_failures);
    return interval_daly_s(recent_mean_s(&d->costs), mtbf_s);
}

static double last_moment_s(const struct due *d, double end_s)
{
    double save_s = d->saves.n ? recent_p99_s(&d->saves) : d->cfg.guess_save_s;
    return interval_last_moment_s(end_s, save_s, recent_max_s(&d->steps));
}

bool due_wants_to_know(const struct due *d, double now_s, double end_s, double asked_s)
{
    double step_s = recent_max_s(&d->steps), last_s = last_moment_s(d, end_s);
    double from_s = last_s - DUE_ASK_AHEAD_S - step_s;
    bool is_old = now_s >= last_s && now_s - asked_s > DUE_ASK_AHEAD_S + 2 * step_s + OLD_S;
    return now_s >= from_s && (asked_s < from_s || is_old);
}

enum due_what due_judge(const struct due *d, uint64_t step, double now_s, double end_s)
{
    if (now_s >= last_moment_s(d, end_s))
        return DUE_STOP;
    if (d->cfg.every > 0)
        return step / (uint64_t)d->cfg.every > d->saved_step / (uint64_t)d->cfg.every ? DUE_CHECKPOINT : DUE_NOTHING;
    return d->cfg.every < 0 && now_s - d->began_s >= due_interval_s(d, now_s) ? DUE_CHECKPOINT : DUE_NOTHING;
}
