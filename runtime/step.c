/* step.c - the training step: samples out, gradients in, one optimizer step. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/distrust.h"
#include "runtime/handle.h"
#include "runtime/sized.h"

/* This many skipped steps in a row are not a loss scale that is still too high, but a model that has diverged. A loop
 * over the steps that were taken would never end then. */
#define SKIPPED_MAX 64

static int check_stray_mark(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t own = {0};
    errp = errp ? errp : &own;
    if (!d->has_stray_mark)
        return 0;
    error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready or ddp_grad_unused was called outside a micro-step: call them "
              "between ddp_batch_next and ddp_backward_end");
    return team_fail(&d->team, errp);
}

EXPORT int ddp_batch_next_sized(ddp_t *d, struct ddp_batch *ret, size_t size, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_batch_next", errp) < 0 || check_stray_mark(d, errp) < 0)
        return -1;
    struct ddp_batch batch;
    if (cut_begin(&d->save, &batch)) {
        sized_give(ret, size, &batch, sizeof batch);
        d->phase = PHASE_MICRO;
        return 0;
    }
    parts_begin(&d->parts);
    if (!d->state.micro.is_unfinished) {
        parts_go(&d->parts, DDP_PART_CHECKPOINT);
        recall_take(&d->save);
        parts_go(&d->parts, DDP_PART_OTHER);
    }
    struct data_batch b = data_next(&d->state.data);
    if (b.is_first) {
        reducer_zero(&d->state.reducer);
        d->state.micro.loss = d->state.micro.items = d->state.micro.samples = 0;
        d->state.micro.began_ns = clock_ns();
        d->computed_s = parts_computed_s(&d->parts);
    } else if (d->state.data.cfg.n_shards) {
        reducer_zero_grads(&d->state.reducer);
    }
    reducer_micro_begin(&d->state.reducer, b.is_last);
    parts_micro_begin(&d->parts);
    d->state.micro.samples += (double)b.n;
    d->state.micro.index = b.micro;
    d->state.micro.sync = b.is_last;
    d->state.micro.is_unfinished = !b.is_last;
    batch = (struct ddp_batch){.sample = b.ids,
                               .n_samples = b.n,
                               .shard = b.shard,
                               .epoch = b.epoch,
                               .grad_scale = (float)loss_scale_factor(&d->state.loss_scale),
                               .sync = b.is_last};
    sized_give(ret, size, &batch, sizeof batch);
    d->phase = PHASE_MICRO;
    return 0;
}

EXPORT int ddp_batch_peek(ddp_t *d, const uint64_t **ret_sample, size_t *ret_n, ddp_error_t *errp)
{
    unsigned phases = 1u << PHASE_IDLE | 1u << PHASE_MICRO | 1u << PHASE_SUMMED;
    if (handle_expect(d, phases, "ddp_batch_peek", errp) < 0)
        return -1;
    struct data_batch b = data_peek(&d->state.data);
    *ret_sample = b.ids;
    *ret_n = d->save.cut.is_cut ? 0 : b.n; /* as the next batch has */
    return 0;
}

EXPORT void ddp_mark(ddp_t *d, enum ddp_mark mark)
{
    if (d->phase != PHASE_MICRO || d->parts.part != DDP_PART_FORWARD)
        return;
    if (mark == DDP_MARK_FORWARD)
        parts_rename(&d->parts, DDP_PART_DATA);
    parts_go(&d->parts, mark == DDP_MARK_FORWARD ? DDP_PART_FORWARD : DDP_PART_BACKWARD);
}

/* A mark that no micro-step can take would be lost: the next call says so. */
static void mark(ddp_t *d, int id, enum reducer_mark how)
{
    if (d->team.is_broken || comm_is_parents(d->team.comm))
        return;
    if (d->parts.part == DDP_PART_FORWARD)
        parts_go(&d->parts, DDP_PART_BACKWARD);
    if (d->phase == PHASE_MICRO)
        reducer_mark(&d->state.reducer, id, how);
    else
        d->has_stray_mark = true;
}

