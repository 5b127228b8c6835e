#include "runtime/pace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/meminfo.h"

void pace_note(struct pace *p, double took_s)
{
    p->took_s[p->n++ % PACE_STEPS] = took_s;
}

bool pace_is_due(struct pace *p, bool has_joined, bool is_last)
{
    p->n_steps++;
    if (has_joined)
        p->n = 0;
    bool is_new = is_last && !p->had_last; /* a program may go on after a stop */
    p->had_last = p->had_last || is_last;
    return p->n >= PACE_STEPS || p->n_steps >= PACE_STEPS || p->n_intervals == 0 || is_new;
}

/* Of a step in the interval, in which micro-steps computed computed_s, all in all. */
static double baseline_s(const struct pace *p, const struct parts *now, double computed_s)
{
    double n_quiet = (double)(now->n_quiet - p->at.n_quiet), n = (double)(now->n_micros - p->at.n_micros);
    double steps = (double)(p->n_steps ? p->n_steps : 1);
    if (n_quiet > 0 && 2 * n_quiet >= n) /* accumulation, or one rank */
        return (now->quiet_sum_s - p->at.quiet_sum_s) / n_quiet * n / steps;
    return computed_s * parts_ratio(now) / steps;
}

struct pace_own pace_own(struct pace *p, const struct parts *parts, double hidden_s, double send_bps)
{
    double now_s[DDP_PARTS], took_s[PACE_STEPS];
    size_t n = (size_t)(p->n < PACE_STEPS ? p->n : PACE_STEPS);
    parts_get(parts, now_s);
    for (size_t i = 0; i < n; i++)
        took_s[i] = p->took_s[i];
    struct pace_own own = {.took_s = n ? stats_of(took_s, n).median : 0,
                           .hidden_s = hidden_s - p->at_hidden_s,
                           .memory_bytes = (double)meminfo_peak(""),
                           .send_bps = send_bps,
                           .barrier_s = p->n_barriers ? p->barrier_now_s : NAN};
    for (int i = 0; i < DDP_PARTS; i++) {
        own.part_s[i] = now_s[i] - p->at_s[i];
        p->at_s[i] = now_s[i];
    }
    own.baseline_s = baseline_s(p, parts, own.part_s[DDP_PART_DATA] + own.part_s[DDP_PART_FORWARD] +
                                          own.part_s[DDP_PART_BACKWARD]);
    p->at = *parts;
    p->at_hidden_s = hidden_s;
    return own;
}

static void find_slow(struct pace *p, const struct team *t, const struct pace_own *all)
{
    char who[96];
    int n = t->me.size, slowest = 0;
    double *took_s = malloc((size_t)n * sizeof *took_s);
    bool all_know = took_s;
    for (int r = 0; took_s && r < n; r++) {
        took_s[r] = all[r].took_s;
        slowest = took_s[r] > took_s[slowest] ? r : slowest;
        all_know = all_know && took_s[r] > 0;
    }
    if (!all_know) { /* or no memory: it is found the next time */
        free(took_s);
        return;
    }
    double most = took_s[slowest];
    stats_of(took_s, (size_t)n); /* sorts them */
    double median = took_s[(n - 1) / 2]; /* of two ranks the faster one */
    free(took_s);
    p->last.is_slow = most > PACE_SLOW * median && most > PACE_LEAST_S;
    if (!p->last.is_slow)
        return;
    p->slow_rank = slowest;
    p->slow_factor = most / median;
    snprintf(p->slow, sizeof p->slow, "%.64s computes %.2f times as long as the median rank",
             world_rank_name(t->map, slowest, who, sizeof who), p->slow_factor);
}

/* A node's rate, the fastest of its ranks'; NAN: not known. */
static double node_rate(const struct world *w, const struct pace_own *all, int node)
{
    double most = NAN;
    for (int l = 0; l < world_local_size(w, node); l++)
        most = fmax(most, all[world_rank_at(w, node, l)].send_bps);
    return most;
}

