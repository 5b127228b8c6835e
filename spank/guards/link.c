#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

/* What is told in one burst at most: each node of a subtree, of 10,000 nodes 312 with a death and a head each. */
#define SEND_BYTES (256 << 10)
_Static_assert(312 * (DEATH_BYTES + 16) < SEND_BYTES, "a burst has room");

struct link *link_add(guards_t *g, int fd, bool is_remote, enum state state)
{
    struct link *l = calloc(1, sizeof *l);
    struct epoll_event e = {.events = state == LINK_CONNECTS ? EPOLLOUT : EPOLLIN, .data.ptr = l};
    if (!l || epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        free(l);
        close(fd);
        return NULL;
    }
    *l = (struct link){.fd = fd, .state = state, .is_remote = is_remote, .heard = clock_ns()};
    if (is_remote) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BYTES}, sizeof(int));
    }
    return l;
}

/* In a step that may go on without some nodes it stays open: whoever is there after all is not to think that this
 * guard has ended. */
static void link_close(const guards_t *g, const struct link *l, bool is_silent)
{
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, l->fd, NULL); /* close alone leaves it in where a new program holds a copy */
    if (!is_silent || !g->f.is_elastic)
        close(l->fd);
}

void link_drop(guards_t *g, struct link *l, bool is_silent)
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
    if (g->teller == l)
        g->teller = NULL;
    link_close(g, l, is_silent);
    free(l);
}

void link_send(const struct link *l, int what, const struct death *d)
{
    unsigned char m[DEATH_BYTES];
    if (d)
        death_pack(d, m);
    frame_send(l->fd, what, m, d ? sizeof m : 0);
}

void link_send_below(const guards_t *g, int what, const struct death *d)
{
    for (const struct link *l = g->below; l; l = l->next)
        if ((what != TOLD_BEAT && what != TOLD_REST) || l->is_remote)
            link_send(l, what, d);
}

void link_send_text(const struct link *l, int what, const char *text)
{
    frame_send(l->fd, what, text, strlen(text));
}

void link_send_text_below(const guards_t *g, int what, const char *text)
{
    for (const struct link *l = g->below; l; l = l->next)
        link_send_text(l, what, text);
}

int link_next(struct link *l, int *ret_what, struct death *ret, char ret_text[FRAME_BODY_MAX + 1])
{
    size_t n;
    errno = 0;
    int rc = frame_next(&l->in, l->fd, ret_what, &n);
    if (rc < 1)
        return rc;
    l->heard = clock_ns();
    *ret = (struct death){.kind = DEATH_NONE};
    ret_text[0] = 0;
    if (n == DEATH_BYTES && *ret_what != TOLD_CARD) {
        death_unpack(l->in.bytes + FRAME_HEAD, ret);
    } else {
        memcpy(ret_text, l->in.bytes + FRAME_HEAD, n);
        ret_text[n] = 0;
    }
    return 1;
}
