#include "runtime/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

int data_open(struct data *d, const struct sampler_config *cfg, size_t batch, int accum, ddp_error_t *errp)
{
    if (batch < 1 || accum < 1)
        return error_set(errp, DDP_E_USAGE, EINVAL, "a batch of %zu with %d micro-steps: both must be at least 1",
                         batch, accum);
    uint64_t wanted;
    if (__builtin_mul_overflow((uint64_t)batch, (uint64_t)accum * (uint64_t)cfg->size, &wanted) ||
        wanted > cfg->n_samples)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "a step takes %zu x %d x %d samples (batch, micro-steps, ranks), but there are only %" PRIu64
                         ": use a smaller batch or more data",
                         batch, accum, cfg->size, cfg->n_samples);
    struct data made = {.batch = batch, .accum = accum};
    made.sampler = sampler_create(cfg);
    made.ids = malloc(batch * sizeof *made.ids);
    if (!made.sampler || !made.ids) {
        data_close(&made);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the order of %" PRIu64 " samples", cfg->n_samples);
    }
    sampler_set_epoch(made.sampler, 0);
    *d = made;
    return 0;
}

void data_close(struct data *d)
{
    sampler_destroy(d->sampler);
    free(d->ids);
    *d = (struct data){0};
}

struct data_batch data_next(struct data *d)
{
    uint64_t per_rank = sampler_per_rank(d->sampler);
    if (d->cursor == per_rank) {
        d->cursor = 0;
        sampler_set_epoch(d->sampler, ++d->epoch);
    }
    uint64_t left = per_rank - d->cursor;
    size_t n = left < d->batch ? (size_t)left : d->batch;
    for (size_t i = 0; i < n; i++)
        d->ids[i] = sampler_get(d->sampler, d->cursor + i);
    d->cursor += n;
    bool is_first = d->micro == 0, is_last = ++d->micro == d->accum || d->cursor == per_rank;
    if (is_last)
        d->micro = 0;
    return (struct data_batch){d->ids, n, d->epoch, is_first, is_last};
}