EXPORT void ddp_grad_ready(ddp_t *d, int id)
{
    mark(d, id, MARK_READY);
}

EXPORT void ddp_grad_unused(ddp_t *d, int id)
{
    mark(d, id, MARK_UNUSED);
}

/* Takes a micro-step into its step's sums. Shards are added up in the tree over their numbers, counts are exact. */
static int add_micro(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp)
{
    d->state.micro.items += (double)n_tokens;
    if (!d->state.data.cfg.n_shards) {
        d->state.micro.loss += loss_sum;
    } else if (!d->state.micro.sync) {
        const float *grads = reducer_grads(&d->state.reducer);
        return shards_keep(&d->state.shards, d->state.micro.index, grads, loss_sum, errp);
    } else { /* the gradients were folded on their way, by add_shards */
        d->state.micro.loss = shards_fold_loss(&d->state.shards, loss_sum);
    }
    return 0;
}

/* The parts say what this rank computed, and when: not the host's of what a GPU did. */
static bool is_timed(const ddp_t *d)
{
    return !d->device || d->parts.clock;
}

/* What this micro-step computed, it did with no communication beside it. Where GPUs share the optimizer's state nobody
 * says so: their optimizer's time has communication in it, and so no efficiency follows. */
static bool is_quiet(const ddp_t *d)
{
    bool is_alone = d->team.me.size == 1;
    return is_timed(d) && (is_alone || (d->state.reducer.is_quiet && !(d->device && d->state.arena.is_spread)));
}

/* The micro-step in whose place a step was cut. */
static int end_empty(ddp_t *d, ddp_error_t *errp)
{
    if (reducer_micro_end(&d->state.reducer, errp) < 0)
        return team_break(&d->team);
    d->phase = PHASE_SUMMED;
    return 0;
}

EXPORT int ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_MICRO, "ddp_backward_end", errp) < 0)
        return -1;
    ddp_error_t own = {0}; /* the others are told, whether or not the caller wants to know */
    errp = errp ? errp : &own;
    if (reducer_check(&d->state.reducer, errp) < 0)
        return team_fail(&d->team, errp);
    if (d->save.cut.is_cut)
        return end_empty(d, errp);
    if (add_micro(d, loss_sum, n_tokens, errp) < 0)
        return team_fail(&d->team, errp);
    parts_micro_end(&d->parts, is_quiet(d));
    if (d->state.micro.sync && !d->device)
        pace_note(&d->pace, (double)(clock_ns() - d->state.micro.began_ns) / 1e9);
    double *tail = reducer_tail(&d->state.reducer);
    tail[TAIL_LOSS] = d->state.micro.loss;
    tail[TAIL_ITEMS] = d->state.micro.items;
    tail[TAIL_SAMPLES] = d->state.micro.samples;
    scheduler_fill(&d->save, tail);
    tail[TAIL_JOINED] = 0;
    tail[TAIL_SLOW] = cut_is_slow(&d->save);
    if (d->state.micro.sync) {
        parts_go(&d->parts, DDP_PART_CHECKPOINT);
        recall_fill_tail(&d->save, tail);
        parts_go(&d->parts, DDP_PART_OTHER);
    }
    checkpoint_fill_tail(&d->save, tail);
    if (d->state.micro.sync && verify_fill(&d->verify, &d->state, tail, errp) < 0)
        return team_fail(&d->team, errp);
    parts_go(&d->parts, DDP_PART_EXPOSED);
    if (reducer_micro_end(&d->state.reducer, errp) < 0)
        return team_break(&d->team);
    d->phase = d->state.micro.sync ? PHASE_SUMMED : PHASE_IDLE;
    int rc = d->state.micro.sync ? 0 : cut_agree(&d->save, false, errp);
    parts_go(&d->parts, DDP_PART_OTHER);
    if (d->state.micro.sync && d->device) /* which has computed all of it by now */
        pace_note(&d->pace, is_timed(d) ? parts_computed_s(&d->parts) - d->computed_s : 0);
    return rc;
}

