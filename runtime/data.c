#include "runtime/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

int data_n_replicas(const struct data_config *cfg)
{
    return cfg->n_shards ? cfg->n_shards : cfg->n_ranks;
}

int data_shards_per_rank(const struct data_config *cfg)
{
    return cfg->n_shards ? cfg->n_shards / cfg->n_ranks : 1;
}

static bool is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static int check_shards(const struct data_config *c, ddp_error_t *errp)
{
    if (c->n_shards == 0)
        return 0;
    if (!is_power_of_two(c->n_shards))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards: their number is a power of two (8, 16, 32, ...), or 0 "
                         "for none", c->n_shards);
    if (!is_power_of_two(c->n_ranks))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards on %d ranks: results that do not depend on the number "
                         "of ranks need a power of two of them: start 1, 2, 4, ... ranks, or use no shards", c->n_shards,
                         c->n_ranks);
    if (c->n_shards < c->n_ranks)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards on %d ranks: every rank needs one: use at least %d "
                         "shards, or fewer ranks", c->n_shards, c->n_ranks, c->n_ranks);
    if (c->accum != 1)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards with %d micro-steps: shards are the micro-steps: use 1 "
                         "micro-step and %d times as many shards", c->n_shards, c->accum, c->accum);
    return 0;
}

static int check_size(const struct data_config *c, ddp_error_t *errp)
{
    uint64_t wanted, each = (uint64_t)c->accum * (uint64_t)data_n_replicas(c);
    if (!__builtin_mul_overflow((uint64_t)c->batch, each, &wanted) && wanted <= c->n_samples)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL,
                     "a step takes %zu x %d x %d samples (batch, micro-steps, %s), but there are only %" PRIu64
                     ": use a smaller batch or more data",
                     c->batch, c->accum, data_n_replicas(c), c->n_shards ? "shards" : "ranks", c->n_samples);
}

int data_open(struct data *d, const struct data_config *cfg, ddp_error_t *errp)
{
    if (cfg->batch < 1 || cfg->accum < 1 || cfg->n_shards < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "a batch of %zu, %d micro-steps, %d shards: at least 1, 1 and 0 are possible", cfg->batch,
                         cfg->accum, cfg->n_shards);
    if (cfg->n_samples < 1 || cfg->n_samples > SAMPLER_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%" PRIu64 " samples: 1..%u are possible", cfg->n_samples,
                         SAMPLER_MAX);
    if (check_shards(cfg, errp) < 0 || check_size(cfg, errp) < 0)
        return -1;
    struct data made = {.cfg = *cfg};
    made.sampler = sampler_create(&(struct sampler_config){cfg->n_samples, data_n_replicas(cfg), cfg->seed});
    made.ids = malloc(cfg->batch * sizeof *made.ids);
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
    const struct data_config *c = &d->cfg;
    uint64_t per_replica = sampler_per_replica(d->sampler);
    if (d->cursor == per_replica) {
        d->cursor = 0;
        sampler_set_epoch(d->sampler, ++d->epoch);
    }
    uint64_t left = per_replica - d->cursor;
    size_t n = left < c->batch ? (size_t)left : c->batch;
    int micro = d->micro++, n_shards = data_shards_per_rank(c);
    int replica = c->n_shards ? c->rank * n_shards + micro : c->rank;
    for (size_t i = 0; i < n; i++)
        d->ids[i] = sampler_get(d->sampler, replica, d->cursor + i);
    bool is_last = c->n_shards ? d->micro == n_shards : d->micro == c->accum || d->cursor + n == per_replica;
    if (!c->n_shards || is_last)
        d->cursor += n;
    if (is_last)
        d->micro = 0;
    return (struct data_batch){d->ids, n, d->epoch, replica, micro, micro == 0, is_last};
}
