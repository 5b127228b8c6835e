#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/io.h"
#include "runtime/base/resolve.h"
#include "spank/guards/impl.h"
#include "spank/net/listen.h"

#define STRANGERS_MAX 256
#define STRANGER_S 2.0
#define HANDSHAKE_S 1.0       /* from the connect to the answer */
#define CONNECT_AGAIN_S 0.3   /* where many may have gone: of that a kernel's answer */
#define RETRY_MS_MAX 500
#define RESOLVE_S 3.0         /* once, before anything else */
#define RESOLVE_AGAIN_S 1.0
#define AGAIN_S 10.0          /* to join another one */
#define FINISHED_S 30.0       /* from the program's end, for others to have joined; */
#define ENDING_S 5.0          /* ... for the one above, where programs were asked to end */

/* ---- below ---- */

static bool is_child(const guards_t *g, const struct proof_asker *who, bool is_remote)
{
    bool is_below = is_remote ? who->node > g->f.node && who->node < g->f.n_nodes : who->node == g->f.node;
    return is_below && who->looks_for == g->f.node && who->port == (is_remote ? g->port : 0);
}

/* One whose token is right, but who looks for another node's guard on this host, is turned away. */
static void enter(guards_t *g, int fd, const unsigned char *head, bool is_remote)
{
    struct proof_asker who;
    struct death answer = {.rank = g->f.rank};
    proof_read(head, &who);
    if (!is_child(g, &who, is_remote)) {
        close(fd);
        return;
    }
    struct link *l = link_add(g, fd, is_remote, LINK_ASKS);
    if (!l)
        return;
    l->rank = who.rank;
    l->node = who.node;
    snprintf(l->name, sizeof l->name, "%s", who.name);
    l->next = g->below;
    g->below = l;
    answer.how = beat_appoint(g, l);
    proof_answer(g->f.token, head, answer.node);
    link_send(l, TOLD_BEAT, &answer); /* it is in, and who let it in */
    nodes_tell_left(g, l);
    if (g->generation > 0)
        link_send(l, TOLD_START, &(struct death){.how = g->generation, .restart = g->n_restarts});
    if (g->verdict.kind != DEATH_NONE)
        link_send(l, TOLD_VERDICT, &g->verdict);
    roll_tell(g, l);
    if (g->is_over)
        link_send(l, TOLD_OVER, NULL);
    if (g->is_stopping)
        link_send(l, TOLD_STOP, NULL);
    if (*g->card)
        frame_send(l->fd, TOLD_CARD, g->card, strlen(g->card));
}

static bool check(void *arg, const unsigned char nonce[LOBBY_NONCE_LEN], const unsigned char *head)
{
    const guards_t *g = arg;
    return proof_is_right(g->f.token, nonce, head);
}

static void enter_local(void *arg, int fd, const unsigned char *head)
{
    enter(arg, fd, head, false);
}

static void enter_remote(void *arg, int fd, const unsigned char *head)
{
    enter(arg, fd, head, true);
}

static int listen_remote(guards_t *g)
{
    errno = EADDRINUSE;
    for (int i = 0; i < GUARDS_PORTS; i++) {
        sa_family_t family;
        int fd = g->f.port[i] ? listen_socket(&family) : -1;
        if (fd >= 0 && listen_bind(fd, family, g->f.port[i]) == 0 && listen(fd, SOMAXCONN) == 0) {
            g->port = g->f.port[i];
            return fd;
        }
        io_close(fd);
    }
    return -1;
}

/* -1 with errno: nobody who comes would be heard. A name or ports that others have taken are not our lack. */
static int let_in(guards_t *g, int i, int fd, lobby_enter_f *enter_f)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &g->lobby[i]};
    g->listen_fd[i] = fd;
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS ? -1 : 0;
    g->lobby[i] = lobby_create(&(struct lobby_options){.listen_fd = fd, .head_n = PROOF_HEAD_LEN,
                                                       .check = check, .is_same_user = i == 0, .n_max = STRANGERS_MAX,
                                                       .head_s = STRANGER_S, .enter = enter_f, .arg = g}, NULL);
    return g->lobby[i] ? epoll_ctl(g->epoll, EPOLL_CTL_ADD, lobby_fd(g->lobby[i]), &e) : -1;
}

