#include "runtime/save/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/save/save.h"

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
static int list(struct save *save, struct choice *c, ddp_error_t *errp)
{
    ddp_error_t why = {0}, told;
    size_t n = 0;
    if (save->team->me.rank == 0)
        reader_list(c->dir, &c->step, &n, &why);
    c->n = n;
    if (comm_bcast(save->team->comm, &c->n, sizeof c->n, 0, errp) < 0)
        return team_break(save->team);
    if (save->team->me.rank != 0 && !(c->step = calloc(c->n + 1, sizeof *c->step)))
        error_set(&why, DDP_E_SYSTEM, ENOMEM, "no memory for %" PRIu64 " checkpoints", c->n);
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code) {
        if (errp)
            *errp = told;
        return -1;
    }
    if (c->n && comm_bcast(save->team->comm, c->step, c->n * sizeof *c->step, 0, errp) < 0)
        return team_break(save->team);
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
        return error_set(errp, DDP_E_USAGE, ENOENT, "%s has no checkpoint of step %" PRIu64, FOLDER_BRIEF(c->dir),
                         c->one);
    if (last != c->one)
        return error_set(errp, DDP_E_USAGE, EEXIST, "%s has a newer checkpoint, of step %" PRIu64 ": resume from "
                         "the folder, or move those after step %" PRIu64 " away", FOLDER_BRIEF(c->dir), last, c->one);
    c->step[0] = c->one;
    c->n = 1;
    return 0;
}

/* 1: training can go on from it; 0: it is broken, as *errp says; -1. errp is not NULL here and below. */
static int read_tensors(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    size_t n = save->checkpoint.plan.files.n_tensors;
    size_t *index = calloc(n + 1, sizeof *index);
    uint64_t *sum = calloc(n + 1, sizeof *sum);
    int rc = 0;
    if (!index || !sum)
        rc = team_no_memory(save->team, "the names of a checkpoint's tensors", errp);
    if (rc == 0)
        rc = resume_match(save, m, index, errp);
    if (rc == 0)
        rc = resume_tensors(save, path, m, index, sum, errp);
    free(index);
    free(sum);
    return rc;
}

static int try_step(struct save *save, const struct choice *c, uint64_t step, ddp_error_t *errp)
{
    struct manifest m;
    char name[32], path[FOLDER_PATH_MAX];
    folder_name(step, name);
    if (folder_path(path, c->dir, name, errp) < 0)
        return -1;
    int rc = resume_manifest(save, path, &m, errp);
    if (rc <= 0)
        return rc;
    rc = checkpoint_state_check(save, &m.state, errp);
    if (rc == 0)
        rc = (save->foreign.is_open ? foreign_read : read_tensors)(save, path, &m, errp);
    if (rc > 0)
        checkpoint_state_compare(save, &m.state);
    if (rc > 0 && (checkpoint_state_restore(save, &m.state, errp) < 0 || cut_load(save, path, &m, errp) < 0 ||
                   arena_round(&save->state->arena, errp) < 0)) /* again: rounding may go by the step */
        rc = -1;
    manifest_clear(&m);
    return rc;
}

/* All from c->step[first] on: the list is the checkpoint's from now on. */
static void pass_over(struct checkpoint *ckpt, struct choice *c, uint64_t first)
{
    size_t n = c->n - first;
    memmove(c->step, c->step + first, n * sizeof *c->step);
    free(ckpt->passed.step);
    ckpt->passed = (struct folder_steps){.step = c->step, .n = n, .room = n};
    c->step = NULL;
}

static int try_all(struct save *save, struct choice *c, ddp_error_t *errp)
{
    struct checkpoint *ckpt = &save->checkpoint;
    ddp_error_t broken = {0}, why = {0};
    int rc = 0;
    for (uint64_t i = c->n; rc == 0 && i-- > 0;) {
        rc = try_step(save, c, c->step[i], &why);
        if (rc > 0) {
            if (broken.code)
                checkpoint_warn(save, "%s; resumed from step %" PRIu64, broken.text, c->step[i]);
            checkpoint_set_path(save, c->dir, c->step[i]);
            ckpt->has_last = ckpt->dir && !strcmp(ckpt->dir, c->dir);
            pass_over(ckpt, c, i + 1);
        } else if (rc == 0) {
            ckpt->is_unread |= why.domain == DDP_E_SYSTEM || why.code == ENOENT; /* on one node alone, perhaps */
            if (!broken.code)
                broken = why;
        }
    }
    if (rc == 0) {
        pass_over(ckpt, c, 0);
        return error_set(errp, DDP_E_DATA, EBADMSG, "none of %" PRIu64 " checkpoints is whole; the newest: %s", c->n,
                         broken.text);
    }
    if (rc < 0 && errp)
        *errp = why;
    return rc;
}

/* A folder that can be read and not written may be resumed from, and has snapshots; saves go elsewhere, or say so. */
static int open_folder(struct save *save, struct choice *c, ddp_error_t *errp)
{
    struct checkpoint *ckpt = &save->checkpoint;
    ddp_error_t why;
    free(ckpt->resumed_path);
    ckpt->resumed_path = checkpoint_path(c->dir);
    if (!ckpt->resumed_path)
        return team_no_memory(save->team, "a path", errp);
    if (checkpoint_path_sum(save, ckpt->resumed_path, &ckpt->resumed_sum, errp) < 0)
        return -1;
    ckpt->passed.n = 0;
    ckpt->is_unread = false;
    int rc = checkpoint_open(save, c->dir, &why);
    if (rc >= 0 && list(save, c, errp) < 0)
        return -1;
    for (uint64_t i = 0; rc == 0 && i < c->n; i++)
        if (!folder_has_step(&ckpt->seen, c->step[i]))
            folder_add_step(&ckpt->seen, c->step[i], NULL);
    if (rc < 0 || (rc > 0 && !c->n)) {
        if (errp)
            *errp = why;
        return -1;
    }
    if (rc > 0)
        checkpoint_warn(save, "%s", why.text);
    if (checkpoint_plan(save, errp) < 0)
        return -1;
    return rc > 0 ? recall_open(save, errp) : 0; /* which else has come with the folder */
}

/* What rank 0 was given: ranks that were given other things are told so when the folder is opened, or go along. */
static int share_choice(struct save *save, struct choice *c, ddp_error_t *errp)
{
    uint64_t one[2] = {c->is_one, c->one};
    if (comm_bcast(save->team->comm, one, sizeof one, 0, errp) < 0)
        return team_break(save->team);
    c->is_one = one[0];
    c->one = one[1];
    return 0;
}

int resume_newest(struct save *save, const char *dir, ddp_error_t *errp)
{
    struct choice c = {.n = 0};
    if (save->state->optimizer.n_steps || save->state->micro.is_unfinished || save->checkpoint.phase != CHECKPOINT_IDLE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_resume comes before the first step",
                         save->team->me.rank);
    if (parse(dir, &c, errp) < 0)
        return -1;
    int rc = share_choice(save, &c, errp);
    if (rc == 0)
        rc = open_folder(save, &c, errp);
    if (rc == 0 && c.is_one)
        rc = pick_one(&c, errp);
    else if (rc == 0)
        rc = recall_restore(save, c.n ? c.step[c.n - 1] : 0, errp);
    if (rc == 0 && c.n)
        rc = try_all(save, &c, errp);
    free(c.step);
    return rc;
}
