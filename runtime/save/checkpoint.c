#include "runtime/save/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/ckpt/folder.h"
#include "runtime/handle.h"
#include "runtime/sized.h"

static double since_s(uint64_t began_ns)
{
    return (double)(clock_ns() - began_ns) / 1e9;
}

/* ---- what this rank has to say ---- */

/* Why this rank cannot go on with the save in flight; NULL: it can. */
static const ddp_error_t *own_failure(const struct checkpoint *c)
{
    if (c->phase == CHECKPOINT_COMMITTING)
        return committer_state(&c->committer) == COMMITTER_FAILED ? &c->committer.error : NULL;
    if (c->start_error.code)
        return &c->start_error;
    return writer_state(c->writer) == WRITER_FAILED ? writer_error(c->writer) : NULL;
}

static void fill(const struct checkpoint *c, double *tail)
{
    tail[TAIL_WRITTEN] = tail[TAIL_CKPT_FAILED] = tail[TAIL_COMMITTED] = 0;
    if (c->phase == CHECKPOINT_IDLE)
        return;
    tail[TAIL_CKPT_FAILED] = own_failure(c) != NULL;
    if (c->phase == CHECKPOINT_SAVING)
        tail[TAIL_WRITTEN] = !c->start_error.code && writer_state(c->writer) == WRITER_WRITTEN;
    else
        tail[TAIL_COMMITTED] = committer_state(&c->committer) == COMMITTER_DONE; /* elsewhere IDLE */
}

void checkpoint_fill_tail(const ddp_t *d, double *tail)
{
    fill(&d->checkpoint, tail);
}

/* ---- moving on, by what all ranks say ---- */

static void become_idle(struct checkpoint *c)
{
    if (writer_state(c->writer) != WRITER_IDLE)
        writer_reset(c->writer);
    committer_reset(&c->committer);
    c->phase = CHECKPOINT_IDLE;
}

/* Returns -1 where the job wants checkpoints or nothing. */
static int count_failed(ddp_t *d, const ddp_error_t *why, ddp_error_t *errp)
{
    d->checkpoint.status.n_failed++;
    checkpoint_warn(d, "%s", why->text);
    if (!d->config.ckpt_required)
        return 0;
    if (errp)
        *errp = *why;
    return team_break(&d->team);
}

static int give_up(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    const ddp_error_t *own = own_failure(c);
    ddp_error_t none = {0}, why;
    struct savedir dir;
    /* This first: a rank that has heard of it may end the job. */
    if (d->team.me.rank == 0 && checkpoint_enter(d, &dir, NULL) == 0) {
        commit_abandon(&dir, c->token, c->state.step, NULL); /* the next job would do it */
        savedir_close(&dir);
    }
    if (checkpoint_agree(d, own ? own : &none, &why, errp) < 0)
        return -1;
    error_prefix(&why, "the checkpoint of step %llu failed", (unsigned long long)c->state.step);
    become_idle(c);
    wish_save_over(d, false);
    return count_failed(d, &why, errp);
}

static int begin_commit(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    struct writer_times times;
    memcpy(c->sum, writer_sums(c->writer), c->plan.files.n_tensors * sizeof *c->sum);
    if (checkpoint_add_sums(d, c->sum, errp) < 0)
        return -1;
    writer_times(c->writer, &times);
    c->status.copy_s = times.copy_s;
    c->status.write_s = times.write_s;
    writer_reset(c->writer);
    c->phase = CHECKPOINT_COMMITTING;
    if (d->team.me.rank == 0)
        committer_start(&c->committer, &(struct commit_job){.files = &c->plan.files,
                                                            .checksum = c->sum,
                                                            .state = c->state,
                                                            .dir = c->dir,
                                                            .known = c->known,
                                                            .token = c->token,
                                                            .keep = d->config.keep});
    return 0;
}

