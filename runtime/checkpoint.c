/* checkpoint.c - checkpoints, as ddp.h has them: each call in its time. */
#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/distrust.h"
#include "runtime/foreign.h"
#include "runtime/handle.h"
#include "runtime/save/load.h"
#include "runtime/save/resume.h"
#include "runtime/sized.h"

#define SET_UP (1u << PHASE_COMMITTED | 1u << PHASE_IDLE)

static int expect_between_steps(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp)
{
    if (handle_expect(d, phases, call, errp) < 0)
        return -1;
    if (d->state.micro.is_unfinished)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: a step has begun: finish its micro-steps first",
                         d->team.me.rank, call);
    return 0;
}

EXPORT int ddp_checkpoint_open(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_checkpoint_open", errp) < 0)
        return -1;
    return checkpoint_folder(&d->save, dir, errp);
}

EXPORT int ddp_checkpoint_attach(ddp_t *d, const char *name, const char *text, ddp_error_t *errp)
{
    if (handle_expect(d, SET_UP, "ddp_checkpoint_attach", errp) < 0)
        return -1;
    return checkpoint_attach(&d->save, name, text, errp);
}

EXPORT int ddp_checkpoint_note(ddp_t *d, const char *key, const char *text, ddp_error_t *errp)
{
    if (handle_expect(d, PHASES_ALL, "ddp_checkpoint_note", errp) < 0)
        return -1;
    return checkpoint_note(&d->save, key, text, errp);
}

EXPORT int ddp_checkpoint(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    ddp_error_t own = {0}; /* the others are told, whether or not the caller wants to know */
    errp = errp ? errp : &own;
    if (expect_between_steps(d, 1u << PHASE_IDLE, "ddp_checkpoint", errp) < 0)
        return -1;
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    int rc = d->save.checkpoint.is_stopping ? distrust_all(d, errp) : 0;
    rc = rc == 0 ? checkpoint_take(&d->save, dir, NULL, errp) : rc;
    d->has_saved |= rc == 0;
    parts_go(&d->parts, part);
    events_saved(d);
    return rc;
}

EXPORT int ddp_checkpoint_wait(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t own = {0}; /* as above */
    errp = errp ? errp : &own;
    if (expect_between_steps(d, 1u << PHASE_IDLE | 1u << PHASE_STATE, "ddp_checkpoint_wait", errp) < 0)
        return -1;
    if (foreign_end_interval(d, errp) < 0)
        return -1;
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    int rc = distrust_all(d, errp) == 0 ? checkpoint_wait(&d->save, errp) : -1;
    d->has_saved = false;
    parts_go(&d->parts, part);
    events_saved(d);
    return rc;
}

EXPORT int ddp_checkpoint_retry(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t own = {0}; /* as above */
    errp = errp ? errp : &own;
    checkpoint_unbreak(&d->save);
    if (expect_between_steps(d, 1u << PHASE_IDLE | 1u << PHASE_STATE, "ddp_checkpoint_retry", errp) < 0)
        return -1;
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    int rc = checkpoint_retry(&d->save, errp);
    parts_go(&d->parts, part);
    return rc;
}

EXPORT int ddp_checkpoint_status_sized(const ddp_t *d, struct ddp_checkpoint_status *ret, size_t size)
{
    struct ddp_checkpoint_status s = d->save.checkpoint.status;
    s.in_flight = d->save.checkpoint.phase != CHECKPOINT_IDLE;
    sized_give(ret, size, &s, sizeof s);
    return 0;
}

EXPORT int ddp_resume(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_resume", errp) < 0)
        return -1;
    uint64_t began_ns = clock_ns();
    int rc = resume_newest(&d->save, dir, errp);
    if (rc == 1)
        events_resumed(d, (double)(clock_ns() - began_ns) / 1e9);
    return rc;
}

EXPORT int ddp_load(ddp_t *d, const char *dir, const char *prefix, ddp_error_t *errp)
{
    if (handle_expect(d, SET_UP, "ddp_load", errp) < 0)
        return -1;
    return load_values(&d->save, dir, prefix, errp);
}

EXPORT uint64_t ddp_steps_done(const ddp_t *d)
{
    return d->state.optimizer.n_steps;
}

EXPORT int ddp_requeue(ddp_t *d, ddp_error_t *errp)
{
    if (expect_between_steps(d, 1u << PHASE_IDLE | 1u << PHASE_STATE, "ddp_requeue", errp) < 0)
        return -1;
    int rc = scheduler_requeue_now(&d->save, errp);
    events_saved(d);
    return rc;
}

EXPORT const char *ddp_requeue_note(const ddp_t *d)
{
    return d->save.scheduler.note;
}
