#include "runtime/base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/io.h"
#include "runtime/base/resolve.h"

socklen_t address_size(const union address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

bool address_is_loopback(const union address *a)
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

int address_of_interface(const char *interface, union address *ret)
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

static bool is_same(const union address *a, const union address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    return a->any.sa_family == AF_INET6 ? IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr)
                                        : a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

int address_towards_master(uint64_t deadline, union address *ret, bool *ret_is_only)
{
    const char *master = getenv("MASTER_ADDR");
    struct addrinfo *list;
    if (!master || !*master || resolve_host(master, "9", SOCK_DGRAM, deadline, &list, NULL) < 0)
        return -1;
    bool may_loop = strcmp(master, "localhost") == 0 || begins(master, "127.") || strcmp(master, "::1") == 0;
    bool is_only = true;
    int rc = -1;
    for (const struct addrinfo *i = list; i; i = i->ai_next) {
        union address a;
        if (source_address(i->ai_addr, i->ai_addrlen, &a) < 0 || (address_is_loopback(&a) && !may_loop))
            continue;
        if (rc == 0) {
            is_only &= is_same(ret, &a);
            continue;
        }
        *ret = a;
        rc = 0;
    }
    freeaddrinfo(list);
    if (ret_is_only)
        *ret_is_only = is_only;
    return rc;
}
