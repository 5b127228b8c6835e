#include "runtime/comm/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

enum { IOV_BATCH = 256, NEWS_MS = 2000 };

/* Memory still to be moved to or from one peer. */
struct queue {
    struct iovec *v;
    size_t n, cap, at; /* v[at..n) is left */
};

struct tcp_conn {
    int rank, fd; /* fd -1: this node itself */
    struct queue out, in;
    uint64_t call;     /* what the peer's part of an exchange begins with */
    bool is_unchecked; /* it has not been compared yet */
    uint64_t deadline; /* of the present wait; every byte that moves puts it off: a slow link is not a dead one */
};

struct tcp {
    const struct world *world;
    int n_nodes;
    double timeout_s;
    struct tcp_conn *conns; /* [n_nodes] */
    struct pollfd *polls;   /* [n_nodes + 1] */
    uint64_t bytes_sent, call;
};

/* ---- exchanges ---- */

static int push(struct queue *q, void *data, size_t n, ddp_error_t *errp)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 16;
        struct iovec *v = realloc(q->v, cap * sizeof *v);
        if (!v)
            return error_errno(errp, "exchange of %zu pieces", cap);
        q->v = v;
        q->cap = cap;
    }
    q->v[q->n++] = (struct iovec){data, n};
    return 0;
}

int tcp_send(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp)
{
    struct tcp_conn *c = &t->conns[node];
    if (n == 0)
        return 0;
    if (c->out.n == 0 && push(&c->out, &t->call, sizeof t->call, errp) < 0)
        return -1;
    t->bytes_sent += n;
    return push(&c->out, data, n, errp);
}

int tcp_recv(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp)
{
    struct tcp_conn *c = &t->conns[node];
    if (n == 0)
        return 0;
    if (c->in.n == 0 && push(&c->in, &c->call, sizeof c->call, errp) < 0)
        return -1;
    c->is_unchecked = true;
    return push(&c->in, data, n, errp);
}

static bool has_more(const struct queue *q)
{
    return q->at < q->n;
}

static void advance(struct queue *q, size_t n)
{
    while (n > 0 && n >= q->v[q->at].iov_len)
        n -= q->v[q->at++].iov_len;
    if (n > 0) {
        q->v[q->at].iov_base = (char *)q->v[q->at].iov_base + n;
        q->v[q->at].iov_len -= n;
    }
    if (!has_more(q))
        q->n = q->at = 0;
}

static struct msghdr batch(const struct queue *q)
{
    size_t n = q->n - q->at;
    return (struct msghdr){.msg_iov = q->v + q->at, .msg_iovlen = n < IOV_BATCH ? n : IOV_BATCH};
}

/* Moves what can be moved now. -1: the connection has failed (errno; 0: it was closed). */
static int pump(struct tcp *t, struct tcp_conn *c)
{
    if (has_more(&c->out)) {
        struct msghdr m = batch(&c->out);
        ssize_t n = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n > 0) {
            advance(&c->out, (size_t)n);
            c->deadline = deadline_in(t->timeout_s);
        }
    }
    if (has_more(&c->in)) {
        struct msghdr m = batch(&c->in);
        ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);
        errno = n == 0 ? 0 : errno;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        if (n > 0) {
            advance(&c->in, (size_t)n);
            c->deadline = deadline_in(t->timeout_s);
        }
    }
    return 0;
}

/* Has the peer just been found to make another call? */
static bool differs(const struct tcp *t, struct tcp_conn *c)
{
    if (!c->is_unchecked || (c->in.at == 0 && has_more(&c->in)))
        return false;
    c->is_unchecked = false;
    return c->call != t->call;
}

/* A closed connection is a consequence: its cause is on its way over the control connections. Only if none comes is the
 * peer itself the cause. */
static int conn_failed(struct tcp *t, const struct tcp_conn *c, watch_t *w, enum watch_what what, int err,
                       ddp_error_t *errp)
{
    int node = t->world->node_of[c->rank], gone = -1;
    uint64_t until = deadline_in(NEWS_MS / 1000.0);
    while (!watch_is_broken(w) && (gone = watch_left_on_node(w, node)) < 0 && deadline_left_ns(until) > 0) {
        watch_waits_for(w, c->rank);
        poll(&(struct pollfd){.fd = watch_event_fd(w), .events = POLLIN}, 1, deadline_left_ms(until));
        watch_event_clear(w);
    }
    if (gone >= 0)
        watch_raise(w, WATCH_LEFT, gone, t->world->rank, what);
    else if (err == 0 || err == ECONNRESET || err == EPIPE)
        watch_raise(w, WATCH_DIED, c->rank, WATCH_STATUS_UNKNOWN, what);
    else
        watch_raise(w, WATCH_LOST, c->rank, err, what);
    return watch_error(w, errp);
}

static short events_of(const struct tcp_conn *c)
{
    return (short)((has_more(&c->out) ? POLLOUT : 0) | (has_more(&c->in) ? POLLIN : 0));
}

/* What to poll for; the last is the watch. Returns the peer whose deadline is next, or NULL when all is done. */
static const struct tcp_conn *set_polls(struct tcp *t, watch_t *w)
{
    const struct tcp_conn *next = NULL;
    for (int k = 0; k < t->n_nodes; k++) {
        const struct tcp_conn *c = &t->conns[k];
        short events = events_of(c);
        t->polls[k] = (struct pollfd){.fd = events ? c->fd : -1, .events = events};
        if (events && (!next || c->deadline < next->deadline))
            next = c;
    }
    t->polls[t->n_nodes] = (struct pollfd){.fd = watch_event_fd(w), .events = POLLIN};
    return next;
}

