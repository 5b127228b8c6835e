#include "runtime/save/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/handle.h"

/* Which checkpoints are looked at, newest first. */
struct choice {
    char dir[FOLDER_PATH_MAX]; /* the folder that holds them */
    bool is_one;               /* the program named one of them: */
    uint64_t one;
    uint64_t *step;            /* [n], rising */
    uint64_t n;
};

/* DIR, or DIR/step-00000100. */
static int parse(const char *dir, struct choice *c, ddp_error_t *errp)
{
    if (checkpoint_tidy(dir, c->dir, errp) < 0)
        return error_prefix(errp, "ddp_resume");
    char *slash = strrchr(c->dir, '/'), *name = slash ? slash + 1 : c->dir;
    c->is_one = folder_step(name, &c->one);
    if (c->is_one && slash)
        *(slash == c->dir ? slash + 1 : slash) = 0;
    else if (c->is_one)
        strcpy(c->dir, ".");
    return 0;
}

/* Rank 0's list, on all ranks. */
static int list(ddp_t *d, struct choice *c, ddp_error_t *errp)
{
    ddp_error_t why = {0}, told;
    size_t n = 0;
    if (d->team.me.rank == 0)
        store_list(c->dir, &c->step, &n, &why);
    c->n = n;
    if (comm_bcast(d->team.comm, &c->n, sizeof c->n, 0, errp) < 0)
        return team_break(&d->team);
    if (d->team.me.rank != 0 && !(c->step = calloc(c->n + 1, sizeof *c->step)))
        error_set(&why, DDP_E_SYSTEM, ENOMEM, "no memory for %" PRIu64 " checkpoints", c->n);
    if (checkpoint_agree(d, &why, &told, errp) < 0)
        return -1;
    if (told.code) {
        if (errp)
            *errp = told;
        return -1;
    }
    if (c->n && comm_bcast(d->team.comm, c->step, c->n * sizeof *c->step, 0, errp) < 0)
        return team_break(&d->team);
    return 0;
}

/* A checkpoint that was named: only it, and nothing that its successors would overwrite. */
static int pick_one(struct choice *c, ddp_error_t *errp)
{
    uint64_t last = c->n ? c->step[c->n - 1] : 0;
    size_t i = 0;
    while (i < c->n && c->step[i] != c->one)
        i++;
    if (i == c->n)
        return error_set(errp, DDP_E_USAGE, ENOENT, "%.150s has no checkpoint of step %" PRIu64, c->dir, c->one);
    if (last != c->one)
        return error_set(errp, DDP_E_USAGE, EEXIST, "%.120s has a newer checkpoint, of step %" PRIu64 ": resume from "
                         "the folder, or move those after step %" PRIu64 " away", c->dir, last, c->one);
    c->step[0] = c->one;
    c->n = 1;
    return 0;
}

/* 1: training can go on from it; 0: it is broken, as *errp says; -1. errp is not NULL here and below. */
static int read_tensors(ddp_t *d, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    size_t n = d->checkpoint.plan.files.n_tensors;
    size_t *index = calloc(n + 1, sizeof *index);
    uint64_t *sum = calloc(n + 1, sizeof *sum);
    int rc = 0;
    if (!index || !sum)
        rc = team_no_memory(&d->team, "the names of a checkpoint's tensors", errp);
    if (rc == 0)
        rc = resume_match(d, m, index, errp);
    if (rc == 0)
        rc = resume_tensors(d, path, m, index, sum, errp);
    free(index);
    free(sum);
    return rc;
}

static int try_step(ddp_t *d, const struct choice *c, uint64_t step, ddp_error_t *errp)
{
    struct manifest m;
    char name[32], path[FOLDER_PATH_MAX];
    folder_name(step, name);
    if (folder_path(path, c->dir, name, errp) < 0)
        return -1;
    int rc = resume_manifest(d, path, &m, errp);
    if (rc <= 0)
        return rc;
    if (m.state.step != step) {
        error_set(errp, DDP_E_DATA, EBADMSG, "%.150s/" MANIFEST_NAME " is that of step %" PRIu64, path, m.state.step);
        manifest_clear(&m);
        return 0;
    }
    rc = checkpoint_state_check(d, &m.state, errp);
    if (rc == 0)
        rc = read_tensors(d, path, &m, errp);
    if (rc > 0)
        checkpoint_state_compare(d, &m.state);
    if (rc > 0 && (checkpoint_state_restore(d, &m.state, errp) < 0 || window_load(d, path, &m, errp) < 0 ||
                   arena_round(&d->state.arena, errp) < 0)) /* again: rounding may go by the step */
        rc = -1;
    manifest_clear(&m);
    return rc;
}

static int try_all(ddp_t *d, const struct choice *c, ddp_error_t *errp)
{
    struct checkpoint *ckpt = &d->checkpoint;
    ddp_error_t broken = {0}, why = {0};
    int rc = 0;
    for (uint64_t i = c->n; rc == 0 && i-- > 0;) {
        rc = try_step(d, c, c->step[i], &why);
        if (rc > 0) {
            if (broken.code)
                checkpoint_warn(d, "%s; resumed from step %" PRIu64, broken.text, c->step[i]);
            checkpoint_set_path(d, c->dir, c->step[i]);
            ckpt->has_last = ckpt->dir && !strcmp(ckpt->dir, c->dir);
        } else if (rc == 0 && !broken.code) {
            broken = why;
        }
    }
    if (rc == 0)
        return error_set(errp, DDP_E_DATA, EBADMSG, "no checkpoint in %.80s is whole; the newest: %s", c->dir,
                         broken.text);
    if (rc < 0 && errp)
        *errp = why;
    return rc;
}

/* A folder that can be read and not written may be resumed from; saves go elsewhere, or say so. */
static int open_folder(ddp_t *d, struct choice *c, ddp_error_t *errp)
{
    ddp_error_t why;
    free(d->checkpoint.resumed_dir);
    d->checkpoint.resumed_dir = strdup(c->dir);
    int rc = checkpoint_open(d, c->dir, &why);
    if (rc >= 0 && list(d, c, errp) < 0)
        return -1;
    if (rc > 0 && c->n)
        checkpoint_warn(d, "%s", why.text);
    if (rc == 0 || (rc > 0 && c->n))
        return checkpoint_plan(d, errp);
    if (errp)
        *errp = why;
    return -1;
}

/* What rank 0 was given: ranks that were given other things are told so when the folder is opened, or go along. */
static int share_choice(ddp_t *d, struct choice *c, ddp_error_t *errp)
{
    uint64_t one[2] = {c->is_one, c->one};
    if (comm_bcast(d->team.comm, one, sizeof one, 0, errp) < 0)
        return team_break(&d->team);
    c->is_one = one[0];
    c->one = one[1];
    return 0;
}

EXPORT int ddp_resume(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    struct choice c = {.n = 0};
    if (handle_expect(d, 1u << PHASE_IDLE, "ddp_resume", errp) < 0)
        return -1;
    if (d->state.optimizer.n_steps || d->state.micro.is_unfinished || d->checkpoint.phase != CHECKPOINT_IDLE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_resume comes before the first step", d->team.me.rank);
    if (parse(dir, &c, errp) < 0)
        return -1;
    int rc = share_choice(d, &c, errp);
    if (rc == 0)
        rc = open_folder(d, &c, errp);
    if (rc == 0 && c.is_one)
        rc = pick_one(&c, errp);
    if (rc == 0 && c.n)
        rc = try_all(d, &c, errp);
    free(c.step);
    return rc;
}
