#include "runtime/checkpoint.h"

#include <errno.h>

#include "runtime/handle.h"

static bool is_due(const ddp_t *d)
{
    int64_t every = config_ckpt_every(&d->config);
    return d->world.rank == 0 && every > 0 && (d->optimizer.n_steps + 1) % (uint64_t)every == 0;
}

void checkpoint_fill_tail(const ddp_t *d, double *tail)
{
    tail[TAIL_WRITTEN] = tail[TAIL_CKPT_FAILED] = tail[TAIL_COMMITTED] = 0;
    tail[TAIL_DUE] = is_due(d);
}

void checkpoint_after_step(ddp_t *d, const double *tail, struct ddp_step *s)
{
    (void)d;
    s->checkpoint = tail[TAIL_DUE] > 0;
}

static int not_yet(const ddp_t *d, const char *call, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, ENOTSUP, "rank %d: %s: this version cannot write checkpoints", d->world.rank,
                     call);
}

EXPORT int ddp_checkpoint(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    (void)dir;
    return not_yet(d, "ddp_checkpoint", errp);
}

EXPORT int ddp_checkpoint_wait(ddp_t *d, ddp_error_t *errp)
{
    return not_yet(d, "ddp_checkpoint_wait", errp);
}

EXPORT int ddp_checkpoint_attach(ddp_t *d, const char *name, const char *text, ddp_error_t *errp)
{
    (void)name;
    (void)text;
    return not_yet(d, "ddp_checkpoint_attach", errp);
}

EXPORT int ddp_load(ddp_t *d, const char *dir, const char *prefix, ddp_error_t *errp)
{
    (void)dir;
    (void)prefix;
    return not_yet(d, "ddp_load", errp);
}

EXPORT uint64_t ddp_steps_done(const ddp_t *d)
{
    return d->optimizer.n_steps;
}

EXPORT int ddp_checkpoint_status(const ddp_t *d, struct ddp_checkpoint_status *ret)
{
    *ret = d->checkpoint.status;
    return 0;
}
