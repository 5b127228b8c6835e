#include "runtime/ckpt/savedir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/walk.h"

#define FOLDER_MODE WALK_FOLDER_MODE
#define FILE_MODE 0644

/* ---- the folder itself ---- */

static int open_path(struct savedir *ret, const char *path, const struct savedir_known *known, bool makes,
                     ddp_error_t *errp)
{
    struct walk_end end;
    int fd = walk_open(path, makes, &end, errp);
    if (fd >= 0 && known && end.st.st_ino != known->inode) {
        error_set(errp, DDP_E_USAGE, ESTALE, "%s is another folder than when this job began: nothing is written or "
                  "removed there", FOLDER_BRIEF(path));
        io_close(fd);
        fd = -1;
    }
    if (fd < 0)
        return -1;
    ret->fd = fd;
    ret->known = known ? *known : (struct savedir_known){end.st.st_ino, geteuid()};
    ret->is_exposed = end.is_exposed;
    ret->n_removed = NULL;
    strcpy(ret->path, path); /* it has been walked, so it is not too long */
    return 0;
}

int savedir_open(struct savedir *ret, const char *path, const struct savedir_known *known, ddp_error_t *errp)
{
    return open_path(ret, path, known, false, errp);
}

int savedir_create(struct savedir *ret, const char *path, ddp_error_t *errp)
{
    return open_path(ret, path, NULL, true, errp);
}

void savedir_close(struct savedir *dir)
{
    io_close(dir->fd);
    dir->fd = -1;
}

static bool is_own(const struct savedir *dir, const struct stat *st)
{
    return st->st_uid == geteuid() || st->st_uid == dir->known.uid;
}

bool savedir_is_shared(const struct savedir *dir, bool is_strict, char *ret, size_t size)
{
    struct stat st;
    char who[80];
    if (fstat(dir->fd, &st) < 0)
        snprintf(who, sizeof who, "who may write to it cannot be told: others may");
    else if (!is_own(dir, &st))
        snprintf(who, sizeof who, "it belongs to another user (uid %u), who can write to it", (unsigned)st.st_uid);
    else if (st.st_mode & S_IWOTH)
        snprintf(who, sizeof who, "everybody can write to it");
    else if (st.st_mode & S_IWGRP)
        snprintf(who, sizeof who, "its group (gid %u) can write to it", (unsigned)st.st_gid);
    else if (is_strict && dir->is_exposed)
        snprintf(who, sizeof who, "others can put another folder in its place");
    else
        return false;
    if (ret)
        snprintf(ret, size, "%s: %s and so remove or replace checkpoints, by ones that make a job do something "
                 "else: use a folder of your own (mkdir -m 755)", FOLDER_BRIEF(dir->path), who);
    return true;
}

/* ---- what lies in it ---- */

static int explain_foreign(const struct savedir *dir, const char *name, const struct stat *st, ddp_error_t *errp)
{
    if (S_ISLNK(st->st_mode))
        return error_set(errp, DDP_E_USAGE, ELOOP, "%s/%.64s is a link, which nothing is written or removed "
                         "through: it stays until you remove it", FOLDER_BRIEF(dir->path), name);
    return error_set(errp, DDP_E_USAGE, EPERM, "%s/%.64s belongs to another user (uid %u): nothing is written "
                     "there, and it stays", FOLDER_BRIEF(dir->path), name, (unsigned)st->st_uid);
}

/* 0: open; 1: a link or another user's, as *errp says; -1: errno, and *errp unless that is ENOENT. */
static int open_folder(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct stat st;
    if (folder_path(ret->path, dir->path, name, errp) < 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    ret->known = dir->known;
    ret->is_exposed = dir->is_exposed;
    ret->n_removed = dir->n_removed;
    ret->fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int saved = errno;
    bool is_told = ret->fd >= 0 ? fstat(ret->fd, &st) == 0 : fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (ret->fd >= 0 && !is_told) {
        saved = errno;
        savedir_close(ret);
    }
    if (is_told && (S_ISLNK(st.st_mode) || !is_own(dir, &st))) {
        savedir_close(ret);
        explain_foreign(dir, name, &st, errp);
        return 1;
    }
    errno = saved;
    if (ret->fd < 0 && errno != ENOENT)
        error_errno(errp, "cannot open the folder %s", FOLDER_BRIEF(ret->path));
    return ret->fd < 0 ? -1 : 0;
}

int savedir_enter(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    int rc = open_folder(ret, dir, name, errp);
    if (rc < 0 && errno == ENOENT)
        error_errno(errp, "cannot open the folder %s", FOLDER_BRIEF(ret->path));
    return rc == 0 ? 0 : -1;
}

int savedir_make(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    if (mkdirat(dir->fd, name, FOLDER_MODE) < 0 && errno != EEXIST)
        return error_errno(errp, "cannot make the folder %s/%s%s", FOLDER_BRIEF(dir->path), name,
                           folder_lacks(dir->fd));
    return savedir_enter(ret, dir, name, errp);
}

int savedir_open_file(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct stat st;
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, FILE_MODE);
    if (fd < 0 && errno == ELOOP && fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return explain_foreign(dir, name, &st, errp);
    if (fd < 0 || fstat(fd, &st) < 0)
        error_errno(errp, "cannot write %s/%s%s", FOLDER_BRIEF(dir->path), name, folder_lacks(dir->fd));
    else if (!is_own(dir, &st))
        explain_foreign(dir, name, &st, errp);
    else if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
        error_set(errp, DDP_E_USAGE, EMLINK, "cannot write %s/%.64s: it is not a regular file that has one name: "
                  "remove it", FOLDER_BRIEF(dir->path), name);
    else if (fcntl(fd, F_SETFL, 0) == 0) /* no write of ours may come back without having waited for a lock */
        return fd;
    else
        error_errno(errp, "cannot write %s/%s", FOLDER_BRIEF(dir->path), name);
    io_close(fd);
    return -1;
}

int savedir_each(const struct savedir *dir, folder_f *f, void *ctx, ddp_error_t *errp)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d)
        return folder_each_of(d, dir->path, f, ctx, errp);
    error_errno(errp, "cannot read the folder %s", FOLDER_BRIEF(dir->path));
    io_close(fd);
    return -1;
}

