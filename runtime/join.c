/* join.c - uneven inputs: a rank without data goes along with the others' steps. */
#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/handle.h"

/* The others ask each other after each of their micro-steps whether to stop (cut.h). */
static int follow_micros(ddp_t *d, ddp_error_t *errp)
{
    struct data_position at = data_position(&d->state.data);
    if (!d->save.cut.is_watched)
        return 0;
    while (!data_next(&d->state.data).is_last)
        if (cut_agree(&d->save, true, errp) < 0)
            return -1;
    return data_seek(&d->state.data, &at, errp) < 0 ? team_break(&d->team) : 0;
}

/* This rank's part of a step in which it has nothing. */
static int empty_pass(ddp_t *d, ddp_error_t *errp)
{
    double *tail = reducer_tail(&d->state.reducer);
    d->state.micro.began_ns = clock_ns();
    parts_go(&d->parts, DDP_PART_EXPOSED);
    if (follow_micros(d, errp) < 0)
        return -1;
    reducer_zero(&d->state.reducer);
    reducer_micro_begin(&d->state.reducer, true);
    for (int id = d->state.layout.n - 1; id >= 0; id--)
        reducer_mark(&d->state.reducer, id, MARK_UNUSED);
    tail[TAIL_LOSS] = tail[TAIL_ITEMS] = tail[TAIL_SAMPLES] = 0;
    scheduler_fill(&d->save, tail);
    tail[TAIL_JOINED] = 1;
    tail[TAIL_SLOW] = cut_is_slow(&d->save);
    parts_go(&d->parts, DDP_PART_CHECKPOINT);
    recall_fill_tail(&d->save, tail);
    parts_go(&d->parts, DDP_PART_EXPOSED);
    checkpoint_fill_tail(&d->save, tail);
    if (verify_fill(&d->verify, &d->state, tail, errp) < 0)
        return team_fail(&d->team, errp);
    if (reducer_micro_end(&d->state.reducer, errp) < 0)
        return team_break(&d->team);
    parts_go(&d->parts, DDP_PART_OTHER);
    d->phase = PHASE_SUMMED;
    return 0;
}

/* The samples of the step that is being taken: this rank does without, so that all ranks stay at one place in the
 * data. */
static void skip_samples(ddp_t *d)
{
    while (!data_next(&d->state.data).is_last)
        ;
}

/* All have joined: none takes a step any more in which it would hear of a stop. */
static int end_pass(ddp_t *d)
{
    int reason = stop_agreed(&d->save.stop, reducer_tail(&d->state.reducer) + TAIL_STOP);
    d->phase = PHASE_IDLE;
    if (reason < 0)
        return 0;
    checkpoint_after_cut(&d->save);
    events_stop(d, &(struct ddp_step){.step = d->state.optimizer.n_steps, .stop = true,
                                      .stop_signal = stop_signal(reason)});
    return 1;
}

EXPORT int ddp_join(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t own;
    errp = errp ? errp : &own; /* the others are told */
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_join", errp) < 0)
        return -1;
    if (d->state.data.cfg.n_shards)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_join: with shards no rank runs out of data before "
                         "the others: end all after the same step", d->team.me.rank);
    if (d->state.micro.is_unfinished)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_join: a step has begun: finish its micro-steps first",
                         d->team.me.rank);
    parts_begin(&d->parts);
    parts_go(&d->parts, DDP_PART_CHECKPOINT);
    recall_take(&d->save); /* as ddp_batch_next does on the others */
    for (;;) {
        struct ddp_step s;
        if (empty_pass(d, errp) < 0)
            return -1;
        const double *tail = reducer_tail(&d->state.reducer);
        if (tail[TAIL_JOINED] == d->team.me.size)
            return end_pass(d);
        skip_samples(d);
        if (ddp_step(d, &s, errp) < 0)
            return -1;
        if (s.stop)
            return 1;
    }
}
