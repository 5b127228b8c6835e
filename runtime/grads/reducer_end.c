/* The end of a micro-step: buckets arrive, then the tail, and what was measured on the way is kept. */
#include <stdio.h>

#include "runtime/base/clock.h"
#include "runtime/grads/reducer_impl.h"

static void mark_rest_unused(struct reducer *r)
{
    for (int i = r->layout->n - 1; r->n_marked < r->layout->n && i >= 0; i--)
        if (r->mark[i] == MARK_NONE)
            reducer_mark(r, i, MARK_UNUSED);
}

static int wait_for_carrier(struct reducer *r, ddp_error_t *errp)
{
    if (r->is_failed) {
        if (errp)
            *errp = r->error;
        return -1;
    }
    if (r->carrier->wait(r->carrier->ctx, errp) < 0)
        return -1;
    while (r->n_done < r->n_started)
        r->bucket[r->n_done++].done_ns = clock_ns();
    return 0;
}

/* In a quiet pass. */
static void start_all(struct reducer *r)
{
    while (!r->is_failed && r->n_started < r->plan.n_buckets)
        reducer_start(r, r->n_started++);
}

static int wait_for_buckets(struct reducer *r, ddp_error_t *errp)
{
    if (r->is_quiet)
        start_all(r);
    if (r->carrier)
        return wait_for_carrier(r, errp);
    for (int b = 0; b < r->n_started; b++)
        if (reducer_wait(r, b, errp) < 0)
            return -1;
    return 0;
}

static int sum_tail(struct reducer *r, ddp_error_t *errp)
{
    struct comm_range all = {0, reducer_tail_elems(r), DDP_F64};
    double *used = reducer_tail(r) + reducer_used_at(r);
    for (int i = 0; i < r->layout->n; i++)
        used[i] = r->is_used[i];
    return comm_reduce_ranges(r->comm, r->tail, &all, 1, DDP_SUM, errp);
}

/* Buckets start in index order: what one and those before it have in common counts once. */
static uint64_t hidden_ns(const struct reducer *r)
{
    uint64_t sum = 0, at = 0;
    for (int b = 0; !r->carrier && b < r->n_started; b++) {
        const struct reducer_bucket *k = &r->bucket[b];
        uint64_t from = k->started_ns > at ? k->started_ns : at, to = k->done_ns < r->end_ns ? k->done_ns : r->end_ns;
        if (to <= from)
            continue;
        sum += to - from;
        at = to;
    }
    return sum;
}

static void count(struct reducer *r)
{
    uint64_t now = clock_ns(), first = r->layout->n ? r->ready_ns[r->arrival[0]] : r->end_ns;
    first = first < r->end_ns ? first : r->end_ns; /* found unused, and marked, at the end */
    r->n_passes++;
    r->metrics.steps++;
    r->hidden_ns += hidden_ns(r);
    r->metrics.backward_s += (double)(r->end_ns - first) / 1e9;
    r->metrics.wait_s += (double)(now - r->end_ns) / 1e9;
    for (int i = 0; i < r->layout->n; i++)
        r->metrics.bytes_reduced += r->range[i].n_elems * dtype_size(r->range[i].dtype);
}

/* When buckets really travelled, beside when they were asked for. */
static void write_trace_of_carrier(const struct reducer *r)
{
    uint64_t from, to;
    char number[24];
    if (!r->carrier || !r->carrier->span)
        return;
    for (int b = 0; b < r->n_started; b++) {
        snprintf(number, sizeof number, "%d", b);
        if (r->carrier->span(r->carrier->ctx, b, &from, &to))
            trace_span(r->trace, TRACE_GPU, "travel", number, from, to);
    }
    if (r->carrier->done(r->carrier->ctx, &to))
        trace_instant(r->trace, TRACE_GPU, "gradients done", NULL, to);
}

static void write_trace(const struct reducer *r)
{
    uint64_t now = clock_ns();
    char number[24];
    if (!r->trace || !r->trace->file)
        return;
    for (int i = 0; i < r->n_marked; i++)
        trace_instant(r->trace, TRACE_GRADIENTS, r->mark[r->plan.param[i]] == MARK_READY ? "ready" : "unused",
                      r->layout->param[r->plan.param[i]].name, r->ready_ns[r->plan.param[i]]);
    for (int b = 0; b < r->plan.n_buckets; b++) {
        snprintf(number, sizeof number, "%d", b);
        trace_span(r->trace, TRACE_BUCKETS, "bucket", number, r->bucket[b].started_ns, r->bucket[b].done_ns);
    }
    write_trace_of_carrier(r);
    trace_span(r->trace, TRACE_BUCKETS, "tail", NULL, r->tail_ns, now);
    trace_instant(r->trace, TRACE_STEP, "backward end", NULL, r->end_ns);
}

int reducer_micro_end(struct reducer *r, ddp_error_t *errp)
{
    r->end_ns = clock_ns();
    mark_rest_unused(r);
    if (!r->is_sync)
        return 0;
    int rc = r->tuning.is_measuring ? reducer_measure(r, errp) : wait_for_buckets(r, errp);
    r->tail_ns = clock_ns();
    if (rc < 0 || sum_tail(r, errp) < 0)
        return -1;
    count(r);
    write_trace(r);
    return reducer_tune(r, errp);
}
