#include "config.h"
#include "spank/guards.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/lobby.h"
#include "runtime/base/resolve.h"
#include "spank/listen.h"

#define NAME_LEN 16           /* of the token: names the unix socket; the rest of it is the secret */
#define SECRET_LEN (GUARDS_TOKEN_LEN - NAME_LEN)
#define HEAD_LEN (SECRET_LEN + 8 + 64)
#define MESSAGE_LEN (4 + DEATH_BYTES)
#define STRANGERS_MAX 256
#define STRANGER_S 2.0
#define HANDSHAKE_S 1.0       /* from the connect to the answer */
#define RESOLVE_S 3.0         /* once, before anything else */
#define JOIN_S 120.0          /* for a guard above that has not started yet */
#define REPORT_S 1.0          /* a death waits no longer for that */
#define RETRY_MS_MAX 500
#define BEAT_S 1.0
#define LOST_S 0.2            /* from the loss of a guard to the verdict: at a step's end Slurm kills them all */

enum { TOLD_BEAT, TOLD_DEATH, TOLD_VERDICT, TOLD_FAREWELL };

/* How far a connection is. Who asks says who it is, hears that it is let in, and confirms that it has heard that: one
 * that gave up in between is nobody's death. */
enum state { LINK_CONNECTS, LINK_ASKS, LINK_IS_IN };

/* A connection to another guard. */
struct link {
    int fd;
    enum state state;
    bool is_remote, is_over; /* TCP; it has said farewell */
    int rank, node;          /* at the other end */
    char name[HOSTLIST_NAME_MAX + 1];
    uint64_t heard;
    size_t n; /* bytes of a message that are here */
    unsigned char in[MESSAGE_LEN];
    struct link *next;
};

struct guards {
    struct guards_facts f;
    int epoll, listen_fd[2]; /* unix, TCP */
    lobby_t *lobby[2];
    struct link *below, *above; /* above: NULL until it is joined */
    bool is_finished, is_alone; /* alone: there is none above, or it cannot be reached */
    bool is_ending;             /* nobody's end is a death any more */
    struct link *trial;         /* on its way to be the one above; NULL: none is */
    uint64_t join_at;           /* of the next trial, or the end of this one */
    uint64_t join_until, beat_at, looked_at;
    int join_wait_ms, join_port; /* the wait before the next round; which port is next */
    struct addrinfo *above_at, *above_now;
    struct death first, verdict; /* first: what the verdict will be at settle_at */
    uint64_t settle_at;          /* 0: nothing has died */
    struct death lost;           /* who has gone without a farewell, and counts as dead from lost_at on */
    uint64_t lost_at;            /* 0: nobody */
    bool is_lost_above, is_loss_ours, is_ours;
};

/* ---- messages ---- */

