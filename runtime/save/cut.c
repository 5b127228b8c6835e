#include "runtime/save/cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/base/clock.h"
#include "runtime/save/save.h"

enum { STATE_LOSS, STATE_ITEMS, STATE_USED };

size_t cut_n_state(const struct state *st)
{
    return STATE_USED + (size_t)st->layout.n + (size_t)st->shards.n_levels;
}

/* A step has micro-steps that do not synchronise, and can be cut between them: what they have added up is not yet
 * saved from a GPU. */
static bool has_micros(const struct save *save)
{
    const struct data_config *c = &save->state->data.cfg;
    return !save->state->arena.device && (c->accum > 1 || data_shards_per_rank(c) > 1);
}

void cut_open(struct save *save)
{
    save->cut.is_watched = has_micros(save);
}

void cut_close(struct save *save)
{
    free(save->cut.state);
    free(save->cut.grads);
}

bool cut_is_slow(const struct save *save)
{
    return has_micros(save) && (double)(clock_ns() - save->state->micro.began_ns) / 1e9 >= save->config->stop_within_s;
}

/* ---- what was added up so far ---- */

int cut_take_memory(struct save *save, ddp_error_t *errp)
{
    const struct state *st = save->state;
    struct cut *w = &save->cut;
    const struct budget_part part = {"the sums of a step that is cut", st->data.cfg.n_shards ? 0 : st->layout.n_bytes};
    if (w->state)
        return 0;
    if (budget_check("", &part, 1, save->team->me.local_size, errp) < 0)
        return -1;
    w->state = calloc(cut_n_state(st), sizeof *w->state);
    if (!st->data.cfg.n_shards)
        w->grads = malloc(st->layout.n_bytes + sizeof(float));
    if (w->state && (w->grads || st->data.cfg.n_shards))
        return 0;
    cut_close(save);
    w->state = NULL;
    w->grads = NULL;
    return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for the sums of a step", save->team->me.rank);
}

static void keep(struct save *save)
{
    const struct state *st = save->state;
    struct cut *w = &save->cut;
    w->state[STATE_LOSS] = st->micro.loss;
    w->state[STATE_ITEMS] = st->micro.items;
    for (int i = 0; i < st->layout.n; i++)
        w->state[STATE_USED + i] = st->reducer.is_used[i];
    memcpy(w->state + STATE_USED + st->layout.n, st->shards.loss, (size_t)st->shards.n_levels * sizeof(double));
    if (w->grads)
        memcpy(w->grads, reducer_grads(&st->reducer), st->layout.n_bytes);
    w->micro = st->micro.index + 1;
    w->is_kept = true;
    w->is_refused = false;
}

static void put_back(struct save *save)
{
    struct state *st = save->state;
    struct cut *w = &save->cut;
    st->micro.loss = w->state[STATE_LOSS];
    st->micro.items = w->state[STATE_ITEMS];
    for (int i = 0; i < st->layout.n; i++)
        st->reducer.is_used[i] = w->state[STATE_USED + i] != 0;
    memcpy(st->shards.loss, w->state + STATE_USED + st->layout.n, (size_t)st->shards.n_levels * sizeof(double));
    if (w->grads)
        memcpy(reducer_grads(&st->reducer), w->grads, st->layout.n_bytes);
    w->is_kept = false;
}

/* ---- the step that is cut ---- */

int cut_agree(struct save *save, bool has_joined, ddp_error_t *errp)
{
    enum { JOINED = STOP_N, COUNT };
    struct cut *w = &save->cut;
    double sum[COUNT] = {[JOINED] = has_joined}, n_failed;
    ddp_error_t none;
    if (!w->is_watched)
        return 0;
    scheduler_fill_stop(save, sum);
    if (comm_allreduce(save->team->comm, sum, COUNT, DDP_F64, DDP_SUM, errp) < 0)
        return team_break(save->team);
    w->reason = sum[JOINED] > 0 ? -1 : stop_agreed(&save->stop, sum);
    if (w->reason < 0)
        return 0;
    n_failed = cut_take_memory(save, &none) < 0;
    if (comm_allreduce(save->team->comm, &n_failed, 1, DDP_F64, DDP_SUM, errp) < 0)
        return team_break(save->team);
    if (n_failed > 0) { /* the step goes on to its end */
        w->is_watched = false;
        return 0;
    }
    keep(save);
    w->is_cut = true;
    return 0;
}

bool cut_begin(struct save *save, struct ddp_batch *ret)
{
    static const uint64_t none[1];
    struct cut *w = &save->cut;
    if (w->is_cut) {
        *ret = (struct ddp_batch){.sample = none, .epoch = data_position(&save->state->data).epoch, .grad_scale = 1,
                                  .sync = true};
        ret->shard = save->state->data.cfg.n_shards ? 0 : save->team->me.rank;
        reducer_micro_begin(&save->state->reducer, false);
        save->state->micro.sync = true;
        return true;
    }
    if (w->is_kept)
        put_back(save);
    return false;
}

struct ddp_step cut_step(struct save *save)
{
    struct cut *w = &save->cut;
    struct ddp_step s = w->last;
    s.step = save->state->optimizer.n_steps;
    s.bad_param = -1;
    s.skipped = s.checkpoint = false;
    s.stop = s.cut = true;
    s.stop_signal = stop_signal(w->reason);
    w->is_cut = false;
    save->state->micro.is_unfinished = false; /* for a checkpoint; whoever goes on after all finishes the step */
    return s;
}
