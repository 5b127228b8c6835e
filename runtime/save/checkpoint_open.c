/* checkpoint_open.c - the folder that checkpoints go to. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/save/save.h"

/* What a rank finds out. The worst of all ranks' counts. */
enum finding { FINE, UNWRITABLE = CHECKPOINT_UNWRITABLE, SHARED = CHECKPOINT_SHARED, WRONG };

#define LOOK_S 35.0
enum { LOOK_MS = 200 };

int checkpoint_tidy(const char *dir, char ret[FOLDER_PATH_MAX], ddp_error_t *errp)
{
    char *to = ret;
    if (!dir || !*dir || strlen(dir) >= FOLDER_PATH_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "\"%.100s\" is no folder's name", dir ? dir : "");
    if (*dir == '/')
        *to++ = '/';
    for (size_t n; *dir; dir += n, dir += strspn(dir, "/")) {
        n = strcspn(dir, "/");
        if (n == 0 || (n == 1 && *dir == '.'))
            continue;
        if (to > ret && to[-1] != '/')
            *to++ = '/';
        memcpy(to, dir, n);
        to += n;
    }
    if (to == ret)
        *to++ = '.';
    *to = 0;
    return 0;
}

/* It is too long for what is in it, or a folder above it is not for this user. */
static bool leads_here(const char *path)
{
    struct stat there, here;
    return strlen(path) < FOLDER_PATH_MAX / 2 && stat(path, &there) == 0 && stat(".", &here) == 0 &&
           there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

char *checkpoint_path(const char *dir)
{
    char *at = *dir == '/' ? NULL : getcwd(NULL, 0), *path = NULL, all[2 * FOLDER_PATH_MAX], tidy[FOLDER_PATH_MAX];
    if (at && leads_here(at) && snprintf(all, sizeof all, "%s/%s", at, dir) < (int)sizeof all &&
        checkpoint_tidy(all, tidy, NULL) == 0)
        path = strdup(tidy);
    free(at);
    return path ? path : strdup(dir);
}

/* Others could harm what is saved there: a warning, or an end of it where the job wants no such folder. */
static enum finding look_who_else(struct save *save, const struct savedir *dir, ddp_error_t *errp)
{
    char text[256];
    bool is_private = save->config->ckpt_private;
    if (!savedir_is_shared(dir, is_private, text, sizeof text))
        return FINE;
    if (is_private)
        return error_set(errp, DDP_E_USAGE, EPERM, "%s", text), SHARED;
    checkpoint_warn(save, "%s", text);
    return FINE;
}

/* What this rank knows of a folder. */
struct place {
    struct savedir_known known;
    struct folder_steps seen; /* rank 0 */
};

static int find_left(const struct checkpoint *c, const char *path)
{
    int i = 0;
    while (i < c->n_left && strcmp(c->left_path[i], path) != 0)
        i++;
    return i;
}

/* It has gone on from the checkpoints there, or they are its own. */
static bool is_of_this_training(const struct checkpoint *c, const char *path)
{
    return (c->path && !strcmp(c->path, path)) || (c->resumed_path && !strcmp(c->resumed_path, path)) ||
           find_left(c, path) < c->n_left;
}

/* Rank 0: the folder, which is open, is no other training's, and can be written. A probe is left in it. */
static enum finding look_into(struct save *save, struct savedir *dir, struct folder_steps *ret, ddp_error_t *errp)
{
    char probe[COMMIT_PROBE_MAX];
    commit_probe_name(save->checkpoint.token, probe);
    bool is_writable = savedir_probe(dir, probe, errp) == 0; /* which also tells what is own there */
    commit_recover(dir);
    if (reader_list(dir->path, &ret->step, &ret->n, errp) < 0)
        return UNWRITABLE;
    ret->room = ret->n;
    if (ret->n && !is_of_this_training(&save->checkpoint, dir->path)) {
        error_set(errp, DDP_E_USAGE, EEXIST, "%s has checkpoints already: resume from them (ddp_resume; --resume "
                  "auto), or name another folder", FOLDER_BRIEF(dir->path));
        return WRONG;
    }
    return is_writable ? look_who_else(save, dir, errp) : UNWRITABLE;
}

static enum finding look_first(struct save *save, const char *path, struct place *ret, ddp_error_t *errp)
{
    struct savedir dir;
    if (savedir_create(&dir, path, errp) < 0)
        return UNWRITABLE;
    enum finding found = look_into(save, &dir, &ret->seen, errp);
    ret->known = dir.known;
    savedir_close(&dir);
    return found;
}

/* Is rank 0's probe in it? */
static bool sees_probe(const struct save *save, const char *path, struct savedir_known *ret, ddp_error_t *why)
{
    struct savedir dir = {.fd = -1};
    char probe[COMMIT_PROBE_MAX];
    commit_probe_name(save->checkpoint.token, probe);
    bool is_there = savedir_open(&dir, path, NULL, why) == 0 && savedir_see(&dir, probe, why) == 0;
    *ret = dir.known;
    savedir_close(&dir);
    return is_there;
}

/* The other ranks. A client of NFS may go on for acdirmin, 30 s, to say that what was not there is not; a disk of this
 * node says at once that the folder is another. */
static enum finding look_too(const struct save *save, const char *path, struct savedir_known *ret, ddp_error_t *why)
{
    uint64_t until = deadline_in(fmin(LOOK_S, save->team->timeout_s / 4));
    bool is_there = sees_probe(save, path, ret, why);
    while (!is_there && why->code == ENOENT && !folder_is_local(path) && deadline_left_ns(until) > 0) {
        poll(NULL, 0, LOOK_MS); /* nothing tells */
        is_there = sees_probe(save, path, ret, why);
    }
    if (is_there) {
        *why = (ddp_error_t){0};
        return FINE;
    }
    if (why->code != ENOENT)
        return UNWRITABLE;
    error_set(why, DDP_E_USAGE, ENOENT, "%s on node %d is not the folder that rank 0 (node 0) has: checkpoints "
              "must lie in one that all nodes share", FOLDER_BRIEF(path), save->team->me.node);
    return WRONG;
}

/* All have looked; a probe that stays is removed by a later job's first save. */
static void remove_probe(const struct save *save, const char *path)
{
    struct savedir dir;
    char probe[COMMIT_PROBE_MAX];
    if (save->team->me.rank != 0 || savedir_open(&dir, path, NULL, NULL) < 0)
        return;
    commit_probe_name(save->checkpoint.token, probe);
    unlinkat(dir.fd, probe, 0);
    savedir_close(&dir);
}

/* 0, or the worst that any rank has found. */
static int agree_on(struct save *save, enum finding own, const ddp_error_t *why, ddp_error_t *errp)
{
    int64_t worst = own;
    ddp_error_t told;
    if (comm_allreduce(save->team->comm, &worst, 1, DDP_I64, DDP_MAX, errp) < 0)
        return team_break(save->team);
    if (checkpoint_agree(save, why, &told, errp) < 0)
        return -1;
    if (worst != FINE && errp)
        *errp = told;
    return worst == WRONG ? -1 : (int)worst;
}

static int explain_folder(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "checkpoints go to %.80s on rank %d and to %.80s on rank %d: name the "
                     "same folder", a, rank_a, b, rank_b);
}

