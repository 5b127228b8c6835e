/* foreign.c - beside another framework's training, as ddp.h has it: the order of samples, stops, checkpoints. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/foreign.h"
#include "runtime/handle.h"
#include "runtime/save/resume.h"
#include "runtime/sized.h"

EXPORT int ddp_ledger(uint64_t n_samples, uint64_t seed, uint64_t epoch, uint64_t first, size_t n, uint64_t *ret,
                      ddp_error_t *errp)
{
    if (n_samples < 1 || n_samples > LEDGER_MAX || first > n_samples || n > n_samples - first)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_ledger: places %llu to %llu + %zu of %llu samples: from 1 to "
                         "2^63 samples are possible, and places below their number", (unsigned long long)first,
                         (unsigned long long)first, n, (unsigned long long)n_samples);
    struct ledger l = ledger_of(n_samples, seed, epoch);
    for (size_t i = 0; i < n; i++)
        ret[i] = ledger_get(&l, first + i);
    return 0;
}

static int expect_state(const ddp_t *d, const char *call, ddp_error_t *errp)
{
    return handle_expect(d, 1u << PHASE_STATE, call, errp);
}

EXPORT int ddp_state_open(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_state_open", errp) < 0)
        return -1;
    if (d->state.layout.n || d->add_error.code)
        error_set(&why, DDP_E_USAGE, EINVAL, "ddp_state_open: parameters are declared: they are libddp's, or another "
                  "framework's");
    else
        stop_parse(d->config.stop_signals, &d->stop_signals, &why);
    if (team_agree(&d->team, &why, errp) < 0)
        return team_break(&d->team);
    char *settings = config_shared_text(&d->config, "none");
    if (!settings)
        return team_no_memory(&d->team, "settings", errp);
    int rc = team_same(&d->team, settings, config_explain, errp);
    free(settings);
    if (rc < 0)
        return team_break(&d->team);
    foreign_open(&d->save);
    stop_catch(&d->save.stop, d->stop_signals);
    d->state.micro.began_ns = clock_ns();
    d->phase = PHASE_STATE;
    d->parts.untold = 1u << DDP_PART_DATA | 1u << DDP_PART_FORWARD | 1u << DDP_PART_BACKWARD | 1u << DDP_PART_OPTIMIZER;
    parts_begin(&d->parts);
    events_open(d);
    return 0;
}

/* In seconds since 1970; 0: never, or not known. */
static double end_since_1970(ddp_t *d)
{
    double end_s = d->team.me.rank == 0 ? scheduler_end_s(&d->save) : INFINITY;
    return isfinite(end_s) ? (double)time(NULL) + end_s - (double)clock_ns() / 1e9 : 0;
}

enum { TAIL_END_S = TAIL_COUNT, N_TAIL };

/* Where it is time to look at what all ranks took, their numbers travel behind the tail: each adds its own to zeros. */
static int sum_tail(ddp_t *d, double *tail, bool is_interval, ddp_error_t *errp)
{
    if (!is_interval)
        return comm_allreduce(d->team.comm, tail, N_TAIL, DDP_F64, DDP_SUM, errp) < 0 ? team_break(&d->team) : 0;
    size_t n = (size_t)d->team.me.size, n_all = N_TAIL + n * PACE_OWN_N;
    double *all = calloc(n_all, sizeof *all);
    struct pace_own *taken = malloc(n * sizeof *taken), own = pace_own(&d->pace, &d->parts, 0, NAN);
    if (!all || !taken) {
        free(all);
        free(taken);
        return team_no_memory(&d->team, "what all ranks took", errp);
    }
    memcpy(all, tail, N_TAIL * sizeof *all);
    memcpy(all + N_TAIL + (size_t)d->team.me.rank * PACE_OWN_N, &own, sizeof own);
    int rc = comm_allreduce(d->team.comm, all, n_all, DDP_F64, DDP_SUM, errp);
    memcpy(tail, all, N_TAIL * sizeof *all);
    memcpy(taken, all + N_TAIL, n * sizeof *taken);
    free(all);
    pace_take(&d->pace, &d->team, taken, false);
    return rc < 0 ? team_break(&d->team) : 0;
}

int foreign_end_interval(ddp_t *d, ddp_error_t *errp)
{
    double none[N_TAIL] = {0};
    if (d->phase != PHASE_STATE || d->pace.n_steps == 0)
        return 0;
    if (sum_tail(d, none, true, errp) < 0)
        return -1;
    events_interval(d);
    return 0;
}

EXPORT int ddp_state_step_sized(ddp_t *d, struct ddp_state_step *ret, size_t size, ddp_error_t *errp)
{
    double tail[N_TAIL] = {0};
    struct ddp_step s = {.step = 0};
    if (expect_state(d, "ddp_state_step", errp) < 0)
        return -1;
    scheduler_fill(&d->save, tail);
    checkpoint_fill_tail(&d->save, tail);
    tail[TAIL_END_S] = end_since_1970(d);
    pace_note(&d->pace, 0); /* what a step computes is not known */
    bool is_interval = pace_is_due(&d->pace, false, false);
    parts_go(&d->parts, DDP_PART_EXPOSED);
    if (sum_tail(d, tail, is_interval, errp) < 0)
        return -1;
    int reason = stop_agreed(&d->save.stop, tail + TAIL_STOP);
    s.step = ++d->state.optimizer.n_steps;
    comm_note_step(d->team.comm, s.step);
    s.stop = reason >= 0;
    s.stop_signal = stop_signal(reason);
    scheduler_after_step(&d->save);
    parts_go(&d->parts, DDP_PART_CHECKPOINT);
    if (checkpoint_after_step(&d->save, tail, &s, errp) < 0)
        return -1;
    parts_go(&d->parts, DDP_PART_OTHER);
    events_step(d, &s, 0, is_interval);
    bool is_last = s.stop && !d->pace.had_last; /* a program may go on after a stop */
    d->pace.had_last = d->pace.had_last || s.stop;
    if (is_last && foreign_end_interval(d, errp) < 0)
        return -1;
    d->state.micro.began_ns = clock_ns();
    struct ddp_state_step all = {.step = s.step,
                                 .end_s = tail[TAIL_END_S],
                                 .stop_signal = stop_signal(reason),
                                 .stop = s.stop,
                                 .checkpoint = s.checkpoint};
    sized_give(ret, size, &all, sizeof all);
    return 0;
}

