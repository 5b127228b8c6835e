#include "runtime/save/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/ckpt/folder.h"
#include "runtime/save/save.h"

enum {
    TRIES_OF_LAST = 3, /* of a save that comes before a stop, */
    AGAIN_MS = 1000,   /* with as long between them */
};
#define LEAVE_S 10.0 /* for a system call of a save that nobody waits for any more */

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
    if (c->phase == CHECKPOINT_GIVING_UP && c->committer.error.code)
        return &c->committer.error; /* rather than what that has led to: a file that has gone, say */
    if (c->start_error.code)
        return &c->start_error;
    if (writer_state(c->writer) == WRITER_FAILED)
        return writer_error(c->writer);
    return c->torn.code && writer_state(c->writer) == WRITER_WRITTEN ? &c->torn : NULL;
}

static void fill(const struct checkpoint *c, double *tail)
{
    tail[TAIL_WRITTEN] = tail[TAIL_CKPT_FAILED] = tail[TAIL_COMMITTED] = 0;
    if (c->phase == CHECKPOINT_SAVING || c->phase == CHECKPOINT_COMMITTING)
        tail[TAIL_CKPT_FAILED] = own_failure(c) != NULL;
    if (c->phase == CHECKPOINT_SAVING)
        tail[TAIL_WRITTEN] = !tail[TAIL_CKPT_FAILED] && writer_state(c->writer) == WRITER_WRITTEN;
    else
        tail[TAIL_COMMITTED] = committer_state(&c->committer) == COMMITTER_DONE; /* elsewhere IDLE */
}

void checkpoint_fill_tail(const struct save *save, double *tail)
{
    fill(&save->checkpoint, tail);
}

/* ---- moving on, by what all ranks say ---- */

static void become_idle(struct checkpoint *c)
{
    if (writer_state(c->writer) != WRITER_IDLE)
        writer_reset(c->writer);
    committer_reset(&c->committer);
    c->phase = CHECKPOINT_IDLE;
}

/* Returns -1 where the job wants checkpoints or nothing: an abort with that error blames the rank that it is of. */
static int count_failed(struct save *save, const ddp_error_t *why, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    struct ddp_checkpoint_status *s = &save->checkpoint.status;
    s->n_failed++;
    s->failed_rank = c->culprit;
    snprintf(s->failed_node, sizeof s->failed_node, "%s", save->team->map->host[c->culprit]);
    if (!c->full.why.code || !c->full.n_tries) /* else it is told already, and why it is tried again */
        checkpoint_warn(save, "%s", why->text);
    if (!save->config->ckpt_required)
        return 0;
    c->full.has_broken = c->full.why.code != 0;
    if (errp) {
        *errp = *why;
        if (save->team->me.size > 1 && error_of_rank(why->text, c->culprit) == why->text)
            error_prefix(errp, "rank %d", c->culprit);
    }
    return team_break(save->team);
}

/* A server that has failed over, say. The rest is as wrong a second later. */
static bool may_pass(const ddp_error_t *e)
{
    static const int lasting[] = {ENOSPC, EDQUOT, EFBIG, EROFS, EACCES, EPERM, ENOMEM, EMFILE, ENFILE, ENAMETOOLONG};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (e->code == lasting[i])
            return false;
    return e->domain == DDP_E_SYSTEM;
}

static void begin(struct save *save);

static void say_left(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    if (c->left.code)
        checkpoint_warn(save, "%s", c->left.text);
    c->left.code = 0;
}

/* The committer has removed what there was of it: a rank that has heard of it may end the job. */
static int end_failed(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    const ddp_error_t *own = own_failure(c);
    ddp_error_t none = {0}, why;
    say_left(save);
    if (checkpoint_agree(save, own ? own : &none, &why, errp) < 0)
        return -1;
    bool is_again = c->n_tries > 0 && may_pass(&why);
    error_prefix(&why, "the checkpoint of step %llu failed%s", (unsigned long long)c->state.step,
                 is_again ? ", and is tried again" : "");
    become_idle(c);
    scheduler_save_over(save, false);
    checkpoint_note_full(save, c->path, &why);
    if (!is_again)
        return count_failed(save, &why, errp);
    c->n_tries--;
    checkpoint_warn(save, "%s", why.text);
    poll(NULL, 0, AGAIN_MS); /* nothing else is left to do */
    begin(save);
    return 0;
}

/* What a resume has passed over in the folder that saves go to; or NULL. */
static struct folder_steps *passed_over(struct checkpoint *c)
{
    return c->resumed_path && !strcmp(c->path, c->resumed_path) ? &c->passed : NULL;
}

