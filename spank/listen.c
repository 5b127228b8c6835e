/* listen.c - see listen.h. */
#include "config.h"
#include "spank/listen.h"

#include <errno.h>
#include <netinet/in.h>

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
