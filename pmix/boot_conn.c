#include "pmix/boot_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/io.h"

static int grow(unsigned char **buf, size_t *cap, size_t want)
{
    if (want <= *cap)
        return 0;
    unsigned char *p = realloc(*buf, want);
    if (!p)
        return -1;
    *buf = p;
    *cap = want;
    return 0;
}

int conn_receive(struct boot_conn *c)
{
    if (grow(&c->in, &c->in_cap, WIRE_HEAD + c->body_max) < 0)
        return -1;
    ssize_t r = recv(c->fd, c->in + c->in_n, c->in_cap - c->in_n, MSG_DONTWAIT);
    if (r > 0)
        c->in_n += (size_t)r;
    if (r == 0)
        return -1;
    return r > 0 ? 1 : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

int conn_frame(const struct boot_conn *c, struct boot_frame *ret)
{
    if (c->in_n < WIRE_HEAD)
        return 0;
    size_t len = bytes_get32(c->in);
    if (len < 1 || len - 1 > c->body_max)
        return -1;
    if (c->in_n < 4 + len)
        return 0;
    *ret = (struct boot_frame){.type = c->in[4], .body = c->in + WIRE_HEAD, .n = len - 1};
    return 1;
}

void conn_consume(struct boot_conn *c, const struct boot_frame *f)
{
    size_t used = WIRE_HEAD + f->n;
    c->in_n -= used;
    memmove(c->in, c->in + used, c->in_n);
}

int conn_queue(struct boot_conn *c, enum wire_type type, const void *a, size_t a_n, const void *b, size_t b_n)
{
    if (c->out_at == c->out_n)
        c->out_at = c->out_n = 0;
    if (grow(&c->out, &c->out_cap, c->out_n + WIRE_HEAD + a_n + b_n) < 0)
        return -1;
    unsigned char *p = c->out + c->out_n;
    wire_head(p, type, a_n + b_n);
    if (a_n)
        memcpy(p + WIRE_HEAD, a, a_n);
    if (b_n)
        memcpy(p + WIRE_HEAD + a_n, b, b_n);
    c->out_n += WIRE_HEAD + a_n + b_n;
    return 0;
}

int conn_flush(struct boot_conn *c)
{
    while (c->out_at < c->out_n) {
        ssize_t r = send(c->fd, c->out + c->out_at, c->out_n - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r < 0 && errno == EAGAIN)
            return 1;
        if (r < 0 && errno != EINTR)
            return -1;
        if (r > 0)
            c->out_at += (size_t)r;
    }
    return 0;
}

void conn_close(struct boot_conn *c)
{
    io_close(c->fd);
    free(c->in);
    free(c->out);
    *c = (struct boot_conn){.fd = -1};
}