EXPORT int ddp_state_part(ddp_t *d, enum ddp_part part, ddp_error_t *errp)
{
    if (expect_state(d, "ddp_state_part", errp) < 0)
        return -1;
    if ((unsigned)part >= DDP_PARTS)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_part: no part %d: there are those of enum "
                         "ddp_part, 0 to %d", d->team.me.rank, (int)part, DDP_PARTS - 1);
    d->parts.untold &= ~(1u << part);
    return (int)parts_go(&d->parts, part);
}

static int check_tensor(const ddp_t *d, const char *group, const char *name, const uint64_t *shape, int ndim,
                        const void *data, int owner, ddp_error_t *errp)
{
    int rank = d->team.me.rank;
    if (!name || strlen(name) > ST_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: a tensor's name has 1 to %d bytes", rank,
                         ST_NAME_MAX);
    if (!group || strlen(group) >= sizeof d->save.foreign.tensor->group || !files_is_plain_name(group))
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: tensor %.100s: a group's name is letters, "
                         "digits and ._-, fewer than %zu", rank, name, sizeof d->save.foreign.tensor->group);
    if (ndim < 0 || ndim > ST_DIMS_MAX || (ndim && !shape))
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: tensor %.100s has %d dimensions: 0 to %d "
                         "are possible", rank, name, ndim, ST_DIMS_MAX);
    if (owner < -1 || owner >= d->team.me.size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: tensor %.100s: owner %d is no rank, and "
                         "not -1 for all", rank, name, owner);
    if (!data && (owner < 0 || owner == rank))
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: tensor %.100s: no data", rank, name);
    return 0;
}

EXPORT int ddp_state_add(ddp_t *d, const char *group, const char *name, const char *dtype, const uint64_t *shape,
                         int ndim, const void *data, int owner, ddp_error_t *errp)
{
    struct foreign_tensor t = {.owner = owner, .data = data, .t = {.ndim = ndim}};
    if (expect_state(d, "ddp_state_add", errp) < 0 ||
        check_tensor(d, group, name, shape, ndim, data, owner, errp) < 0)
        return -1;
    if (!dtype || st_dtype_find(dtype, &t.t.dtype) < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_state_add: tensor %.100s: no type %.16s: there are "
                         "F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL", d->team.me.rank, name,
                         dtype ? dtype : "");
    strcpy(t.group, group);
    strcpy(t.t.name, name);
    for (int i = 0; i < ndim; i++)
        t.t.shape[i] = shape[i];
    return foreign_add(&d->save, &t, errp);
}

EXPORT int ddp_state_reset(ddp_t *d, ddp_error_t *errp)
{
    if (expect_state(d, "ddp_state_reset", errp) < 0)
        return -1;
    checkpoint_wait_copied(&d->save);
    foreign_forget(&d->save);
    return 0;
}

EXPORT int ddp_state_save(ddp_t *d, const char *dir, const char *text, ddp_error_t *errp)
{
    if (expect_state(d, "ddp_state_save", errp) < 0)
        return -1;
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    int rc = checkpoint_take(&d->save, dir, text ? text : "", errp);
    parts_go(&d->parts, part);
    events_saved(d);
    return rc;
}

static int wait_copied(ddp_t *d, const char *call, ddp_error_t *errp)
{
    if (expect_state(d, call, errp) < 0)
        return -1;
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    checkpoint_wait_copied(&d->save);
    parts_go(&d->parts, part);
    return 0;
}

EXPORT int ddp_state_copied(ddp_t *d, ddp_error_t *errp)
{
    return wait_copied(d, "ddp_state_copied", errp);
}

EXPORT int ddp_state_torn(ddp_t *d, const char *why, ddp_error_t *errp)
{
    if (wait_copied(d, "ddp_state_torn", errp) < 0)
        return -1;
    checkpoint_tear(&d->save, why ? why : "its tensors have changed");
    return 0;
}

EXPORT int ddp_state_resume(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    if (expect_state(d, "ddp_state_resume", errp) < 0)
        return -1;
    uint64_t began_ns = clock_ns();
    int rc = resume_newest(&d->save, dir, errp);
    if (rc == 1)
        events_resumed(d, (double)(clock_ns() - began_ns) / 1e9);
    else if (rc == 0)
        events_begun(d); /* whatever earlier programs did is done again */
    if (rc >= 0)
        parts_restart(&d->parts);
    return rc;
}

EXPORT const char *ddp_state_text(const ddp_t *d)
{
    return d->save.foreign.found.text;
}

EXPORT const void *ddp_state_find(const ddp_t *d, const char *name, size_t *ret_bytes)
{
    return foreign_find(&d->save, name, ret_bytes);
}
