#include <config.h> /* renameat2 */

#include "runtime/ckpt/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/io.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/outfile.h"

#define SAVING ".saving-"
#define OLD "-old" /* behind that */
#define WRITER ".writer"
#define UNFINISHED ".manifest" /* until it is whole */
#define PROBE "-probe"         /* behind .saving-TOKEN */
#define PROBE_S 60             /* the ranks' look for it takes less */
#define SAVING_MAX 96

/* ".saving-TOKEN-step-00000100" */
static void saving_name(const char *token, uint64_t step, char ret[SAVING_MAX])
{
    char name[32];
    folder_name(step, name);
    snprintf(ret, SAVING_MAX, SAVING "%.40s-%s", token, name);
}

int commit_folder(const struct savedir *dir, const char *token, uint64_t step, struct savedir *ret, ddp_error_t *errp)
{
    char name[SAVING_MAX];
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
    int fd = openat(dir->fd, WRITER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
    if (n < 0)
        error_errno(errp, "cannot read %s/" WRITER, FOLDER_BRIEF(dir->path));
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
    if (faccessat(dir->fd, WRITER, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return error_set(errp, DDP_E_USAGE, EBUSY, "%s: another job has begun to save there, and left, or somebody has "
                         "removed " WRITER ": run this one again", FOLDER_BRIEF(dir->path));
    return error_set(errp, DDP_E_USAGE, EBUSY, "%s: another job has begun to save there (" WRITER " is not this one's "
                     "any more): end one of them, or give each a folder", FOLDER_BRIEF(dir->path));
}

/* Where the disk is full, perhaps of what a killed job left, its .writer has room for the token: these few bytes are
 * written as a whole. */
static int overwrite(const struct savedir *dir, const char *token)
{
    size_t n = strlen(token);
    bool is_there = faccessat(dir->fd, WRITER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = is_there ? savedir_open_file(dir, WRITER, NULL) : -1;
    int rc = fd >= 0 && pwrite(fd, token, n, 0) == (ssize_t)n && fsync(fd) == 0 ? 0 : -1;
    io_close(fd);
    return rc;
}

static int take_over(const struct savedir *dir, const char *token, ddp_error_t *errp)
{
    char name[64];
    ddp_error_t e = {0};
    snprintf(name, sizeof name, WRITER "-%.40s", token);
    int rc = write_file(dir, name, token, strlen(token), &e);
    if (rc == 0 && (rc = savedir_rename(dir, name, WRITER, &e)) < 0 && errno == ENOENT)
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
        savedir_remove_file(dir, WRITER, NULL);
}

/* ---- commits ---- */

struct commit {
    const struct savedir *dir;
    struct savedir folder; /* in it, that becomes a checkpoint */
    char saving[SAVING_MAX], done[32];
    const char *token, *manifest;
    size_t n;
};

static void aside_name(const struct commit *c, char ret[SAVING_MAX + 8])
{
    snprintf(ret, SAVING_MAX + 8, "%s" OLD, c->saving);
}

/* Removes DIR/step-N, where that is no checkpoint. It is put aside before it is looked at: another job may have made it
 * one in between, if this process stood still for long. */
static int remove_unfinished(const struct commit *c, ddp_error_t *errp)
{
    char aside[SAVING_MAX + 8];
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
    char aside[SAVING_MAX + 8];
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
    char name[SAVING_MAX];
    saving_name(token, step, name);
    if (f->n_small && savedir_enter(&folder, dir, name, NULL) == 0) {
        for (int i = 0; i < f->n_small; i++)
            savedir_remove_file(&folder, f->small[i].name, NULL);
        savedir_close(&folder);
    }
    return savedir_remove(dir, name, errp) == 0 ? 0 : -1;
}

/* ---- what is no longer wanted ---- */

struct removal {
    const struct savedir *dir;
    const char *token;
    ddp_error_t failed; /* the first that could not be removed */
    ddp_error_t left; /* the first that was left, because it is a link or another user's */
    int n_left;
};

static int remove_folder(struct removal *r, const char *name, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    int rc = savedir_remove(r->dir, name, &why);
    if (rc > 0 && r->n_left++ == 0)
        r->left = why;
    if (rc < 0 && errp)
        *errp = why;
    return rc < 0 ? -1 : 0;
}

/* One that cannot be removed leaves the others none the better. */
static void remove_or_note(struct removal *r, const char *name)
{
    ddp_error_t why = {0};
    if (remove_folder(r, name, &why) < 0 && !r->failed.code)
        r->failed = why;
}

static void leave(struct removal *r, const char *name)
{
    if (r->n_left++ == 0)
        error_set(&r->left, DDP_E_USAGE, EEXIST, "%s/%s was saved by another job since this one looked, and stays: "
                  "give each a folder", FOLDER_BRIEF(r->dir->path), name);
}

static int retain_in(struct removal *r, uint64_t newest, const struct folder_steps *seen, int keep,
                     const struct folder_steps *but, ddp_error_t *errp)
{
    struct folder_steps s = {0};
    int n_kept = 0, rc = savedir_each(r->dir, folder_note_step, &s, errp);
    folder_sort_steps(&s);
    for (size_t i = s.n; rc == 0 && i-- > 0;) {
        char name[32];
        if (but && folder_has_step(but, s.step[i]))
            continue;
        folder_name(s.step[i], name);
        bool is_others = s.step[i] != newest && !folder_has_step(seen, s.step[i]);
        if (is_others && savedir_has_own(r->dir, name))
            leave(r, name);
        else if (is_others) /* nor a checkpoint */
            continue;
        else if (s.step[i] <= newest && n_kept < keep)
            n_kept += savedir_has_own(r->dir, name); /* what another has put there counts for none */
        else
            remove_or_note(r, name);
    }
    free(s.step);
    return rc;
}

void commit_probe_name(const char *token, char ret[COMMIT_PROBE_MAX])
{
    snprintf(ret, COMMIT_PROBE_MAX, SAVING "%.40s" PROBE, token);
}

static bool is_probe(const char *name)
{
    size_t n = strlen(name);
    return begins(name, SAVING) && n > strlen(PROBE) && !strcmp(name + n - strlen(PROBE), PROBE);
}

/* By the clock that has just stamped .writer, the folder's: no two nodes' clocks have to agree. */
static bool is_young_probe(const struct savedir *dir, const char *name)
{
    struct stat probe, writer;
    return is_probe(name) && fstatat(dir->fd, name, &probe, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(dir->fd, WRITER, &writer, AT_SYMLINK_NOFOLLOW) == 0 && writer.st_mtime - probe.st_mtime < PROBE_S;
}

/* What is left of others' saves, and checkpoints that are none. */
static bool is_litter(const struct removal *r, const char *name)
{
    char own[SAVING_MAX];
    uint64_t step;
    snprintf(own, sizeof own, SAVING "%.40s-", r->token);
    if (begins(name, SAVING))
        return !begins(name, own) && !is_young_probe(r->dir, name);
    return folder_step(name, &step) && !folder_has_manifest(r->dir->fd, name);
}

static int remove_litter(void *arg, const char *path, const char *name, ddp_error_t *errp)
{
    struct removal *r = arg;
    ddp_error_t why;
    (void)path, (void)errp;
    if (begins(name, WRITER "-")) {
        if (savedir_remove_file(r->dir, name, &why) < 0 && !r->failed.code)
            r->failed = why;
    } else if (is_litter(r, name) && !(is_probe(name) && savedir_remove_file(r->dir, name, NULL) == 0)) {
        remove_or_note(r, name);
    }
    return 0;
}

/* Says what was left. */
static int end_removal(const struct removal *r, int rc, ddp_error_t *errp)
{
    if (rc == 0 && errp && r->n_left < 2)
        *errp = r->left;
    else if (rc == 0)
        error_set(errp, r->left.domain, r->left.code, "%.230s (and %d more)", r->left.text, r->n_left - 1);
    return rc;
}

int commit_retain(const struct savedir *dir, const char *token, uint64_t newest, const struct folder_steps *seen,
                  int keep, const struct folder_steps *but, ddp_error_t *errp)
{
    struct removal r = {.dir = dir};
    if (commit_check(dir, token, errp) < 0)
        return -1;
    if (retain_in(&r, newest, seen, keep, but, errp) < 0)
        return -1;
    if (r.failed.code && errp)
        *errp = r.failed;
    return r.failed.code ? -1 : end_removal(&r, 0, errp);
}

/* It stays on the list, of which so many have been kept; the first of them says why. */
static void leave_on_list(struct folder_steps *s, size_t *n_left, uint64_t step, const ddp_error_t *why,
                          ddp_error_t *errp)
{
    if (*n_left == 0 && errp)
        *errp = *why;
    s->step[(*n_left)++] = step;
}

int commit_forget(const struct savedir *dir, const char *token, struct folder_steps *s, ddp_error_t *errp)
{
    struct removal r = {.dir = dir};
    size_t n_left = 0;
    if (commit_check(dir, token, errp) < 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        char name[32];
        ddp_error_t why;
        folder_name(s->step[i], name);
        if (remove_folder(&r, name, &why) < 0)
            leave_on_list(s, &n_left, s->step[i], &why, errp);
    }
    s->n = n_left;
    return end_removal(&r, n_left ? -1 : 0, errp);
}

/* Returns how many: 0 where it is gone, or not this user's. */
static int set_aside(const struct savedir *dir, uint64_t step, ddp_error_t *errp)
{
    char name[32], suspect[48];
    folder_name(step, name);
    snprintf(suspect, sizeof suspect, "suspect-%s", name);
    int has = savedir_look(dir, name, errp);
    if (has == 0)
        return 0;
    if (has < 0 || savedir_remove(dir, suspect, errp) != 0 || savedir_rename(dir, name, suspect, errp) < 0)
        return error_prefix(errp, "cannot set %s aside (rename it, or what is in its way)", name);
    return 1;
}

int commit_suspect(const struct savedir *dir, const char *token, struct folder_steps *s, ddp_error_t *errp)
{
    size_t n_left = 0;
    int n = 0;
    if (commit_check(dir, token, errp) < 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        ddp_error_t why;
        int rc = set_aside(dir, s->step[i], &why);
        if (rc < 0)
            leave_on_list(s, &n_left, s->step[i], &why, errp);
        else
            n += rc;
    }
    s->n = n_left;
    return n_left || savedir_sync(dir, errp) < 0 ? -1 : n;
}

/* Nobody else has got further than this job knows of. */
static int check_known(const struct savedir *dir, uint64_t known, ddp_error_t *errp)
{
    struct folder_steps s = {0};
    int rc = savedir_each(dir, folder_note_step, &s, errp);
    for (size_t i = 0; rc == 0 && i < s.n; i++) {
        char name[32];
        folder_name(s.step[i], name);
        if (s.step[i] > known && savedir_has_own(dir, name))
            rc = error_set(errp, DDP_E_USAGE, EBUSY, "%s has %s, which another job has saved since this one "
                           "looked, and which is further: end one of them, or give each a folder",
                           FOLDER_BRIEF(dir->path), name);
    }
    free(s.step);
    return rc;
}

int commit_clean(const struct savedir *dir, const char *token, uint64_t known, ddp_error_t *errp)
{
    struct removal r = {.dir = dir, .token = token};
    ddp_error_t why;
    if (check_known(dir, known, errp) < 0 || take_over(dir, token, errp) < 0)
        return -1;
    if (savedir_each(dir, remove_litter, &r, &why) < 0)
        r.failed = why;
    end_removal(&r, 0, errp);
    if (r.failed.code && errp)
        *errp = r.failed;
    return 0;
}

/* From ".saving-TOKEN-step-00000100-old", whole, to step-00000100, where that is missing. */
static int put_back(void *arg, const char *path, const char *name, ddp_error_t *errp)
{
    const struct removal *r = arg;
    const char *step = strstr(name, "-step-"), *end = name + strlen(name) - strlen(OLD);
    char done[32];
    uint64_t number;
    (void)path, (void)errp;
    if (!begins(name, SAVING) || !step || end <= step || strcmp(end, OLD) != 0)
        return 0;
    snprintf(done, sizeof done, "%.*s", (int)(end - step - 1), step + 1);
    if (folder_step(done, &number) && savedir_has_own(r->dir, name) &&
        faccessat(r->dir->fd, done, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        savedir_rename(r->dir, name, done, NULL);
    return 0;
}

void commit_recover(const struct savedir *dir)
{
    struct removal r = {.dir = dir};
    savedir_each(dir, put_back, &r, NULL);
}
