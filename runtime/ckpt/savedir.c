#include <config.h> /* O_PATH */

#include "runtime/ckpt/savedir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/manifest.h"

#define OVERFLOW_UID 65534 /* kernel.overflowuid, unless somebody has changed it */
#define LINKS_MAX 40 /* on the way to a folder, as the kernel has it */
#define FOLDER_MODE 0755 /* less the umask: whatever that is, nobody else writes to what we make */
#define FILE_MODE 0644

/* ---- the way there ---- */

struct walk {
    int fd;                     /* the folder that was reached (O_PATH) */
    char rest[FOLDER_PATH_MAX]; /* of the way */
    int n_links;
    bool makes;      /* folders that are not there */
    bool is_exposed; /* struct savedir */
    bool is_led;     /* by a link of led_by's */
    uid_t led_by;
};

static int walk_from(struct walk *w, const char *path)
{
    io_close(w->fd);
    w->fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->fd < 0 ? -1 : 0;
}

static int explain_way(const struct walk *w, const char *path, ddp_error_t *errp)
{
    return error_errno(errp, "cannot %s the folder %s", w->makes ? "make" : "open", path);
}

/* In a user namespace root's things may show the kernel's overflow uid. */
static bool is_in_user_namespace(void)
{
    unsigned first = 0, outer = 0, n = 0;
    FILE *f = fopen("/proc/self/uid_map", "re");
    bool is_whole = f && fscanf(f, "%u %u %u", &first, &outer, &n) == 3 && first == 0 && outer == 0 && n == UINT32_MAX;
    if (f)
        fclose(f);
    return f && !is_whole;
}

static bool is_trusted(uid_t owner)
{
    return owner == geteuid() || owner == 0 || (owner == OVERFLOW_UID && is_in_user_namespace());
}

/* The link `fd`, called `name`, in w->fd: the rest of the way begins with what it says. */
static int follow(struct walk *w, int fd, const char *name, const struct stat *link, const char *path,
                  ddp_error_t *errp)
{
    char target[FOLDER_PATH_MAX], rest[FOLDER_PATH_MAX];
    struct stat in;
    ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
    if (n < 0 || fstat(w->fd, &in) < 0)
        return error_errno(errp, "cannot follow the link %s in %s", name, path);
    if (is_trusted(link->st_uid))
        ;
    else if (link->st_uid == in.st_uid && (!w->is_led || w->led_by == link->st_uid)) {
        w->is_led = true;
        w->led_by = link->st_uid;
        w->makes = false;
    } else
        return error_set(errp, DDP_E_USAGE, EPERM, "%.100s: %.50s is a link of another user's (uid %u), who can turn "
                         "it elsewhere: name the folder that it leads to", path, name, (unsigned)link->st_uid);
    target[n] = 0;
    if (++w->n_links > LINKS_MAX || snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= (int)sizeof rest)
        return error_set(errp, DDP_E_USAGE, ELOOP, "%.150s: its links lead nowhere, or too far", path);
    memcpy(w->rest, rest, sizeof rest);
    return *target == '/' && walk_from(w, target) < 0 ? explain_way(w, path, errp) : 0;
}

/* O_DIRECTORY: what an automounter has there is mounted, which a plain O_PATH would not do. */
static int open_next(const struct walk *w, const char *name)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(w->fd, name, flags);
    if (fd >= 0 || errno != ENOENT || !w->makes || (mkdirat(w->fd, name, FOLDER_MODE) < 0 && errno != EEXIST))
        return fd;
    int in = openat(w->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (in >= 0) /* else it may not be read: then as durable as it gets */
        fsync(in);
    io_close(in);
    return openat(w->fd, name, flags);
}