static double hidden_s(const ddp_t *d)
{
    return (double)d->state.reducer.hidden_ns / 1e9;
}

static int apply(ddp_t *d, ddp_error_t *errp)
{
    parts_go(&d->parts, DDP_PART_CHECKPOINT);
    checkpoint_wait_copied(&d->save);
    parts_go(&d->parts, DDP_PART_OPTIMIZER);
    return arena_step(&d->state.arena, reducer_used(&d->state.reducer), errp);
}

static int trace_step(ddp_t *d, const struct ddp_step *s, uint64_t from_ns, ddp_error_t *errp)
{
    char number[24];
    uint64_t now = clock_ns();
    snprintf(number, sizeof number, "%llu", (unsigned long long)s->step);
    trace_span(&d->trace, TRACE_STEP, "optimizer", NULL, from_ns, now);
    trace_span(&d->trace, TRACE_STEP, "step", number, d->state.micro.began_ns, now);
    return trace_flush(&d->trace, errp);
}

/* Looks at what all ranks took, where it is time to. *ret: it was. */
static int gather_pace(ddp_t *d, const struct ddp_step *s, bool has_joined, bool *ret, ddp_error_t *errp)
{
    const struct ddp_optimizer *o = &d->state.optimizer.cfg;
    bool is_last = s->stop || (o->total && s->step == o->total && !s->skipped);
    *ret = pace_is_due(&d->pace, has_joined, is_last);
    if (!*ret)
        return 0;
    struct pace_own own = pace_own(&d->pace, &d->parts, hidden_s(d), comm_tcp_rate(d->team.comm)), *all;
    all = team_gather(&d->team, &own, sizeof own, errp);
    if (!all)
        return -1;
    if (pace_barrier(&d->pace, &d->team, errp) < 0) {
        free(all);
        return -1;
    }
    pace_take(&d->pace, &d->team, all, is_timed(d));
    /* What a quiet pass costs is what the others hide: on GPUs that is not known. */
    d->state.reducer.quiet_every = d->device ? 0 : reducer_quiet_every(d->pace.last.hidden_s / d->pace.last.wall_s);
    return 0;
}

static int skipped_too_often(ddp_t *d, const struct ddp_step *s, ddp_error_t *errp)
{
    bool is_f16 = d->config.compress == COMPRESS_F16 && !d->state.loss_scale.is_dynamic && isfinite(s->loss);
    error_set(errp, DDP_E_DATA, ERANGE, "the gradient was not finite in %d steps in a row (after step %llu, loss "
              "%g): %s", SKIPPED_MAX, (unsigned long long)s->step, s->loss,
              is_f16 ? "as f16, in which it travels (compress), it may be too large: use compress=bf16, or losses "
                       "scaled by --ddp-loss-scale=dynamic"
                     : "training has diverged: use a lower learning rate or clip");
    return team_break(&d->team);
}

/* An optimizer step from what the ranks have summed, or none where that is not finite. */
static int take_step(ddp_t *d, const double *tail, struct ddp_step *s, ddp_error_t *errp)
{
    s->loss = tail[TAIL_LOSS] / tail[TAIL_ITEMS];
    optimizer_begin(&d->state.optimizer, norm_total(&d->state.reducer.norm), 1 / tail[TAIL_ITEMS] / s->loss_scale, s);
    if (!s->skipped && apply(d, errp) < 0)
        return team_break(&d->team);
    s->bad_param = norm_worst(&d->state.reducer.norm);
    loss_scale_after_step(&d->state.loss_scale, s->skipped);
    d->state.n_skipped = s->skipped ? d->state.n_skipped + 1 : 0;
    return d->state.n_skipped == SKIPPED_MAX ? skipped_too_often(d, s, errp) : 0;
}

/* The last step that was taken, in place of one that a stop has cut. */
static void give_cut(ddp_t *d, struct ddp_step *ret, size_t size)
{
    struct ddp_step last = cut_step(&d->save);
    events_stop(d, &last);
    sized_give(ret, size, &last, sizeof last);
    checkpoint_after_cut(&d->save);
    d->phase = PHASE_IDLE;
}