static void start_committer(struct save *save, bool is_failed)
{
    struct checkpoint *c = &save->checkpoint;
    if (save->team->me.rank == 0)
        committer_start(&c->committer, &(struct commit_job){.files = &c->plan.files,
                                                            .checksum = c->sum,
                                                            .state = c->state,
                                                            .enter = checkpoint_enter,
                                                            .ctx = save,
                                                            .token = c->token,
                                                            .seen = &c->seen,
                                                            .passed = passed_over(c),
                                                            .is_unread = c->is_unread,
                                                            .keep = save->config->keep,
                                                            .is_failed = is_failed,
                                                            .is_clean = c->is_clean});
}

static int begin_commit(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    struct writer_times times;
    memcpy(c->sum, writer_sums(c->writer), c->plan.files.n_tensors * sizeof *c->sum);
    if (checkpoint_add_sums(save, c->sum, errp) < 0)
        return -1;
    writer_times(c->writer, &times);
    c->status.copy_s = times.copy_s;
    c->status.write_s = times.write_s;
    writer_reset(c->writer);
    c->phase = CHECKPOINT_COMMITTING;
    say_left(save);
    start_committer(save, false);
    return 0;
}

static void give_up(struct save *save)
{
    save->checkpoint.phase = CHECKPOINT_GIVING_UP;
    start_committer(save, true);
}

static void finish(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    if (save->team->me.rank == 0) {
        committer_reset(&c->committer);
        c->status.commit_s = c->committer.took_s;
        if (c->committer.error.code)
            checkpoint_warn(save, "%s", c->committer.error.text);
    }
    c->status.n_committed++;
    checkpoint_set_path(save, c->dir, c->state.step);
    c->has_last = true;
    folder_add_step(&c->seen, c->state.step, NULL);
    c->last_micro = c->state.cut.micro;
    become_idle(c);
    scheduler_save_over(save, true);
}

/* tail: summed over all ranks. */
static int move_on(struct save *save, const double *tail, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    uint64_t began = clock_ns();
    int rc = 0;
    bool has_failed = tail[TAIL_CKPT_FAILED] > 0, is_over = tail[TAIL_COMMITTED] > 0;
    if (c->phase == CHECKPOINT_SAVING && tail[TAIL_WRITTEN] + tail[TAIL_CKPT_FAILED] < save->team->me.size)
        return 0;
    if (c->phase == CHECKPOINT_SAVING && has_failed)
        give_up(save);
    else if (c->phase == CHECKPOINT_SAVING)
        rc = begin_commit(save, errp);
    else if ((c->phase == CHECKPOINT_COMMITTING && has_failed) || (c->phase == CHECKPOINT_GIVING_UP && is_over))
        rc = end_failed(save, errp);
    else if (c->phase == CHECKPOINT_COMMITTING && is_over)
        finish(save);
    else
        return 0;
    c->status.blocked_s += since_s(began);
    return rc;
}

void checkpoint_wait_copied(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    recall_wait(save);
    if (c->phase != CHECKPOINT_SAVING)
        return;
    uint64_t began = clock_ns();
    writer_wait_copied(c->writer);
    c->status.blocked_s += since_s(began);
}

void checkpoint_tear(struct save *save, const char *why)
{
    if (save->checkpoint.phase == CHECKPOINT_SAVING)
        error_set(&save->checkpoint.torn, DDP_E_USAGE, EINVAL, "%s", why);
}

int checkpoint_after_step(struct save *save, const double *tail, struct ddp_step *s, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    c->trained_s += since_s(save->state->micro.began_ns);
    if (move_on(save, tail, errp) < 0) {
        c->full.has_broken = false; /* amid a step, which is not done */
        return -1;
    }
    bool is_due = tail[TAIL_DUE] > 0 && !s->skipped; /* else the step comes again, and is due again */
    bool is_wanted = is_due || c->is_postponed;
    bool is_possible = c->phase == CHECKPOINT_IDLE && tail[TAIL_JOINED] == 0;
    c->status.n_postponed += is_wanted && !is_possible && !c->is_postponed;
    c->is_postponed = is_wanted && !is_possible;
    s->checkpoint = c->was_due = is_wanted && is_possible;
    recall_after_step(save, tail, s->skipped);
    c->is_stopping = s->stop;
    return 0;
}

void checkpoint_after_cut(struct save *save)
{
    save->checkpoint.is_stopping = true;
    save->checkpoint.was_due = false;
}

