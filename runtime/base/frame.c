#include "config.h" /* MSG_CMSG_CLOEXEC */

#include "runtime/base/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"

/* The control data of a message with one descriptor. */
union passing {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

void frame_send_fd(int fd, int kind, const void *body, size_t n, int passed)
{
    unsigned char m[FRAME_HEAD + FRAME_BODY_MAX];
    union passing c = {
        .head = {.cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec v = {.iov_base = m, .iov_len = FRAME_HEAD + n};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    bytes_put32(m, (uint32_t)kind);
    bytes_put32(m + 4, (uint32_t)n);
    if (n)
        memcpy(m + FRAME_HEAD, body, n);
    memcpy(CMSG_DATA(&c.head), &passed, sizeof passed);
    if (passed >= 0) {
        h.msg_control = &c;
        h.msg_controllen = sizeof c;
    }
    ssize_t sent = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && (size_t)sent < FRAME_HEAD + n)
        shutdown(fd, SHUT_RDWR);
}

void frame_send(int fd, int kind, const void *body, size_t n)
{
    frame_send_fd(fd, kind, body, n, -1);
}

int frame_take_fd(struct frame *f)
{
    int fd = f->has_fd ? f->fd : -1;
    f->has_fd = false;
    return fd;
}

static void keep_fd(struct frame *f, struct msghdr *h)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof f->fd))
        return;
    int old = frame_take_fd(f);
    if (old >= 0)
        close(old);
    memcpy(&f->fd, CMSG_DATA(c), sizeof f->fd);
    f->has_fd = true;
}

/* Without room for them the kernel closes descriptors. */
static ssize_t receive(struct frame *f, int fd, size_t want)
{
    union passing c;
    struct iovec v = {.iov_base = f->bytes + f->n, .iov_len = want - f->n};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    if (f->takes_fd) {
        h.msg_control = &c;
        h.msg_controllen = CMSG_LEN(sizeof(int)); /* one: CMSG_SPACE has room for two */
    }
    ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0 && f->takes_fd)
        keep_fd(f, &h);
    return n;
}

/* 1: `want` bytes are there. */
static int fill(struct frame *f, int fd, size_t want)
{
    ssize_t n = f->n < want ? receive(f, fd, want) : 1;
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
