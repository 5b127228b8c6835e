#include "pmix/boot_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "pmix/boot_server_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/io.h"

#define STRANGERS_MAX 64 /* connections without a hello, beyond one for each rank */
#define HELLO_S 10.0     /* from accept to the last byte of a hello */
#define EVENTS_MAX 64
#define RESOLVE_S 10.0 /* for an address to listen at that is a name */

/* It came, had to wait long, and has given up: it may have come anew, and is not to be taken for a rank that dies. */
static bool has_hung_up(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* The lobby lets one in, who has the token. */
static void server_enter(void *arg, int fd, const unsigned char *head)
{
    boot_server_t *s = arg;
    unsigned char want[WIRE_HEAD];
    wire_head(want, WIRE_HELLO, WIRE_HELLO_BODY);
    bool is_hello = !memcmp(head, want, WIRE_HEAD) && !memcmp(head + WIRE_HEAD, WIRE_MAGIC, WIRE_MAGIC_LEN);
    struct client *c = is_hello && !has_hung_up(fd) ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        io_close(fd);
        return;
    }
    c->conn = (struct boot_conn){.fd = fd, .body_max = WIRE_BODY_MAX};
    c->rank = -1;
    c->next = s->clients;
    s->clients = c;
    client_watch(s, c, EPOLL_CTL_ADD, EPOLLIN);
    client_send(s, c, WIRE_PROOF, s->answer, WIRE_TOKEN_LEN);
    if (!c->is_dropped)
        client_hello(s, c, head + WIRE_HEAD);
}

static void free_dropped(boot_server_t *s)
{
    for (struct client **p = &s->clients; *p;) {
        struct client *c = *p;
        if (c->is_dropped) {
            *p = c->next;
            free(c);
        } else {
            p = &c->next;
        }
    }
}

int boot_server_step(boot_server_t *s, int timeout_ms, ddp_error_t *errp)
{
    struct epoll_event events[EVENTS_MAX];
    int rc = 0, n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, timeout_ms);
    if (n < 0 && errno != EINTR)
        return error_errno(errp, "boot server %s: epoll_wait", s->addr);
    for (int i = 0; i < n; i++) {
        struct client *c = events[i].data.ptr;
        if (!c) {
            if ((rc = lobby_step(s->lobby, errp)) < 0)
                error_prefix(errp, "boot server %s", s->addr);
            continue;
        }
        if (!c->is_dropped && events[i].events & EPOLLOUT)
            client_flush(s, c);
        if (!c->is_dropped && events[i].events & ~(uint32_t)EPOLLOUT)
            client_read(s, c);
    }
    free_dropped(s);
    return rc;
}

void boot_server_rank_gone(boot_server_t *s, int rank, const char *how)
{
    struct rank *r = &s->ranks[rank];
    snprintf(r->how, sizeof r->how, "%s", how);
    if (r->state != LEFT)
        server_fail(s, rank, "rank %d %s %s", rank, how,
                    r->state == NEW ? "without having joined the exchange" : "during the exchange");
}

int boot_server_failed_rank(const boot_server_t *s)
{
    return s->failed_rank;
}

void boot_server_fail(boot_server_t *s, int rank, const ddp_error_t *why)
{
    server_fail(s, rank, "rank %d: %s", rank, why->text);
}

bool boot_server_is_done(const boot_server_t *s)
{
    for (int r = 0; r < s->size && !s->is_round_done; r++)
        if (s->ranks[r].state == NEW || s->ranks[r].state == IN)
            return false;
    return true;
}

void boot_server_end_with_round(boot_server_t *s)
{
    s->ends_with_round = true;
}

const char *boot_server_addr(const boot_server_t *s)
{
    return s->addr;
}

int boot_server_fd(const boot_server_t *s)
{
    return s->epoll_fd;
}

/* The address as clients shall use it: with the port that the kernel picked. */
static void name_addr(boot_server_t *s, const char *addr)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    snprintf(s->addr, sizeof s->addr, "%s", addr);
    if (wire_is_unix(&s->where) || getsockname(s->listen_fd, (struct sockaddr *)&sa, &n) < 0)
        return;
    int port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                              : ((struct sockaddr_in *)&sa)->sin_port);
    int host_n = (int)(strrchr(addr, ':') - addr);
    snprintf(s->addr, sizeof s->addr, "%.*s:%d", host_n, addr, port);
}