static void finish(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    if (d->team.me.rank == 0) {
        committer_reset(&c->committer);
        c->status.commit_s = c->committer.took_s;
        if (c->committer.error.code)
            checkpoint_warn(d, "%s", c->committer.error.text);
    }
    c->status.n_committed++;
    checkpoint_set_path(d, c->dir, c->state.step);
    c->has_last = true;
    c->last_micro = c->state.window.micro;
    become_idle(c);
    wish_save_over(d, true);
}

/* tail: summed over all ranks. */
static int move_on(ddp_t *d, const double *tail, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    uint64_t began = clock_ns();
    int rc = 0;
    if (c->phase == CHECKPOINT_SAVING && tail[TAIL_WRITTEN] + tail[TAIL_CKPT_FAILED] == d->team.me.size)
        rc = tail[TAIL_CKPT_FAILED] > 0 ? give_up(d, errp) : begin_commit(d, errp);
    else if (c->phase == CHECKPOINT_COMMITTING && tail[TAIL_CKPT_FAILED] > 0)
        rc = give_up(d, errp);
    else if (c->phase == CHECKPOINT_COMMITTING && tail[TAIL_COMMITTED] > 0)
        finish(d);
    else
        return 0;
    c->status.blocked_s += since_s(began);
    return rc;
}

void checkpoint_wait_copied(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    if (c->phase != CHECKPOINT_SAVING)
        return;
    uint64_t began = clock_ns();
    writer_wait_copied(c->writer);
    c->status.blocked_s += since_s(began);
}

int checkpoint_after_step(ddp_t *d, const double *tail, struct ddp_step *s, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    c->trained_s += since_s(d->state.micro.began_ns);
    if (move_on(d, tail, errp) < 0)
        return -1;
    bool is_due = tail[TAIL_DUE] > 0 && !s->skipped; /* else the step comes again, and is due again */
    bool is_wanted = is_due || c->is_postponed;
    bool is_possible = c->phase == CHECKPOINT_IDLE && tail[TAIL_JOINED] == 0;
    c->status.n_postponed += is_wanted && !is_possible && !c->is_postponed;
    c->is_postponed = is_wanted && !is_possible;
    s->checkpoint = c->was_due = is_wanted && is_possible;
    c->is_stopping = s->stop;
    return 0;
}

void checkpoint_after_cut(ddp_t *d)
{
    d->checkpoint.is_stopping = true;
    d->checkpoint.was_due = false;
}

/* Until this rank has something new to say, or for a while. */
static void wait_a_while(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    uint64_t deadline = deadline_in(d->team.timeout_s / 4);
    if (c->phase == CHECKPOINT_SAVING && !c->start_error.code)
        writer_wait(c->writer, deadline, NULL);
    if (c->phase == CHECKPOINT_COMMITTING)
        committer_wait(&c->committer, deadline);
}

int checkpoint_settle(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    uint64_t began = clock_ns(), deadline = deadline_in(d->team.timeout_s);
    double before = c->status.blocked_s;
    while (c->phase != CHECKPOINT_IDLE) {
        double tail[TAIL_COUNT + 1] = {0};
        wait_a_while(d);
        fill(c, tail);
        tail[TAIL_COUNT] = d->team.me.rank == 0 && clock_ns() > deadline;
        if (comm_allreduce(d->team.comm, tail, TAIL_COUNT + 1, DDP_F64, DDP_SUM, errp) < 0)
            return team_break(&d->team);
        if (move_on(d, tail, errp) < 0)
            return -1;
        if (tail[TAIL_COUNT] > 0 && c->phase != CHECKPOINT_IDLE) {
            error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "the checkpoint of step %llu was not written in %g s: is the "
                      "disk too slow, or DDP_TIMEOUT too short?", (unsigned long long)c->state.step,
                      d->team.timeout_s);
            return team_break(&d->team);
        }
    }
    c->status.blocked_s = before + since_s(began);
    return wish_requeue(d, errp);
}

void checkpoint_close(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    committer_reset(&c->committer); /* which reads the plan */
    checkpoint_drop_plan(d);
    checkpoint_leave(d);
    for (int i = 0; i < c->n_attached; i++)
        free(c->attached[i].text);
    free(c->attached);
    free(c->sum);
    free(c->dir);
    free(c->resumed_dir);
    *c = (struct checkpoint){0};
}

