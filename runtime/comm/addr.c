/* Which address to listen on, and how to reach one. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/comm/tcp.h"

#define NO_PORT "(no port is free in net.ipv4.ip_local_port_range)"

#define TRY_S 2.0 /* for one attempt to connect */
#define UNREACHED_S 10.0 /* for a host that is not found */
#define AGAIN_MS 200
#define RESOLVE_S 10.0 /* for the look-up of MASTER_ADDR; without an answer the interfaces decide */

static int choose_address(const char *interface, union address *ret, ddp_error_t *errp)
{
    if (interface) {
        if (address_of_interface(interface, ret) == 0)
            return 0;
        return error_set(errp, DDP_E_USAGE, ENODEV,
                         "this machine has no network interface %s (DDP_INTERFACE) that is up and has an address",
                         interface);
    }
    if (address_towards_master(deadline_in(RESOLVE_S), ret, NULL) == 0 || address_of_interface(NULL, ret) == 0)
        return 0;
    *ret = (union address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    return 0; /* a machine without a network: its nodes are all here */
}

/* BBR sends by a timer at the rate that it has estimated, and bursts between the machines of one cluster teach it too
 * low a one: float32 sums between two network namespaces took, in ms, BBR / Reno: 1 MiB 0.57 / 0.30, 25 MiB 14.3 / 6.9.
 * It keeps its timer for good once a connection has begun with it, so that this comes before. Where a site means it,
 * its routes say so ("congctl lock bbr"), and win. */
static void refuse_pacing(int fd)
{
    static const char *const instead[] = {"cubic", "reno"}; /* the second is never missing */
    char name[16] = "";
    socklen_t n = sizeof name - 1;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n) < 0 || !begins(name, "bbr"))
        return;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, instead[i], (socklen_t)strlen(instead[i])) == 0)
            return;
}

int tcp_listen(struct handshake *m, const char *interface, struct tcp_address *ret, ddp_error_t *errp)
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
        return error_errno(errp, "listen on %s%s", ret->host, errno == EADDRINUSE ? " " NO_PORT : "");
    ret->port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    return 0;
}

/* Where all ranks look for all others at once, questions for a neighbour's address are lost, or the kernel's table of
 * neighbours is full for a while. */
static bool may_pass(int error)
{
    return error == EHOSTUNREACH || error == ENOBUFS;
}

/* A SYN that finds the listener's queue full is lost, and the kernel sends the next ones later and later: begin
 * anew. */
static int connect_until(const struct addrinfo *a, uint64_t deadline)
{
    uint64_t found = deadline_in(UNREACHED_S);
    for (;;) {
        uint64_t try = deadline_in(TRY_S);
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        refuse_pacing(fd);
        if (fd < 0 || io_connect(fd, a->ai_addr, a->ai_addrlen, try < deadline ? try : deadline) == 0)
            return fd;
        io_close(fd);
        bool is_passing = may_pass(errno) && deadline_left_ns(found) > 0;
        if ((errno != ETIMEDOUT && !is_passing) || deadline_left_ns(deadline) == 0)
            return -1;
        if (is_passing)
            poll(NULL, 0, AGAIN_MS);
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
        error_errno(errp, "%s is not reached at %s port %u %s", who, to->host, to->port,
                    errno == EADDRNOTAVAIL && a->ai_family == AF_INET
                        ? NO_PORT : "(DDP_INTERFACE names the network interface to use)");
    freeaddrinfo(a);
    return fd;
}
