/* facts.c - what is known of a run, a line each. */
#include <inttypes.h>
#include <math.h>

#include "runtime/base/num.h"
#include "runtime/cli/report/report.h"

enum fact {
    STATE, JOB, EARLIER, BEGAN, TOOK, WHERE, PARAMETERS, BATCH, STEPS, RESTARTS, FIRST_LOSS, LAST_LOSS, VALIDATION,
    THROUGHPUT, FLOPS, PEAK,
    STEP_TIME, EFFICIENCY, SPEEDUP, HIDDEN, BARRIER, SLOWEST, MEMORY, GOODPUT
};
const char *const report_fact_label[REPORT_FACTS] = {
    [STATE] = "state",
    [JOB] = "job",
    [EARLIER] = "earlier runs",
    [BEGAN] = "began",
    [TOOK] = "took",
    [WHERE] = "ran on",
    [PARAMETERS] = "parameters",
    [BATCH] = "samples a step",
    [STEPS] = "steps",
    [RESTARTS] = "interruptions",
    [FIRST_LOSS] = "first loss",
    [LAST_LOSS] = "last loss",
    [VALIDATION] = "best validation",
    [THROUGHPUT] = "throughput",
    [FLOPS] = "arithmetic",
    [PEAK] = "... of the peak",
    [STEP_TIME] = "time of a step",
    [EFFICIENCY] = "scaling efficiency",
    [SPEEDUP] = "speedup",
    [HIDDEN] = "hidden communication",
    [BARRIER] = "barrier",
    [SLOWEST] = "slowest rank",
    [MEMORY] = "memory of a rank",
    [GOODPUT] = "goodput",
};

static void where(const struct report_run *r, char *buf, size_t size)
{
    const struct record_start *s = r->start;
    int n = snprintf(buf, size, "%d rank%s", s->n_ranks, PLURAL(s->n_ranks));
    if (s->n_nodes)
        n += snprintf(buf + n, size - (size_t)n, ", %d node%s", s->n_nodes, PLURAL(s->n_nodes));
    if (*s->device)
        snprintf(buf + n, size - (size_t)n, ", %.16s", s->device);
}

static void batch(const struct report_run *r, char *buf, size_t size)
{
    const struct record_train *t = r->train;
    if (t && t->global_batch)
        snprintf(buf, size, "%" PRIu64 " = %" PRIu64 " x %d x %" PRIu64, t->global_batch, t->batch, r->start->n_ranks,
                 t->accumulation);
}

static void steps(const struct report_run *r, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%" PRIu64, r->record.step);
    if (r->train && r->train->steps)
        n += snprintf(buf + n, size - (size_t)n, " of %" PRIu64, r->train->steps);
    if (r->n_skipped)
        snprintf(buf + n, size - (size_t)n, ", %" PRIu64 " skipped", r->n_skipped);
}

static void interruptions(const struct report_run *r, char *buf, size_t size)
{
    snprintf(buf, size, "%zu restart%s, %zu requeue%s", r->n_restarts, PLURAL(r->n_restarts), r->n_requeues,
             PLURAL(r->n_requeues));
}

static void throughput(const struct report_run *r, char *buf, size_t size)
{
    char unit[64];
    if (!(r->wall_s > 0 && r->items > 0))
        return;
    snprintf(unit, sizeof unit, "%.40ss/s", r->train && *r->train->item ? r->train->item : "item");
    report_si(r->items / r->wall_s, unit, buf, size);
}

static void percent(double share, char *buf, size_t size)
{
    if (!isnan(share))
        report_percent(share, buf, size);
}

static void slowest(const struct report_run *r, char *buf, size_t size)
{
    char who[64];
    if (r->slowest >= 0 && r->record.ranks.n_now > 1)
        snprintf(buf, size, "%s, %.2f x median", record_rank_name(&r->record, r->slowest, who, sizeof who) + 5,
                 r->slowest_factor); /* without "rank " */
}

static void barrier(const struct report_run *r, char *buf, size_t size)
{
    char half[32], most[32];
    if (!isnan(r->barrier_p50_s))
        snprintf(buf, size, "%s, 99 %% at most %s", duration_text(r->barrier_p50_s, half, sizeof half),
                 duration_text(r->barrier_p99_s, most, sizeof most));
}

static void loss(double x, uint64_t step, bool has_step, char *buf, size_t size)
{
    char text[32];
    if (isnan(x))
        return;
    report_number(x, text, sizeof text);
    if (has_step)
        snprintf(buf, size, "%s at %" PRIu64, text, step);
    else
        snprintf(buf, size, "%s", text);
}

const char *report_fact(const struct report_run *r, int fact, char *buf, size_t size)
{
    double messages = r->start->n_ranks > 1 ? r->hidden_s + r->part_s[RECORD_EXPOSED] : NAN;
    *buf = 0;
    switch ((enum fact)fact) {
    case STATE: snprintf(buf, size, "%.*s", REPORT_TEXT_MAX, r->how); break;
    case JOB: snprintf(buf, size, "%.*s", REPORT_TEXT_MAX, r->start->job); break;
    case EARLIER:
        if (r->record.n_earlier)
            snprintf(buf, size, "%zu in the same record, not shown", r->record.n_earlier);
        break;
    case BEGAN: report_date(r->goodput.from_t, buf, size); break;
    case TOOK: duration_text(r->goodput.to_t - r->goodput.from_t, buf, size); break;
    case WHERE: where(r, buf, size); break;
    case PARAMETERS:
        if (r->train && r->train->parameters)
            report_si((double)r->train->parameters, "", buf, size);
        break;
    case BATCH: batch(r, buf, size); break;
    case STEPS:
        if (r->record.has_steps)
            steps(r, buf, size);
        break;
    case RESTARTS: interruptions(r, buf, size); break;
    case FIRST_LOSS: loss(r->first_loss, 0, false, buf, size); break;
    case LAST_LOSS: loss(r->last_loss, 0, false, buf, size); break;
    case VALIDATION: loss(r->best_validation, r->best_step, true, buf, size); break;
    case THROUGHPUT: throughput(r, buf, size); break;
    case FLOPS:
        if (!isnan(r->flops))
            report_si(r->flops, "FLOP/s", buf, size);
        break;
    case PEAK: percent(r->mfu, buf, size); break;
    case STEP_TIME:
        if (r->n_steps)
            duration_text(r->wall_s / (double)r->n_steps, buf, size);
        break;
    case EFFICIENCY: percent(r->efficiency, buf, size); break;
    case SPEEDUP:
        if (!isnan(r->efficiency))
            snprintf(buf, size, "%.3g x 1 rank", r->efficiency * r->start->n_ranks);
        break;
    case HIDDEN: percent(messages > 0 ? r->hidden_s / messages : NAN, buf, size); break;
    case BARRIER: barrier(r, buf, size); break;
    case SLOWEST: slowest(r, buf, size); break;
    case MEMORY:
        if (!isnan(r->memory_bytes))
            report_si(r->memory_bytes, "B", buf, size);
        break;
    case GOODPUT: percent(r->goodput.share, buf, size); break;
    }
    return buf;
}
