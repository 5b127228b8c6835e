/* Wire-up of the connections between nodes. */
#include "runtime/comm/tcp_impl.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/base/io.h"
#include "runtime/base/retry.h"

struct wire {
    const struct world *world;
    int node;
    const struct handshake *own;
    const struct tcp_peer *peers;
    bool is_leader;
    double timeout_s;
    uint64_t deadline;
    struct tcp_conn *conns;
    struct watch_peer *control; /* [n_nodes], by node; for leaders */
};

static void tune(int fd, double timeout_s)
{
    int one = 1, idle = 5, interval = 2, probes = timeout_s > 200 ? 127 : (int)(timeout_s / 2) + 8;
    /* Later than our own deadline, which knows whom to blame: a stopped peer is no broken connection. */
    int ms = timeout_s > 86400 ? 2 * 86400000 : (int)(timeout_s * 2000) + 10000;
    /* SO_SNDBUF and SO_RCVBUF stay the kernel's to tune. Setting them switches that off and is capped by
     * net.core.wmem_max, 208 KiB by default: 25 MiB all-reduced between two network namespaces took 17.5 ms so, 14.5 ms
     * tuned by the kernel, and 14.4 ms at 4 MiB where the administrator allows it. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one); /* a node that vanished while nobody sends */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* Lower nodes listen, higher nodes call. Greetings go out to all before anyone waits for an answer, so that the order
 * in which ranks come does not matter. A connection that is closed meanwhile is found when the answer is waited for. */
static int call(struct wire *x, int node, enum handshake_kind kind, int *ret_fd, ddp_error_t *errp)
{
    const struct tcp_peer *p = &x->peers[node];
    char who[96];
    world_rank_name(x->world, p->rank, who, sizeof who);
    *ret_fd = tcp_connect(&p->address, who, x->deadline, errp);
    if (*ret_fd < 0)
        return -1;
    tune(*ret_fd, x->timeout_s);
    ddp_error_t e;
    if (handshake_call(*ret_fd, &p->meet, x->world, p->rank, kind, x->deadline, &e) == 0 || e.domain == DDP_E_PEER)
        return 0;
    return error_set(errp, e.domain, e.code, "%s", e.text);
}

static int call_lower(struct wire *x, ddp_error_t *errp)
{
    for (int k = 0; k < x->node; k++) {
        if (call(x, k, MEET_DATA, &x->conns[k].fd, errp) < 0)
            return -1;
        if (x->is_leader && call(x, k, MEET_CONTROL, &x->control[k].fd, errp) < 0)
            return -1;
    }
    return 0;
}

static int admit_higher(struct wire *x, ddp_error_t *errp)
{
    size_t n_higher = (size_t)(x->world->n_nodes - 1 - x->node), n = n_higher * (x->is_leader ? 2 : 1);
    struct handshake_guest *guests = calloc(n + 1, sizeof *guests);
    if (!guests)
        return error_errno(errp, "wire-up");
    for (size_t i = 0; i < n; i++) {
        guests[i].rank = x->peers[x->node + 1 + (int)(i % n_higher)].rank;
        guests[i].kind = i < n_higher ? MEET_DATA : MEET_CONTROL;
    }
    int rc = n > 0 ? handshake_accept(x->own, x->world, guests, n, false, x->deadline, errp) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int node = x->node + 1 + (int)(i % n_higher);
        *(i < n_higher ? &x->conns[node].fd : &x->control[node].fd) = guests[i].fd;
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char who[96];
        tune(guests[i].fd, x->timeout_s);
        world_rank_name(x->world, guests[i].rank, who, sizeof who);
        rc = handshake_answer(guests[i].fd, x->own, who, -1, errp);
    }
    free(guests);
    return rc;
}

/* A call whose answer is awaited. */
struct awaited {
    int node;
    enum handshake_kind kind;
    int *fd;
    bool is_heard;
    struct retry retry;
};

static int await(int epoll, struct awaited *a, ddp_error_t *errp)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = a};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, *a->fd, &e) < 0 ? error_errno(errp, "wire-up") : 0;
}

/* Takes the answer. A listener closes connections of strangers, and among many of them may not have heard us: we call
 * again. One that is not there any more has ended, which its closing told first. */