void join_shut(guards_t *g, lobby_t **lobby)
{
    int *fd = &g->listen_fd[lobby - g->lobby];
    lobby_destroy(*lobby);
    *lobby = NULL;
    io_close(*fd);
    *fd = -1;
}

/* ---- above ---- */

bool join_is_open(const guards_t *g)
{
    return !g->above && !g->is_alone;
}

static int connect_local(const guards_t *g)
{
    char name[DOOR_NAME_MAX];
    struct sockaddr_un a;
    socklen_t n = door_address(door_name(g->f.token, DOOR_OF_NODE, g->f.node, name), &a);
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

/* Asks the resolver, unless it has answered. */
static bool find_above(guards_t *g, double seconds)
{
    if (g->f.local_rank > 0 || g->above_at)
        return true;
    int rc = resolve_host(g->f.above, "0", SOCK_STREAM, deadline_in(seconds), &g->above_at, NULL);
    g->above_now = g->above_at;
    return rc == 0;
}

/* The one above has not come in all that time. In an elastic step it may be lost: then another is to find that the step
 * is not whole, and end it, since Slurm does not. */
static void go_without(guards_t *g)
{
    if (g->f.is_elastic && g->f.local_rank == 0 && !g->is_ending && !g->is_asked)
        join_again(g);
    else
        g->is_alone = true;
}

void join_hurry(guards_t *g)
{
    uint64_t until = deadline_in(g->is_ending && join_is_open(g) ? ENDING_S : FINISHED_S);
    bool is_spare = g->f.is_elastic && !g->is_ending; /* it may be one, which has finished before it begins */
    if (g->is_finished && !is_spare && until < g->join_until)
        g->join_until = until;
}

static void try_later(guards_t *g)
{
    g->join_wait_ms = g->join_wait_ms ? 2 * g->join_wait_ms : 10;
    if (g->join_wait_ms > RETRY_MS_MAX)
        g->join_wait_ms = RETRY_MS_MAX;
    g->join_at = deadline_in(g->join_wait_ms / 1e3);
    if (deadline_left_ns(g->join_until) == 0)
        go_without(g);
}

static void plan_trial(guards_t *g, bool is_address_dead)
{
    g->join_at = clock_ns();
    if (advance(g, is_address_dead))
        return;
    if (g->is_again)
        join_again(g);
    else
        try_later(g);
}

static void end_trial(guards_t *g, bool is_late)
{
    struct link *l = g->trial;
    bool is_address_dead = is_late && l->is_remote && l->state == LINK_CONNECTS;
    g->trial = NULL;
    link_drop(g, l, false);
    plan_trial(g, is_address_dead);
}

static void begin_trial(guards_t *g)
{
    bool is_remote = g->f.local_rank == 0;
    if (!find_above(g, RESOLVE_AGAIN_S)) {
        try_later(g);
        return;
    }
    int fd = !is_remote ? connect_local(g) : g->f.port_above[g->join_port] ? connect_remote(g) : -1;
    g->trial = fd < 0 ? NULL : link_add(g, fd, is_remote, LINK_CONNECTS);
    if (!g->trial) {
        plan_trial(g, false);
        return;
    }
    g->trial->node = is_remote ? g->above_node : g->f.node;
    snprintf(g->trial->name, sizeof g->trial->name, "%s", is_remote ? g->f.above : g->f.name);
    g->join_at = deadline_in(g->is_again ? CONNECT_AGAIN_S : HANDSHAKE_S);
}

/* The trial's connection stands, or has failed. Whoever listens there speaks first. */
void join_call(guards_t *g)
{
    struct link *l = g->trial;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error ||
        epoll_ctl(g->epoll, EPOLL_CTL_MOD, l->fd, &e) < 0) {
        end_trial(g, false);
        return;
    }
    l->state = LINK_CALLS;
    g->n_nonce = 0;
    g->join_at = deadline_in(HANDSHAKE_S);
}