static int check_items(ddp_t *d, const double *tail, ddp_error_t *errp)
{
    if (tail[TAIL_ITEMS] > 0 || tail[TAIL_SAMPLES] == 0)
        return 0;
    error_set(errp, DDP_E_USAGE, EINVAL, "ddp_step: no rank reported any item: pass their number to "
              "ddp_backward_end");
    return team_break(&d->team);
}

/* The step before it is taken. It stays so where all ranks that have a share in it have joined. */
static struct ddp_step next_step(ddp_t *d, const double *tail)
{
    const struct optimizer *o = &d->state.optimizer;
    int reason = stop_agreed(&d->save.stop, tail + TAIL_STOP);
    return (struct ddp_step){.step = o->n_steps,
                             .lr = optimizer_lr(&o->cfg, o->n_steps),
                             .loss_scale = loss_scale_factor(&d->state.loss_scale),
                             .skipped = true,
                             .bad_param = -1,
                             .stop = reason >= 0,
                             .stop_signal = stop_signal(reason)};
}

EXPORT int ddp_step_sized(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_SUMMED, "ddp_step", errp) < 0 || check_stray_mark(d, errp) < 0)
        return -1;
    d->has_saved = false;
    uint64_t began_ns = clock_ns();
    ddp_error_t own = {0}; /* the others are told, whether or not the caller wants to know */
    errp = errp ? errp : &own;
    if (d->save.cut.is_cut) {
        give_cut(d, ret, size);
        return 0;
    }
    parts_go(&d->parts, DDP_PART_OPTIMIZER);
    const double *tail = reducer_tail(&d->state.reducer);
    double items = tail[TAIL_ITEMS];
    bool has_joined = tail[TAIL_JOINED] > 0, is_interval;
    if (check_items(d, tail, errp) < 0 || distrust_step(d, tail, errp) < 0)
        return -1;
    struct ddp_step s = next_step(d, tail);
    if (items > 0 && take_step(d, tail, &s, errp) < 0)
        return -1;
    parts_go(&d->parts, DDP_PART_CHECKPOINT);
    comm_note_step(d->team.comm, s.step);
    scheduler_after_step(&d->save);
    d->save.cut.is_watched = tail[TAIL_SLOW] > 0;
    if (checkpoint_after_step(&d->save, tail, &s, errp) < 0)
        return -1;
    parts_go(&d->parts, DDP_PART_OTHER);
    if (trace_step(d, &s, began_ns, errp) < 0)
        return team_fail(&d->team, errp);
    if (gather_pace(d, &s, has_joined, &is_interval, errp) < 0)
        return -1;
    d->phase = PHASE_IDLE;
    d->save.cut.last = s;
    events_step(d, &s, items, is_interval);
    sized_give(ret, size, &s, sizeof s);
    return 0;
}

EXPORT int ddp_metrics_sized(const ddp_t *d, struct ddp_metrics *ret, size_t size)
{
    struct ddp_metrics m = d->state.reducer.metrics;
    m.tcp_bytes_sent = comm_tcp_bytes_sent(d->team.comm);
    m.slow_rank = d->pace.slow[0] ? d->pace.slow_rank : -1;
    m.slow_factor = d->pace.slow_factor;
    memcpy(m.slow, d->pace.slow, sizeof m.slow);
    m.wall_s = parts_get(&d->parts, m.part_s);
    m.hidden_s = hidden_s(d);
    double efficiency = pace_efficiency(&d->pace), baseline_s = d->pace.last.baseline_s;
    m.efficiency = isfinite(efficiency) ? efficiency : 0;
    m.baseline_s = isfinite(baseline_s) ? baseline_s : 0;
    m.end_t = scheduler_end_t(&d->save);
    struct stats barriers = pace_barriers(&d->pace);
    m.barrier_p50_s = barriers.median;
    m.barrier_p99_s = barriers.p99;
    sized_give(ret, size, &m, sizeof m);
    return 0;
}