/* Until this rank has something new to say, or for a while. */
static void wait_a_while(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    uint64_t deadline = deadline_in(save->team->timeout_s / 4);
    if (c->phase == CHECKPOINT_SAVING && !c->start_error.code)
        writer_wait(c->writer, deadline, NULL);
    if (c->phase == CHECKPOINT_COMMITTING || c->phase == CHECKPOINT_GIVING_UP)
        committer_wait(&c->committer, deadline);
}

/* It grows as long as this rank's part of the save gets on. */
static double progress(struct checkpoint *c)
{
    return (double)writer_progress(c->writer) + (double)c->phase + atomic_load(&c->committer.is_committed) +
           (double)atomic_load(&c->committer.n_removed);
}

int checkpoint_settle(struct save *save, ddp_error_t *errp)
{
    enum { LATE = TAIL_COUNT, PROGRESS, N };
    struct checkpoint *c = &save->checkpoint;
    uint64_t began = clock_ns(), looked = began;
    double before = c->status.blocked_s, timeout_s = save->team->timeout_s, still_s = 0, last = -1;
    while (c->phase != CHECKPOINT_IDLE) {
        double tail[N] = {0};
        wait_a_while(save);
        still_s += fmin(since_s(looked), timeout_s / 3); /* what took longer stood still itself: suspended */
        looked = clock_ns();
        fill(c, tail);
        tail[PROGRESS] = progress(c);
        tail[LATE] = save->team->me.rank == 0 && still_s > timeout_s;
        if (comm_allreduce(save->team->comm, tail, N, DDP_F64, DDP_SUM, errp) < 0)
            return team_break(save->team);
        if (move_on(save, tail, errp) < 0)
            return -1;
        if (tail[PROGRESS] != last) {
            still_s = 0;
        } else if (tail[LATE] > 0 && c->phase != CHECKPOINT_IDLE) {
            error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "the checkpoint of step %llu stands still: no rank has written "
                      "anything for %g s: does the file system hang, or is DDP_TIMEOUT too short?",
                      (unsigned long long)c->state.step, timeout_s);
            return team_break(save->team);
        }
        last = tail[PROGRESS];
    }
    c->status.blocked_s = before + since_s(began);
    return scheduler_requeue(save, errp);
}

int checkpoint_distrust(struct save *save, uint64_t agreed)
{
    struct checkpoint *c = &save->checkpoint;
    struct folder_steps later = {0};
    struct savedir dir;
    size_t n_later = 0;
    recall_distrust(save, agreed);
    if (save->team->me.rank != 0 || !c->is_clean) /* it has begun no save */
        return 0;
    committer_reset(&c->committer);
    if (checkpoint_enter(save, &dir, NULL) < 0)
        return -1;
    int n = savedir_each(&dir, folder_note_step, &later, NULL);
    for (size_t i = 0; i < later.n; i++)
        if (later.step[i] > agreed)
            later.step[n_later++] = later.step[i];
    later.n = n_later;
    if (n == 0)
        n = commit_suspect(&dir, c->token, &later, NULL);
    free(later.step);
    savedir_close(&dir);
    return n;
}

bool checkpoint_close(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    uint64_t deadline = deadline_in(fmin(LEAVE_S, save->team->timeout_s));
    committer_wait(&c->committer, deadline); /* it reads the plan */
    if (c->committer.has_thread || (c->writer && writer_end(c->writer, deadline) < 0))
        return false;
    committer_reset(&c->committer);
    checkpoint_drop_plan(save);
    recall_close(save);
    checkpoint_leave(save);
    for (int i = 0; i < c->n_attached; i++)
        free(c->attached[i].text);
    free(c->attached);
    free(c->sum);
    free(c->dir);
    for (int i = 0; i < c->n_left; i++)
        free(c->left_path[i]);
    free(c->left_path);
    free(c->resumed_path);
    free(c->path);
    free(c->passed.step);
    free(c->seen.step);
    *c = (struct checkpoint){0};
    return true;
}

static void begin(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    const struct writer_folder folder = {checkpoint_enter_saving, save};
    checkpoint_state_fill(save, &c->state);
    c->start_error = c->torn = c->full.why = (ddp_error_t){0};
    c->phase = CHECKPOINT_SAVING;
    scheduler_save_begun(save);
    c->before = c->status;
    c->status.blocked_s = c->status.commit_s = 0;
    /* Whatever is copied is copied behind the update that the last step asked for. */
    if (save->state->arena.device && readback_after(&c->readback, save->state->arena.program, &c->start_error) < 0)
        return;
    writer_start(c->writer, &folder, save->team->me.rank == 0, recall_target(save), &c->start_error);
}

