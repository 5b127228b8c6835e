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

#include "runtime/base/io.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/put.h"
#include "runtime/ckpt/store.h"

#define SAVING ".saving-"
#define WRITER ".writer"
#define UNFINISHED ".manifest" /* until it is whole */

/* "DIR/.saving-TOKEN-step-00000100" and "DIR/step-00000100". */
static int paths(const char *dir, const char *token, uint64_t step, char saving[FOLDER_PATH_MAX],
                 char done[FOLDER_PATH_MAX], ddp_error_t *errp)
{
    char name[32], hidden[128];
    folder_name(step, name);
    snprintf(hidden, sizeof hidden, SAVING "%.40s-%s", token, name);
    return folder_path(saving, dir, hidden, errp) < 0 || folder_path(done, dir, name, errp) < 0 ? -1 : 0;
}

int commit_folder(const char *dir, const char *token, uint64_t step, char *ret, size_t size, ddp_error_t *errp)
{
    char saving[FOLDER_PATH_MAX], done[FOLDER_PATH_MAX];
    if (paths(dir, token, step, saving, done, errp) < 0)
        return -1;
    if (strlen(saving) >= size)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.150s: the path is too long", saving);
    if (mkdir(saving, 0777) < 0 && errno != EEXIST)
        return error_errno(errp, "cannot make the folder %s", saving);
    strcpy(ret, saving);
    return 0;
}

/* ---- whose saves count ---- */

/* Is the token in DIR/.writer this job's? With none there another has taken dir over, and left. */
static int is_own(const char *dir, const char *token, bool *ret, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX], found[2 * COMMIT_TOKEN_BYTES + 1] = "";
    *ret = false;
    if (folder_path(path, dir, WRITER, errp) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
    if (n < 0)
        error_errno(errp, "cannot read %s", path);
    io_close(fd);
    *ret = n >= 0 && !strcmp(found, token);
    return n < 0 ? -1 : 0;
}

static int check_writer(const char *dir, const char *token, ddp_error_t *errp)
{
    bool own;
    if (is_own(dir, token, &own, errp) < 0)
        return -1;
    return own ? 0 : error_set(errp, DDP_E_USAGE, EBUSY, "%.120s: another job has begun to save there (" WRITER " is "
                               "not this one's any more): end one of them, or give each a folder", dir);
}

static int take_over(const char *dir, const char *token, ddp_error_t *errp)
{
    char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX], name[64];
    struct put out;
    snprintf(name, sizeof name, WRITER "-%.40s", token);
    if (folder_path(from, dir, name, errp) < 0 || folder_path(to, dir, WRITER, errp) < 0 ||
        put_open(&out, dir, name, strlen(token), errp) < 0)
        return -1;
    if (put_write(&out, token, strlen(token), 0, errp) < 0) {
        put_drop(&out);
        unlink(from);
        return -1;
    }
    int rc = put_close(&out, errp);
    if (rc == 0 && (rc = rename(from, to)) < 0)
        error_errno(errp, "cannot rename %s to %s", from, to);
    if (rc < 0)
        unlink(from);
    return rc;
}

void commit_leave(const char *dir, const char *token)
{
    char path[FOLDER_PATH_MAX];
    bool own;
    if (is_own(dir, token, &own, NULL) == 0 && own && folder_path(path, dir, WRITER, NULL) == 0)
        unlink(path);
}

/* ---- commits ---- */

/* WRITTEN -> RENAMED */
static int move(const char *dir, const char *saving, const char *done, ddp_error_t *errp)
{
    if (folder_sync(saving, errp) < 0 || folder_remove(done, errp) < 0)
        return -1;
    if (rename(saving, done) < 0)
        return error_errno(errp, "cannot rename %s to %s", saving, done);
    if (folder_sync(dir, errp) == 0)
        return 0;
    folder_remove(done, NULL);
    return -1;
}

