#include "runtime/save/cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/base/clock.h"
#include "runtime/handle.h"

enum { STATE_LOSS, STATE_ITEMS, STATE_USED };

static size_t n_state(const ddp_t *d)
{
    return STATE_USED + (size_t)d->state.layout.n + (size_t)d->state.partials.n_levels;
}

/* A step has micro-steps that do not synchronise, and can be cut between them: what they have added up is not yet
 * saved from a GPU. */
static bool has_micros(const ddp_t *d)
{
    return !d->state.arena.device && (d->state.data.cfg.accum > 1 || data_shards_per_rank(&d->state.data.cfg) > 1);
}

void window_open(ddp_t *d)
{
    d->window.is_watched = has_micros(d);
}

void window_close(ddp_t *d)
{
    free(d->window.state);
    free(d->window.grads);
}

bool window_is_slow(const ddp_t *d)
{
    return has_micros(d) && (double)(clock_ns() - d->state.micro.began_ns) / 1e9 >= d->config.stop_within_s;
}

/* ---- what was added up so far ---- */

int window_take_memory(ddp_t *d, ddp_error_t *errp)
{
    const struct state *st = &d->state;
    struct window *w = &d->window;
    const struct budget_part part = {"the sums of a step that is cut", st->data.cfg.n_shards ? 0 : st->layout.n_bytes};
    if (w->state)
        return 0;
    if (budget_check("", &part, 1, d->team.me.local_size, errp) < 0)
        return -1;
    w->state = calloc(n_state(d), sizeof *w->state);
    if (!st->data.cfg.n_shards)
        w->grads = malloc(st->layout.n_bytes + sizeof(float));
    if (w->state && (w->grads || st->data.cfg.n_shards))
        return 0;
    window_close(d);
    w->state = NULL;
    w->grads = NULL;
    return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for the sums of a step", d->team.me.rank);
}

static void keep(ddp_t *d)
{
    const struct state *st = &d->state;
    struct window *w = &d->window;
    w->state[STATE_LOSS] = st->micro.loss;
    w->state[STATE_ITEMS] = st->micro.items;
    for (int i = 0; i < st->layout.n; i++)
        w->state[STATE_USED + i] = st->reducer.is_used[i];
    memcpy(w->state + STATE_USED + st->layout.n, st->partials.loss, (size_t)st->partials.n_levels * sizeof(double));
    if (w->grads)
        memcpy(w->grads, reducer_grads(&st->reducer), st->layout.n_bytes);
    w->micro = st->micro.index + 1;
    w->is_kept = true;
    w->is_refused = false;
}

static void put_back(ddp_t *d)
{
    struct state *st = &d->state;
    struct window *w = &d->window;
    st->micro.loss = w->state[STATE_LOSS];
    st->micro.items = w->state[STATE_ITEMS];
    for (int i = 0; i < st->layout.n; i++)
        st->reducer.is_used[i] = w->state[STATE_USED + i] != 0;
    memcpy(st->partials.loss, w->state + STATE_USED + st->layout.n, (size_t)st->partials.n_levels * sizeof(double));
    if (w->grads)
        memcpy(reducer_grads(&st->reducer), w->grads, st->layout.n_bytes);
    w->is_kept = false;
}

/* ---- the step that is cut ---- */

int window_agree(ddp_t *d, bool has_joined, ddp_error_t *errp)
{
    enum { JOINED = STOP_N, COUNT };
    struct window *w = &d->window;
    double sum[COUNT] = {[JOINED] = has_joined}, n_failed;
    ddp_error_t none;
    if (!w->is_watched)
        return 0;
    wish_fill_stop(d, sum);
    if (comm_allreduce(d->team.comm, sum, COUNT, DDP_F64, DDP_SUM, errp) < 0)
        return team_break(&d->team);
    w->reason = sum[JOINED] > 0 ? -1 : stop_agreed(&d->stop, sum);
    if (w->reason < 0)
        return 0;
    n_failed = window_take_memory(d, &none) < 0;
    if (comm_allreduce(d->team.comm, &n_failed, 1, DDP_F64, DDP_SUM, errp) < 0)
        return team_break(&d->team);
    if (n_failed > 0) { /* the step goes on to its end */
        w->is_watched = false;
        return 0;
    }
    keep(d);
    w->is_cut = true;
    return 0;
}

bool window_begin(ddp_t *d, struct ddp_batch *ret)
{
    static const uint64_t none[1];
    struct window *w = &d->window;
    if (w->is_cut) {
        *ret = (struct ddp_batch){.sample = none, .epoch = data_position(&d->state.data).epoch, .grad_scale = 1,
                                  .sync = true};
        ret->shard = d->state.data.cfg.n_shards ? 0 : d->team.me.rank;
        reducer_micro_begin(&d->state.reducer, false);
        d->state.micro.sync = true;
        return true;
    }
    if (w->is_kept)
        put_back(d);
    return false;
}

struct ddp_step window_step(ddp_t *d)
{
    struct window *w = &d->window;
    struct ddp_step s = w->last;
    s.step = d->state.optimizer.n_steps;
    s.bad_param = -1;
    s.skipped = s.checkpoint = false;
    s.stop = s.cut = true;
    s.stop_signal = stop_signal(w->reason);
    w->is_cut = false;
    d->state.micro.is_unfinished = false; /* for a checkpoint; whoever goes on after all finishes the step */
    return s;
}