/* ---- ddp.h ---- */

/* This rank's part, which begins behind the update that the last step asked for. */
static int begin_writing(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    struct savedir dir, folder;
    if (checkpoint_enter(d, &dir, errp) < 0)
        return -1;
    int rc = commit_folder(&dir, c->token, c->state.step, &folder, errp);
    savedir_close(&dir);
    if (rc < 0)
        return -1;
    if (d->state.arena.device && readback_after(&c->readback, d->state.arena.program, errp) < 0) {
        savedir_close(&folder);
        return -1;
    }
    return writer_start(c->writer, &folder, d->team.me.rank == 0, errp);
}

static void begin(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    checkpoint_state_fill(d);
    c->start_error = (ddp_error_t){0};
    c->phase = CHECKPOINT_SAVING;
    wish_save_begun(d);
    c->status.blocked_s = c->status.commit_s = 0;
    begin_writing(d, &c->start_error);
}

static int expect_between_steps(const ddp_t *d, const char *call, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_IDLE, call, errp) < 0)
        return -1;
    if (d->state.micro.is_unfinished)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: a step has begun: finish its micro-steps first",
                         d->team.me.rank, call);
    return 0;
}

EXPORT int ddp_checkpoint_open(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    ddp_error_t why;
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_checkpoint_open", errp) < 0)
        return -1;
    if (d->checkpoint.phase != CHECKPOINT_IDLE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_checkpoint_open: a checkpoint is in flight: call "
                         "ddp_checkpoint_wait first", d->team.me.rank);
    int rc = checkpoint_open(d, dir, &why);
    if (rc == CHECKPOINT_UNWRITABLE && !d->config.ckpt_required) {
        checkpoint_warn(d, "%s", why.text);
        return 0;
    }
    if (rc != 0 && errp)
        *errp = why;
    return rc != 0 ? -1 : 0;
}

EXPORT int ddp_checkpoint(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    uint64_t began = clock_ns();
    ddp_error_t why;
    if (expect_between_steps(d, "ddp_checkpoint", errp) < 0)
        return -1;
    if (c->phase != CHECKPOINT_IDLE && c->is_stopping && checkpoint_settle(d, errp) < 0)
        return -1;
    if (c->phase != CHECKPOINT_IDLE) {
        c->status.n_postponed += !c->is_postponed;
        c->is_postponed = true;
        return 0;
    }
    int rc = checkpoint_open(d, dir, &why);
    if (rc == CHECKPOINT_UNWRITABLE)
        return count_failed(d, &why, errp);
    if (rc != 0) {
        if (errp)
            *errp = why;
        return -1;
    }
    bool has_more = window_is_wanted(d) && d->window.micro > c->last_micro;
    if (c->has_last && c->status.last_step == d->state.optimizer.n_steps && !has_more)
        return wish_requeue(d, errp); /* what may have changed since, a skipped step, comes again by itself */
    if (window_is_wanted(d) != c->plan.has_window && checkpoint_plan_window(d, errp) < 0)
        return -1;
    checkpoint_clean(d);
    begin(d);
    c->status.blocked_s = since_s(began);
    return c->is_stopping ? checkpoint_settle(d, errp) : 0;
}

EXPORT int ddp_checkpoint_wait(ddp_t *d, ddp_error_t *errp)
{
    return expect_between_steps(d, "ddp_checkpoint_wait", errp) < 0 ? -1 : checkpoint_settle(d, errp);
}

EXPORT uint64_t ddp_steps_done(const ddp_t *d)
{
    return d->state.optimizer.n_steps;
}

EXPORT int ddp_checkpoint_status_sized(const ddp_t *d, struct ddp_checkpoint_status *ret, size_t size)
{
    struct ddp_checkpoint_status s = d->checkpoint.status;
    s.in_flight = d->checkpoint.phase != CHECKPOINT_IDLE;
    sized_give(ret, size, &s, sizeof s);
    return 0;
}