/* RENAMED -> COMMITTED */
static int write_manifest(const char *dir, const char *token, const char *folder, const char *text, size_t n,
                          ddp_error_t *errp)
{
    char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];
    struct put out;
    if (folder_path(from, folder, UNFINISHED, errp) < 0 || folder_path(to, folder, MANIFEST_NAME, errp) < 0 ||
        put_open(&out, folder, UNFINISHED, n, errp) < 0)
        return -1;
    if (put_write(&out, text, n, 0, errp) < 0) {
        put_drop(&out);
        return -1;
    }
    if (put_close(&out, errp) < 0 || check_writer(dir, token, errp) < 0)
        return -1;
    if (rename(from, to) < 0)
        return error_errno(errp, "cannot rename %s to %s", from, to);
    return folder_sync(folder, errp);
}

/* WRITTEN -> COMMITTED in the place of a checkpoint of the same step: both are whole, and one of them has its name at
 * every moment. 1: this file system cannot exchange names. */
static int exchange(const char *dir, const char *token, const char *saving, const char *done, const char *manifest,
                    size_t n, ddp_error_t *errp)
{
    if (folder_sync(saving, errp) < 0 || write_manifest(dir, token, saving, manifest, n, errp) < 0)
        return -1;
    if (renameat2(AT_FDCWD, saving, AT_FDCWD, done, RENAME_EXCHANGE) < 0)
        return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
                   ? 1 : error_errno(errp, "cannot rename %s to %s", saving, done);
    if (folder_sync(dir, errp) < 0)
        return -1;
    folder_remove(saving, NULL); /* the old one; else the next job does it */
    return 0;
}

int commit(const char *dir, const char *token, uint64_t step, const char *manifest, size_t n, ddp_error_t *errp)
{
    char saving[FOLDER_PATH_MAX], done[FOLDER_PATH_MAX];
    if (paths(dir, token, step, saving, done, errp) < 0 || check_writer(dir, token, errp) < 0)
        return -1;
    int rc = folder_has_manifest(done) ? exchange(dir, token, saving, done, manifest, n, errp) : 1;
    if (rc <= 0)
        return rc;
    if (move(dir, saving, done, errp) < 0)
        return -1;
    if (write_manifest(dir, token, done, manifest, n, errp) < 0) {
        folder_remove(done, NULL);
        return -1;
    }
    return 0;
}

int commit_abandon(const char *dir, const char *token, uint64_t step, ddp_error_t *errp)
{
    char saving[FOLDER_PATH_MAX], done[FOLDER_PATH_MAX];
    return paths(dir, token, step, saving, done, errp) < 0 ? -1 : folder_remove(saving, errp);
}

/* ---- what is no longer wanted ---- */

static int remove_step(const char *dir, uint64_t step, ddp_error_t *errp)
{
    char name[32], path[FOLDER_PATH_MAX];
    folder_name(step, name);
    return folder_path(path, dir, name, errp) < 0 ? -1 : folder_remove(path, errp);
}

int commit_retain(const char *dir, uint64_t newest, int keep, ddp_error_t *errp)
{
    uint64_t *step;
    size_t n;
    int n_kept = 0, rc = folder_steps(dir, &step, &n, errp);
    if (rc < 0)
        return -1;
    for (size_t i = n; rc == 0 && i-- > 0;)
        if (step[i] > newest || n_kept++ >= keep)
            rc = remove_step(dir, step[i], errp);
    free(step);
    return rc;
}

static int remove_left(void *token, const char *dir, const char *name, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX], own[64];
    uint64_t step;
    if (folder_path(path, dir, name, errp) < 0)
        return -1;
    snprintf(own, sizeof own, SAVING "%.40s-", (const char *)token);
    if (!strncmp(name, WRITER "-", strlen(WRITER "-")))
        return unlink(path) < 0 && errno != ENOENT ? error_errno(errp, "cannot remove %s", path) : 0;
    bool is_left = !strncmp(name, SAVING, strlen(SAVING)) ? strncmp(name, own, strlen(own)) != 0
                                                           : folder_step(name, &step) && !folder_has_manifest(path);
    return is_left ? folder_remove(path, errp) : 0;
}

int commit_clean(const char *dir, const char *token, ddp_error_t *errp)
{
    char own[64];
    snprintf(own, sizeof own, "%.40s", token);
    return take_over(dir, token, errp) < 0 ? -1 : folder_each(dir, remove_left, own, errp);
}
