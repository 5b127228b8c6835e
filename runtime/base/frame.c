#include "runtime/base/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/bytes.h"

void frame_send(int fd, int kind, const void *body, size_t n)
{
    unsigned char m[FRAME_HEAD + FRAME_BODY_MAX];
    bytes_put32(m, (uint32_t)kind);
    bytes_put32(m + 4, (uint32_t)n);
    if (n)
        memcpy(m + FRAME_HEAD, body, n);
    ssize_t sent = send(fd, m, FRAME_HEAD + n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && (size_t)sent < FRAME_HEAD + n)
        shutdown(fd, SHUT_RDWR);
}

/* 1: `want` bytes are there. */
static int fill(struct frame *f, int fd, size_t want)
{
    ssize_t n = f->n < want ? recv(fd, f->bytes + f->n, want - f->n, MSG_DONTWAIT) : 1;
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    if (f->n < want)
        f->n += (size_t)n;
    return f->n >= want;
}

int frame_next(struct frame *f, int fd, int *ret_kind, size_t *ret_n)
{
    int rc = fill(f, fd, FRAME_HEAD);
    size_t n = rc == 1 ? bytes_get32(f->bytes + 4) : 0;
    if (n > FRAME_BODY_MAX)
        return -1;
    if (rc == 1)
        rc = fill(f, fd, FRAME_HEAD + n);
    if (rc < 1)
        return rc;
    *ret_kind = (int)bytes_get32(f->bytes);
    *ret_n = n;
    f->n = 0;
    return 1;
}
