#include <config.h> /* accept4, struct ucred */

#include "runtime/comm/meet.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

enum { MAX_WAITING = 64 }; /* connections that have not yet greeted; the oldest goes when one more comes */

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

struct waiting {
    int fd;
    size_t n_in;
    struct greeting in;
};

struct lobby {
    const struct meet *meet;
    const struct world *world;
    struct meet_guest *guests;
    size_t n_guests, n_missing;
    bool same_uid;
    struct waiting waiting[MAX_WAITING]; /* oldest first */
    size_t n_waiting;
};

int meet_tokens(struct meet *m, ddp_error_t *errp)
{
    if (io_random(m->call, sizeof m->call, errp) < 0)
        return -1;
    return io_random(m->answer, sizeof m->answer, errp);
}

static void forget(struct lobby *l, size_t i)
{
    memmove(&l->waiting[i], &l->waiting[i + 1], (--l->n_waiting - i) * sizeof l->waiting[0]);
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

static int accept_one(struct lobby *l, ddp_error_t *errp)
{
    int fd = accept4(l->meet->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* most errors are of the one connection */
        bool is_fatal = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EBADF || errno == EINVAL;
        return is_fatal ? error_errno(errp, "accept a connection from another rank") : 0;
    }
    if (l->same_uid && !is_same_user(fd)) {
        close(fd);
        return 0;
    }
    if (l->n_waiting == MAX_WAITING) {
        close(l->waiting[0].fd);
        forget(l, 0);
    }
    l->waiting[l->n_waiting++] = (struct waiting){.fd = fd};
    return 0;
}

/* The token is compared first, and nothing of a greeting without it is looked at. */
static struct meet_guest *find_guest(struct lobby *l, const struct greeting *g)
{
    if (!io_token_equal(g->token, l->meet->call, MEET_TOKEN) || g->magic != magic)
        return NULL;
    if (g->to != (uint32_t)l->world->rank)
        return NULL;
    for (size_t i = 0; i < l->n_guests; i++)
        if ((uint32_t)l->guests[i].rank == g->from && (uint32_t)l->guests[i].kind == g->kind && l->guests[i].fd < 0)
            return &l->guests[i];
    return NULL;
}

/* Reads on; once the greeting is whole, or cannot become so, the connection leaves the lobby. */
static void hear(struct lobby *l, size_t i)
{
    struct waiting *s = &l->waiting[i];
    ssize_t n = recv(s->fd, (char *)&s->in + s->n_in, sizeof s->in - s->n_in, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && (s->n_in += (size_t)n) < sizeof s->in)
        return;
    struct meet_guest *g = n > 0 ? find_guest(l, &s->in) : NULL;
    if (g) {
        g->fd = s->fd;
        l->n_missing--;
    } else {
        close(s->fd);
    }
    forget(l, i);
}

static int missing(const struct lobby *l, ddp_error_t *errp)
{
    char who[96];
    for (size_t i = 0; i < l->n_guests; i++)
        if (l->guests[i].fd < 0)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not connect before the deadline",
                             world_rank_name(l->world, l->guests[i].rank, who, sizeof who));
    return 0;
}

static int lobby_run(struct lobby *l, uint64_t deadline, ddp_error_t *errp)
{
    while (l->n_missing > 0) {
        struct pollfd p[1 + MAX_WAITING] = {{.fd = l->meet->fd, .events = POLLIN}};
        size_t n = l->n_waiting;
        for (size_t i = 0; i < n; i++)
            p[1 + i] = (struct pollfd){.fd = l->waiting[i].fd, .events = POLLIN};
        int ready = poll(p, 1 + n, deadline_left_ms(deadline));
        if (ready < 0 && errno != EINTR)
            return error_errno(errp, "wait for connections");
        if (ready <= 0 && deadline_left_ns(deadline) == 0)
            return missing(l, errp);
        for (size_t i = n; ready > 0 && i-- > 0;) /* from the end: hear() may remove i */
            if (p[1 + i].revents)
                hear(l, i);
        if (ready > 0 && p[0].revents && accept_one(l, errp) < 0)
            return -1;
    }
    return 0;
}

int meet_accept(const struct meet *m, const struct world *w, struct meet_guest *guests, size_t n_guests, bool same_uid,
                uint64_t deadline, ddp_error_t *errp)
{
    struct lobby l = {.meet = m, .world = w, .guests = guests, .n_guests = n_guests, .n_missing = n_guests};
    l.same_uid = same_uid;
    for (size_t i = 0; i < n_guests; i++)
        guests[i].fd = -1;
    int rc = lobby_run(&l, deadline, errp);
    for (size_t i = 0; i < l.n_waiting; i++)
        close(l.waiting[i].fd);
    for (size_t i = 0; rc < 0 && i < n_guests; i++) {
        io_close(guests[i].fd);
        guests[i].fd = -1;
    }
    return rc;
}

int meet_call(int fd, const struct meet *m, const struct world *w, int to, enum meet_kind kind, uint64_t deadline,
              ddp_error_t *errp)
{
    char who[96];
    struct greeting g = {.magic = magic, .from = (uint32_t)w->rank, .to = (uint32_t)to, .kind = (uint32_t)kind};
    memcpy(g.token, m->call, sizeof g.token);
    return io_send_all(fd, &g, sizeof g, deadline, world_rank_name(w, to, who, sizeof who), errp);
}

int meet_answer(int fd, const struct meet *m, const char *who, int pass_fd, ddp_error_t *errp)
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

int meet_answered(int fd, const struct meet *m, const char *who, int *ret_fd, uint64_t deadline, ddp_error_t *errp)
{
    struct answer a;
    struct iovec v = {&a, sizeof a};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    while ((n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (deadline_left_ns(deadline) == 0)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not answer before the deadline", who);
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, deadline_left_ms(deadline));
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
