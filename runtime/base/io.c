#include "config.h" /* struct ucred */

#include "runtime/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/notice.h"

int io_wait(int fd, short events, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    for (;;) {
        struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = notice_fd(), .events = POLLIN}};
        int n = poll(p, 2, deadline_left_ms(deadline));
        if (n < 0 && errno != EINTR)
            return error_errno(errp, "%s: poll", what);
        if (n > 0 && p[0].revents)
            return 1;
        if (n > 0 && notice_check(errp) < 0)
            return -1;
        if (deadline_left_ns(deadline) == 0)
            return 0;
    }
}

static int wait_fd(int fd, short events, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    int rc = io_wait(fd, events, deadline, what, errp);
    return rc == 0 ? error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s: no answer before the deadline", what) : rc;
}

static ssize_t recv_now(int fd, void *buf, size_t n)
{
    ssize_t r = recv(fd, buf, n, MSG_DONTWAIT);
    return r < 0 && errno == ENOTSOCK ? read(fd, buf, n) : r;
}

static ssize_t send_now(int fd, const void *buf, size_t n)
{
    ssize_t r = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    return r < 0 && errno == ENOTSOCK ? write(fd, buf, n) : r;
}

static int is_gone(int err)
{
    return err == EPIPE || err == ECONNRESET;
}

ssize_t io_recv_some(int fd, void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    for (;;) {
        ssize_t r = recv_now(fd, buf, n);
        if (r > 0)
            return r;
        if (r == 0 || is_gone(errno))
            return error_set(errp, DDP_E_PEER, ECONNRESET, "%s: the connection was closed by the other end", what);
        if (errno != EAGAIN && errno != EINTR)
            return error_errno(errp, "%s: receive", what);
        if (errno == EAGAIN && wait_fd(fd, POLLIN, deadline, what, errp) < 0)
            return -1;
    }
}

int io_recv_all(int fd, void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    ssize_t r;
    for (char *p = buf; n > 0; p += r, n -= (size_t)r)
        if ((r = io_recv_some(fd, p, n, deadline, what, errp)) < 0)
            return -1;
    return 0;
}

int io_send_all(int fd, const void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    for (const char *p = buf; n > 0;) {
        ssize_t r = send_now(fd, p, n);
        if (r >= 0) {
            p += r;
            n -= (size_t)r;
        } else if (is_gone(errno)) {
            return error_set(errp, DDP_E_PEER, ECONNRESET, "%s: the connection was closed by the other end", what);
        } else if (errno == EAGAIN) {
            if (wait_fd(fd, POLLOUT, deadline, what, errp) < 0)
                return -1;
        } else if (errno != EINTR) {
            return error_errno(errp, "%s: send", what);
        }
    }
    return 0;
}

/* Where a unix listener's queue is full only a blocking connect waits in line; polls would find others there first. */
static int connect_in_line(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline)
{
    int flags = fcntl(fd, F_GETFL), rc;
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return -1;
    do {
        uint64_t us = deadline_left_ns(deadline) / 1000 + 1; /* 0 would be without end */
        struct timeval t = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
        rc = connect(fd, to, len);
    } while (rc < 0 && (errno == EINTR || errno == EAGAIN) && deadline_left_ns(deadline) > 0);
    int e = rc < 0 && (errno == EINTR || errno == EAGAIN) ? ETIMEDOUT : errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0}, sizeof(struct timeval));
    fcntl(fd, F_SETFL, flags);
    errno = e;
    return rc;
}

int io_connect(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline)
{
    int n, e = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (connect(fd, to, len) == 0)
        return 0;
    if (errno == EAGAIN && to->sa_family == AF_UNIX)
        return connect_in_line(fd, to, len, deadline);
    if (errno != EINPROGRESS && errno != EINTR)
        return -1;
    while ((n = poll(&p, 1, deadline_left_ms(deadline))) < 0)
        if (errno != EINTR)
            return -1;
    if (n == 0)
        e = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &(socklen_t){sizeof e}) < 0)
        return -1;
    errno = e;
    return e ? -1 : 0;
}

bool io_same_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

ssize_t io_read_up_to(int fd, void *buf, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t r = read(fd, (char *)buf + done, n - done);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -1 : (ssize_t)done;
        done += (size_t)r;
    }
    return (ssize_t)done;
}

int io_open_file(const char *path, uint64_t *ret_bytes, ddp_error_t *errp)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_errno(errp, "cannot read %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        error_set(errp, DDP_E_DATA, EINVAL, "%s is not a regular file", path);
    } else if (fcntl(fd, F_SETFL, 0) < 0) { /* no read may come back without having waited for a lock */
        error_errno(errp, "cannot read %s", path);
    } else {
        *ret_bytes = (uint64_t)st.st_size;
        return fd;
    }
    io_close(fd);
    return -1;
}

char *io_read_file(const char *path, size_t max_bytes, size_t *ret_bytes, ddp_error_t *errp)
{
    uint64_t size;
    char *text = NULL;
    ssize_t n = -1;
    int fd = io_open_file(path, &size, errp);
    if (fd < 0)
        return NULL;
    if (size > max_bytes)
        error_set(errp, DDP_E_DATA, EFBIG, "%s: longer than %zu bytes", path, max_bytes);
    else if (!(text = malloc((size_t)size + 1)))
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %s", path);
    else if ((n = io_read_up_to(fd, text, (size_t)size)) < 0)
        error_errno(errp, "cannot read %s", path);
    io_close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    *ret_bytes = (size_t)n;
    return text;
}

int io_write_all(int fd, const void *buf, size_t n)
{
    for (const char *from = buf; n > 0;) {
        ssize_t w = write(fd, from, n);
        if (w < 0 && errno != EINTR)
            return -1;
        from += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
    return 0;
}

int io_grow(int fd, size_t n_bytes)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && n_bytes > files.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)n_bytes);
}

int io_random(void *buf, size_t n, ddp_error_t *errp)
{
    for (char *p = buf; n > 0;) {
        ssize_t r = getrandom(p, n, 0);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return error_errno(errp, "getrandom");
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

int io_random_hex(char *buf, size_t n, ddp_error_t *errp)
{
    unsigned char raw[64];
    if (n > sizeof raw)
        return error_set(errp, DDP_E_USAGE, EINVAL, "io_random_hex: %zu bytes are more than %zu", n, sizeof raw);
    if (io_random(raw, n, errp) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        snprintf(buf + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

int io_token_equal(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= x[i] ^ y[i];
    return diff == 0;
}

void io_close(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
}
