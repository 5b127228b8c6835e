#include "runtime/parts.h"

#include <math.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/stats.h"

static uint64_t computed_ns(const struct parts *p)
{
    return p->ns[DDP_PART_DATA] + p->ns[DDP_PART_FORWARD] + p->ns[DDP_PART_BACKWARD];
}

/* n: at most PARTS_QUIET. */
static double median(const double *x, size_t n)
{
    double sorted[PARTS_QUIET];
    memcpy(sorted, x, n * sizeof *x);
    return stats_of(sorted, n).median;
}

static void micro_over(struct parts *p, bool is_quiet)
{
    p->n_micros++;
    double took_s = (double)(computed_ns(p) - p->micro_ns) / 1e9;
    if (!is_quiet) {
        p->busy_s[p->n_busy++ % PARTS_BUSY] = took_s;
        return;
    }
    p->n_quiet++;
    p->quiet_sum_s += took_s;
    if (p->n_busy >= PARTS_BUSY) /* else a program still warms up */
        p->ratio[p->n_ratios++ % PARTS_QUIET] = took_s / median(p->busy_s, PARTS_BUSY);
}

/* The counted part took so long, and `next` begins. */
static void count(struct parts *p, uint64_t ns, struct parts_mark next)
{
    p->ns[p->counted] += ns;
    p->counted = next.part;
    if (next.micro == MARK_MICRO)
        p->micro_ns = computed_ns(p);
    else if (next.micro != MARK_NOTHING)
        micro_over(p, next.micro == MARK_QUIET_OVER);
}

/* ---- a device's clock ---- */

static unsigned slot(uint64_t mark)
{
    return (unsigned)(mark % PARTS_MARKS);
}

void parts_off(struct parts *p)
{
    if (!p->clock)
        return;
    p->clock = NULL;
    p->n_marked = p->n_reached;
    p->is_unmarked = false;
    p->counted = p->part;
    if (p->since_ns)
        p->since_ns = clock_ns();
}

/* The device has failed at `next`. */
static void lose_clock(struct parts *p, struct parts_mark next)
{
    parts_off(p);
    count(p, 0, next);
}

/* Counts what the device has come to. */
static int follow(struct parts *p)
{
    const struct parts_clock *c = p->clock;
    while (p->n_reached < p->n_marked) {
        unsigned from = slot(p->n_reached - 1), to = slot(p->n_reached);
        uint64_t ns;
        int rc = c->is_reached(c->ctx, to);
        if (rc <= 0)
            return rc;
        if (c->between(c->ctx, from, to, &ns) < 0)
            return -1;
        count(p, ns, p->mark[to]);
        p->n_reached++;
    }
    return 0;
}

/* Marks for which there is room. */
static unsigned room(const struct parts *p)
{
    return PARTS_MARKS - 1 - (unsigned)(p->n_marked - p->n_reached);
}

static void mark(struct parts *p, struct parts_mark next)
{
    if (follow(p) < 0) {
        lose_clock(p, next);
        return;
    }
    if (next.micro == MARK_MICRO && room(p) < PARTS_MICRO_MARKS) {
        if (!p->is_unmarked)
            p->mark[slot(p->n_marked - 1)].part = DDP_PART_BACKWARD;
        p->is_unmarked = true;
    } else if (next.micro == MARK_MICRO || next.part == DDP_PART_CHECKPOINT) {
        p->is_unmarked = false;
    }
    if (p->is_unmarked || room(p) == 0)
        return;
    if (p->clock->mark(p->clock->ctx, slot(p->n_marked)) < 0)
        lose_clock(p, next);
    else
        p->mark[slot(p->n_marked++)] = next;
}

/* ---- parts ---- */

static enum ddp_part go(struct parts *p, struct parts_mark next)
{
    enum ddp_part before = p->part;
    if (!p->since_ns)
        return next.part;
    p->part = next.part;
    if (p->clock) {
        mark(p, next);
        return before;
    }
    uint64_t now = clock_ns();
    count(p, now - p->since_ns, next);
    p->since_ns = now;
    return before;
}

enum ddp_part parts_go(struct parts *p, enum ddp_part next)
{
    return go(p, (struct parts_mark){.part = next});
}

void parts_restart(struct parts *p)
{
    *p = (struct parts){
        .since_ns = clock_ns(), .part = DDP_PART_OTHER, .counted = DDP_PART_OTHER, .clock = p->clock,
        .untold = p->untold};
    if (p->clock && p->clock->mark(p->clock->ctx, 0) < 0)
        parts_off(p);
    p->n_marked = p->n_reached = 1; /* where it begins */
}

void parts_begin(struct parts *p)
{
    if (!p->since_ns)
        parts_restart(p);
}

void parts_rename(struct parts *p, enum ddp_part part)
{
    struct parts_mark *last = &p->mark[slot(p->n_marked - 1)];
    if (p->n_reached == p->n_marked)
        p->counted = part;
    else if (!p->is_unmarked && last->part == p->part) /* else its mark found no room */
        last->part = part;
    p->part = part;
}

void parts_micro_begin(struct parts *p)
{
    go(p, (struct parts_mark){DDP_PART_FORWARD, MARK_MICRO});
}

void parts_micro_end(struct parts *p, bool is_quiet)
{
    p->n_micros += p->is_unmarked;
    go(p, (struct parts_mark){DDP_PART_OTHER, is_quiet ? MARK_QUIET_OVER : MARK_BUSY_OVER});
}

double parts_ratio(const struct parts *p)
{
    size_t n = p->n_ratios < PARTS_QUIET ? (size_t)p->n_ratios : PARTS_QUIET;
    return n ? median(p->ratio, n) : NAN;
}

double parts_computed_s(const struct parts *p)
{
    return (double)computed_ns(p) / 1e9;
}

double parts_get(const struct parts *p, double ret[DDP_PARTS])
{
    double sum = 0;
    for (int i = 0; i < DDP_PARTS; i++) {
        bool is_present = p->since_ns && !p->clock && p->part == (enum ddp_part)i;
        ret[i] = (double)(p->ns[i] + (is_present ? clock_ns() - p->since_ns : 0)) / 1e9;
        sum += ret[i];
    }
    return sum;
}
