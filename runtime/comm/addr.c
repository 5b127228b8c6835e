/* Which address to listen on, and how to reach one. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/resolve.h"
#include "runtime/comm/tcp.h"

#define TRY_S 2.0 /* for one attempt to connect */
#define RESOLVE_S 10.0 /* for the look-up of MASTER_ADDR; without an answer the interfaces decide */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_size(const union address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
}

static bool is_usable(const struct sockaddr *a)
{
    if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
        return false;
    return a->sa_family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* The first address, IPv4 before IPv6, of `interface`, or (NULL) of any that is up and not the loopback. */
static int interface_address(const char *interface, union address *ret)
{
    struct ifaddrs *all;
    int found = 0;
    if (getifaddrs(&all) < 0)
        return -1;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!is_usable(i->ifa_addr) || !(i->ifa_flags & IFF_UP) || found == AF_INET ||
            (found == AF_INET6 && i->ifa_addr->sa_family == AF_INET6))
            continue;
        if (interface ? strcmp(i->ifa_name, interface) != 0 : (i->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        found = i->ifa_addr->sa_family;
        memcpy(ret, i->ifa_addr, found == AF_INET ? sizeof ret->v4 : sizeof ret->v6);
    }
    freeifaddrs(all);
    return found ? 0 : -1;
}

/* The address from which this machine would talk to `to`: its own, where that is `to`. Sends nothing. */
static int source_address(const struct sockaddr *to, socklen_t size, union address *ret)
{
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof *ret;
    int rc = fd >= 0 && connect(fd, to, size) == 0 && getsockname(fd, &ret->any, &n) == 0 ? 0 : -1;
    io_close(fd);
    return rc;
}

/* Debian gives a machine's own name the address 127.0.1.1, which other machines cannot reach: a loopback address counts
 * only where MASTER_ADDR says it by number or as "localhost". */
static int master_source(const char *master, union address *ret)
{
    struct addrinfo *list;
    if (resolve_host(master, "9", SOCK_DGRAM, deadline_in(RESOLVE_S), &list, NULL) < 0)
        return -1;
    bool may_loop = strcmp(master, "localhost") == 0 || strncmp(master, "127.", 4) == 0 || strcmp(master, "::1") == 0;
    int rc = -1;
    for (const struct addrinfo *i = list; i && rc < 0; i = i->ai_next)
        if (source_address(i->ai_addr, i->ai_addrlen, ret) == 0 && (may_loop || !is_loopback(ret)))
            rc = 0;
    freeaddrinfo(list);
    return rc;
}

static int choose_address(const char *interface, union address *ret, ddp_error_t *errp)
{
    const char *master = getenv("MASTER_ADDR");
    if (interface) {
        if (interface_address(interface, ret) == 0)
            return 0;
        return error_set(errp, DDP_E_USAGE, ENODEV,
                         "this machine has no network interface %s that is up and has an address", interface);
    }
    if (master && *master && master_source(master, ret) == 0)
        return 0;
    if (interface_address(NULL, ret) == 0)
        return 0;
    *ret = (union address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    return 0; /* a machine without a network: its nodes are all here */
}

/* BBR sends by a timer at the rate that it has estimated, and bursts between the machines of one cluster teach it too low
 * a one: float32 sums between two network namespaces took, in ms, BBR / Reno: 1 MiB 0.57 / 0.30, 25 MiB 14.3 / 6.9. It keeps
 * its timer for good once a connection has begun with it, so that this comes before. Where a site means it, its routes say so
 * ("congctl lock bbr"), and win. */
static void refuse_pacing(int fd)
{
    static const char *const instead[] = {"cubic", "reno"}; /* the second is never missing */
    char name[16] = "";
    socklen_t n = sizeof name - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n) < 0 || strncmp(name, "bbr", 3) != 0)
        return;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, instead[i], (socklen_t)strlen(instead[i])) == 0)
            return;
}

int tcp_listen(struct meet *m, const char *interface, struct tcp_address *ret, ddp_error_t *errp)
{
    union address a;
    socklen_t n = sizeof a;
    if (choose_address(interface, &a, errp) < 0)
        return -1;
    if (a.any.sa_family == AF_INET6)
        a.v6.sin6_port = 0;
    else
        a.v4.sin_port = 0;
    getnameinfo(&a.any, address_size(&a), ret->host, sizeof ret->host, NULL, 0, NI_NUMERICHOST);
    m->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    refuse_pacing(m->fd); /* connections inherit it */
    if (m->fd < 0 || bind(m->fd, &a.any, address_size(&a)) < 0 || listen(m->fd, SOMAXCONN) < 0 ||
        getsockname(m->fd, &a.any, &n) < 0)
        return error_errno(errp, "listen on %s", ret->host);
    ret->port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    return 0;
}

/* A SYN that finds the listener's queue full is lost, and the kernel sends the next ones later and later: begin anew. */
static int connect_until(const struct addrinfo *a, uint64_t deadline)
{
    for (;;) {
        uint64_t try = deadline_in(TRY_S);
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        refuse_pacing(fd);
        if (fd < 0 || io_connect(fd, a->ai_addr, a->ai_addrlen, try < deadline ? try : deadline) == 0)
            return fd;
        io_close(fd);
        if (errno != ETIMEDOUT || deadline_left_ns(deadline) == 0)
            return -1;
    }
}

int tcp_connect(const struct tcp_address *to, const char *who, uint64_t deadline, ddp_error_t *errp)
{
    char port[8];
    snprintf(port, sizeof port, "%u", to->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *a;
    if (getaddrinfo(to->host, port, &hints, &a) != 0)
        return error_set(errp, DDP_E_COMM, EINVAL, "%s published the address \"%s\", which is none", who, to->host);
    int fd = connect_until(a, deadline);
    if (fd < 0)
        error_errno(errp, "%s is not reached at %s port %u (DDP_INTERFACE names the network interface to use)", who,
                    to->host, to->port);
    freeaddrinfo(a);
    return fd;
}