static void send_to(const struct link *l, int what, const struct death *d)
{
    unsigned char m[MESSAGE_LEN] = {0};
    bytes_put32(m, (uint32_t)what);
    if (d)
        death_pack(d, m + 4);
    ssize_t n = send(l->fd, m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* who does not read is silent soon */
    if (n > 0 && n < MESSAGE_LEN)
        shutdown(l->fd, SHUT_RDWR); /* what followed would be out of step */
}

static void send_below(const guards_t *g, int what, const struct death *d)
{
    for (const struct link *l = g->below; l; l = l->next)
        if (what != TOLD_BEAT || l->is_remote)
            send_to(l, what, d);
}

/* ---- the verdict ---- */

static void decide(guards_t *g, const struct death *d, bool is_ours)
{
    if (g->verdict.kind != DEATH_NONE)
        return;
    g->verdict = *d;
    g->is_ours = is_ours;
    g->settle_at = 0;
    send_below(g, TOLD_VERDICT, d);
}

/* A death of this guard's program or of one below. */
static void hear(guards_t *g, const struct death *d)
{
    if (g->verdict.kind != DEATH_NONE || (g->lost_at && death_may_follow(d))) /* from that loss, then */
        return;
    if (!g->is_alone && g->above) {
        send_to(g->above, TOLD_DEATH, d);
        return;
    }
    if (g->first.kind == DEATH_NONE || (death_may_follow(&g->first) && !death_may_follow(d)))
        g->first = *d;
    if (!g->settle_at)
        g->settle_at = deadline_in(g->is_alone ? GUARDS_SETTLE_S : REPORT_S);
}

/* The death of a guard, or of a node's. */
static struct death loss_of(const struct link *l, enum death_kind of_node)
{
    struct death d = {.kind = l->is_remote ? of_node : DEATH_GUARD, .rank = l->rank, .how = GUARDS_SILENT_S};
    snprintf(d.node, sizeof d.node, "%s", l->name);
    return d;
}

/* Whoever loses the guard above decides for itself and those below. Of many, the first tells the user; where the loss
 * is seen from another node, one there does. */
static bool is_first_below(const guards_t *g)
{
    return g->above->is_remote ? g->f.node % GUARDS_FAN == 1 : g->f.local_rank == 1 && g->f.n_nodes == 1;
}

static void count_lost(guards_t *g)
{
    g->lost_at = 0;
    if (g->is_ending)
        return;
    if (g->is_lost_above)
        decide(g, &g->lost, g->is_loss_ours);
    else
        hear(g, &g->lost);
}

/* ---- connections ---- */

static struct link *add_link(guards_t *g, int fd, bool is_remote, enum state state)
{
    struct link *l = calloc(1, sizeof *l);
    struct epoll_event e = {.events = state == LINK_CONNECTS ? EPOLLOUT : EPOLLIN, .data.ptr = l};
    if (!l || epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        free(l);
        close(fd);
        return NULL;
    }
    *l = (struct link){.fd = fd, .state = state, .is_remote = is_remote, .heard = clock_ns()};
    if (is_remote)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return l;
}

static void drop(guards_t *g, struct link *l)
{
    for (struct link **p = &g->below; *p; p = &(*p)->next)
        if (*p == l) {
            *p = l->next;
            break;
        }
    if (g->above == l) {
        g->above = NULL;
        g->is_alone = true;
    }
    close(l->fd); /* leaves epoll, too */
    free(l);
}

static void lose(guards_t *g, struct link *l, enum death_kind of_node)
{
    if (l->state == LINK_IS_IN && !l->is_over && g->verdict.kind == DEATH_NONE && !g->lost_at) {
        g->lost = loss_of(l, of_node);
        g->is_lost_above = l == g->above;
        g->is_loss_ours = l == g->above && is_first_below(g);
        g->lost_at = deadline_in(of_node == DEATH_SILENT ? 0 : LOST_S);
    }
    drop(g, l);
}

/* What happened before there was a guard above is told to it now. */
static void tell_above(guards_t *g)
{
    const struct death *d = g->verdict.kind != DEATH_NONE ? &g->verdict : g->settle_at ? &g->first : NULL;
    if (d)
        send_to(g->above, TOLD_DEATH, d);
    if (d == &g->first)
        g->settle_at = 0;
}

/* The one above has let us in, and said who it is. */
static void be_in(guards_t *g, struct link *l, const struct death *who)
{
    l->state = LINK_IS_IN;
    l->rank = who->rank;
    g->above = l;
    g->trial = NULL;
    send_to(l, TOLD_BEAT, NULL);
    tell_above(g);
}

static void take(guards_t *g, struct link *l)
{
    struct death d;
    int what = (int)bytes_get32(l->in);
    death_unpack(l->in + 4, &d);
    if (l == g->trial)
        be_in(g, l, &d);
    else if (l->state == LINK_ASKS)
        l->state = LINK_IS_IN;
    if (what == TOLD_FAREWELL)
        l->is_over = true; /* what comes of it: guards_is_free */
    else if (what == TOLD_DEATH && l != g->above)
        hear(g, &d);
    else if (what == TOLD_VERDICT && l == g->above)
        decide(g, &d, false);
}

/* Reads what is there. False: the connection has ended. */
static bool read_link(guards_t *g, struct link *l)
{
    for (;;) {
        ssize_t n = recv(l->fd, l->in + l->n, sizeof l->in - l->n, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        l->heard = clock_ns();
        l->n += (size_t)n;
        if (l->n == sizeof l->in) {
            l->n = 0;
            take(g, l);
        }
    }
}

/* ---- who comes from below ---- */

static void make_head(const guards_t *g, unsigned char head[HEAD_LEN])
{
    memset(head, 0, HEAD_LEN);
    memcpy(head, g->f.token + NAME_LEN, SECRET_LEN);
    bytes_put32(head + SECRET_LEN, (uint32_t)g->f.rank);
    bytes_put32(head + SECRET_LEN + 4, (uint32_t)g->f.node);
    memcpy(head + SECRET_LEN + 8, g->f.name, strnlen(g->f.name, 63));
}

static bool is_child(const guards_t *g, int node, bool is_remote)
{
    return is_remote ? node > 0 && (node - 1) / GUARDS_FAN == g->f.node : node == g->f.node;
}

/* One whose token is right, but who looks for another node's guard on this host, is turned away. */
static void enter(guards_t *g, int fd, const unsigned char *head, bool is_remote)
{
    int node = (int)bytes_get32(head + SECRET_LEN + 4);
    struct link *l = is_child(g, node, is_remote) ? add_link(g, fd, is_remote, LINK_ASKS) : (close(fd), NULL);
    if (!l)
        return;
    l->rank = (int)bytes_get32(head + SECRET_LEN);
    l->node = node;
    memcpy(l->name, head + SECRET_LEN + 8, 63);
    l->next = g->below;
    g->below = l;
    send_to(l, TOLD_BEAT, &(struct death){.rank = g->f.rank}); /* it is in, and who let it in */
    if (g->verdict.kind != DEATH_NONE)
        send_to(l, TOLD_VERDICT, &g->verdict);
}

static void enter_local(void *arg, int fd, const unsigned char *head)
{
    enter(arg, fd, head, false);
}

static void enter_remote(void *arg, int fd, const unsigned char *head)
{
    enter(arg, fd, head, true);
}

static socklen_t local_name(const guards_t *g, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "ddp-guard-%.*s-%d", NAME_LEN, g->f.token, g->f.node);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int listen_local(const guards_t *g)
{
    struct sockaddr_un a;
    socklen_t n = local_name(g, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    io_close(fd);
    return -1;
}

static int listen_remote(const guards_t *g)
{
    for (int i = 0; i < GUARDS_PORTS; i++) {
        sa_family_t family;
        int fd = g->f.port[i] ? listen_socket(&family) : -1;
        if (fd >= 0 && listen_bind(fd, family, g->f.port[i]) == 0 && listen(fd, SOMAXCONN) == 0)
            return fd;
        io_close(fd);
    }
    return -1;
}

static void let_in(guards_t *g, int i, int fd, lobby_enter_f *enter_f)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &g->lobby[i]};
    g->listen_fd[i] = fd;
    if (fd < 0)
        return;
    g->lobby[i] = lobby_create(&(struct lobby_options){.listen_fd = fd, .head_n = HEAD_LEN,
                                                       .token = g->f.token + NAME_LEN, .token_n = SECRET_LEN,
                                                       .is_same_user = i == 0, .n_max = STRANGERS_MAX,
                                                       .head_s = STRANGER_S, .enter = enter_f, .arg = g}, NULL);
    if (g->lobby[i])
        epoll_ctl(g->epoll, EPOLL_CTL_ADD, lobby_fd(g->lobby[i]), &e);
}

/* ---- joining who is above ---- */

static bool is_joining(const guards_t *g)
{
    return !g->above && !g->is_alone;
}

static int connect_local(const guards_t *g)
{
    struct sockaddr_un a;
    socklen_t n = local_name(g, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, n) == 0 && io_same_user(fd))
        return fd;
    io_close(fd);
    return -1;
}