int tcp_exchange(struct tcp *t, watch_t *w, enum watch_what what, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(t->timeout_s);
    for (int k = 0; k < t->n_nodes; k++)
        t->conns[k].deadline = deadline;
    for (;;) {
        for (int k = 0; k < t->n_nodes; k++) {
            struct tcp_conn *c = &t->conns[k];
            if (events_of(c) && pump(t, c) < 0)
                return conn_failed(t, c, w, what, errno, errp);
            if (differs(t, c)) {
                watch_differs(w, c->rank, c->call, t->world->rank, t->call);
                return watch_error(w, errp);
            }
        }
        const struct tcp_conn *next = set_polls(t, w);
        if (!next) {
            watch_waits_for(w, -1);
            return 0;
        }
        if (watch_is_broken(w))
            return watch_error(w, errp);
        watch_waits_for(w, next->rank);
        if (deadline_left_ns(next->deadline) == 0 && watch_is_late(w, next->rank, next->deadline, t->timeout_s, what))
            continue;
        int n = poll(t->polls, (nfds_t)t->n_nodes + 1, deadline_left_ms(watch_alarm(next->deadline)));
        if (n > 0 && t->polls[t->n_nodes].revents)
            watch_event_clear(w);
    }
}

void tcp_set_call(struct tcp *t, uint64_t call)
{
    t->call = call;
}

uint64_t tcp_bytes_sent(const struct tcp *t)
{
    return t->bytes_sent;
}

/* ---- wire-up ---- */

struct wire {
    const struct world *world;
    int node;
    const struct meet *own;
    const struct tcp_peer *peers;
    bool is_leader;
    double timeout_s;
    uint64_t deadline;
    struct tcp_conn *conns;
    struct watch_peer *control; /* [n_nodes], by node; for leaders */
};

static void tune(int fd, double timeout_s)
{
    int one = 1, big = 4 << 20, idle = 5, interval = 2, probes = timeout_s > 200 ? 127 : (int)(timeout_s / 2) + 8;
    /* Later than our own deadline, which knows whom to blame: a stopped peer is no broken connection. */
    int ms = timeout_s > 86400 ? 2 * 86400000 : (int)(timeout_s * 2000) + 10000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one); /* a node that vanished while nobody sends */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* Lower nodes listen, higher nodes call. Greetings go out to all before anyone waits for an answer, so that the order
 * in which ranks come does not matter. */
static int call(struct wire *x, int node, enum meet_kind kind, int *ret_fd, ddp_error_t *errp)
{
    const struct tcp_peer *p = &x->peers[node];
    char who[96];
    world_rank_name(x->world, p->rank, who, sizeof who);
    *ret_fd = tcp_connect(&p->address, who, x->deadline, errp);
    if (*ret_fd < 0)
        return -1;
    tune(*ret_fd, x->timeout_s);
    return meet_call(*ret_fd, &p->meet, x->world, p->rank, kind, x->deadline, errp);
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
    struct meet_guest *guests = calloc(n + 1, sizeof *guests);
    if (!guests)
        return error_errno(errp, "wire-up");
    for (size_t i = 0; i < n; i++) {
        guests[i].rank = x->peers[x->node + 1 + (int)(i % n_higher)].rank;
        guests[i].kind = i < n_higher ? MEET_DATA : MEET_CONTROL;
    }
    int rc = n > 0 ? meet_accept(x->own, x->world, guests, n, false, x->deadline, errp) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int node = x->node + 1 + (int)(i % n_higher);
        *(i < n_higher ? &x->conns[node].fd : &x->control[node].fd) = guests[i].fd;
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char who[96];
        tune(guests[i].fd, x->timeout_s);
        rc = meet_answer(guests[i].fd, x->own, world_rank_name(x->world, guests[i].rank, who, sizeof who), -1, errp);
    }
    free(guests);
    return rc;
}

static int hear_lower(struct wire *x, ddp_error_t *errp)
{
    for (int k = 0; k < x->node; k++) {
        const struct meet *m = &x->peers[k].meet;
        char who[96];
        world_rank_name(x->world, x->peers[k].rank, who, sizeof who);
        if (meet_answered(x->conns[k].fd, m, who, NULL, x->deadline, errp) < 0)
            return -1;
        if (x->is_leader && meet_answered(x->control[k].fd, m, who, NULL, x->deadline, errp) < 0)
            return -1;
    }
    return 0;
}

/* Takes this node's empty place out of the list. */
static void compact(struct wire *x)
{
    memmove(&x->control[x->node], &x->control[x->node + 1],
            (size_t)(x->world->n_nodes - 1 - x->node) * sizeof *x->control);
}

struct tcp *tcp_wire(const struct world *w, const struct meet *own, const struct tcp_peer *peers, double timeout_s,
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
        t->polls = calloc(n + 1, sizeof *t->polls);
    }
    if (!t || !x.control || !t->conns || !t->polls) {
        error_errno(errp, "wire-up");
        free(x.control);
        tcp_destroy(t);
        return NULL;
    }
    x.conns = t->conns;
    for (size_t k = 0; k < n; k++) {
        t->conns[k] = (struct tcp_conn){.rank = peers[k].rank, .fd = -1};
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

void tcp_destroy(struct tcp *t)
{
    int saved = errno;
    for (int k = 0; t && t->conns && k < t->n_nodes; k++) {
        io_close(t->conns[k].fd);
        free(t->conns[k].out.v);
        free(t->conns[k].in.v);
    }
    if (t) {
        free(t->conns);
        free(t->polls);
    }
    free(t);
    errno = saved;
}