int checkpoint_folder(struct save *save, const char *dir, ddp_error_t *errp)
{
    ddp_error_t why;
    if (save->checkpoint.phase != CHECKPOINT_IDLE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_checkpoint_open: a checkpoint is in flight: call "
                         "ddp_checkpoint_wait first", save->team->me.rank);
    int rc = checkpoint_open(save, dir, &why);
    if (rc == CHECKPOINT_UNWRITABLE && !save->config->ckpt_required) {
        checkpoint_warn(save, "%s", why.text);
        return 0;
    }
    if (rc != 0 && errp)
        *errp = why;
    return rc != 0 ? -1 : 0;
}

static bool is_open(const struct checkpoint *c, const char *dir)
{
    char tidy[FOLDER_PATH_MAX];
    return checkpoint_tidy(dir, tidy, NULL) == 0 && !strcmp(tidy, c->dir);
}

/* Another framework may have declared other tensors by now. */
static int renew_plan(struct save *save, ddp_error_t *errp)
{
    bool is_stale;
    if (!save->foreign.is_open)
        return 0;
    if (foreign_agree(save, &is_stale, errp) < 0)
        return -1;
    if (is_stale)
        checkpoint_drop_plan(save);
    return 0;
}

/* Where its tensors lie now. */
static int point(struct save *save, const char *text, ddp_error_t *errp)
{
    ddp_error_t own = {0}; /* the others are told, whether or not the caller wants to know */
    if (!save->foreign.is_open || foreign_point(save, text, &own) == 0)
        return 0;
    team_fail(save->team, &own);
    if (errp)
        *errp = own;
    return -1;
}

/* checkpoint_open; before a stop, as often as the save itself. */
static int open_for_save(struct save *save, const char *dir, ddp_error_t *errp)
{
    int rc = checkpoint_open(save, dir, errp);
    for (int i = 1; save->checkpoint.is_stopping && i < TRIES_OF_LAST; i++) {
        if (rc != CHECKPOINT_UNWRITABLE || !may_pass(errp))
            break;
        poll(NULL, 0, AGAIN_MS); /* nothing else is left to do */
        rc = checkpoint_open(save, dir, errp);
    }
    return rc;
}

int checkpoint_take(struct save *save, const char *dir, const char *text, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    uint64_t began = clock_ns();
    ddp_error_t why;
    if (c->phase != CHECKPOINT_IDLE && (c->is_stopping || !is_open(c, dir)) && checkpoint_settle(save, errp) < 0)
        return -1;
    if (c->phase != CHECKPOINT_IDLE) {
        c->status.n_postponed += !c->is_postponed;
        c->is_postponed = true;
        c->is_asked = !save->foreign.is_open;
        return 0;
    }
    c->is_asked = false;
    int rc = open_for_save(save, dir, &why);
    if (rc == CHECKPOINT_UNWRITABLE) {
        scheduler_save_begun(save); /* the next one is due when it is, not after the next step */
        scheduler_save_over(save, false);
        checkpoint_note_full(save, dir, &why);
        return count_failed(save, &why, errp);
    }
    if (rc != 0) {
        if (errp)
            *errp = why;
        return -1;
    }
    int cut_micro = cut_is_wanted(save) ? save->cut.micro : 0;
    /* What may have changed since, a skipped step, comes again by itself. Not what another framework changes. */
    bool is_same = c->has_last && c->status.last_step == save->state->optimizer.n_steps && !save->foreign.is_open;
    if (is_same && cut_micro <= c->last_micro)
        return scheduler_requeue(save, errp);
    if (cut_micro != c->plan.cut_micro && checkpoint_plan_cut(save, errp) < 0)
        return -1;
    /* Without a writer still, where memory was short before. */
    if (renew_plan(save, errp) < 0 || checkpoint_take_memory(save, errp) < 0 || point(save, text, errp) < 0)
        return -1;
    begin(save);
    c->status.blocked_s = since_s(began);
    if (!c->is_stopping)
        return 0;
    c->n_tries = TRIES_OF_LAST - 1;
    int settled = checkpoint_settle(save, errp);
    c->n_tries = 0;
    return settled;
}

int checkpoint_wait(struct save *save, ddp_error_t *errp)
{
    const struct checkpoint *c = &save->checkpoint;
    if (checkpoint_settle(save, errp) < 0)
        return -1;
    if (!c->is_asked)
        return 0;
    return checkpoint_take(save, c->dir, NULL, errp) < 0 ? -1 : checkpoint_settle(save, errp);
}
