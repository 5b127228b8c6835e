/* run.c - a run's record, summed up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain.h"
#include "runtime/base/stats.h"
#include "runtime/cli/report/report.h"

static void name_run(struct report_run *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->name, sizeof r->name, "%s", slash && slash[1] ? slash + 1 : path);
    plain_line(r->path);
    plain_line(r->name);
    size_t n = strlen(r->name);
    if (n > 6 && !strcmp(r->name + n - 6, ".jsonl"))
        r->name[n - 6] = 0;
}

struct means {
    double efficiency, efficiency_s, baseline, baseline_steps, rank_s;
    int n_ranks; /* of the last start */
};

static void add_interval(struct report_run *r, const struct record_line *l, struct means *m)
{
    const struct record_interval *v = &r->record.interval[l->at];
    uint64_t first = v->n_steps < l->step ? l->step - v->n_steps : 0;
    r->n_steps += v->n_steps;
    r->n_skipped += v->skipped;
    r->least_step = first < r->least_step ? first : r->least_step;
    r->most_step = l->step > r->most_step ? l->step : r->most_step;
    r->wall_s += v->wall_s;
    m->rank_s += v->wall_s * m->n_ranks;
    r->items += (double)v->items;
    if (!isnan(v->hidden_s))
        r->hidden_s = (isnan(r->hidden_s) ? 0 : r->hidden_s) + v->hidden_s;
    for (int p = 0; p < RECORD_PARTS; p++)
        r->part_s[p] += v->part_s[p];
    r->parts_told |= v->parts_told;
    if (!isnan(v->loss)) {
        r->first_loss = isnan(r->first_loss) ? v->loss : r->first_loss;
        r->last_loss = v->loss;
    }
    if (!isnan(v->efficiency)) {
        m->efficiency += v->efficiency * v->wall_s;
        m->efficiency_s += v->wall_s;
    }
    if (!isnan(v->baseline_s)) {
        m->baseline += v->baseline_s * (double)v->n_steps;
        m->baseline_steps += (double)v->n_steps;
    }
    r->memory_bytes = fmax(r->memory_bytes, v->memory_bytes);
}

static void add_line(struct report_run *r, const struct record_line *l, struct means *m)
{
    switch (l->event) {
    case RECORD_START:
        r->how = "running";
        m->n_ranks = r->record.start[l->at].n_ranks;
        if (l->at > 0) {
            const struct record_start *s = &r->record.start[l->at];
            bool is_new = goodput_is_new_allocation(&s[-1], s);
            r->n_requeues += is_new;
            r->n_restarts += !is_new;
        }
        break;
    case RECORD_INTERVAL:
        add_interval(r, l, m);
        break;
    case RECORD_VALIDATION: {
        double loss = r->record.other[l->at].loss;
        if (!isnan(loss) && !(loss >= r->best_validation)) {
            r->best_validation = loss;
            r->best_step = l->step;
        }
        break;
    }
    case RECORD_CHECKPOINT:
        r->n_checkpoints++;
        break;
    case RECORD_FAILURE:
        r->n_failures++;
        r->how = "failed";
        break;
    case RECORD_END:
        r->how = r->record.other[l->at].text;
        break;
    default:
        break;
    }
}

/* The rank that computed longest, over the median one. */
static void find_slowest(struct report_run *r)
{
    const struct record_ranks *t = &r->record.ranks;
    double *x = t->n_columns ? malloc((size_t)t->n_now * sizeof *x) : NULL;
    r->slowest = -1;
    if (!x)
        return;
    memcpy(x, t->compute_s, (size_t)t->n_now * sizeof *x);
    for (int i = 0; i < t->n_now; i++)
        r->slowest = r->slowest < 0 || x[i] > x[r->slowest] ? i : r->slowest;
    double most = x[r->slowest], median;
    stats_of(x, (size_t)t->n_now); /* sorts them */
    median = x[(t->n_now - 1) / 2];
    r->slowest_factor = median > 0 ? most / median : 1;
    free(x);
}

/* What the barriers took that there were. */
static void sum_up_barriers(struct report_run *r)
{
    size_t n = 0;
    double *took_s = r->record.n_intervals ? malloc(r->record.n_intervals * sizeof *took_s) : NULL;
    for (size_t i = 0; took_s && i < r->record.n_intervals; i++)
        if (!isnan(r->record.interval[i].barrier_s))
            took_s[n++] = r->record.interval[i].barrier_s;
    struct stats s = n ? stats_of(took_s, n) : (struct stats){.median = NAN, .p99 = NAN};
    r->barrier_p50_s = s.median;
    r->barrier_p99_s = s.p99;
    free(took_s);
}

static void sum_up(struct report_run *r)
{
    struct means m = {0};
    r->how = "running";
    r->first_loss = r->last_loss = r->best_validation = r->hidden_s = r->memory_bytes = NAN;
    r->least_step = UINT64_MAX;
    for (size_t i = 0; i < r->record.n_lines; i++)
        add_line(r, &r->record.line[i], &m);
    r->start = &r->record.start[r->record.n_starts - 1];
    r->train = r->record.n_trains ? &r->record.train[r->record.n_trains - 1] : NULL;
    r->efficiency = m.efficiency_s > 0 ? m.efficiency / m.efficiency_s : NAN;
    r->baseline_s = m.baseline_steps > 0 ? m.baseline / m.baseline_steps : NAN;
    r->flops = r->train && r->wall_s > 0 ? r->train->flops_per_item * r->items / r->wall_s : NAN;
    r->mfu = r->train ? r->flops / (r->train->peak_flops * m.rank_s / r->wall_s) : NAN;
    find_slowest(r);
    sum_up_barriers(r);
}

int report_run_read(const char *path, struct report_run *ret, ddp_error_t *errp)
{
    *ret = (struct report_run){0};
    name_run(ret, path);
    if (record_read(path, &ret->record, errp) < 0)
        return -1;
    sum_up(ret);
    ret->goodput = goodput_of(&ret->record, NULL, NULL);
    return 0;
}

void report_run_clear(struct report_run *r)
{
    record_clear(&r->record);
}
