/* boot_client.c - the boot server's connections: what clients are sent, how one ends, how one's death ends the
 * exchange. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "pmix/boot_server_impl.h"
#include "runtime/base/bytes.h"

void client_watch(boot_server_t *s, struct client *c, int op, uint32_t events)
{
    epoll_ctl(s->epoll_fd, op, c->conn.fd, &(struct epoll_event){.events = events, .data.ptr = c});
}

void client_flush(boot_server_t *s, struct client *c)
{
    int left = conn_flush(&c->conn);
    if (left < 0)
        client_drop(s, c);
    else
        client_watch(s, c, EPOLL_CTL_MOD, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void client_send(boot_server_t *s, struct client *c, enum wire_type type, const void *body, size_t n)
{
    if (conn_queue(&c->conn, type, body, n, NULL, 0) < 0)
        client_drop(s, c);
    else
        client_flush(s, c);
}

void client_send_error(boot_server_t *s, struct client *c, const ddp_error_t *e)
{
    unsigned char codes[8];
    bytes_put32(codes, (uint32_t)e->domain);
    bytes_put32(codes + 4, (uint32_t)e->code);
    if (conn_queue(&c->conn, WIRE_ERROR, codes, sizeof codes, e->text, strlen(e->text)) < 0)
        client_drop(s, c);
    else
        client_flush(s, c);
}

void client_drop(boot_server_t *s, struct client *c)
{
    if (c->is_dropped)
        return;
    c->is_dropped = true;
    client_watch(s, c, EPOLL_CTL_DEL, 0); /* closing does not, where a fork has the connection too */
    conn_close(&c->conn);
    s->n_fence -= c->in_fence;
    c->in_fence = false;
    if (c->rank >= 0 && s->ranks[c->rank].client == c) {
        s->ranks[c->rank].client = NULL;
        s->ranks[c->rank].state = LOST;
        server_fail(s, c->rank, "rank %d died during the exchange", c->rank);
    }
}

void server_fail(boot_server_t *s, int rank, const char *fmt, ...)
{
    if (s->failure.code)
        return;
    va_list ap;
    va_start(ap, fmt);
    error_vset(&s->failure, DDP_E_PEER, ECONNRESET, fmt, ap);
    va_end(ap);
    s->failed_rank = rank;
    for (struct client *c = s->clients; c; c = c->next) {
        if (c->is_dropped || !(c->in_fence || c->is_waiting))
            continue;
        s->n_fence -= c->in_fence;
        c->in_fence = c->is_waiting = false;
        client_send_error(s, c, &s->failure);
    }
}
