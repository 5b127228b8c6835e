#include <config.h> /* fallocate, O_DIRECT */

#include "runtime/ckpt/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/io.h"

/* What O_DIRECT wants offsets, lengths and addresses to be multiples of: no disk wants more, and no page is smaller. */
#define BLOCK 4096

/* Sparse files fill up at their own pace, and each hole that is filled takes the file's lock. */
static int allocate(struct outfile *p, uint64_t n_bytes, ddp_error_t *errp)
{
    if (n_bytes == 0)
        return 0;
    int rc;
    do {
        rc = fallocate(p->fd, 0, 0, (off_t)n_bytes);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
        rc = ftruncate(p->fd, (off_t)n_bytes);
    return rc < 0 ? error_errno(errp, "%s: %llu bytes cannot be allocated", p->path, (unsigned long long)n_bytes) : 0;
}

int outfile_open(struct outfile *p, const struct savedir *dir, const char *name, uint64_t n_bytes, ddp_error_t *errp)
{
    if (folder_path(p->path, dir->path, name, errp) < 0)
        return -1;
    p->fd = savedir_open_file(dir, name, errp);
    if (p->fd < 0)
        return -1;
    if (allocate(p, n_bytes, errp) < 0) {
        outfile_drop(p);
        return -1;
    }
    p->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    p->can_direct = n_bytes >= p->page_bytes;
    return 0;
}

/* No file system has to have it. */
static bool set_direct(struct outfile *p, bool on)
{
    return fcntl(p->fd, F_SETFL, on ? O_DIRECT : 0) == 0;
}

/* Writes until n bytes are written, or an error; returns how many were. */
static size_t write_some(int fd, const char *from, size_t n, uint64_t at)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = pwrite(fd, from + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    return done;
}

/* Bytes at the beginning of n that do not fill a page, and what follows in whole pages: no page is written both past
 * the cache and, by a neighbour, through it. */
static void cut(const char *from, size_t n, uint64_t at, size_t page, size_t *ret_edge, size_t *ret_inner)
{
    size_t edge = (page - at % page) % page;
    if ((uintptr_t)from % BLOCK != at % BLOCK || n < edge + page) {
        *ret_edge = n;
        *ret_inner = 0;
    } else {
        *ret_edge = edge;
        *ret_inner = (n - edge) / page * page;
    }
}

int outfile_write(struct outfile *p, const void *data, size_t n, uint64_t at, ddp_error_t *errp)
{
    const char *from = data;
    size_t edge, inner, done = 0;
    cut(from, n, at, p->page_bytes, &edge, &inner);
    if (p->can_direct && inner && (p->can_direct = set_direct(p, true))) {
        done = write_some(p->fd, from + edge, inner, at + edge);
        if (done < inner && errno != EINVAL)
            return error_errno(errp, "cannot write %s", p->path);
        p->can_direct = done > 0; /* else it can be asked for, but not written so: 9p, some FUSE */
        set_direct(p, false);
    }
    size_t rest = edge + done; /* what lies behind the part that is written */
    if (write_some(p->fd, from, edge, at) < edge || write_some(p->fd, from + rest, n - rest, at + rest) < n - rest)
        return error_errno(errp, "cannot write %s", p->path);
    return 0;
}

int outfile_close(struct outfile *p, ddp_error_t *errp)
{
    int rc;
    do {
        rc = fsync(p->fd);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0)
        error_errno(errp, "cannot write %s to disk", p->path);
    outfile_drop(p);
    return rc;
}

void outfile_drop(struct outfile *p)
{
    io_close(p->fd);
    p->fd = -1;
}