int savedir_sync(const struct savedir *dir, ddp_error_t *errp)
{
    int rc = fsync(dir->fd);
    if (rc < 0 && errno == EINVAL) /* a file system that has no such thing, and needs none */
        rc = 0;
    return rc < 0 ? error_errno(errp, "cannot write the folder %s to disk", FOLDER_BRIEF(dir->path)) : 0;
}

int savedir_rename(const struct savedir *dir, const char *from, const char *to, ddp_error_t *errp)
{
    if (renameat(dir->fd, from, dir->fd, to) < 0)
        return error_errno(errp, "cannot rename %s to %s in %s", from, to, FOLDER_BRIEF(dir->path));
    return 0;
}

/* It is no error if there is none. */
static int unlink_in(const struct savedir *dir, const char *name, int flags)
{
    int rc = unlinkat(dir->fd, name, flags);
    if (rc == 0 && dir->n_removed)
        ++*dir->n_removed;
    return rc < 0 && errno != ENOENT ? -1 : 0;
}

int savedir_remove_file(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    return unlink_in(dir, name, 0) < 0 ? error_errno(errp, "cannot remove %s/%s", FOLDER_BRIEF(dir->path), name) : 0;
}

int savedir_look(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct savedir folder;
    struct stat st;
    int rc = open_folder(&folder, dir, name, errp);
    if (rc != 0)
        return rc > 0 || errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    if (fstatat(folder.fd, MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
        rc = S_ISREG(st.st_mode);
    else if (errno != ENOENT)
        rc = error_errno(errp, "cannot find out about %s/" MANIFEST_NAME, FOLDER_BRIEF(folder.path));
    savedir_close(&folder);
    return rc;
}

bool savedir_has_own(const struct savedir *dir, const char *name)
{
    return savedir_look(dir, name, NULL) == 1;
}

int savedir_see(struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct stat st;
    if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(errp, "cannot see %s in the folder %s", name, FOLDER_BRIEF(dir->path));
    dir->known.uid = st.st_uid;
    return 0;
}

int savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return error_errno(errp, "cannot write into the folder %s%s", FOLDER_BRIEF(dir->path), folder_lacks(dir->fd));
    close(fd);
    return savedir_see(dir, name, errp);
}

static int remove_entry(void *ctx, const char *path, const char *name, ddp_error_t *errp)
{
    (void)path;
    return savedir_remove_file(ctx, name, errp);
}

static int remove_files(struct savedir *dir, ddp_error_t *errp)
{
    if (unlinkat(dir->fd, MANIFEST_NAME, 0) == 0) {
        if (savedir_sync(dir, errp) < 0)
            return -1;
    } else if (errno != ENOENT) {
        return error_errno(errp, "cannot remove %s/" MANIFEST_NAME, FOLDER_BRIEF(dir->path));
    }
    return savedir_each(dir, remove_entry, dir, errp);
}

/* A folder_f: 1 where no checkpoint of ours has such a file. */
static int look_at_entry(void *ctx, const char *path, const char *name, ddp_error_t *errp)
{
    static const char *const ends[] = {".safetensors", ".json", ".manifest"};
    struct savedir *dir = ctx;
    struct stat st;
    size_t n = strlen(name);
    bool is_known = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is_known |= n >= strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]);
    if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (is_known && !S_ISDIR(st.st_mode))
        return 0;
    error_set(errp, DDP_E_USAGE, EPERM, "%s has %.64s in it, and others can write to the folder above: it stays, "
              "for it may be no checkpoint", FOLDER_BRIEF(path), name);
    return -1;
}

/* A folder_f: what no checkpoint has, and what would be left of one, broken, when all else is removed. */
static int look_for_folder(void *ctx, const char *path, const char *name, ddp_error_t *errp)
{
    struct stat st;
    if (fstatat(((const struct savedir *)ctx)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    return error_set(errp, DDP_E_USAGE, EISDIR, "%s has a folder %.64s in it, and stays until you move that away",
                     FOLDER_BRIEF(path), name);
}

int savedir_remove(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct savedir folder;
    ddp_error_t why = {0};
    int rc = open_folder(&folder, dir, name, errp);
    if (rc != 0)
        return rc < 0 && errno == ENOENT ? 0 : rc;
    if (savedir_is_shared(dir, false, NULL, 0) && !savedir_has_own(dir, name) &&
        savedir_each(&folder, look_at_entry, &folder, errp) < 0)
        rc = 1;
    if (rc == 0 && savedir_each(&folder, look_for_folder, &folder, &why) < 0) {
        rc = why.code == EISDIR ? 1 : -1;
        if (errp)
            *errp = why;
    }
    if (rc == 0)
        rc = remove_files(&folder, errp);
    savedir_close(&folder);
    if (rc == 0 && unlink_in(dir, name, AT_REMOVEDIR) < 0)
        rc = error_errno(errp, "cannot remove the folder %s", FOLDER_BRIEF(folder.path));
    return rc;
}