static int hear(struct wire *x, int epoll, struct awaited *a, ddp_error_t *errp)
{
    const struct tcp_peer *p = &x->peers[a->node];
    char who[96];
    ddp_error_t e;
    world_rank_name(x->world, p->rank, who, sizeof who);
    epoll_ctl(epoll, EPOLL_CTL_DEL, *a->fd, NULL);
    a->is_heard = handshake_answered(*a->fd, &p->meet, who, NULL, x->deadline, &e) == 0;
    if (a->is_heard)
        return 0;
    bool may_retry = e.domain == DDP_E_PEER && retry_wait(&a->retry);
    if (may_retry) {
        io_close(*a->fd);
        may_retry = call(x, a->node, a->kind, a->fd, NULL) == 0;
    }
    return may_retry ? await(epoll, a, errp) : error_set(errp, e.domain, e.code, "%s", e.text);
}

/* All at once: who listens answers none of a rank's connections before it has all. */
static int hear_all(struct wire *x, int epoll, struct awaited *a, size_t n, ddp_error_t *errp)
{
    for (size_t i = 0; i < n; i++)
        if (await(epoll, &a[i], errp) < 0)
            return -1;
    for (size_t first = 0; first < n;) {
        if (a[first].is_heard) {
            first++;
            continue;
        }
        struct epoll_event e = {.data.ptr = &a[first]}; /* whom the deadline is to name */
        if (io_wait(epoll, POLLIN, x->deadline, "wire-up", errp) < 0)
            return -1;
        epoll_wait(epoll, &e, 1, 0);
        if (hear(x, epoll, e.data.ptr, errp) < 0)
            return -1;
    }
    return 0;
}

static int hear_lower(struct wire *x, ddp_error_t *errp)
{
    size_t n = 0;
    struct awaited *a = calloc(2 * (size_t)x->node + 1, sizeof *a);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = a && epoll >= 0 ? 0 : error_errno(errp, "wire-up");
    for (int k = 0; rc == 0 && k < x->node; k++) {
        a[n++] = (struct awaited){.node = k, .kind = MEET_DATA, .fd = &x->conns[k].fd, .retry.deadline = x->deadline};
        if (x->is_leader)
            a[n++] = (struct awaited){.node = k, .kind = MEET_CONTROL, .fd = &x->control[k].fd,
                                      .retry.deadline = x->deadline};
    }
    if (rc == 0)
        rc = hear_all(x, epoll, a, n, errp);
    io_close(epoll);
    free(a);
    return rc;
}

/* Takes this node's empty place out of the list. */
static void compact(struct wire *x)
{
    memmove(&x->control[x->node], &x->control[x->node + 1],
            (size_t)(x->world->n_nodes - 1 - x->node) * sizeof *x->control);
}

struct tcp *tcp_wire(const struct world *w, const struct handshake *own, const struct tcp_peer *peers, double timeout_s,
                     uint64_t deadline, struct watch_peer **ret_control, ddp_error_t *errp)
{
    size_t n = (size_t)w->n_nodes;
    struct tcp *t = calloc(1, sizeof *t);
    struct wire x = {.world = w, .own = own, .peers = peers, .timeout_s = timeout_s, .deadline = deadline};
    x.node = w->node_of[w->rank];
    x.is_leader = w->local_of[w->rank] == 0;
    x.control = calloc(n, sizeof *x.control);
    if (t) {
        *t = (struct tcp){.world = w, .n_nodes = w->n_nodes, .timeout_s = timeout_s};
        t->conns = calloc(n, sizeof *t->conns);
    }
    if (!t || !x.control || !t->conns) {
        error_errno(errp, "wire-up");
        free(x.control);
        tcp_destroy(t);
        return NULL;
    }
    x.conns = t->conns;
    for (size_t k = 0; k < n; k++) {
        t->conns[k] = (struct tcp_conn){.rank = peers[k].rank, .fd = -1};
        t->conns[k].out_end = &t->conns[k].out;
        x.control[k] = (struct watch_peer){.rank = peers[k].rank, .fd = -1, .pidfd = -1};
    }
    if (call_lower(&x, errp) < 0 || admit_higher(&x, errp) < 0 || hear_lower(&x, errp) < 0) {
        for (size_t k = 0; k < n; k++)
            io_close(x.control[k].fd);
        free(x.control);
        tcp_destroy(t);
        return NULL;
    }
    compact(&x);
    if (!x.is_leader) {
        free(x.control);
        x.control = NULL;
    }
    *ret_control = x.control;
    return t;
}
