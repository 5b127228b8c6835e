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
#define CONNECT_S 1.0
#define RESOLVE_S 3.0
#define JOIN_S 120.0          /* for a guard above that has not started yet */
#define REPORT_S 1.0          /* a death waits no longer for that */
#define RETRY_MS_MAX 500
#define BEAT_S 1.0
#define LOST_S 0.2            /* from the loss of a guard to the verdict: at a step's end Slurm kills them all */

enum { TOLD_BEAT, TOLD_DEATH, TOLD_VERDICT, TOLD_FAREWELL };

/* A connection to another guard. */
struct link {
    int fd;
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
    uint64_t join_at, join_until, beat_at, looked_at;
    int join_wait_ms;
    struct addrinfo *above_at;
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
    (void)!send(l->fd, m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* who does not read is silent soon */
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

static bool is_by_itself(const struct death *d)
{
    return d->kind == DEATH_ENDED && (d->how & 0x7f) == 0; /* an exit code */
}

/* A death of this guard's program or of one below. */
static void hear(guards_t *g, const struct death *d)
{
    if (g->verdict.kind != DEATH_NONE)
        return;
    if (!g->is_alone && g->above) {
        send_to(g->above, TOLD_DEATH, d);
        return;
    }
    if (g->first.kind == DEATH_NONE || (is_by_itself(&g->first) && !is_by_itself(d)))
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
    if (g->is_lost_above)
        decide(g, &g->lost, g->is_loss_ours);
    else
        hear(g, &g->lost);
}

/* ---- connections ---- */

static struct link *add_link(guards_t *g, int fd, bool is_remote)
{
    struct link *l = calloc(1, sizeof *l);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
    if (!l || epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        free(l);
        close(fd);
        return NULL;
    }
    *l = (struct link){.fd = fd, .is_remote = is_remote, .heard = clock_ns()};
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
    if (!l->is_over && g->verdict.kind == DEATH_NONE && !g->lost_at) {
        g->lost = loss_of(l, of_node);
        g->is_lost_above = l == g->above;
        g->is_loss_ours = l == g->above && is_first_below(g);
        g->lost_at = deadline_in(of_node == DEATH_SILENT ? 0 : LOST_S);
    }
    drop(g, l);
}

static void take(guards_t *g, struct link *l)
{
    struct death d;
    int what = (int)bytes_get32(l->in);
    death_unpack(l->in + 4, &d);
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
    struct link *l = is_child(g, node, is_remote) ? add_link(g, fd, is_remote) : (close(fd), NULL);
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
        int fd = listen_socket(&family);
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

static int connect_local(const guards_t *g)
{
    struct sockaddr_un a;
    socklen_t n = local_name(g, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && io_connect(fd, (struct sockaddr *)&a, n, deadline_in(CONNECT_S)) == 0 && io_same_user(fd))
        return fd;
    io_close(fd);
    return -1;
}

static int connect_remote(const guards_t *g, int port)
{
    union address to;
    memcpy(&to, g->above_at->ai_addr, g->above_at->ai_addrlen);
    if (to.any.sa_family == AF_INET6)
        to.v6.sin6_port = htons((uint16_t)port);
    else
        to.v4.sin_port = htons((uint16_t)port);
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && io_connect(fd, &to.any, address_size(&to), deadline_in(CONNECT_S)) == 0)
        return fd;
    io_close(fd);
    return -1;
}

/* Says who we are, and hears that we are in. Takes fd. */
static bool introduce(guards_t *g, int fd, bool is_remote)
{
    unsigned char head[HEAD_LEN], answer[MESSAGE_LEN];
    struct death who;
    uint64_t until = deadline_in(CONNECT_S);
    if (fd < 0)
        return false;
    make_head(g, head);
    if (io_send_all(fd, head, sizeof head, until, "", NULL) < 0 ||
        io_recv_all(fd, answer, sizeof answer, until, "", NULL) < 0) {
        close(fd);
        return false;
    }
    g->above = add_link(g, fd, is_remote);
    if (!g->above)
        return false;
    g->above->node = is_remote ? (g->f.node - 1) / GUARDS_FAN : g->f.node;
    death_unpack(answer + 4, &who);
    g->above->rank = who.rank;
    snprintf(g->above->name, sizeof g->above->name, "%s", is_remote ? g->f.above : g->f.name);
    return true;
}

static bool join(guards_t *g)
{
    if (g->f.local_rank > 0)
        return introduce(g, connect_local(g), false);
    if (!g->above_at && resolve_host(g->f.above, "0", SOCK_STREAM, deadline_in(RESOLVE_S), &g->above_at, NULL) < 0)
        return false;
    for (int i = 0; i < GUARDS_PORTS; i++) {
        int fd = connect_remote(g, g->f.port_above[i]);
        if (introduce(g, fd, true))
            return true;
        if (fd < 0 && errno == ETIMEDOUT) /* nor will another port answer */
            break;
    }
    return false;
}

static bool is_joining(const guards_t *g)
{
    return !g->above && !g->is_alone;
}

/* What happened before there was a guard above is told to it now. */
static void tell_above(guards_t *g)
{
    if (g->settle_at)
        hear(g, &g->first);
    g->settle_at = 0;
}

static void try_to_join(guards_t *g)
{
    if (join(g)) {
        tell_above(g);
        return;
    }
    g->join_wait_ms = g->join_wait_ms ? 2 * g->join_wait_ms : 10;
    if (g->join_wait_ms > RETRY_MS_MAX)
        g->join_wait_ms = RETRY_MS_MAX;
    g->join_at = deadline_in(g->join_wait_ms / 1e3);
    g->is_alone = deadline_left_ns(g->join_until) == 0;
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
        else if (!read_link(g, e[i].data.ptr))
            lose(g, e[i].data.ptr, DEATH_GONE);
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

void guards_leave(guards_t *g)
{
    if (g->above)
        send_to(g->above, TOLD_FAREWELL, NULL);
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
