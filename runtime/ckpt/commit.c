#include <config.h> /* renameat2 */

#include "runtime/ckpt/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/commit_impl.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/outfile.h"

#define UNFINISHED ".manifest" /* until it is whole */

/* ".saving-TOKEN-step-00000100" */
static void saving_name(const char *token, uint64_t step, char ret[COMMIT_SAVING_MAX])
{
    char name[32];
    folder_name(step, name);
    snprintf(ret, COMMIT_SAVING_MAX, COMMIT_SAVING "%.40s-%s", token, name);
}

int commit_folder(const struct savedir *dir, const char *token, uint64_t step, struct savedir *ret, ddp_error_t *errp)
{
    char name[COMMIT_SAVING_MAX];
    saving_name(token, step, name);
    return savedir_make(ret, dir, name, errp);
}

/* A new file of a few bytes, on disk. */
static int write_file(const struct savedir *dir, const char *name, const char *text, size_t n, ddp_error_t *errp)
{
    struct outfile out;
    if (outfile_open(&out, dir, name, n, errp) < 0)
        return -1;
    if (outfile_write(&out, text, n, 0, errp) == 0)
        return outfile_close(&out, errp);
    outfile_drop(&out);
    return -1;
}

/* ---- whose saves count ---- */

/* Is the token in DIR/.writer this job's? With none there another has taken dir over, and left. */
static int is_own(const struct savedir *dir, const char *token, bool *ret, ddp_error_t *errp)
{
    char found[2 * COMMIT_TOKEN_BYTES + 1] = "";
    *ret = false;
    int fd = openat(dir->fd, COMMIT_WRITER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
    if (n < 0)
        error_errno(errp, "cannot read %s/" COMMIT_WRITER, FOLDER_BRIEF(dir->path));
    io_close(fd);
    *ret = n >= 0 && !strcmp(found, token);
    return n < 0 ? -1 : 0;
}

int commit_check(const struct savedir *dir, const char *token, ddp_error_t *errp)
{
    bool own;
    if (is_own(dir, token, &own, errp) < 0)
        return -1;
    if (own)
        return 0;
    if (faccessat(dir->fd, COMMIT_WRITER, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return error_set(errp, DDP_E_USAGE, EBUSY, "%s: another job has begun to save there, and left, or somebody has "
                         "removed " COMMIT_WRITER ": run this one again", FOLDER_BRIEF(dir->path));
    return error_set(errp, DDP_E_USAGE, EBUSY, "%s: another job has begun to save there (" COMMIT_WRITER " is not this "
                     "one's any more): end one of them, or give each a folder", FOLDER_BRIEF(dir->path));
}

/* Where the disk is full, perhaps of what a killed job left, its .writer has room for the token: these few bytes are
 * written as a whole. */
static int overwrite(const struct savedir *dir, const char *token)
{
    size_t n = strlen(token);
    bool is_there = faccessat(dir->fd, COMMIT_WRITER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = is_there ? savedir_open_file(dir, COMMIT_WRITER, NULL) : -1;
    int rc = fd >= 0 && pwrite(fd, token, n, 0) == (ssize_t)n && fsync(fd) == 0 ? 0 : -1;
    io_close(fd);
    return rc;
}

int commit_take_over(const struct savedir *dir, const char *token, ddp_error_t *errp)
{
    char name[64];
    ddp_error_t e = {0};
    snprintf(name, sizeof name, COMMIT_WRITER "-%.40s", token);
    int rc = write_file(dir, name, token, strlen(token), &e);
    if (rc == 0 && (rc = savedir_rename(dir, name, COMMIT_WRITER, &e)) < 0 && errno == ENOENT)
        commit_check(dir, token, &e); /* another job, which has taken dir over in between, has removed it */
    if (rc < 0)
        savedir_remove_file(dir, name, NULL);
    if (rc < 0 && (e.code == ENOSPC || e.code == EDQUOT))
        rc = overwrite(dir, token);
    if (rc < 0 && errp)
        *errp = e;
    return rc;
}

void commit_leave(const struct savedir *dir, const char *token)
{
    bool own;
    if (is_own(dir, token, &own, NULL) == 0 && own)
        savedir_remove_file(dir, COMMIT_WRITER, NULL);
}

/* ---- commits ---- */

struct commit {
    const struct savedir *dir;
    struct savedir folder; /* in it, that becomes a checkpoint */
    char saving[COMMIT_SAVING_MAX], done[32];
    const char *token, *manifest;
    size_t n;
};

static void aside_name(const struct commit *c, char ret[COMMIT_SAVING_MAX + 8])
{
    snprintf(ret, COMMIT_SAVING_MAX + 8, "%s" COMMIT_OLD, c->saving);
}

/* Removes DIR/step-N, where that is no checkpoint. It is put aside before it is looked at: another job may have made it
 * one in between, if this process stood still for long. */
static int remove_unfinished(const struct commit *c, ddp_error_t *errp)
{
    char aside[COMMIT_SAVING_MAX + 8];
    struct savedir old;
    struct stat st;
    aside_name(c, aside);
    if (fstatat(c->dir->fd, c->done, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    if (savedir_enter(&old, c->dir, c->done, errp) < 0) /* a link, or another user's, stays where it is */
        return -1;
    savedir_close(&old);
    if (savedir_remove(c->dir, aside, errp) != 0 || savedir_rename(c->dir, c->done, aside, errp) < 0)
        return -1;
    bool is_checkpoint = folder_has_manifest(c->dir->fd, aside);
    int rc = is_checkpoint ? 1 : savedir_remove(c->dir, aside, errp);
    if (rc <= 0 || savedir_rename(c->dir, aside, c->done, errp) < 0)
        return rc == 0 ? 0 : -1;
    if (is_checkpoint)
        return error_set(errp, DDP_E_USAGE, EBUSY, "%s/%s has become another job's checkpoint: end one of them, or "
                         "give each a folder", FOLDER_BRIEF(c->dir->path), c->done);
    return error_set(errp, DDP_E_USAGE, EEXIST, "%s/%s, which is no checkpoint, has in it what no checkpoint has: it "
                     "stays until you move it away", FOLDER_BRIEF(c->dir->path), c->done);
}

/* RENAMED -> nothing, unless dir is another job's by now: what has that name may be that job's checkpoint. */
static void take_back(const struct commit *c)
{
    if (commit_check(c->dir, c->token, NULL) == 0)
        remove_unfinished(c, NULL);
}

/* WRITTEN -> RENAMED */
static int move(struct commit *c, ddp_error_t *errp)
{
    if (remove_unfinished(c, errp) < 0 || savedir_rename(c->dir, c->saving, c->done, errp) < 0)
        return -1;
    if (savedir_sync(c->dir, errp) == 0)
        return 0;
    take_back(c);
    return -1;
}

/* RENAMED -> COMMITTED */
static int write_manifest(struct commit *c, ddp_error_t *errp)
{
    if (write_file(&c->folder, UNFINISHED, c->manifest, c->n, errp) < 0 || commit_check(c->dir, c->token, errp) < 0 ||
        savedir_rename(&c->folder, UNFINISHED, MANIFEST_NAME, errp) < 0)
        return -1;
    if (savedir_sync(&c->folder, errp) == 0)
        return 0;
    savedir_remove_file(&c->folder, MANIFEST_NAME, NULL); /* else what has failed would be there, and nobody's */
    return -1;
}

/* Where names cannot be exchanged: the old one, whole, is aside while the new one takes its name. */
static int swap_aside(const struct commit *c, ddp_error_t *errp)
{
    char aside[COMMIT_SAVING_MAX + 8];
    aside_name(c, aside);
    if (savedir_remove(c->dir, aside, errp) != 0 || savedir_rename(c->dir, c->done, aside, errp) < 0)
        return -1;
    if (savedir_rename(c->dir, c->saving, c->done, errp) < 0) {
        savedir_rename(c->dir, aside, c->done, NULL);
        return -1;
    }
    if (savedir_sync(c->dir, errp) < 0)
        return -1;
    savedir_remove(c->dir, aside, NULL); /* else the next job does it */
    return 0;
}

/* WRITTEN -> COMMITTED in the place of a checkpoint of the same step: both are whole, and one of them has its name at
 * every moment. */
static int exchange(struct commit *c, ddp_error_t *errp)
{
    struct savedir old;
    if (savedir_enter(&old, c->dir, c->done, errp) < 0) /* a link, or another user's, stays where it is */
        return -1;
    savedir_close(&old);
    if (write_manifest(c, errp) < 0)
        return -1;
    if (renameat2(c->dir->fd, c->saving, c->dir->fd, c->done, RENAME_EXCHANGE) < 0)
        return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
                   ? swap_aside(c, errp)
                   : error_errno(errp, "cannot rename %s to %s in %s", c->saving, c->done, FOLDER_BRIEF(c->dir->path));
    if (savedir_sync(c->dir, errp) < 0)
        return -1;
    savedir_remove(c->dir, c->saving, NULL); /* the old one; else the next job does it */
    return 0;
}

static int commit_in(struct commit *c, ddp_error_t *errp)
{
    /* The folder first: that may take long, and dir be another job's by then. */
    if (savedir_sync(&c->folder, errp) < 0 || commit_check(c->dir, c->token, errp) < 0)
        return -1;
    if (folder_has_manifest(c->dir->fd, c->done))
        return exchange(c, errp);
    if (move(c, errp) < 0)
        return -1;
    if (write_manifest(c, errp) == 0)
        return 0;
    take_back(c);
    return -1;
}

int commit(const struct savedir *dir, const char *token, uint64_t step, const char *manifest, size_t n,
           ddp_error_t *errp)
{
    struct commit c = {.dir = dir, .token = token, .manifest = manifest, .n = n};
    saving_name(token, step, c.saving);
    folder_name(step, c.done);
    if (commit_check(dir, token, errp) < 0 || savedir_enter(&c.folder, dir, c.saving, errp) < 0)
        return -1;
    int rc = commit_in(&c, errp);
    savedir_close(&c.folder);
    return rc;
}

int commit_abandon(const struct savedir *dir, const char *token, uint64_t step, const struct files *f,
                   ddp_error_t *errp)
{
    struct savedir folder;
    char name[COMMIT_SAVING_MAX];
    saving_name(token, step, name);
    if (f->n_small && savedir_enter(&folder, dir, name, NULL) == 0) {
        for (int i = 0; i < f->n_small; i++)
            savedir_remove_file(&folder, f->small[i].name, NULL);
        savedir_close(&folder);
    }
    return savedir_remove(dir, name, errp) == 0 ? 0 : -1;
}
