#include <config.h> /* pthread_clockjoin_np */

#include "runtime/ckpt/committer.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/ckpt/commit.h"

static int commit_all(const struct commit_job *j, const struct savedir *dir, ddp_error_t *errp)
{
    struct manifest m;
    size_t n;
    if (manifest_make(&m, j->files, j->checksum, &j->state, errp) < 0)
        return -1;
    char *text = manifest_encode(&m, &n);
    manifest_clear(&m);
    if (!text)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the manifest of a checkpoint");
    if (n > MANIFEST_BYTES_MAX) {
        free(text);
        return error_set(errp, DDP_E_USAGE, EFBIG, "the manifest of so many tensors has %zu bytes, at most %d MiB are "
                         "allowed: shorten their names", n, MANIFEST_MIB_MAX);
    }
    int rc = commit(dir, j->token, j->state.step, text, n, errp);
    free(text);
    return rc;
}

static void take_off(struct folder_steps *s, uint64_t step)
{
    size_t n_left = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->step[i] != step)
            s->step[n_left++] = s->step[i];
    s->n = n_left;
}

static void remove_old(const struct commit_job *j, const struct savedir *dir, ddp_error_t *errp)
{
    ddp_error_t left = {0}, why = {0};
    if (j->passed)
        take_off(j->passed, j->state.step); /* it has been replaced */
    if (j->passed && j->passed->n)
        (j->is_unread ? commit_suspect : commit_forget)(dir, j->token, j->passed, &left);
    commit_retain(dir, j->token, j->state.step, j->seen, j->keep, j->passed, &why);
    *errp = left.code ? left : why;
}

/* Why a save has failed may be that another job has removed what there was of it. */
static void give_up(const struct commit_job *j, const struct savedir *dir, ddp_error_t *errp)
{
    ddp_error_t lost;
    commit_abandon(dir, j->token, j->state.step, j->files, NULL); /* else the next job does it */
    if (j->is_clean && commit_check(dir, j->token, &lost) < 0 && lost.code == EBUSY)
        *errp = lost;
}

/* In dir. */
static int commit_or_give_up(struct committer *c, const struct savedir *dir)
{
    uint64_t began = clock_ns();
    int rc = c->job.is_failed ? 0 : commit_all(&c->job, dir, &c->error);
    c->took_s = (double)(clock_ns() - began) / 1e9;
    atomic_store(&c->is_committed, rc == 0);
    if (rc < 0 || c->job.is_failed)
        give_up(&c->job, dir, &c->error);
    else
        remove_old(&c->job, dir, &c->error);
    return rc;
}

static void *run(void *arg)
{
    struct committer *c = arg;
    struct savedir dir = {.fd = -1};
    int rc = c->job.enter(c->job.ctx, &dir, c->job.is_failed ? NULL : &c->error);
    dir.n_removed = &c->n_removed;
    if (rc == 0)
        rc = commit_or_give_up(c, &dir);
    savedir_close(&dir);
    atomic_store(&c->state, rc < 0 && !c->job.is_failed ? COMMITTER_FAILED : COMMITTER_DONE);
    return NULL;
}

void committer_start(struct committer *c, const struct commit_job *job)
{
    c->job = *job;
    c->error = (ddp_error_t){0};
    atomic_store(&c->is_committed, false);
    atomic_store(&c->state, COMMITTER_BUSY);
    c->has_thread = thread_start(&c->thread, run, c) == 0;
    if (!c->has_thread)
        run(c); /* then training waits */
}

enum committer_state committer_state(const struct committer *c)
{
    return atomic_load(&c->state);
}

void committer_wait(struct committer *c, uint64_t deadline)
{
    struct timespec until = {(time_t)(deadline / NS_PER_S), (long)(deadline % NS_PER_S)};
    if (c->has_thread && pthread_clockjoin_np(c->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        c->has_thread = false;
}

void committer_reset(struct committer *c)
{
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    c->has_thread = false;
    atomic_store(&c->state, COMMITTER_IDLE);
}
