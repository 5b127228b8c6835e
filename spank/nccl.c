#include "config.h"
#include "spank/nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/resolve.h"
#include "spank/step/hostlist.h"

#define CONF_BYTES_MAX 65536

bool nccl_conf_sets(const char *text, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = text, *end = text + n, *next; p < end; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        next = newline ? newline + 1 : end;
        if ((size_t)(next - p) > len && !memcmp(p, name, len) && p[len] == '=')
            return true;
    }
    return false;
}

static bool file_sets(const char *file, const char *name)
{
    char *text = malloc(CONF_BYTES_MAX);
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = text && fd >= 0 ? read(fd, text, CONF_BYTES_MAX) : -1;
    bool found = n > 0 && nccl_conf_sets(text, (size_t)n, name);
    io_close(fd);
    free(text);
    return found;
}

bool nccl_is_configured(const char *name, lookup_f lookup, void *arg)
{
    char file[PATH_MAX];
    const char *own = lookup("NCCL_CONF_FILE", arg), *home = lookup("HOME", arg);
    if (lookup(name, arg) || file_sets("/etc/nccl.conf", name))
        return true;
    if (own && *own)
        return file_sets(own, name);
    if (!home || snprintf(file, sizeof file, "%s/.nccl.conf", home) >= (int)sizeof file)
        return false;
    return file_sets(file, name);
}

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                               &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

/* Interfaces found so far: none, one, or several, which is as good as none. */
struct found {
    char name[NCCL_INTERFACE_TEXT];
    bool is_several, is_loopback;
};

static void add_found(struct found *f, const struct ifaddrs *i)
{
    if (i->ifa_flags & IFF_LOOPBACK)
        f->is_loopback = true;
    else if (!f->name[0])
        snprintf(f->name, sizeof f->name, "%s", i->ifa_name);
    else
        f->is_several |= strcmp(f->name, i->ifa_name) != 0;
}

/* The kernel chooses a route, and with it an address of ours, when a datagram socket is connected. Nothing is sent. */
static bool find_local(const struct addrinfo *to, struct sockaddr_storage *ret)
{
    socklen_t len = sizeof *ret;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)ret, &len) == 0;
    io_close(fd);
    return found;
}

int nccl_interface(const char *host, uint64_t deadline, char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp)
{
    struct addrinfo *to;
    struct ifaddrs *mine = NULL;
    struct found f = {"", false, false};
    if (resolve_host(host, "9", SOCK_DGRAM, deadline, &to, errp) < 0)
        return -1;
    if (getifaddrs(&mine) < 0) {
        freeaddrinfo(to);
        return error_errno(errp, "cannot list this node's network interfaces");
    }
    for (const struct addrinfo *a = to; a; a = a->ai_next) {
        struct sockaddr_storage local;
        if (!find_local(a, &local))
            continue;
        for (const struct ifaddrs *i = mine; i; i = i->ifa_next)
            if (is_same_host(i->ifa_addr, (const struct sockaddr *)&local))
                add_found(&f, i);
    }
    freeifaddrs(mine);
    freeaddrinfo(to);
    if (!f.name[0] || f.is_several || f.is_loopback)
        return error_set(errp, DDP_E_SYSTEM, ENODEV, "host %.64s is reached %s", host,
                         f.is_several    ? "through several interfaces"
                         : f.is_loopback ? "through the loopback interface"
                                         : "through no interface");
    memcpy(buf, f.name, sizeof f.name);
    return 0;
}

struct other {
    const char *own;
    char *ret;
};

static int is_other(const char *host, void *arg)
{
    struct other *o = arg;
    if (!strcmp(host, o->own))
        return 0;
    strcpy(o->ret, host);
    return 1;
}

int nccl_step_interface(const char *master, const char *list, const char *own, uint64_t deadline,
                        char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp)
{
    char host[HOSTLIST_NAME_MAX + 1];
    struct other o = {own, host};
    bool has_other = list && hostlist_each(list, is_other, &o, NULL) == 1;
    if (has_other && !strcmp(master, own))
        return nccl_interface(host, deadline, buf, errp);
    if (nccl_interface(master, deadline, buf, errp) == 0)
        return 0;
    return has_other ? nccl_interface(host, deadline, buf, errp) : -1;
}
