#include "config.h" /* accept4 */

#include "runtime/base/lobby.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

enum { EVENTS_MAX = LOBBY_ENTER_MAX - 3 * LOBBY_ACCEPTS }; /* the rest: accepted, pushed out by these, late */

struct stranger {
    struct stranger *older, *newer;
    int fd;
    uint64_t deadline;
    size_t n; /* bytes of the head that are here */
    unsigned char nonce[LOBBY_NONCE_LEN];
    unsigned char head[LOBBY_HEAD_MAX];
};

/* In the epoll set: the listener and the timer (their places in this struct stand for them), and who waits. The timer
 * is set while somebody waits, to when the oldest, or one that has left since, is too late. */
struct lobby {
    struct lobby_options o;
    int epoll_fd, timer_fd;
    struct stranger *oldest, *newest;
    size_t n_waiting;
};

/* Takes a new connection's or a stranger's next bytes. 1: the head is whole, 0: not yet, -1: it never will be. */
static int hear(const lobby_t *l, struct stranger *s)
{
    ssize_t n = recv(s->fd, s->head + s->n, l->o.head_n - s->n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    s->n += (size_t)n;
    return s->n == l->o.head_n;
}

static bool is_right(const lobby_t *l, const struct stranger *s)
{
    return l->o.check ? l->o.check(l->o.arg, s->nonce, s->head)
                      : io_token_equal(s->head + l->o.token_at, l->o.token, l->o.token_n);
}

/* The end of a connection as a stranger's. */
static void settle(lobby_t *l, const struct stranger *s, bool is_whole)
{
    if (is_whole && is_right(l, s))
        l->o.enter(l->o.arg, s->fd, s->head);
    else
        io_close(s->fd);
}

static void set_timer(lobby_t *l)
{
    uint64_t at = l->oldest ? l->oldest->deadline : 0;
    struct itimerspec t = {.it_value = {(time_t)(at / NS_PER_S), (long)(at % NS_PER_S)}};
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &t, NULL); /* CLOCK_MONOTONIC, as deadlines; 0 stops it */
}

/* Takes s out of those who wait; its descriptor stays. */
static void unlink_stranger(lobby_t *l, struct stranger *s)
{
    *(s->older ? &s->older->newer : &l->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &l->newest) = s->older;
    l->n_waiting--;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
}

/* Hears one that waits. It goes in or away, unless its head is not whole and it may_stay. */
static void attend(lobby_t *l, struct stranger *s, bool may_stay)
{
    int heard = hear(l, s);
    if (heard == 0 && may_stay)
        return;
    unlink_stranger(l, s);
    settle(l, s, heard > 0);
    free(s);
}

static bool drop_oldest(lobby_t *l)
{
    if (!l->oldest)
        return false;
    attend(l, l->oldest, false);
    return true;
}

static void drop_late(lobby_t *l)
{
    uint64_t n;
    if (read(l->timer_fd, &n, sizeof n) < 0) /* nothing: it was set anew */
        return;
    for (int i = 0; i < LOBBY_ACCEPTS && l->oldest && deadline_left_ns(l->oldest->deadline) == 0; i++)
        drop_oldest(l);
    set_timer(l); /* at once, where more are late */
}

static void keep_waiting(lobby_t *l, const struct stranger *newcomer)
{
    if (l->n_waiting == l->o.n_max)
        drop_oldest(l);
    struct stranger *s = malloc(sizeof *s);
    if (s)
        *s = *newcomer;
    if (!s || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, s->fd, &(struct epoll_event){EPOLLIN, {.ptr = s}}) < 0) {
        io_close(newcomer->fd);
        free(s);
        return;
    }
    s->deadline = deadline_in(l->o.head_s);
    s->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = s;
    l->newest = s;
    if (l->n_waiting++ == 0)
        set_timer(l);
}

/* A new connection takes as much at once. */
static int ask(const lobby_t *l, struct stranger *s)
{
    if (!l->o.check)
        return 0;
    bool is_sent = io_random(s->nonce, sizeof s->nonce, NULL) == 0 &&
                   send(s->fd, s->nonce, sizeof s->nonce, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof s->nonce;
    return is_sent ? 0 : -1;
}

static void welcome(lobby_t *l, int fd)
{
    struct stranger s = {.fd = fd};
    bool is_let = !l->o.is_same_user || io_same_user(fd);
    int heard = is_let && ask(l, &s) == 0 ? hear(l, &s) : -1;
    if (heard == 0)
        keep_waiting(l, &s);
    else
        settle(l, &s, heard > 0);
}

/* accept failed with errno. 0: of one connection only, 1: enough for now, -1: nobody will ever come in again. */
static int accept_failed(lobby_t *l, ddp_error_t *errp)
{
    switch (errno) {
    case EAGAIN:
        return 1;
    case EMFILE:
        return drop_oldest(l) ? 0 : error_errno(errp, "accept a connection");
    case ENFILE: /* the machine's lack, which passes */
    case ENOBUFS:
    case ENOMEM:
        return drop_oldest(l) ? 0 : 1;
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
        return error_errno(errp, "accept a connection");
    default:
        return 0;
    }
}

static int accept_some(lobby_t *l, ddp_error_t *errp)
{
    int rc = 0;
    for (int i = 0; i < LOBBY_ACCEPTS && rc == 0; i++) {
        int fd = accept4(l->o.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            welcome(l, fd);
        else
            rc = accept_failed(l, errp);
    }
    return rc < 0 ? -1 : 0;
}

int lobby_step(lobby_t *l, ddp_error_t *errp)
{
    struct epoll_event events[EVENTS_MAX];
    bool is_knock = false, is_late = false;
    int n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, 0);
    if (n < 0 && errno != EINTR)
        return error_errno(errp, "epoll_wait");
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;
        is_knock |= what == &l->o.listen_fd;
        is_late |= what == &l->timer_fd;
        if (what != &l->o.listen_fd && what != &l->timer_fd)
            attend(l, what, true);
    }
    if (is_late) /* from here on strangers go whom an event may have named */
        drop_late(l);
    return is_knock ? accept_some(l, errp) : 0;
}

int lobby_fd(const lobby_t *l)
{
    return l->epoll_fd;
}

static int watch(lobby_t *l, int fd, void *what)
{
    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.ptr = what}});
}

lobby_t *lobby_create(const struct lobby_options *o, ddp_error_t *errp)
{
    if (o->head_n > LOBBY_HEAD_MAX || o->token_at + o->token_n > o->head_n || o->n_max < 1) {
        error_set(errp, DDP_E_USAGE, EINVAL, "lobby: a head of %zu bytes with a token of %zu", o->head_n, o->token_n);
        return NULL;
    }
    lobby_t *l = calloc(1, sizeof *l);
    if (l) {
        l->o = *o;
        l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    if (!l || l->epoll_fd < 0 || l->timer_fd < 0 || watch(l, o->listen_fd, &l->o.listen_fd) < 0 ||
        watch(l, l->timer_fd, &l->timer_fd) < 0) {
        error_errno(errp, "wait for connections");
        lobby_destroy(l);
        return NULL;
    }
    return l;
}

void lobby_destroy(lobby_t *l)
{
    if (!l)
        return;
    int saved = errno;
    for (struct stranger *s = l->oldest, *newer; s; s = newer) {
        newer = s->newer;
        io_close(s->fd);
        free(s);
    }
    io_close(l->epoll_fd);
    io_close(l->timer_fd);
    free(l);
    errno = saved;
}
