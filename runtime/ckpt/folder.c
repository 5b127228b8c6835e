#include "runtime/ckpt/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

const char *folder_brief(const char *path, char ret[FOLDER_BRIEF_MAX + 1])
{
    static const char gap[] = "...";
    const size_t n = strlen(path), most = FOLDER_BRIEF_MAX - strlen(gap);
    if (n <= FOLDER_BRIEF_MAX)
        return strcpy(ret, path);
    const char *end = path + n - most, *name = strchr(end, '/');
    snprintf(ret, FOLDER_BRIEF_MAX + 1, "%s%s", gap, name ? name : end);
    return ret;
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

int folder_each_of(DIR *d, const char *dir, folder_f *f, void *ctx, ddp_error_t *errp)
{
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

int folder_each(const char *dir, folder_f *f, void *ctx, ddp_error_t *errp)
{
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : error_errno(errp, "cannot read the folder %s", dir);
    return folder_each_of(d, dir, f, ctx, errp);
}

bool folder_has_step(const struct folder_steps *s, uint64_t step)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->step[i] == step)
            return true;
    return false;
}

uint64_t folder_newest(const struct folder_steps *s)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->step[i] > newest)
            newest = s->step[i];
    return newest;
}

int folder_add_step(struct folder_steps *s, uint64_t step, ddp_error_t *errp)
{
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

int folder_note_step(void *ctx, const char *dir, const char *name, ddp_error_t *errp)
{
    uint64_t step;
    (void)dir;
    return folder_step(name, &step) ? folder_add_step(ctx, step, errp) : 0;
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void folder_sort_steps(struct folder_steps *s)
{
    if (s->n)
        qsort(s->step, s->n, sizeof *s->step, by_step);
}

const char *folder_lacks(int fd)
{
    struct statvfs fs;
    int saved = errno;
    bool none_left = saved == ENOSPC && fstatvfs(fd, &fs) == 0 && fs.f_files > 0 && fs.f_favail == 0;
    errno = saved;
    return none_left ? ", for which there is no inode (df -i)" : "";
}

bool folder_is_local(const char *path)
{
    static const unsigned long types[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,     BTRFS_SUPER_MAGIC,
                                          TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC};
    char above[FOLDER_PATH_MAX];
    struct statfs fs;
    snprintf(above, sizeof above, "%s", path);
    for (char *end; statfs(above, &fs) < 0; *end = 0)
        if (errno != ENOENT || !(end = strrchr(above, '/')) || end == above)
            return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((unsigned long)fs.f_type == types[i])
            return true;
    return false;
}

bool folder_has_manifest(int at_fd, const char *path)
{
    char manifest[FOLDER_PATH_MAX];
    struct stat st;
    return folder_path(manifest, path, MANIFEST_NAME, NULL) < 0 || fstatat(at_fd, manifest, &st, 0) == 0 ||
           (errno != ENOENT && errno != ENOTDIR);
}
