/* events.c - what happened in a run, for people. */
#include <math.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/cli/report/report.h"

struct listing {
    const struct report_run *r;
    struct report_event *event;
    size_t n, n_all;
    size_t last_checkpoint; /* its line */
    double still_s;
    size_t n_still;
    struct { int rank[32]; size_t n; } slow; /* ranks that were named */
};

/* The first half of the room is for the first events; the rest is a ring of the last ones. */
static struct report_event *next(struct listing *l)
{
    const size_t half = REPORT_EVENTS_MAX / 2;
    size_t i = l->n_all < REPORT_EVENTS_MAX ? l->n_all : half + (l->n_all - half) % half;
    l->n_all++;
    l->n = l->n < REPORT_EVENTS_MAX ? l->n + 1 : l->n;
    return &l->event[i];
}

static struct report_event *add(struct listing *l, const char *kind, const struct record_line *line)
{
    struct report_event *e = next(l);
    e->kind = kind;
    e->t = line->t;
    e->step = line->step;
    e->text[0] = 0;
    return e;
}

static void say_start(struct listing *l, const struct record_line *line)
{
    const struct record_start *s = &l->r->record.start[line->at];
    bool is_requeued = line->at > 0 && goodput_is_new_allocation(&s[-1], s);
    struct report_event *e = add(l, line->at == 0 || is_requeued ? "start" : "restart", line);
    snprintf(e->text, sizeof e->text, "%d rank%s on %d node%s%s", s->n_ranks, PLURAL(s->n_ranks), s->n_nodes,
             PLURAL(s->n_nodes), is_requeued ? ", after a requeue" : "");
}

static void say_resume(struct listing *l, const struct record_line *line)
{
    const struct record_other *o = &l->r->record.other[line->at];
    struct report_event *e = add(l, "resume", line);
    char took[32];
    snprintf(e->text, sizeof e->text, "from %.200s, %s", *o->text ? o->text : "a checkpoint",
             duration_text(o->took_s, took, sizeof took));
}

static void say_slow(struct listing *l, const struct record_line *line)
{
    const struct record_other *o = &l->r->record.other[line->at];
    size_t i = 0;
    while (i < l->slow.n && l->slow.rank[i] != o->rank)
        i++;
    if (i < l->slow.n || i == sizeof l->slow.rank / sizeof *l->slow.rank)
        return;
    l->slow.rank[l->slow.n++] = o->rank;
    struct report_event *e = add(l, "slow", line);
    char who[96];
    snprintf(who, sizeof who, "rank %d%s%.64s%s", o->rank, *o->node ? " (" : "", o->node, *o->node ? ")" : "");
    if (!strcmp(o->text, "link"))
        snprintf(e->text, sizeof e->text, "the node of %s sends %.2f times as slowly as the median node", who,
                 o->factor);
    else
        snprintf(e->text, sizeof e->text, "%s computes %.2f times as long as the median rank", who, o->factor);
}

static void say_checkpoints(struct listing *l, const struct record_line *line)
{
    const struct record_other *o = &l->r->record.other[line->at];
    struct report_event *e = add(l, "checkpoint", line);
    char size[32], still[32];
    int n = snprintf(e->text, sizeof e->text, "%zu saved%s", l->r->n_checkpoints,
                     l->r->n_checkpoints == 1 ? "" : ", this one last");
    if (!isnan(o->bytes))
        n += snprintf(e->text + n, sizeof e->text - (size_t)n, "; %s", report_si(o->bytes, "B", size, sizeof size));
    if (l->n_still)
        snprintf(e->text + n, sizeof e->text - (size_t)n, "; stood still for %s each",
                 duration_text(l->still_s / (double)l->n_still, still, sizeof still));
}

static const char *text_of(const struct listing *l, const struct record_line *line)
{
    return l->r->record.other[line->at].text;
}

/* A generation's, after which guards start the next: the run goes on. */
static bool is_passing_end(const struct record *r, size_t i)
{
    return r->line[i].event == RECORD_END && !strcmp(r->other[r->line[i].at].text, "failed") && i + 1 < r->n_lines &&
           r->line[i + 1].event == RECORD_START;
}

static void say(struct listing *l, size_t i)
{
    const struct record_line *line = &l->r->record.line[i];
    static const char *const kind[RECORD_EVENTS] = {[RECORD_REQUEUE] = "requeue", [RECORD_FAILURE] = "failure",
                                                    [RECORD_END] = "end"};
    switch (line->event) {
    case RECORD_START: say_start(l, line); break;
    case RECORD_RESUME: say_resume(l, line); break;
    case RECORD_SLOW: say_slow(l, line); break;
    case RECORD_CHECKPOINT:
        if (i == l->last_checkpoint)
            say_checkpoints(l, line);
        break;
    case RECORD_STOP: {
        struct report_event *e = add(l, "stop", line);
        snprintf(e->text, sizeof e->text, "asked to%s%.40s", *text_of(l, line) ? " by " : "", text_of(l, line));
        break;
    }
    case RECORD_REQUEUE:
    case RECORD_FAILURE:
    case RECORD_END:
        snprintf(add(l, kind[line->event], line)->text, sizeof l->event->text, "%s", text_of(l, line));
        break;
    default:
        break;
    }
}

static void look_at_checkpoints(struct listing *l)
{
    for (size_t i = 0; i < l->r->record.n_lines; i++) {
        const struct record_line *line = &l->r->record.line[i];
        if (line->event != RECORD_CHECKPOINT)
            continue;
        double still_s = l->r->record.other[line->at].stood_still_s;
        l->last_checkpoint = i;
        l->still_s += isnan(still_s) ? 0 : still_s;
        l->n_still += !isnan(still_s);
    }
}

/* The ring's oldest to its beginning. */
static void straighten(struct listing *l)
{
    const size_t half = REPORT_EVENTS_MAX / 2;
    struct report_event ring[REPORT_EVENTS_MAX / 2];
    if (l->n_all <= REPORT_EVENTS_MAX)
        return;
    memcpy(ring, l->event + half, sizeof ring);
    for (size_t i = 0; i < half; i++)
        l->event[half + i] = ring[(l->n_all + i) % half];
}

size_t report_events(const struct report_run *r, struct report_event ret[REPORT_EVENTS_MAX], size_t *ret_left_out)
{
    struct listing l = {.r = r, .event = ret};
    look_at_checkpoints(&l);
    for (size_t i = 0; i < r->record.n_lines; i++)
        if (!is_passing_end(&r->record, i))
            say(&l, i);
    straighten(&l);
    *ret_left_out = l.n_all - l.n;
    return l.n;
}

bool report_is_marked(const struct report_event *e)
{
    return !strcmp(e->kind, "failure") || !strcmp(e->kind, "stop") || !strcmp(e->kind, "requeue");
}