static int connect_remote(const guards_t *g)
{
    union address to;
    uint16_t port = htons((uint16_t)g->f.port_above[g->join_port]);
    memcpy(&to, g->above_now->ai_addr, g->above_now->ai_addrlen);
    if (to.any.sa_family == AF_INET6)
        to.v6.sin6_port = port;
    else
        to.v4.sin_port = port;
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (connect(fd, &to.any, address_size(&to)) == 0 || errno == EINPROGRESS))
        return fd;
    io_close(fd);
    return -1;
}

/* The next trial's port and address. False: all have been tried, and it begins anew. */
static bool advance(guards_t *g, bool is_address_dead)
{
    if (g->f.local_rank > 0)
        return false;
    while (!is_address_dead && ++g->join_port < GUARDS_PORTS)
        if (g->f.port_above[g->join_port])
            return true;
    g->join_port = 0;
    g->above_now = g->above_now->ai_next;
    if (g->above_now)
        return true;
    g->above_now = g->above_at;
    return false;
}

static void plan_trial(guards_t *g, bool is_address_dead)
{
    g->join_at = clock_ns();
    if (advance(g, is_address_dead))
        return;
    g->join_wait_ms = g->join_wait_ms ? 2 * g->join_wait_ms : 10;
    if (g->join_wait_ms > RETRY_MS_MAX)
        g->join_wait_ms = RETRY_MS_MAX;
    g->join_at = deadline_in(g->join_wait_ms / 1e3);
    g->is_alone = deadline_left_ns(g->join_until) == 0;
}