static int server_listen(boot_server_t *s, const char *addr, ddp_error_t *errp)
{
    if (wire_addr_parse(addr, deadline_in(RESOLVE_S), &s->where, errp) < 0)
        return -1;
    s->listen_fd = wire_socket(&s->where, errp);
    if (s->listen_fd < 0)
        return -1;
    if (s->where.sa.ss_family == AF_INET6) /* IPv4 as well, whatever net.ipv6.bindv6only says */
        setsockopt(s->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (bind(s->listen_fd, (struct sockaddr *)&s->where.sa, s->where.len) < 0) {
        error_errno(errp, "boot server %s: bind", addr);
        s->where.len = 0; /* not ours: destroy must not unlink it */
        return -1;
    }
    if (listen(s->listen_fd, SOMAXCONN) < 0)
        return error_errno(errp, "boot server %s: listen", addr);
    name_addr(s, addr);
    return 0;
}

/* What is needed to tell all that more are not to be had: a connection of this process's own, and another one's. */
#define TELL_MIN 2

static int server_watch(boot_server_t *s, ddp_error_t *errp)
{
    struct lobby_options o = {.listen_fd = s->listen_fd, .is_same_user = wire_is_unix(&s->where), .token = s->call,
                              .head_n = WIRE_HEAD + WIRE_HELLO_BODY, .token_at = WIRE_HEAD + WIRE_MAGIC_LEN,
                              .token_n = WIRE_TOKEN_LEN, .n_max = (size_t)s->size + STRANGERS_MAX, .head_s = HELLO_S,
                              .enter = server_enter, .arg = s};
    s->lobby = lobby_create(&o, errp);
    if (!s->lobby)
        return error_prefix(errp, "boot server %s", s->addr);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0 ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, lobby_fd(s->lobby), &(struct epoll_event){.events = EPOLLIN}) < 0)
        return error_errno(errp, "boot server %s: epoll", s->addr);
    if (descriptors_check(TELL_MIN) < 0)
        return error_errno(errp, "boot server %s: accept connections", s->addr);
    return 0;
}

_Static_assert(WIRE_TOKEN_LEN == 2 * BOOT_TOKEN_BYTES, "a token is sent in hexadecimal");

boot_server_t *boot_server_create(const char *addr, const char *token, int size, ddp_error_t *errp)
{
    if (size < 1 || size > WIRE_SIZE_MAX || !wire_token_ok(token)) {
        error_set(errp, DDP_E_USAGE, EINVAL, "boot server: size %d must be 1..%d and the token %d hexadecimal digits",
                  size, WIRE_SIZE_MAX, WIRE_TOKEN_LEN);
        return NULL;
    }
    boot_server_t *s = calloc(1, sizeof *s);
    if (s)
        s->listen_fd = s->epoll_fd = s->failed_rank = -1;
    if (s)
        s->ranks = calloc((size_t)size, sizeof *s->ranks);
    if (!s || !s->ranks) {
        error_errno(errp, "boot server");
        boot_server_destroy(s);
        return NULL;
    }
    s->size = size;
    descriptors_reserve((size_t)size + STRANGERS_MAX);
    wire_prove(token, WIRE_HELLO, s->call);
    wire_prove(token, WIRE_PROOF, s->answer);
    if (server_listen(s, addr, errp) < 0 || server_watch(s, errp) < 0) {
        boot_server_destroy(s);
        return NULL;
    }
    return s;
}

/* Who is still here finds why the exchange failed before the end of the connection. */
static void say_last_word(boot_server_t *s)
{
    for (struct client *c = s->clients; c && s->failure.code; c = c->next)
        if (!c->is_dropped && c->rank >= 0)
            client_send_error(s, c, &s->failure);
}

void boot_server_destroy(boot_server_t *s)
{
    if (!s)
        return;
    int saved = errno;
    say_last_word(s);
    const struct sockaddr_un *un = (const struct sockaddr_un *)&s->where.sa;
    if (wire_is_unix(&s->where) && s->where.len && un->sun_path[0])
        unlink(un->sun_path);
    while (s->clients) {
        struct client *c = s->clients;
        s->clients = c->next;
        conn_close(&c->conn);
        free(c);
    }
    for (int r = 0; r < s->size; r++)
        boot_store_clear(&s->ranks[r].items);
    lobby_destroy(s->lobby);
    io_close(s->listen_fd);
    io_close(s->epoll_fd);
    free(s->ranks);
    free(s);
    errno = saved;
}
