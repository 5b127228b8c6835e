#include "runtime/ckpt/export.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/reader.h"

#define PART_BYTES ((size_t)4 << 20)
_Static_assert(PART_BYTES % CKPT_BLOCK_BYTES == 0, "parts are whole blocks");

struct export
{
    const char *path;
    const struct manifest *m;
    size_t *tensor; /* [n]: those of the group */
    size_t n;
    int out;
    int *fd_cache;
    char *part; /* [PART_BYTES] */
};

/* What follows a group's name in those of its files has one length (files.h). */
static bool is_of(const char *file, const char *group)
{
    size_t n = strlen(group);
    return !strncmp(file, group, n) && strlen(file + n) == strlen("-00001-of-00001.safetensors");
}

/* ---- in ---- */

static int begin(struct export *x, const char *group, ddp_error_t *errp)
{
    const struct manifest *m = x->m;
    x->tensor = malloc((m->n_tensors + 1) * sizeof *x->tensor);
    x->fd_cache = malloc((m->n_files + 1) * sizeof *x->fd_cache);
    x->part = malloc(PART_BYTES);
    for (size_t i = 0; x->fd_cache && i < m->n_files; i++)
        x->fd_cache[i] = -1;
    if (!x->tensor || !x->fd_cache || !x->part)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to export %s", x->path);
    for (size_t i = 0; i < m->n_tensors; i++)
        if (is_of(m->file[m->tensor[i].at.file].name, group))
            x->tensor[x->n++] = i;
    return x->n ? 0 : error_set(errp, DDP_E_USAGE, EINVAL, "%s has no tensors in %s-*.safetensors", x->path, group);
}

static void end(struct export *x)
{
    if (x->fd_cache)
        reader_close_files(x->fd_cache, x->m->n_files);
    io_close(x->out);
    free(x->fd_cache);
    free(x->tensor);
    free(x->part);
}

/* ---- out ---- */

static int write_all(int fd, const char *from, size_t n, ddp_error_t *errp)
{
    return io_write_all(fd, from, n) < 0 ? error_errno(errp, "writing") : 0;
}

static int write_head(struct export *x, ddp_error_t *errp)
{
    size_t n;
    struct st_tensor *t = malloc(x->n * sizeof *t);
    if (!t)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", x->n);
    for (size_t i = 0; i < x->n; i++)
        t[i] = x->m->tensor[x->tensor[i]].at.t;
    char *head = st_encode(t, x->n, &n, errp);
    free(t);
    int rc = head ? write_all(x->out, head, n, errp) : -1;
    free(head);
    return rc;
}

static int copy_tensor(struct export *x, size_t t, ddp_error_t *errp)
{
    uint64_t sum = 0, all = x->m->tensor[t].at.t.n_bytes;
    for (uint64_t at = 0; at < all; at += PART_BYTES) {
        size_t n = all - at < PART_BYTES ? (size_t)(all - at) : PART_BYTES;
        if (reader_read(x->path, x->m, t, at, n, x->part, &sum, x->fd_cache, errp) < 0 ||
            write_all(x->out, x->part, n, errp) < 0)
            return -1;
    }
    return sum == x->m->tensor[t].checksum ? 0 : reader_explain_sum(x->path, x->m, t, errp);
}

static int write_file(struct export *x, const char *temporary, ddp_error_t *errp)
{
    x->out = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (x->out < 0)
        return error_errno(errp, "creating it");
    if (write_head(x, errp) < 0)
        return -1;
    for (size_t i = 0; i < x->n; i++)
        if (copy_tensor(x, x->tensor[i], errp) < 0)
            return -1;
    return fsync(x->out) < 0 ? error_errno(errp, "fsync") : 0;
}

static int write_small(const char *temporary, const char *text, size_t n, ddp_error_t *errp)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(errp, "creating it");
    int rc = write_all(fd, text, n, errp);
    if (rc == 0 && fsync(fd) < 0)
        rc = error_errno(errp, "fsync");
    io_close(fd);
    return rc;
}

int export_small(const char *path, const struct manifest *m, const char *name, const struct export_file *to,
                 ddp_error_t *errp)
{
    uint64_t n;
    char *text = reader_text(path, m, name, &n, errp); /* what may lie there by now counts only with the checksum */
    if (!text)
        return -1;
    int rc = write_small(to->temporary, text, n, errp);
    free(text);
    return rc < 0 ? error_prefix(errp, "%.100s", to->file) : 0;
}

int export_group(const char *path, const struct manifest *m, const char *group, const struct export_file *to,
                 ddp_error_t *errp)
{
    struct export x = {.path = path, .m = m, .out = -1};
    int rc = begin(&x, group, errp);
    if (rc == 0 && write_file(&x, to->temporary, errp) < 0)
        rc = error_prefix(errp, "%.100s", to->file);
    end(&x);
    return rc;
}

int export_move(const struct export_file *to, ddp_error_t *errp)
{
    char *copy = strdup(to->file);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, rc = 0;
    if (fd < 0 || rename(to->temporary, to->file) < 0 || fsync(fd) < 0) {
        error_errno(errp, "renaming");
        rc = error_prefix(errp, "%.100s", to->file);
    }
    io_close(fd);
    free(copy);
    return rc;
}
