#include "runtime/parts.h"

#include <math.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/stats.h"

enum ddp_part parts_go(struct parts *p, enum ddp_part next)
{
    enum ddp_part before = p->part;
    if (!p->since_ns)
        return next;
    uint64_t now = clock_ns();
    p->ns[before] += now - p->since_ns;
    p->since_ns = now;
    p->part = next;
    return before;
}

void parts_restart(struct parts *p)
{
    *p = (struct parts){.since_ns = clock_ns(), .part = DDP_PART_OTHER};
}

void parts_begin(struct parts *p)
{
    if (!p->since_ns)
        parts_restart(p);
}

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

void parts_micro_begin(struct parts *p)
{
    parts_go(p, DDP_PART_FORWARD);
    p->micro_ns = computed_ns(p);
}

void parts_micro_end(struct parts *p, bool is_quiet)
{
    parts_go(p, DDP_PART_OTHER);
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

double parts_ratio(const struct parts *p)
{
    size_t n = p->n_ratios < PARTS_QUIET ? (size_t)p->n_ratios : PARTS_QUIET;
    return n ? median(p->ratio, n) : NAN;
}

double parts_get(const struct parts *p, double ret[DDP_PARTS])
{
    double sum = 0;
    for (int i = 0; i < DDP_PARTS; i++) {
        uint64_t present = p->since_ns && p->part == (enum ddp_part)i ? clock_ns() - p->since_ns : 0;
        ret[i] = (double)(p->ns[i] + present) / 1e9;
        sum += ret[i];
    }
    return sum;
}
