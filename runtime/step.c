/* step.c - the training step: samples out, gradients in, one optimizer step. */
#include <errno.h>
#include <math.h>

#include "runtime/handle.h"

/* This many skipped steps in a row are not a loss scale that is still too high, but a model that has diverged. */
#define SKIPPED_MAX 64

EXPORT int ddp_data_open(ddp_t *d, uint64_t n_samples, size_t batch_per_shard, int accum, int shards, uint64_t seed,
                         ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_COMMITTED, "ddp_data_open", errp) < 0)
        return -1;
    if (shards != 0)
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "ddp_data_open: %d shards: logical shards are not supported yet: "
                         "use 0", shards);
    if (n_samples < 1 || n_samples > SAMPLER_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_data_open: %llu samples: 1..%u are possible",
                         (unsigned long long)n_samples, SAMPLER_MAX);
    struct sampler_config cfg = {
        .n_samples = n_samples, .rank = d->world.rank, .size = d->world.size, .seed = seed};
    if (data_open(&d->data, &cfg, batch_per_shard, accum, errp) < 0)
        return -1;
    stop_catch(&d->stop);
    d->phase = PHASE_IDLE;
    return 0;
}

EXPORT int ddp_batch_next(ddp_t *d, struct ddp_batch *ret, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_batch_next", errp) < 0)
        return -1;
    struct data_batch b = data_next(&d->data);
    if (b.is_first) {
        reducer_zero(&d->reducer);
        d->micro.loss = d->micro.items = 0;
    }
    reducer_micro_begin(&d->reducer, b.is_last);
    d->micro.sync = b.is_last;
    d->micro.is_unfinished = !b.is_last;
    *ret = (struct ddp_batch){.sample = b.ids,
                              .n_samples = b.n,
                              .shard = d->world.rank,
                              .epoch = b.epoch,
                              .grad_scale = 1,
                              .sync = b.is_last};
    d->phase = PHASE_MICRO;
    return 0;
}

EXPORT void ddp_grad_ready(ddp_t *d, int id)
{
    if (d->phase == PHASE_MICRO)
        reducer_mark(&d->reducer, id, MARK_READY);
}

EXPORT void ddp_grad_unused(ddp_t *d, int id)
{
    if (d->phase == PHASE_MICRO)
        reducer_mark(&d->reducer, id, MARK_UNUSED);
}

EXPORT int ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_MICRO, "ddp_backward_end", errp) < 0)
        return -1;
    d->micro.loss += loss_sum;
    d->micro.items += (double)n_tokens;
    double *tail = reducer_tail(&d->reducer);
    tail[TAIL_LOSS] = d->micro.loss;
    tail[TAIL_ITEMS] = d->micro.items;
    tail[TAIL_STOP] = stop_is_wanted(&d->stop);
    tail[TAIL_JOINED] = 0;
    if (reducer_check(&d->reducer, errp) < 0)
        return handle_fail(d, errp);
    if (reducer_micro_end(&d->reducer, errp) < 0)
        return handle_break(d);
    d->phase = d->micro.sync ? PHASE_SUMMED : PHASE_IDLE;
    return 0;
}

EXPORT int ddp_step(ddp_t *d, struct ddp_step *ret, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_SUMMED, "ddp_step", errp) < 0)
        return -1;
    const double *tail = reducer_tail(&d->reducer);
    if (!(tail[TAIL_ITEMS] > 0)) {
        error_set(errp, DDP_E_USAGE, EINVAL, "ddp_step: no rank reported any item: pass their number to "
                  "ddp_backward_end");
        return handle_break(d);
    }
    struct ddp_step s = {.loss = tail[TAIL_LOSS] / tail[TAIL_ITEMS], .stop = tail[TAIL_STOP] > 0};
    optimizer_step(&d->optimizer, &d->layout, d->values, reducer_grads(&d->reducer), norm_total(&d->reducer.norm),
                   1 / tail[TAIL_ITEMS], reducer_used(&d->reducer), &s);
    s.bad_param = norm_worst(&d->reducer.norm);
    d->n_skipped = s.skipped ? d->n_skipped + 1 : 0;
    if (d->n_skipped == SKIPPED_MAX) {
        error_set(errp, DDP_E_DATA, ERANGE, "the gradient was not finite in %d steps in a row (after step %llu, loss "
                  "%g): training has diverged: use a lower learning rate or clip",
                  SKIPPED_MAX, (unsigned long long)s.step, s.loss);
        return handle_break(d);
    }
    d->phase = PHASE_IDLE;
    *ret = s;
    return 0;
}