/* path: dir's, on this rank. */
static int find_folder(struct save *save, const char *dir, const char *path, struct place *ret, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    ddp_error_t why = {0};
    enum finding found = FINE;
    if (team_same(save->team, dir, explain_folder, errp) < 0)
        return -1;
    if (save->team->me.rank == 0 && !*c->token && io_random_hex(c->token, COMMIT_TOKEN_BYTES, &why) < 0)
        found = WRONG;
    if (comm_bcast(save->team->comm, c->token, sizeof c->token, 0, errp) < 0)
        return team_break(save->team);
    if (found == FINE && save->team->me.rank == 0)
        found = look_first(save, path, ret, &why);
    int rc = agree_on(save, found, &why, errp);
    if (rc != 0)
        return rc;
    return agree_on(save, save->team->me.rank == 0 ? FINE : look_too(save, path, &ret->known, &why), &why,
                    errp);
}

/* Another folder is dir from now on; path becomes c's. -1: no memory for it. */
static int change(struct checkpoint *c, const char *dir, char *path)
{
    bool is_new = c->path && find_left(c, c->path) == c->n_left;
    char **all = is_new ? realloc(c->left_path, ((size_t)c->n_left + 1) * sizeof *all) : c->left_path;
    char *copy = strdup(dir);
    if (all)
        c->left_path = all;
    if ((is_new && !all) || !copy) {
        free(copy);
        return -1;
    }
    if (is_new)
        c->left_path[c->n_left++] = c->path;
    else
        free(c->path);
    free(c->dir);
    c->dir = copy;
    c->path = path;
    return 0;
}

