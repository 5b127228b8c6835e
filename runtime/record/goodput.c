#include "runtime/record/goodput.h"

#include <math.h>
#include <string.h>

const char *const goodput_name[GOODPUT_CLASSES] = {"useful",           "lost to a failure", "restart", "checkpoint",
                                                   "waiting for data", "in the queue",      "start-up", "idle"};

/* What a generation is at; its time from `now` on is not given to a class yet. */
struct walk {
    const struct record *r;
    goodput_f f;
    void *arg;
    struct goodput sum;
    double now;
    const struct record_line *last; /* interval of this generation; NULL: none */
    bool has_steps;                 /* it tells them: else its end says what its time was worth */
    bool has_ended;                 /* failed, or came to its end */
    enum goodput_class after;       /* that: of what follows */
    bool has_trained;               /* a line "train" */
    double trained_t;               /* when; without it, when the program began */
    bool has_validated;             /* since the last interval */
    double owed_s;                  /* checkpoints' stand-still that no interval has shown so far */
};

static void give(struct walk *w, enum goodput_class c, double to_t)
{
    if (!(to_t > w->now))
        return;
    if (w->f)
        w->f(w->arg, c, w->now, to_t);
    w->sum.class_s[c] += to_t - w->now;
    w->now = to_t;
}

static double known(double a, double otherwise)
{
    return isnan(a) ? otherwise : a;
}

static double between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- within a generation ---- */

/* The share of an interval's steps that were kept. */
static double kept_share(const struct record_line *l, uint64_t n_steps)
{
    uint64_t first = n_steps < l->step ? l->step - n_steps : 0;
    if (l->step <= l->kept_to)
        return 1;
    return first >= l->kept_to ? 0 : (double)(l->kept_to - first) / (double)(l->step - first);
}

static void give_interval(struct walk *w, const struct record_line *l)
{
    const struct record_interval *v = &w->r->interval[l->at];
    double all = fmin(v->wall_s, fmax(l->t - w->now, 0)), kept = all * kept_share(l, v->n_steps), from = w->now;
    double data = v->wall_s > 0 ? fmin(v->part_s[RECORD_DATA] / v->wall_s, 1) : 0;
    double saving = v->wall_s > 0 ? fmin(v->part_s[RECORD_SAVING] / v->wall_s, 1 - data) : 0;
    give(w, GOODPUT_DATA, from + kept * data);
    give(w, GOODPUT_CHECKPOINT, from + kept * (data + saving));
    give(w, GOODPUT_USEFUL, from + kept);
    give(w, GOODPUT_LOST, l->t);
}

/* A generation of which no steps are told. */
static void give_whole(struct walk *w, bool is_kept, double to_t)
{
    give(w, GOODPUT_STARTUP, fmin(w->trained_t, to_t));
    give(w, is_kept ? GOODPUT_USEFUL : GOODPUT_LOST, to_t);
}

static void give_standstill(struct walk *w, double to_t)
{
    double still = between(w->owed_s, 0, fmax(to_t - w->now, 0));
    w->owed_s -= still;
    give(w, GOODPUT_CHECKPOINT, w->now + still);
}

/* Up to what comes after an interval, where nothing failed. */
static void give_gap(struct walk *w, const struct record_line *next, double to_t)
{
    bool is_kept = !w->last || w->last->step <= next->kept_to;
    give_standstill(w, to_t);
    give(w, !w->has_validated ? GOODPUT_IDLE : is_kept ? GOODPUT_USEFUL : GOODPUT_LOST, to_t);
    w->has_validated = false;
}

/* Up to a failure, or to the last that is known of a generation: steps that no interval shows. */
static void give_cut(struct walk *w, const struct record_line *next, double to_t)
{
    double kept_s = 0;
    if (!w->last && !w->has_trained) {
        give(w, GOODPUT_STARTUP, to_t);
        return;
    }
    if (!w->last)
        give(w, GOODPUT_STARTUP, fmin(w->trained_t, to_t));
    give_standstill(w, to_t);
    if (next->kept_to == UINT64_MAX) {
        kept_s = INFINITY;
    } else if (w->last && next->kept_to > w->last->step) {
        const struct record_interval *v = &w->r->interval[w->last->at];
        kept_s = (double)(next->kept_to - w->last->step) * (v->n_steps ? v->wall_s / (double)v->n_steps : 0);
    }
    give(w, GOODPUT_USEFUL, fmin(w->now + kept_s, to_t));
    give(w, GOODPUT_LOST, to_t);
}

