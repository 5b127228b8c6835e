#include "runtime/comm/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/lobby.h"

enum { STRANGERS_MAX = 64 }; /* connections that have not yet greeted, beyond one for each guest */
#define GREETING_S 10.0      /* from accept to the last byte of a greeting */

static const uint64_t magic = 0x31504d4f43504444; /* "DDPCOMP1" */

struct greeting {
    uint64_t magic;
    uint32_t from, to, kind, zero;
    uint8_t token[MEET_TOKEN];
};

struct answer {
    uint64_t magic;
    uint8_t token[MEET_TOKEN];
};

struct party {
    const struct world *world;
    struct handshake_guest *guests;
    size_t n_guests, n_missing;
};

int handshake_tokens(struct handshake *m, ddp_error_t *errp)
{
    if (io_random(m->call, sizeof m->call, errp) < 0)
        return -1;
    return io_random(m->answer, sizeof m->answer, errp);
}

static struct handshake_guest *find_guest(const struct party *p, const struct greeting *g)
{
    if (g->magic != magic || g->to != (uint32_t)p->world->rank)
        return NULL;
    for (size_t i = 0; i < p->n_guests; i++)
        if ((uint32_t)p->guests[i].rank == g->from && (uint32_t)p->guests[i].kind == g->kind && p->guests[i].fd < 0)
            return &p->guests[i];
    return NULL;
}

/* The lobby lets one in, with the token. */
static void enter(void *arg, int fd, const unsigned char *head)
{
    struct party *p = arg;
    struct greeting greeting;
    memcpy(&greeting, head, sizeof greeting);
    struct handshake_guest *g = find_guest(p, &greeting);
    if (!g) {
        close(fd);
        return;
    }
    g->fd = fd;
    p->n_missing--;
}

static int missing(const struct party *p, ddp_error_t *errp)
{
    char who[96];
    for (size_t i = 0; i < p->n_guests; i++)
        if (p->guests[i].fd < 0)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not connect before the deadline",
                             world_rank_name(p->world, p->guests[i].rank, who, sizeof who));
    return 0;
}

static int receive(const struct party *p, lobby_t *l, uint64_t deadline, ddp_error_t *errp)
{
    while (p->n_missing > 0) {
        if (deadline_left_ns(deadline) == 0) /* also where strangers never let poll wait */
            return missing(p, errp);
        if (io_wait(lobby_fd(l), POLLIN, deadline, "other ranks", errp) < 0)
            return -1;
        if (lobby_step(l, errp) < 0)
            return error_prefix(errp, "other ranks");
    }
    return 0;
}

int handshake_accept(const struct handshake *m, const struct world *w, struct handshake_guest *guests, size_t n_guests,
                     bool same_uid, uint64_t deadline, ddp_error_t *errp)
{
    struct party p = {.world = w, .guests = guests, .n_guests = n_guests, .n_missing = n_guests};
    struct lobby_options o = {.listen_fd = m->fd, .is_same_user = same_uid, .token = m->call, .token_n = MEET_TOKEN,
                              .head_n = sizeof(struct greeting), .token_at = offsetof(struct greeting, token),
                              .n_max = n_guests + STRANGERS_MAX, .head_s = GREETING_S, .enter = enter, .arg = &p};
    for (size_t i = 0; i < n_guests; i++)
        guests[i].fd = -1;
    lobby_t *l = lobby_create(&o, errp);
    int rc = l ? receive(&p, l, deadline, errp) : -1;
    lobby_destroy(l);
    for (size_t i = 0; rc < 0 && i < n_guests; i++) {
        io_close(guests[i].fd);
        guests[i].fd = -1;
    }
    return rc;
}

int handshake_call(int fd, const struct handshake *m, const struct world *w, int to, enum handshake_kind kind,
                   uint64_t deadline, ddp_error_t *errp)
{
    char who[96];
    struct greeting g = {.magic = magic, .from = (uint32_t)w->rank, .to = (uint32_t)to, .kind = (uint32_t)kind};
    memcpy(g.token, m->call, sizeof g.token);
    return io_send_all(fd, &g, sizeof g, deadline, world_rank_name(w, to, who, sizeof who), errp);
}

int handshake_answer(int fd, const struct handshake *m, const char *who, int pass_fd, ddp_error_t *errp)
{
    struct answer a = {.magic = magic};
    memcpy(a.token, m->answer, sizeof a.token);
    struct iovec v = {&a, sizeof a};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};
    if (pass_fd >= 0) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
    }
    ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT); /* a new connection's buffer is empty */
    if (n != (ssize_t)sizeof a)
        return error_errno(errp, "%s: answer its greeting", who);
    return 0;
}

static int take_fd(struct msghdr *msg)
{
    int fd = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

int handshake_answered(int fd, const struct handshake *m, const char *who, int *ret_fd, uint64_t deadline,
                       ddp_error_t *errp)
{
    struct answer a;
    struct iovec v = {&a, sizeof a};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    while ((n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (deadline_left_ns(deadline) == 0)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not answer before the deadline", who);
        if (io_wait(fd, POLLIN, deadline, who, errp) < 0)
            return -1;
    }
    if (n <= 0)
        return error_set(errp, DDP_E_PEER, ECONNRESET, "%s closed the connection during the wire-up", who);
    int got = take_fd(&msg);
    size_t have = (size_t)n;
    bool is_right =
        (have == sizeof a || io_recv_all(fd, (char *)&a + have, sizeof a - have, deadline, who, NULL) == 0) &&
        io_token_equal(a.token, m->answer, MEET_TOKEN) && a.magic == magic;
    if (!is_right || !ret_fd)
        io_close(got);
    if (!is_right)
        return error_set(errp, DDP_E_COMM, EPROTO, "%s: something else answered at its address (wrong token)", who);
    if (ret_fd)
        *ret_fd = got;
    return 0;
}