static int open_as(struct save *save, const char *dir, char *path, struct place *found, ddp_error_t *errp)
{
    uint64_t sum;
    int rc = find_folder(save, dir, path, found, errp);
    remove_probe(save, path);
    if (rc == 0)
        rc = checkpoint_path_sum(save, path, &sum, errp);
    if (rc == 0)
        rc = checkpoint_take_memory(save, errp);
    if (rc != 0)
        return rc;
    checkpoint_leave(save);
    if (change(&save->checkpoint, dir, path) < 0)
        return team_no_memory(save->team, "a path", errp);
    save->checkpoint.path_sum = sum;
    return 0;
}

int checkpoint_open(struct save *save, const char *name, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    char dir[FOLDER_PATH_MAX];
    struct place found = {0};
    if (checkpoint_tidy(name, dir, errp) < 0)
        return -1;
    if (c->dir && !strcmp(c->dir, dir))
        return 0;
    char *path = checkpoint_path(dir);
    if (!path)
        return team_no_memory(save->team, "a path", errp);
    int rc = open_as(save, dir, path, &found, errp);
    if (rc != 0) {
        free(path);
        free(found.seen.step);
        return rc;
    }
    free(c->seen.step);
    c->known = found.known;
    c->seen = found.seen;
    c->has_last = false;
    return 0;
}

/* By its name, where a folder above it has got another one meanwhile. */
static int open_again(const struct checkpoint *c, struct savedir *ret, ddp_error_t *errp)
{
    ddp_error_t why;
    if (savedir_open(ret, c->path, &c->known, &why) == 0 ||
        (*c->dir != '/' && savedir_open(ret, c->dir, &c->known, NULL) == 0))
        return 0;
    if (errp)
        *errp = why;
    return -1;
}

int checkpoint_enter(const void *ctx, struct savedir *ret, ddp_error_t *errp)
{
    const struct save *save = ctx;
    char text[256];
    if (open_again(&save->checkpoint, ret, errp) < 0)
        return -1;
    if (!save->config->ckpt_private || !savedir_is_shared(ret, true, text, sizeof text))
        return 0;
    savedir_close(ret);
    return error_set(errp, DDP_E_USAGE, EPERM, "%s", text);
}

void checkpoint_leave(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    struct savedir dir;
    if (c->is_clean && checkpoint_enter(save, &dir, NULL) == 0) {
        commit_leave(&dir, c->token);
        savedir_close(&dir);
    }
    c->is_clean = false;
}

static int clean(struct checkpoint *c, struct savedir *dir, ddp_error_t *errp)
{
    uint64_t newest = folder_newest(&c->seen), known = newest > c->state.step ? newest : c->state.step;
    ddp_error_t left = {0};
    dir->n_removed = &c->committer.n_removed;
    if (commit_clean(dir, c->token, known, &left) < 0) {
        *errp = left;
        return -1;
    }
    c->left = left;
    c->is_clean = true;
    return 0;
}

int checkpoint_enter_saving(void *ctx, struct savedir *ret, ddp_error_t *errp)
{
    struct save *save = ctx;
    struct checkpoint *c = &save->checkpoint;
    struct savedir dir;
    if (checkpoint_enter(save, &dir, errp) < 0)
        return -1;
    int rc = save->team->me.rank == 0 && !c->is_clean ? clean(c, &dir, errp) : 0;
    if (rc == 0)
        rc = commit_folder(&dir, c->token, c->state.step, ret, errp);
    savedir_close(&dir);
    return rc;
}

int checkpoint_attach(struct save *save, const char *name, const char *text, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    if (c->plan.is_made || !name || !text || strlen(name) > FILES_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_checkpoint_attach: a name of at most %d bytes and a "
                         "text are needed, before ddp_resume and ddp_checkpoint", save->team->me.rank, FILES_NAME_MAX);
    if (files_check_name(name, errp) < 0)
        return -1;
    struct files_small *all = realloc(c->attached, ((size_t)c->n_attached + 1) * sizeof *all);
    char *copy = strdup(text);
    if (all)
        c->attached = all;
    if (!all || !copy) {
        free(copy);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %s", name);
    }
    struct files_small *added = &all[c->n_attached++];
    *added = (struct files_small){.text = copy, .n_bytes = strlen(text)};
    strcpy(added->name, name);
    return 0;
}
