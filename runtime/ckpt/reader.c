#include "runtime/ckpt/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/folder.h"

_Static_assert(sizeof(off_t) == 8, "files over 2 GiB");

#define CURE "restore it, or remove this checkpoint: then the one before it is used"
#define PART_BYTES ((size_t)1 << 20) /* read and summed up at a time, so that the sum finds it in the cache */
#define VERIFY_BYTES ((size_t)4 << 20)

/* ---- who is there ---- */

int reader_list(const char *dir, uint64_t **ret, size_t *ret_n, ddp_error_t *errp)
{
    struct folder_steps s = {0};
    size_t n_kept = 0;
    int rc = folder_each(dir, folder_note_step, &s, errp);
    folder_sort_steps(&s);
    for (size_t i = 0; rc == 0 && i < s.n; i++) {
        char name[32], path[FOLDER_PATH_MAX];
        folder_name(s.step[i], name);
        rc = folder_path(path, dir, name, errp);
        if (rc == 0 && folder_has_manifest(AT_FDCWD, path))
            s.step[n_kept++] = s.step[i];
    }
    if (rc < 0) {
        free(s.step);
        return -1;
    }
    *ret = s.step;
    *ret_n = n_kept;
    return 0;
}

/* ---- files ---- */

static int broken(ddp_error_t *errp, const char *path, const char *name, const char *why)
{
    return error_set(errp, DDP_E_DATA, EINVAL, "%s/%s %s: " CURE, FOLDER_BRIEF(path), name, why);
}

/* Opens a regular file; a pipe or device in its place does not hold anyone up. */
static int open_file(const char *path, const char *name, uint64_t *ret_bytes, ddp_error_t *errp)
{
    char whole[FOLDER_PATH_MAX + FILES_NAME_MAX + 2];
    struct stat st;
    int fd;
    if (snprintf(whole, sizeof whole, "%s/%s", path, name) >= (int)sizeof whole)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "the path of a checkpoint is longer than %d bytes",
                         FOLDER_PATH_MAX);
    while ((fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && errno == EINTR)
        ;
    if (fd < 0 && errno == ENOENT)
        return error_set(errp, DDP_E_DATA, ENOENT, "%s/%s is missing: " CURE, FOLDER_BRIEF(path), name);
    if (fd < 0)
        return error_errno(errp, "%s/%s", FOLDER_BRIEF(path), name);
    if (fstat(fd, &st) < 0) {
        error_errno(errp, "%s/%s", FOLDER_BRIEF(path), name);
    } else if (!S_ISREG(st.st_mode)) {
        broken(errp, path, name, "is not a regular file");
    } else if (fcntl(fd, F_SETFL, 0) < 0) { /* no read of a file is to come back without having waited for a lock */
        error_errno(errp, "%s/%s", FOLDER_BRIEF(path), name);
    } else {
        *ret_bytes = (uint64_t)st.st_size;
        return fd;
    }
    io_close(fd);
    return -1;
}