static void end_trial(guards_t *g, bool is_late)
{
    struct link *l = g->trial;
    bool is_address_dead = is_late && l->is_remote && l->state == LINK_CONNECTS;
    g->trial = NULL;
    drop(g, l);
    plan_trial(g, is_address_dead);
}

static void begin_trial(guards_t *g)
{
    bool is_remote = g->f.local_rank == 0;
    int fd = !is_remote ? connect_local(g) : g->f.port_above[g->join_port] ? connect_remote(g) : -1;
    g->trial = fd < 0 ? NULL : add_link(g, fd, is_remote, LINK_CONNECTS);
    if (!g->trial) {
        plan_trial(g, false);
        return;
    }
    g->trial->node = is_remote ? (g->f.node - 1) / GUARDS_FAN : g->f.node;
    snprintf(g->trial->name, sizeof g->trial->name, "%s", is_remote ? g->f.above : g->f.name);
    g->join_at = deadline_in(HANDSHAKE_S);
}

/* The trial's connection stands, or has failed. */
static void go_on_trial(guards_t *g)
{
    struct link *l = g->trial;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
    unsigned char head[HEAD_LEN];
    int error = 0;
    socklen_t n = sizeof error;
    make_head(g, head);
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error ||
        send(l->fd, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT) != HEAD_LEN ||
        epoll_ctl(g->epoll, EPOLL_CTL_MOD, l->fd, &e) < 0) {
        end_trial(g, false);
        return;
    }
    l->state = LINK_ASKS;
}

static void try_to_join(guards_t *g)
{
    if (g->trial)
        end_trial(g, true);
    else
        begin_trial(g);
}

/* ---- time ---- */

static bool is_due(uint64_t when)
{
    return when && deadline_left_ns(when) == 0;
}

static bool has_remote(const guards_t *g)
{
    bool has = g->above && g->above->is_remote;
    for (const struct link *l = g->below; l && !has; l = l->next)
        has = l->is_remote;
    return has;
}

static bool is_silent(const struct link *l, uint64_t now)
{
    return l->is_remote && !l->is_over && now - l->heard > GUARDS_SILENT_S * NS_PER_S;
}

/* A guard that was stopped with its step, or had no processor, has heard nobody, and nobody is to blame. */
static void forgive(guards_t *g, uint64_t now)
{
    if (now - g->looked_at > (uint64_t)(2.5 * BEAT_S * NS_PER_S)) {
        for (struct link *l = g->below; l; l = l->next)
            l->heard = now;
        if (g->above)
            g->above->heard = now;
    }
    g->looked_at = now;
}