static void find_slow_link(struct pace *p, const struct team *t, const struct pace_own *all)
{
    const struct world *w = t->map;
    int n = w->n_nodes, slowest = 0;
    double *rate = n > 2 && p->last.part_s[DDP_PART_EXPOSED] >= PACE_LINK_WAITS * p->last.wall_s
                       ? malloc((size_t)n * sizeof *rate) : NULL;
    bool all_know = rate;
    for (int k = 0; rate && k < n; k++) {
        rate[k] = node_rate(w, all, k);
        slowest = rate[k] < rate[slowest] ? k : slowest;
        all_know = all_know && isfinite(rate[k]);
    }
    double least = all_know ? rate[slowest] : NAN, median = all_know ? stats_of(rate, (size_t)n).median : NAN;
    free(rate);
    if (!(least < PACE_LINK * median))
        return;
    p->last.is_slow = p->last.is_link = true;
    p->slow_rank = world_rank_at(w, slowest, 0);
    p->slow_factor = median / least;
    snprintf(p->slow, sizeof p->slow, "%.40s sends %.3g MB/s to other nodes, the median node %.3g: a slow link",
             w->host[p->slow_rank], least / 1e6, median / 1e6);
}

/* The mean over the ranks that are known, of a double at `offset` of each. */
static double mean(const struct pace_own *all, int n_ranks, size_t field)
{
    double sum = 0;
    int n = 0;
    for (int r = 0; r < n_ranks; r++) {
        double x = ((const double *)&all[r])[field];
        n += isfinite(x);
        sum += isfinite(x) ? x : 0;
    }
    return n ? sum / n : NAN;
}

#define FIELD(name) (offsetof(struct pace_own, name) / sizeof(double))

static void judge(struct pace_interval *i)
{
    double n = (double)i->n_steps, optimizer = i->part_s[DDP_PART_OPTIMIZER];
    double had_s = i->wall_s - i->part_s[DDP_PART_CHECKPOINT] - i->part_s[DDP_PART_OTHER];
    i->efficiency = had_s > 0 ? fmin(1, (i->baseline_s * n + optimizer) / had_s) : NAN;
    if (isnan(i->baseline_s))
        i->efficiency = NAN; /* fmin takes the number of the two */
}

void pace_take(struct pace *p, const struct team *t, struct pace_own *all, bool can_be_slow)
{
    int n = t->me.size;
    p->last = (struct pace_interval){.n_steps = p->n_steps, .barrier_s = mean(all, n, FIELD(barrier_s))};
    for (size_t i = 0; i < DDP_PARTS; i++) {
        p->last.part_s[i] = mean(all, n, FIELD(part_s) + i);
        p->last.wall_s += p->last.part_s[i];
    }
    p->last.hidden_s = mean(all, n, FIELD(hidden_s));
    p->last.baseline_s = mean(all, n, FIELD(baseline_s));
    p->barrier_due_s += p->last.wall_s;
    if (isfinite(p->last.barrier_s))
        p->barrier_mean_s = p->last.barrier_s;
    judge(&p->last);
    if (isfinite(p->last.efficiency) && p->n_intervals > 0) {
        double had_s = p->last.wall_s - p->last.part_s[DDP_PART_CHECKPOINT] - p->last.part_s[DDP_PART_OTHER];
        p->need_s += p->last.efficiency * had_s;
        p->had_s += had_s;
    }
    p->last.is_judged = p->n >= PACE_STEPS && can_be_slow;
    if (p->last.is_judged)
        find_slow_link(p, t, all);
    if (p->last.is_judged && !p->last.is_slow)
        find_slow(p, t, all);
    p->n = p->n < PACE_STEPS ? p->n : 0;
    p->n_steps = 0;
    p->n_intervals++;
    free(p->all);
    p->all = all;
}

/* All ranks decide alike: by what all have gathered before. */
int pace_barrier(struct pace *p, struct team *t, ddp_error_t *errp)
{
    p->barrier_now_s = NAN;
    if (t->me.size == 1 || p->barrier_mean_s > PACE_BARRIER_SHARE * p->barrier_due_s)
        return 0;
    uint64_t began_ns = clock_ns();
    if (comm_barrier(t->comm, errp) < 0)
        return team_break(t);
    p->barrier_now_s = (double)(clock_ns() - began_ns) / 1e9;
    p->barrier_s[p->n_barriers++ % PACE_BARRIERS] = p->barrier_now_s;
    p->barrier_due_s = 0;
    return 0;
}

struct stats pace_barriers(const struct pace *p)
{
    double took_s[PACE_BARRIERS];
    size_t n = p->n_barriers < PACE_BARRIERS ? (size_t)p->n_barriers : PACE_BARRIERS;
    memcpy(took_s, p->barrier_s, n * sizeof *took_s);
    return n ? stats_of(took_s, n) : (struct stats){0};
}

double pace_efficiency(const struct pace *p)
{
    return p->had_s > 0 ? p->need_s / p->had_s : NAN;
}

void pace_close(struct pace *p)
{
    free(p->all);
    p->all = NULL;
}