static void take_interval(struct walk *w, const struct record_line *l)
{
    const struct record_interval *v = &w->r->interval[l->at];
    double began = l->t - v->wall_s;
    w->owed_s -= v->part_s[RECORD_SAVING];
    if (w->has_ended)
        give(w, w->after, began);
    else if (!w->last)
        give(w, GOODPUT_STARTUP, began);
    else
        give_gap(w, l, began);
    give_interval(w, l);
    w->last = l;
    w->has_ended = false;
}

/* The generation ends; c: what follows is until the next begins. */
static void take_end(struct walk *w, const struct record_line *l, bool has_failed, enum goodput_class c)
{
    if (w->has_ended)
        give(w, w->after, l->t);
    else if (!w->has_steps)
        give_whole(w, !has_failed, l->t);
    else if (has_failed || (!w->last && !w->has_trained))
        give_cut(w, l, l->t);
    else
        give_gap(w, l, l->t);
    if (!w->has_ended || c == GOODPUT_QUEUE)
        w->after = c;
    w->has_ended = true;
}

static void take_line(struct walk *w, const struct record_line *l)
{
    double still;
    switch (l->event) {
    case RECORD_INTERVAL:
        take_interval(w, l);
        break;
    case RECORD_TRAIN:
        w->has_trained = true;
        w->trained_t = l->t;
        break;
    case RECORD_VALIDATION:
        w->has_validated = true;
        break;
    case RECORD_CHECKPOINT:
        still = known(w->r->other[l->at].stood_still_s, 0);
        w->owed_s = fmax(w->owed_s, -still) + still;
        break;
    case RECORD_FAILURE:
        take_end(w, l, true, GOODPUT_RESTART);
        break;
    case RECORD_REQUEUE:
        take_end(w, l, false, GOODPUT_QUEUE);
        break;
    case RECORD_END:
        if (strcmp(w->r->other[l->at].text, "failed"))
            take_end(w, l, false, GOODPUT_IDLE);
        else
            take_end(w, l, true, GOODPUT_RESTART);
        break;
    default:
        break;
    }
}

/* ---- between generations ---- */

bool goodput_is_new_allocation(const struct record_start *a, const struct record_start *b)
{
    size_t n = strcspn(a->job, "."), m = strcspn(b->job, ".");
    return a->requeue != b->requeue || n != m || memcmp(a->job, b->job, n) != 0 || b->alloc_t > a->alloc_t + 1;
}

static void take_start(struct walk *w, const struct record_line *l, const struct record_start *before)
{
    const struct record_start *s = &w->r->start[l->at];
    bool is_new = goodput_is_new_allocation(before, s);
    double began = known(s->began_t, l->t), to_t = fmin(is_new ? known(s->alloc_t, began) : began, l->t);
    give(w, is_new ? GOODPUT_QUEUE : w->has_ended ? w->after : GOODPUT_RESTART, to_t);
}

/* All that is known of a generation has been seen; its lines are from..to. */
static void close_generation(struct walk *w, size_t from, size_t to)
{
    double to_t = w->now;
    for (size_t i = from; i < to; i++)
        to_t = fmax(to_t, w->r->line[i].t);
    if (w->has_ended)
        give(w, w->after, to_t);
    else if (!w->has_steps)
        give_whole(w, to == w->r->n_lines, to_t);
    else
        give_cut(w, &w->r->line[to - 1], to_t);
}

static double first_time(const struct record *r)
{
    const struct record_start *s = &r->start[0];
    double t = r->line[0].t;
    return s->alloc_t <= t ? s->alloc_t : s->began_t <= t ? s->began_t : t;
}

struct goodput goodput_of(const struct record *r, goodput_f f, void *arg)
{
    struct walk w = {.r = r, .f = f, .arg = arg};
    w.now = w.sum.from_t = first_time(r);
    for (size_t from = 0, to; from < r->n_lines; from = to) {
        for (to = from + 1; to < r->n_lines && r->line[to].event != RECORD_START; to++)
            ;
        if (from > 0)
            take_start(&w, &r->line[from], &r->start[r->line[from].at - 1]);
        w.last = NULL;
        w.has_ended = w.has_trained = w.has_validated = false;
        w.owed_s = 0;
        w.trained_t = known(r->start[r->line[from].at].began_t, r->line[from].t);
        w.has_steps = *r->start[r->line[from].at].device != 0;
        for (size_t i = from + 1; i < to; i++)
            take_line(&w, &r->line[i]);
        close_generation(&w, from, to);
    }
    w.sum.to_t = w.now;
    double worth = w.now - w.sum.from_t - w.sum.class_s[GOODPUT_QUEUE];
    w.sum.share = worth > 0 ? w.sum.class_s[GOODPUT_USEFUL] / worth : NAN;
    return w.sum;
}
