#include "runtime/ckpt/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/ckpt/manifest.h"

#define PREFIX "step-"

int folder_path(char ret[FOLDER_PATH_MAX], const char *dir, const char *name, ddp_error_t *errp)
{
    int n = snprintf(ret, FOLDER_PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= FOLDER_PATH_MAX)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.100s/%.60s: the path is too long", dir, name);
    return 0;
}

void folder_name(uint64_t step, char ret[32])
{
    snprintf(ret, 32, PREFIX "%08" PRIu64, step);
}

bool folder_step(const char *name, uint64_t *ret)
{
    char same[32];
    uint64_t step;
    size_t n = strlen(PREFIX);
    if (strncmp(name, PREFIX, n) != 0 || num_u64(name + n, UINT64_MAX, &step) < 0)
        return false;
    folder_name(step, same);
    *ret = step;
    return !strcmp(name, same);
}

int folder_each(const char *dir, folder_f *f, void *ctx, ddp_error_t *errp)
{
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : error_errno(errp, "cannot read the folder %s", dir);
    int rc = 0;
    struct dirent *entry;
    while (rc >= 0 && (errno = 0, entry = readdir(d)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = f(ctx, dir, entry->d_name, errp);
    if (rc >= 0 && errno)
        rc = error_errno(errp, "cannot read the folder %s", dir);
    closedir(d);
    return rc;
}

struct steps {
    uint64_t *step;
    size_t n, room;
};

static int note_step(void *ctx, const char *dir, const char *name, ddp_error_t *errp)
{
    struct steps *s = ctx;
    uint64_t step;
    (void)dir;
    if (!folder_step(name, &step))
        return 0;
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 16;
        uint64_t *all = realloc(s->step, room * sizeof *all);
        if (!all)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu checkpoints", room);
        s->step = all;
        s->room = room;
    }
    s->step[s->n++] = step;
    return 0;
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int folder_steps(const char *dir, uint64_t **ret, size_t *ret_n, ddp_error_t *errp)
{
    struct steps s = {0};
    if (folder_each(dir, note_step, &s, errp) < 0) {
        free(s.step);
        return -1;
    }
    if (s.n)
        qsort(s.step, s.n, sizeof *s.step, by_step);
    *ret = s.step;
    *ret_n = s.n;
    return 0;
}

bool folder_has_manifest(const char *path)
{
    char manifest[FOLDER_PATH_MAX];
    struct stat st;
    return folder_path(manifest, path, MANIFEST_NAME, NULL) < 0 || stat(manifest, &st) == 0 ||
           (errno != ENOENT && errno != ENOTDIR);
}

int folder_sync(const char *path, ddp_error_t *errp)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -1;
    if (fd >= 0)
        rc = fsync(fd);
    if (rc < 0 && errno == EINVAL) /* a file system that has no such thing, and needs none */
        rc = 0;
    if (rc < 0)
        error_errno(errp, "cannot write the folder %s to disk", path);
    io_close(fd);
    return rc;
}

static int remove_file(void *ctx, const char *dir, const char *name, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX];
    (void)ctx;
    if (folder_path(path, dir, name, errp) < 0)
        return -1;
    return unlink(path) < 0 && errno != ENOENT ? error_errno(errp, "cannot remove %s", path) : 0;
}

int folder_remove(const char *path, ddp_error_t *errp)
{
    char manifest[FOLDER_PATH_MAX];
    if (folder_path(manifest, path, MANIFEST_NAME, errp) < 0)
        return -1;
    int rc = unlink(manifest);
    if (rc < 0 && errno != ENOENT)
        return error_errno(errp, "cannot remove %s", manifest);
    if ((rc == 0 && folder_sync(path, errp) < 0) || folder_each(path, remove_file, NULL, errp) < 0)
        return -1;
    return rmdir(path) < 0 && errno != ENOENT ? error_errno(errp, "cannot remove the folder %s", path) : 0;
}
