#include "runtime/data/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static int n_replicas_of(const struct data_config *cfg)
{
    return cfg->n_shards ? cfg->n_shards : cfg->n_ranks;
}

int data_shards_per_rank(const struct data_config *cfg)
{
    return cfg->n_shards ? cfg->n_shards / cfg->n_ranks : 1;
}

const char *data_order_name(enum data_order order)
{
    return order == DATA_LEDGER ? "ledger" : "distributed";
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
                         "of ranks need a power of two of them: start 1, 2, 4, ... ranks, or use no shards",
                         c->n_shards, c->n_ranks);
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
    uint64_t wanted, each = (uint64_t)c->accum * (uint64_t)n_replicas_of(c);
    if (each > UINT32_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d micro-steps on %d ranks are too many: at most %u together",
                         c->accum, c->n_ranks, UINT32_MAX);
    if (!__builtin_mul_overflow((uint64_t)c->batch, each, &wanted) && wanted <= c->n_samples)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL,
                     "a step takes %zu x %d x %d samples (batch, micro-steps, %s), but there are only %" PRIu64
                     ": use a smaller batch or more data",
                     c->batch, c->accum, n_replicas_of(c), c->n_shards ? "shards" : "ranks", c->n_samples);
}

static int check_count(const struct data_config *c, ddp_error_t *errp)
{
    if (c->order == DATA_DISTRIBUTED && c->n_samples > SAMPLER_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%" PRIu64 " samples: up to %u have one order in "
                         "DistributedSampler, beyond that PyTorch's versions differ: use --ddp-order=ledger",
                         c->n_samples, SAMPLER_MAX);
    if (c->n_samples < 1 || c->n_samples > LEDGER_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%" PRIu64 " samples: 1..%" PRIu64 " are possible", c->n_samples,
                         LEDGER_MAX);
    return 0;
}

static void begin_epoch(struct data *d)
{
    if (d->sampler)
        sampler_set_epoch(d->sampler, d->at.epoch);
    else
        d->ledger = ledger_of(d->cfg.n_samples, d->cfg.seed, d->at.epoch);
}

int data_open(struct data *d, const struct data_config *cfg, ddp_error_t *errp)
{
    if (cfg->batch < 1 || cfg->accum < 1 || cfg->n_shards < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "a batch of %zu, %d micro-steps, %d shards: at least 1, 1 and 0 are possible", cfg->batch,
                         cfg->accum, cfg->n_shards);
    if (check_count(cfg, errp) < 0 || check_shards(cfg, errp) < 0 || check_size(cfg, errp) < 0)
        return -1;
    struct data made = {.cfg = *cfg};
    if (cfg->order == DATA_DISTRIBUTED)
        made.sampler = sampler_create(&(struct sampler_config){cfg->n_samples, cfg->seed});
    made.ids = malloc(cfg->batch * sizeof *made.ids);
    made.peeked = malloc(cfg->batch * sizeof *made.peeked);
    if ((cfg->order == DATA_DISTRIBUTED && !made.sampler) || !made.ids || !made.peeked) {
        data_close(&made);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the order of %" PRIu64 " samples", cfg->n_samples);
    }
    begin_epoch(&made);
    *d = made;
    return 0;
}

void data_close(struct data *d)
{
    sampler_destroy(d->sampler);
    free(d->ids);
    free(d->peeked);
    *d = (struct data){0};
}

/* What is common to the micro-steps of the step at the position. */
struct step {
    uint64_t n;  /* entries */
    int n_micro;
};

static struct step step_of(const struct data *d)
{
    const struct data_config *c = &d->cfg;
    uint64_t left = c->n_samples - d->at.cursor, per_micro = c->batch * (uint64_t)n_replicas_of(c);
    uint64_t n_micro = (left + per_micro - 1) / per_micro;
    if (n_micro > (uint64_t)c->accum)
        n_micro = (uint64_t)c->accum;
    struct step s = {.n = n_micro * per_micro, .n_micro = c->n_shards ? data_shards_per_rank(c) : (int)n_micro};
    if (s.n > left)
        s.n = left;
    return s;
}

/* n k / of, rounded down; of < 2^32 */
static uint64_t part(uint64_t n, uint64_t k, uint64_t of)
{
    return n / of * k + n % of * k / of;
}

static size_t take_chunk(const struct data *d, const struct step *s, int replica, uint64_t *ids)
{
    const struct data_config *c = &d->cfg;
    uint64_t n_chunks = (uint64_t)c->n_shards, chunk = (uint64_t)replica;
    if (!c->n_shards) {
        n_chunks = (uint64_t)s->n_micro * (uint64_t)c->n_ranks;
        chunk += (uint64_t)d->at.micro * (uint64_t)c->n_ranks;
    }
    uint64_t first = part(s->n, chunk, n_chunks), end = part(s->n, chunk + 1, n_chunks);
    for (uint64_t i = first; i < end; i++)
        ids[i - first] = ledger_get(&d->ledger, d->at.cursor + i);
    return (size_t)(end - first);
}

static size_t take_dealt(const struct data *d, const struct step *s, int replica, uint64_t *ids)
{
    const struct data_config *c = &d->cfg;
    uint64_t n_replicas = (uint64_t)n_replicas_of(c), per_replica = (s->n + n_replicas - 1) / n_replicas;
    uint64_t first = c->n_shards ? 0 : (uint64_t)d->at.micro * c->batch;
    uint64_t n = per_replica - first < c->batch ? per_replica - first : c->batch;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = sampler_get(d->sampler, d->at.cursor + (uint64_t)replica + (first + i) * n_replicas);
    return (size_t)n;
}

static struct data_batch batch_at(const struct data *d, const struct step *s, uint64_t *ids)
{
    const struct data_config *c = &d->cfg;
    int micro = d->at.micro, replica = c->n_shards ? c->rank * s->n_micro + micro : c->rank;
    size_t n = (d->sampler ? take_dealt : take_chunk)(d, s, replica, ids);
    return (struct data_batch){ids, n, d->at.epoch, replica, micro, micro == 0, micro + 1 == s->n_micro};
}

struct data_batch data_peek(struct data *d)
{
    struct step s = step_of(d);
    return batch_at(d, &s, d->peeked);
}

struct data_batch data_next(struct data *d)
{
    struct step s = step_of(d);
    struct data_batch b = batch_at(d, &s, d->ids);
    d->at.micro++;
    if (!b.is_last)
        return b;
    d->at.micro = 0;
    d->at.cursor += s.n;
    if (d->at.cursor == d->cfg.n_samples) {
        d->at.cursor = 0;
        d->at.epoch++;
        begin_epoch(d);
    }
    return b;
}

struct data_position data_position(const struct data *d)
{
    return d->at;
}

int data_seek(struct data *d, const struct data_position *at, ddp_error_t *errp)
{
    struct data moved = *d;
    moved.at = *at;
    if (at->cursor >= d->cfg.n_samples)
        return error_set(errp, DDP_E_USAGE, EINVAL, "position %" PRIu64 " in epoch %" PRIu64 ": there are only %" PRIu64
                         " samples: go on with the data that it was saved with", at->cursor, at->epoch,
                         d->cfg.n_samples);
    int n_micro = step_of(&moved).n_micro;
    if (at->micro < 0 || at->micro >= n_micro)
        return error_set(errp, DDP_E_USAGE, EINVAL, "micro-step %d of a step of %d: go on with as many ranks, and the "
                         "batch and micro-steps, that it was saved with", at->micro, n_micro);
    d->at = *at;
    begin_epoch(d);
    return 0;
}
