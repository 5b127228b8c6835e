/* data_open.c - the start of the data order, and of shards. */
#include <errno.h>
#include <string.h>

#include "runtime/handle.h"

/* Parameter id's gradient of the last shard becomes the sum over this rank's shards, just before it travels. */
static int add_shards(void *ctx, int id, ddp_error_t *errp)
{
    const struct state *s = ctx;
    const struct layout_param *p = &s->layout.param[id];
    size_t first = p->offset_bytes / sizeof(float);
    return shards_fold(&s->shards, reducer_grads(&s->reducer), first, p->n_elems, errp);
}

/* Sums that do not depend on the number of ranks are sums over rank numbers, however the ranks are spread. */
static int open_shards(ddp_t *d, ddp_error_t *errp)
{
    const struct data_config *c = &d->state.data.cfg;
    if (!c->n_shards)
        return 0;
    if (!comm_is_by_rank(d->team.comm))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards: here sums follow the nodes, not the rank numbers: put "
                         "a power of two of consecutive ranks on every node (srun --ntasks-per-node=N "
                         "--distribution=block), or use no shards", c->n_shards);
    if (d->hook.encode || d->config.compress != COMPRESS_NONE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d shards: gradients must travel as they are, since what a hook "
                         "or a 16-bit type rounds depends on the number of ranks: use no compression "
                         "(--ddp-compress=none) and no hook, or no shards", c->n_shards);
    d->state.reducer.prepare = add_shards;
    d->state.reducer.prepare_ctx = &d->state;
    return arena_shards(&d->state.arena, &d->state.shards, data_shards_per_rank(c), errp);
}

/* Every rank's share of the samples follows from the same numbers. */
static int compare(ddp_t *d, ddp_error_t *errp)
{
    const struct data_config *c = &d->state.data.cfg;
    unsigned long long mine[] = {c->n_samples, c->batch, (unsigned)c->accum, (unsigned)c->n_shards, c->seed};
    unsigned long long first[sizeof mine / sizeof *mine];
    memcpy(first, mine, sizeof first);
    if (comm_bcast(d->team.comm, first, sizeof first, 0, errp) < 0)
        return team_break(&d->team);
    ddp_error_t why = {0};
    if (memcmp(mine, first, sizeof mine) != 0)
        error_set(&why, DDP_E_USAGE, EINVAL, "ddp_data_open: %llu samples, batch %llu, %llu micro-steps, %llu shards, "
                  "seed %llu, but rank 0 has %llu, %llu, %llu, %llu, %llu: start every rank with the same options "
                  "and data", mine[0], mine[1], mine[2], mine[3], mine[4], first[0], first[1], first[2], first[3],
                  first[4]);
    return team_agree(&d->team, &why, errp);
}

static int open_order(ddp_t *d, const struct data_config *cfg, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    if (data_open(&d->state.data, cfg, &why) < 0 || open_shards(d, &why) < 0)
        error_prefix(&why, "ddp_data_open");
    return team_agree(&d->team, &why, errp) < 0 ? -1 : compare(d, errp);
}

EXPORT int ddp_data_open(ddp_t *d, uint64_t n_samples, size_t batch_per_shard, int accum, int shards, uint64_t seed,
                         ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_COMMITTED, "ddp_data_open", errp) < 0)
        return -1;
    struct data_config cfg = {.n_samples = n_samples,
                              .seed = seed,
                              .order = d->config.order,
                              .rank = d->team.me.rank,
                              .n_ranks = d->team.me.size,
                              .batch = batch_per_shard,
                              .accum = accum,
                              .n_shards = shards};
    if (open_order(d, &cfg, errp) < 0) {
        data_close(&d->state.data);
        shards_close(&d->state.shards);
        d->state.reducer.prepare = NULL;
        return -1;
    }
    cut_open(&d->save);
    stop_catch(&d->save.stop, d->stop_signals);
    d->phase = PHASE_IDLE;
    return 0;
}