static void beat(guards_t *g)
{
    uint64_t now = clock_ns();
    forgive(g, now);
    if (!is_due(g->beat_at))
        return;
    g->beat_at = deadline_in(BEAT_S);
    send_below(g, TOLD_BEAT, NULL);
    if (g->above && g->above->is_remote)
        send_to(g->above, TOLD_BEAT, NULL);
    for (struct link *l = g->below, *next; l; l = next) {
        next = l->next;
        if (is_silent(l, now))
            lose(g, l, DEATH_SILENT);
    }
    if (g->above && is_silent(g->above, now))
        lose(g, g->above, DEATH_SILENT);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* ---- for the guard ---- */

static void step_link(guards_t *g, struct link *l)
{
    if (l->state == LINK_CONNECTS)
        go_on_trial(g);
    else if (read_link(g, l))
        return;
    else if (l == g->trial)
        end_trial(g, false);
    else
        lose(g, l, DEATH_GONE);
}

static void step_lobby(lobby_t **l)
{
    if (*l && lobby_step(*l, NULL) < 0) { /* out of descriptors, and not because of strangers */
        lobby_destroy(*l);
        *l = NULL;
    }
}

guards_t *guards_open(const struct guards_facts *f)
{
    guards_t *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    *g = (guards_t){.f = *f, .listen_fd = {-1, -1}, .looked_at = clock_ns(), .beat_at = deadline_in(BEAT_S),
                    .join_at = clock_ns(), .join_until = deadline_in(JOIN_S)};
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->is_alone = !*f->token || (f->local_rank == 0 && !*f->above);
    if (!g->is_alone && f->local_rank == 0) {
        g->is_alone = resolve_host(f->above, "0", SOCK_STREAM, deadline_in(RESOLVE_S), &g->above_at, NULL) < 0;
        g->above_now = g->above_at;
    }
    bool is_leader = *f->token && f->local_rank == 0;
    if (is_leader && f->local_size > 1)
        let_in(g, 0, listen_local(g), enter_local);
    if (is_leader && f->node * GUARDS_FAN + 1 < f->n_nodes)
        let_in(g, 1, listen_remote(g), enter_remote);
    return g;
}

int guards_fd(const guards_t *g)
{
    return g->epoll;
}

int guards_wait_ms(const guards_t *g)
{
    uint64_t first = earlier(g->settle_at, g->lost_at);
    if (is_joining(g))
        first = earlier(first, g->join_at);
    if (has_remote(g))
        first = earlier(first, g->beat_at);
    return first ? deadline_left_ms(first) : -1;
}

void guards_step(guards_t *g)
{
    struct epoll_event e[64];
    int n = epoll_wait(g->epoll, e, 64, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.ptr == &g->lobby[0] || e[i].data.ptr == &g->lobby[1])
            step_lobby(e[i].data.ptr);
        else
            step_link(g, e[i].data.ptr);
    }
    if (has_remote(g))
        beat(g);
    if (is_joining(g) && is_due(g->join_at))
        try_to_join(g);
    if (is_due(g->lost_at))
        count_lost(g);
    if (is_due(g->settle_at))
        decide(g, &g->first, true);
}

bool guards_is_joined(const guards_t *g)
{
    return g->above || (g->f.local_rank == 0 && !*g->f.above);
}

void guards_report(guards_t *g, const struct death *d)
{
    hear(g, d);
}

void guards_finish(guards_t *g)
{
    g->is_finished = true;
}

void guards_expect_end(guards_t *g)
{
    g->is_ending = true;
}

void guards_leave(guards_t *g)
{
    if (!g->above)
        return;
    send_to(g->above, TOLD_FAREWELL, NULL);
    while (recv(g->above->fd, g->above->in, sizeof g->above->in, MSG_DONTWAIT) > 0)
        ; /* unread, it would reset the connection, and the farewell with it */
    shutdown(g->above->fd, SHUT_WR);
}

const struct death *guards_verdict(const guards_t *g, bool *ret_is_ours)
{
    if (ret_is_ours)
        *ret_is_ours = g->is_ours;
    return g->verdict.kind == DEATH_NONE ? NULL : &g->verdict;
}

bool guards_is_free(const guards_t *g)
{
    bool is_free = g->is_finished && !g->lost_at && !g->settle_at;
    for (const struct link *l = g->below; l && is_free; l = l->next)
        is_free = l->is_over;
    return is_free;
}
