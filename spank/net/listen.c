/* listen.c - see listen.h. */
#include "config.h"
#include "spank/net/listen.h"

#include <errno.h>
#include <errno.h>
#include <netinet/in.h>

#include "runtime/base/door.h"
#include "runtime/base/io.h"

int listen_socket(sa_family_t *ret_family)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *ret_family = AF_INET6;
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int)) == 0)
        return fd;
    io_close(fd);
    *ret_family = AF_INET;
    return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int listen_bind(int fd, sa_family_t family, int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof six)
                              : bind(fd, (struct sockaddr *)&four, sizeof four);
}

bool listen_is_taken(int port)
{
    sa_family_t family;
    int fd = listen_socket(&family);
    bool is_taken = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
                    listen_bind(fd, family, port) < 0 && errno == EADDRINUSE;
    io_close(fd);
    return is_taken;
}

int listen_abstract(const char *name)
{
    struct sockaddr_un a;
    socklen_t n = door_address(name, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && n > 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    io_close(fd);
    return -1;
}

static int bind_range(int fd, sa_family_t family, struct port_range r, ddp_error_t *errp)
{
    uint32_t start = 0, n = (uint32_t)(r.max - r.min) + 1;
    if (io_random(&start, sizeof start, errp) < 0)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (listen_bind(fd, family, r.min + (int)((start % n + i) % n)) == 0)
            return 0;
        else if (errno != EADDRINUSE && errno != EACCES)
            break;
    return error_errno(errp, "no port from %d to %d is free for srun", r.min, r.max);
}

int listen_take_port(int *ret_fd, struct port_range range, ddp_error_t *errp)
{
    sa_family_t family;
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    int fd = listen_socket(&family);
    *ret_fd = fd;
    if (fd < 0)
        return error_errno(errp, "srun gets no socket");
    if (bind_range(fd, family, range, errp) < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return error_errno(errp, "srun's port");
    return ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port : ((struct sockaddr_in *)&sa)->sin_port);
}
