#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

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
    if (is_remote)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return l;
}

void link_drop(guards_t *g, struct link *l)
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

void link_send(const struct link *l, int what, const struct death *d)
{
    unsigned char m[MESSAGE_LEN] = {0};
    bytes_put32(m, (uint32_t)what);
    if (d)
        death_pack(d, m + 4);
    ssize_t n = send(l->fd, m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* who does not read is silent soon */
    if (n > 0 && n < MESSAGE_LEN)
        shutdown(l->fd, SHUT_RDWR); /* what followed would be out of step */
}

void link_send_below(const guards_t *g, int what, const struct death *d)
{
    for (const struct link *l = g->below; l; l = l->next)
        if (what != TOLD_BEAT || l->is_remote)
            link_send(l, what, d);
}

int link_next(struct link *l, int *ret_what, struct death *ret)
{
    ssize_t n = recv(l->fd, l->in + l->n, sizeof l->in - l->n, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    l->heard = clock_ns();
    l->n += (size_t)n;
    if (l->n < sizeof l->in)
        return 0;
    l->n = 0;
    *ret_what = (int)bytes_get32(l->in);
    death_unpack(l->in + 4, ret);
    return 1;
}
