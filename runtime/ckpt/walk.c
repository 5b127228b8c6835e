#include <config.h> /* O_PATH */

#include "runtime/ckpt/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/folder.h"

#define OVERFLOW_UID 65534 /* kernel.overflowuid, unless somebody has changed it */
#define LINKS_MAX 40       /* as the kernel has it */

struct walk {
    int fd;                     /* the folder that was reached (O_PATH) */
    char rest[FOLDER_PATH_MAX]; /* of the way */
    int n_links;
    bool makes;      /* folders that are not there */
    bool is_exposed; /* walk.h */
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
    return error_errno(errp, "cannot %s the folder %s%s", w->makes ? "make" : "open", path, folder_lacks(w->fd));
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

/* May a link of that owner's, in the folder of `in`'s, be followed? One that is not trusted has led us from then on. */
static bool may_follow(struct walk *w, uid_t owner, const struct stat *in)
{
    if (is_trusted(owner))
        return true;
    if (owner != in->st_uid || (w->is_led && w->led_by != owner))
        return false;
    w->is_led = true;
    w->led_by = owner;
    w->makes = false;
    return true;
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
    if (!may_follow(w, link->st_uid, &in))
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
    if (fd >= 0 || errno != ENOENT || !w->makes || (mkdirat(w->fd, name, WALK_FOLDER_MODE) < 0 && errno != EEXIST))
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

/* The folder at the end of the way; its descriptor, or -1. */
static int arrive(const struct walk *w, const char *path, struct walk_end *ret, ddp_error_t *errp)
{
    int fd = openat(w->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &ret->st) < 0)
        explain_way(w, path, errp);
    else if (w->is_led && ret->st.st_uid != w->led_by)
        error_set(errp, DDP_E_USAGE, EPERM, "%.120s: a link of another user's (uid %u) leads to what is not his: name "
                  "the folder itself", path, (unsigned)w->led_by);
    else
        return fd;
    io_close(fd);
    return -1;
}

int walk_open(const char *path, bool makes, struct walk_end *ret, ddp_error_t *errp)
{
    struct walk w = {.fd = -1, .makes = makes};
    if (snprintf(w.rest, sizeof w.rest, "%s", path) >= (int)sizeof w.rest)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.150s: the path is too long", path);
    int rc = walk_from(&w, path) < 0 ? explain_way(&w, path, errp) : 0;
    while (rc == 0 && w.rest[0])
        rc = step_on(&w, path, errp);
    int fd = rc == 0 ? arrive(&w, path, ret, errp) : -1;
    ret->is_exposed = w.is_exposed;
    io_close(w.fd);
    return fd;
}