/* It says what is to be answered. */
void join_ask(guards_t *g)
{
    struct link *l = g->trial;
    bool is_remote = g->f.local_rank == 0;
    unsigned char head[PROOF_HEAD_LEN];
    struct proof_asker who = {.rank = g->f.rank, .node = g->f.node,
                              .looks_for = is_remote ? g->above_node : g->f.node,
                              .port = is_remote ? g->f.port_above[g->join_port] : 0};
    snprintf(who.name, sizeof who.name, "%.*s", PROOF_NAME_LEN - 1, g->f.name);
    ssize_t n = recv(l->fd, g->nonce + g->n_nonce, sizeof g->nonce - g->n_nonce, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    g->n_nonce += n > 0 ? (size_t)n : 0;
    if (n > 0 && g->n_nonce < sizeof g->nonce)
        return;
    if (n <= 0 || proof_ask(g->f.token, g->nonce, &who, head) < 0 ||
        send(l->fd, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof head) {
        end_trial(g, false);
        return;
    }
    proof_answer(g->f.token, head, g->answer);
    l->state = LINK_ASKS;
}

void join_step(guards_t *g)
{
    if (g->trial)
        end_trial(g, true);
    else if (g->is_again && !g->is_aimed)
        join_again(g);
    else
        begin_trial(g);
}

void join_fail(guards_t *g)
{
    end_trial(g, false);
}

bool join_succeed(guards_t *g, const struct death *who)
{
    if (!io_token_equal(who->node, g->answer, sizeof g->answer)) {
        end_trial(g, false);
        return false;
    }
    g->above = g->trial;
    g->trial = NULL;
    g->is_again = g->is_teller = false;
    g->has_joined = true;
    g->above->state = LINK_IS_IN;
    g->above->rank = who->rank;
    link_send(g->above, TOLD_BEAT, NULL);
    return true;
}

static void be_root(guards_t *g)
{
    g->f.above[0] = 0;
    g->is_again = false;
    g->is_alone = g->is_new_root = true;
    g->is_whole = g->has_joined; /* else node 0 has not come: round_missing */
}

/* At the one in above_node. */
static bool aim(guards_t *g)
{
    struct addrinfo *at;
    uint64_t deadline = deadline_in(RESOLVE_AGAIN_S);
    if (g->f.find(&g->f, g->above_node, g->f.above, g->f.port_above) < 0 ||
        resolve_host(g->f.above, "0", SOCK_STREAM, deadline, &at, NULL) < 0)
        return false;
    if (g->above_at)
        freeaddrinfo(g->above_at);
    g->above_at = g->above_now = at;
    g->join_port = 0;
    return true;
}

void join_again(guards_t *g)
{
    if (!g->is_again) {
        g->join_until = deadline_in(AGAIN_S);
        g->is_up = true;
    }
    g->is_again = true;
    g->is_alone = false;
    g->is_up = g->is_up && g->above_node > 0;
    g->above_node = g->is_up ? (g->above_node - 1) / GUARDS_FAN : g->above_node + 1;
    if (g->above_node >= g->f.node || deadline_left_ns(g->join_until) == 0) {
        be_root(g);
        return;
    }
    g->is_aimed = aim(g);
    g->join_at = clock_ns();
}

int join_open(guards_t *g)
{
    const struct guards_facts *f = &g->f;
    bool is_leader = *f->token && f->local_rank == 0;
    g->is_alone = !*f->token || (is_leader && !*f->above);
    char name[DOOR_NAME_MAX];
    if (is_leader && f->local_size > 1 &&
        let_in(g, 0, listen_abstract(door_name(f->token, DOOR_OF_NODE, f->node, name)), enter_local) < 0)
        return -1;
    g->above_node = (f->node - 1) / GUARDS_FAN;
    if (is_leader && (f->is_elastic || f->node * GUARDS_FAN + 1 < f->n_nodes) &&
        let_in(g, 1, listen_remote(g), enter_remote) < 0)
        return -1;
    if (is_leader && *f->above)
        find_above(g, RESOLVE_S);
    return 0;
}