/* One name further. */
static int step_on(struct walk *w, const char *path, ddp_error_t *errp)
{
    char name[FOLDER_PATH_MAX];
    struct stat st;
    char *at = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(at, "/");
    memcpy(name, at, n);
    name[n] = 0;
    memmove(w->rest, at + n, strlen(at + n) + 1);
    if (n == 0)
        return 0;
    int rc = -1, fd = open_next(w, name);
    if (fd >= 0) {
        w->is_exposed |= fstat(w->fd, &st) == 0 && st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX);
        io_close(w->fd);
        w->fd = fd;
        return 0;
    }
    int saved = errno;
    if (saved == ENOTDIR || saved == ELOOP)
        fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        rc = follow(w, fd, name, &st, path, errp);
    } else {
        errno = saved;
        explain_way(w, path, errp);
    }
    io_close(fd);
    return rc;
}

/* The folder that was reached. */
static int check_end(const struct walk *w, const char *path, const struct stat *st, const struct savedir_known *known,
                     ddp_error_t *errp)
{
    if (w->is_led && st->st_uid != w->led_by)
        return error_set(errp, DDP_E_USAGE, EPERM, "%.120s: a link of another user's (uid %u) leads to what is not his: "
                         "name the folder itself", path, (unsigned)w->led_by);
    if (known && st->st_ino != known->inode)
        return error_set(errp, DDP_E_USAGE, ESTALE, "%.150s is another folder than when this job began: nothing is "
                         "written or removed there", path);
    return 0;
}

static int open_path(struct savedir *ret, const char *path, const struct savedir_known *known, bool makes,
                     ddp_error_t *errp)
{
    struct walk w = {.fd = -1, .makes = makes};
    struct stat st;
    int fd = -1;
    if (snprintf(w.rest, sizeof w.rest, "%s", path) >= (int)sizeof w.rest)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.150s: the path is too long", path);
    int rc = walk_from(&w, path) < 0 ? explain_way(&w, path, errp) : 0;
    while (rc == 0 && w.rest[0])
        rc = step_on(&w, path, errp);
    if (rc == 0 && ((fd = openat(w.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || fstat(fd, &st) < 0))
        rc = explain_way(&w, path, errp);
    if (rc == 0)
        rc = check_end(&w, path, &st, known, errp);
    io_close(w.fd);
    if (rc < 0) {
        io_close(fd);
        return -1;
    }
    ret->fd = fd;
    ret->known = known ? *known : (struct savedir_known){st.st_ino, geteuid()};
    ret->is_exposed = w.is_exposed;
    strcpy(ret->path, path);
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
    char who[64];
    if (fstat(dir->fd, &st) < 0)
        return false;
    if (!is_own(dir, &st))
        snprintf(who, sizeof who, "it belongs to another user (uid %u)", (unsigned)st.st_uid);
    else if (st.st_mode & S_IWOTH)
        snprintf(who, sizeof who, "everybody can write to it");
    else if (st.st_mode & S_IWGRP)
        snprintf(who, sizeof who, "its group (gid %u) can write to it", (unsigned)st.st_gid);
    else if (is_strict && dir->is_exposed)
        snprintf(who, sizeof who, "others can put another folder in its place");
    else
        return false;
    if (ret)
        snprintf(ret, size, "%.90s: %s and so remove or replace checkpoints, by ones that make a job do something else: "
             "use a folder of your own (mkdir -m 755)", dir->path, who);
    return true;
}

/* ---- what lies in it ---- */

static int explain_foreign(const struct savedir *dir, const char *name, const struct stat *st, ddp_error_t *errp)
{
    if (S_ISLNK(st->st_mode))
        return error_set(errp, DDP_E_USAGE, ELOOP, "%.100s/%.64s is a link, which nothing is written or removed "
                         "through: it stays until you remove it", dir->path, name);
    return error_set(errp, DDP_E_USAGE, EPERM, "%.100s/%.64s belongs to another user (uid %u): nothing is written "
                     "there, and it stays", dir->path, name, (unsigned)st->st_uid);
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
        error_errno(errp, "cannot open the folder %s", ret->path);
    return ret->fd < 0 ? -1 : 0;
}

int savedir_enter(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    int rc = open_folder(ret, dir, name, errp);
    if (rc < 0 && errno == ENOENT)
        error_errno(errp, "cannot open the folder %s", ret->path);
    return rc == 0 ? 0 : -1;
}

int savedir_make(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    if (mkdirat(dir->fd, name, FOLDER_MODE) < 0 && errno != EEXIST)
        return error_errno(errp, "cannot make the folder %.120s/%s", dir->path, name);
    return savedir_enter(ret, dir, name, errp);
}

int savedir_open_file(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct stat st;
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, FILE_MODE);
    if (fd < 0 && errno == ELOOP && fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return explain_foreign(dir, name, &st, errp);
    if (fd < 0 || fstat(fd, &st) < 0)
        error_errno(errp, "cannot write %.150s/%s", dir->path, name);
    else if (!is_own(dir, &st))
        explain_foreign(dir, name, &st, errp);
    else if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
        error_set(errp, DDP_E_USAGE, EMLINK, "cannot write %.120s/%.64s: it is not a regular file that has one name: "
                  "remove it", dir->path, name);
    else if (fcntl(fd, F_SETFL, 0) == 0) /* no write of ours may come back without having waited for a lock */
        return fd;
    else
        error_errno(errp, "cannot write %.150s/%s", dir->path, name);
    io_close(fd);
    return -1;
}

int savedir_each(const struct savedir *dir, folder_f *f, void *ctx, ddp_error_t *errp)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d)
        return folder_each_of(d, dir->path, f, ctx, errp);
    error_errno(errp, "cannot read the folder %s", dir->path);
    io_close(fd);
    return -1;
}