static int read_at(int fd, void *to, size_t n, uint64_t at, const char *path, const char *name, ddp_error_t *errp)
{
    for (char *p = to; n > 0;) {
        ssize_t r = pread(fd, p, n, (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return error_errno(errp, "%s/%s: reading at byte %" PRIu64, FOLDER_BRIEF(path), name, at);
        if (r == 0)
            return broken(errp, path, name, "became shorter while it was read");
        p += r;
        n -= (size_t)r;
        at += (uint64_t)r;
    }
    return 0;
}

/* The first n bytes; malloc, the caller frees. */
static char *read_start(int fd, size_t n, const char *path, const char *name, ddp_error_t *errp)
{
    char *text = malloc(n + 1);
    if (!text) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s/%s: no memory for %zu bytes of it", FOLDER_BRIEF(path), name, n);
    } else if (read_at(fd, text, n, 0, path, name, errp) < 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- opening ---- */

static int read_manifest(const char *path, struct manifest *ret, ddp_error_t *errp)
{
    uint64_t n;
    int rc = -1, fd = open_file(path, MANIFEST_NAME, &n, errp);
    if (fd < 0)
        return -1;
    if (n > MANIFEST_BYTES_MAX) {
        error_set(errp, DDP_E_DATA, EFBIG, "%s/" MANIFEST_NAME " has %" PRIu64 " bytes, a manifest at most %d MiB: "
                  CURE, FOLDER_BRIEF(path), n, MANIFEST_MIB_MAX);
    } else {
        char *text = read_start(fd, (size_t)n, path, MANIFEST_NAME, errp);
        if (text && (rc = manifest_decode(text, (size_t)n, ret, errp)) < 0)
            error_prefix(errp, "%s", FOLDER_BRIEF(path));
        free(text);
    }
    io_close(fd);
    return rc;
}

/* The step that the last name in `path` gives, as folder_step has it. */
static bool step_of(const char *path, uint64_t *ret)
{
    char name[32];
    size_t end = strlen(path), from;
    while (end > 0 && path[end - 1] == '/')
        end--;
    for (from = end; from > 0 && path[from - 1] != '/';)
        from--;
    if (end - from >= sizeof name)
        return false;
    memcpy(name, path + from, end - from);
    name[end - from] = 0;
    return folder_step(name, ret);
}

static int check_step(const char *path, const struct manifest *m, ddp_error_t *errp)
{
    uint64_t step;
    if (!step_of(path, &step) || step == m->state.step)
        return 0;
    return error_set(errp, DDP_E_DATA, EBADMSG, "%s/" MANIFEST_NAME " is that of step %" PRIu64 ": " CURE,
                     FOLDER_BRIEF(path), m->state.step);
}

static int check_head(int fd, const char *path, const struct manifest_file *f, ddp_error_t *errp)
{
    if (f->head_bytes > MANIFEST_HEAD_BYTES_MAX)
        return broken(errp, path, f->name, "has a head that is too large");
    char *head = read_start(fd, (size_t)f->head_bytes, path, f->name, errp);
    if (!head)
        return -1;
    uint64_t sum = checksum_bytes(head, (size_t)f->head_bytes);
    free(head);
    return sum == f->checksum ? 0 : broken(errp, path, f->name, "is damaged (in its head)");
}

static int check_file(const char *path, const struct manifest_file *f, ddp_error_t *errp)
{
    uint64_t n;
    int rc, fd = open_file(path, f->name, &n, errp);
    if (fd < 0)
        return -1;
    if (n != f->n_bytes)
        rc = error_set(errp, DDP_E_DATA, EINVAL, "%s/%s has %" PRIu64 " bytes, not %" PRIu64 ": " CURE,
                       FOLDER_BRIEF(path), f->name, n, f->n_bytes);
    else
        rc = check_head(fd, path, f, errp);
    io_close(fd);
    return rc;
}

int reader_open(const char *path, struct manifest *ret, ddp_error_t *errp)
{
    struct manifest m;
    if (read_manifest(path, &m, errp) < 0)
        return -1;
    int rc = check_step(path, &m, errp);
    for (size_t i = 0; rc == 0 && i < m.n_files; i++)
        rc = check_file(path, &m.file[i], errp);
    if (rc < 0)
        manifest_clear(&m);
    else
        *ret = m;
    return rc;
}

char *reader_text(const char *path, const struct manifest *m, const char *name, uint64_t *ret_bytes, ddp_error_t *errp)
{
    const struct manifest_file *f = m->file, *end = m->file + m->n_files;
    uint64_t n;
    while (f < end && strcmp(f->name, name) != 0)
        f++;
    if (f == end || f->head_bytes > MANIFEST_HEAD_BYTES_MAX) {
        broken(errp, path, name, "is not in the manifest, or is too large");
        return NULL;
    }
    int fd = open_file(path, name, &n, errp);
    if (fd < 0)
        return NULL;
    char *text = read_start(fd, (size_t)f->head_bytes, path, name, errp);
    io_close(fd);
    if (text && checksum_bytes(text, (size_t)f->head_bytes) != f->checksum) {
        broken(errp, path, name, "is damaged");
        free(text);
        return NULL;
    }
    if (text)
        text[f->head_bytes] = 0;
    *ret_bytes = f->head_bytes;
    return text;
}

/* ---- tensors ---- */

/* The file that *fd_cache[file] is to be. Where the process may open no more, the others make room: a reader goes from
 * one to the next. */
static int open_cached(const char *path, const struct manifest *m, int file, int *fd_cache, ddp_error_t *errp)
{
    const char *name = m->file[file].name;
    ddp_error_t why = {0};
    uint64_t size;
    int fd = open_file(path, name, &size, &why);
    if (fd < 0 && (why.code == EMFILE || why.code == ENFILE)) {
        reader_close_files(fd_cache, m->n_files);
        fd = open_file(path, name, &size, &why);
    }
    if (fd < 0 && errp)
        *errp = why;
    return fd;
}

int reader_read(const char *path, const struct manifest *m, size_t t, uint64_t at, size_t n, void *ret, uint64_t *sum,
                int *fd_cache, ddp_error_t *errp)
{
    const struct files_tensor *where = &m->tensor[t].at;
    const char *name = m->file[where->file].name;
    int *fd = &fd_cache[where->file];
    uint64_t add = 0;
    if (at > where->t.n_bytes || n > where->t.n_bytes - at || at % CKPT_BLOCK_BYTES ||
        (n % CKPT_BLOCK_BYTES && at + n != where->t.n_bytes))
        return error_set(errp, DDP_E_USAGE, EINVAL, "bytes %" PRIu64 " to %" PRIu64 " of tensor %s are not whole "
                         "blocks of its %" PRIu64, at, at + n, where->t.name, where->t.n_bytes);
    if (*fd < 0 && (*fd = open_cached(path, m, where->file, fd_cache, errp)) < 0)
        return -1;
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < PART_BYTES ? n - done : PART_BYTES;
        if (read_at(*fd, (char *)ret + done, part, where->at_bytes + at + done, path, name, errp) < 0)
            return -1;
        add += checksum_blocks((char *)ret + done, part, (at + done) / CKPT_BLOCK_BYTES);
    }
    *sum += add;
    return 0;
}

void reader_close_files(int *fd_cache, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        io_close(fd_cache[i]);
        fd_cache[i] = -1;
    }
}

int reader_explain_sum(const char *path, const struct manifest *m, size_t t, ddp_error_t *errp)
{
    const struct files_tensor *where = &m->tensor[t].at;
    return error_set(errp, DDP_E_DATA, EINVAL, "%s/%s is damaged (tensor %.60s): " CURE, FOLDER_BRIEF(path),
                     m->file[where->file].name, where->t.name);
}

static int verify_tensor(const char *path, const struct manifest *m, size_t t, char *part, int *fd_cache,
                         ddp_error_t *errp)
{
    uint64_t sum = 0, all = m->tensor[t].at.t.n_bytes;
    for (uint64_t at = 0; at < all; at += VERIFY_BYTES) {
        size_t n = all - at < VERIFY_BYTES ? (size_t)(all - at) : VERIFY_BYTES;
        if (reader_read(path, m, t, at, n, part, &sum, fd_cache, errp) < 0)
            return -1;
    }
    return sum == m->tensor[t].checksum ? 0 : reader_explain_sum(path, m, t, errp);
}

int reader_verify(const char *path, const struct manifest *m, ddp_error_t *errp)
{
    char *part = malloc(VERIFY_BYTES);
    int rc = -1, *fd = malloc((m->n_files + 1) * sizeof *fd);
    for (size_t i = 0; fd && i < m->n_files; i++)
        fd[i] = -1;
    if (!part || !fd)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to verify %s", FOLDER_BRIEF(path));
    else
        rc = 0;
    for (size_t t = 0; rc == 0 && t < m->n_tensors; t++)
        rc = verify_tensor(path, m, t, part, fd, errp);
    if (fd)
        reader_close_files(fd, m->n_files);
    free(fd);
    free(part);
    return rc;
}
