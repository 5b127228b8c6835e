#include "runtime/base/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/call.h"

struct look_up {
    char host[256], port[8];
    struct addrinfo hints, *found;
    int rc;
};

static void look_up(void *arg)
{
    struct look_up *l = arg;
    l->rc = getaddrinfo(l->host, l->port, &l->hints, &l->found);
}

static void drop(void *arg)
{
    struct look_up *l = arg;
    if (l->rc == 0)
        freeaddrinfo(l->found);
}

static int no_such_host(const char *host, int rc, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_BOOT, EHOSTUNREACH, "host %.100s: %s", host, gai_strerror(rc));
}

/* -1: looked up in vain, 1: nobody answered in time. */
static int look_up_within(struct look_up *l, uint64_t deadline, struct addrinfo **ret, ddp_error_t *errp)
{
    int rc = call_within(look_up, drop, l, deadline, errp);
    if (rc != 0)
        return rc;
    if (l->rc != 0)
        return no_such_host(l->host, l->rc, errp);
    *ret = l->found;
    return 0;
}

int resolve_host(const char *host, const char *port, int socktype, uint64_t deadline, struct addrinfo **ret,
                 ddp_error_t *errp)
{
    struct addrinfo hints = {.ai_socktype = socktype, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    int rc = getaddrinfo(host, port, &hints, ret); /* a number needs no resolver */
    if (rc != EAI_NONAME)
        return rc == 0 ? 0 : no_such_host(host, rc, errp);
    struct look_up *l = calloc(1, sizeof *l);
    if (!l)
        return error_errno(errp, "host %.100s", host);
    l->hints = (struct addrinfo){.ai_socktype = socktype, .ai_flags = AI_NUMERICSERV};
    if (snprintf(l->host, sizeof l->host, "%s", host) >= (int)sizeof l->host ||
        snprintf(l->port, sizeof l->port, "%s", port) >= (int)sizeof l->port)
        rc = no_such_host(host, EAI_NONAME, errp);
    else
        rc = look_up_within(l, deadline, ret, errp);
    if (rc == 1)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT,
                         "host %.100s: the resolver does not answer within the deadline: check the name servers of "
                         "/etc/resolv.conf, or give the address as a number", host);
    free(l);
    return rc;
}