int savedir_sync(const struct savedir *dir, ddp_error_t *errp)
{
    int rc = fsync(dir->fd);
    if (rc < 0 && errno == EINVAL) /* a file system that has no such thing, and needs none */
        rc = 0;
    return rc < 0 ? error_errno(errp, "cannot write the folder %s to disk", dir->path) : 0;
}

int savedir_rename(const struct savedir *dir, const char *from, const char *to, ddp_error_t *errp)
{
    if (renameat(dir->fd, from, dir->fd, to) < 0)
        return error_errno(errp, "cannot rename %s to %s in %s", from, to, dir->path);
    return 0;
}

int savedir_remove_file(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    return unlinkat(dir->fd, name, 0) < 0 && errno != ENOENT
               ? error_errno(errp, "cannot remove %.150s/%s", dir->path, name) : 0;
}

bool savedir_has_own(const struct savedir *dir, const char *name)
{
    struct savedir folder;
    struct stat st;
    if (open_folder(&folder, dir, name, NULL) != 0)
        return false;
    bool has = fstatat(folder.fd, MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    savedir_close(&folder);
    return has;
}

int savedir_see(struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct stat st;
    if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(errp, "cannot see %s in the folder %s", name, dir->path);
    dir->known.uid = st.st_uid;
    return 0;
}

int savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp)
{
    if (mkdirat(dir->fd, name, FOLDER_MODE) < 0)
        return error_errno(errp, "cannot write into the folder %s", dir->path);
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
        return error_errno(errp, "cannot remove %.150s/" MANIFEST_NAME, dir->path);
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
    error_set(errp, DDP_E_USAGE, EPERM, "%.110s has %.64s in it, and others can write to the folder above: it stays, for it "
              "may be no checkpoint", path, name);
    return -1;
}

int savedir_remove(const struct savedir *dir, const char *name, ddp_error_t *errp)
{
    struct savedir folder;
    int rc = open_folder(&folder, dir, name, errp);
    if (rc != 0)
        return rc < 0 && errno == ENOENT ? 0 : rc;
    if (savedir_is_shared(dir, false, NULL, 0) && !savedir_has_own(dir, name) &&
        savedir_each(&folder, look_at_entry, &folder, errp) < 0)
        rc = 1;
    if (rc == 0)
        rc = remove_files(&folder, errp);
    savedir_close(&folder);
    if (rc == 0 && unlinkat(dir->fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = error_errno(errp, "cannot remove the folder %s", folder.path);
    return rc;
}
