/* Messages over connections. The system calls are few: one sendmsg() takes several messages, and one recvmsg() the rest
 * of a message with what lies behind it, up to TCP_AHEAD bytes.
 *
 * Sends copy (no MSG_ZEROCOPY): with it the memory would have to rest until the kernel's notice of completion has been
 * read, and results are overwritten by the next step; sent without that, messages arrived with other bytes. */
#include "runtime/comm/tcp_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

enum { IOV_BATCH = 256, TURNS = 8, NEWS_MS = 2000 };

/* ---- out ---- */

struct tcp_message *tcp_message_create(const struct tcp_header *h, size_t max_pieces)
{
    struct tcp_message *m = malloc(sizeof *m + (max_pieces + 1) * sizeof m->v[0]);
    if (!m)
        return NULL;
    *m = (struct tcp_message){.header = *h, .n = 1, .cap = max_pieces + 1};
    m->header.n_bytes = 0;
    m->v[0] = (struct iovec){&m->header, sizeof m->header};
    return m;
}

void tcp_message_add(struct tcp_message *m, void *data, size_t n)
{
    m->v[m->n++] = (struct iovec){data, n};
    m->header.n_bytes += n;
}

void tcp_post(struct tcp *t, int node, struct tcp_message *m, uint64_t tag)
{
    struct tcp_conn *c = &t->conns[node];
    m->tag = tag;
    m->v[0].iov_base = &m->header;
    t->bytes_sent += m->header.n_bytes;
    *c->out_end = m;
    c->out_end = &m->next;
}

bool tcp_is_sent(const struct tcp *t, int node, uint64_t tag)
{
    for (const struct tcp_message *m = t->conns[node].out; m; m = m->next)
        if (m->tag <= tag)
            return false;
    return true;
}

static size_t batch_out(const struct tcp_conn *c, struct iovec *v)
{
    size_t n = 0;
    for (const struct tcp_message *m = c->out; m && n < IOV_BATCH; m = m->next)
        for (size_t i = m->at; i < m->n && n < IOV_BATCH; i++)
            v[n++] = m->v[i];
    return n;
}

static size_t advance(struct iovec *v, size_t n_v, size_t *at, size_t n)
{
    while (*at < n_v && n >= v[*at].iov_len)
        n -= v[(*at)++].iov_len;
    if (*at < n_v && n > 0) {
        v[*at].iov_base = (char *)v[*at].iov_base + n;
        v[*at].iov_len -= n;
        n = 0;
    }
    return n;
}

static void advance_out(struct tcp_conn *c, size_t n)
{
    while (c->out) {
        struct tcp_message *m = c->out;
        n = advance(m->v, m->n, &m->at, n);
        if (m->at < m->n)
            return;
        c->out = m->next;
        free(m);
    }
    c->out_end = &c->out;
}

/* Has the system call failed for good? */
static bool lose(struct tcp_conn *c, ssize_t n)
{
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    c->is_lost = true;
    c->lost_errno = n == 0 ? 0 : errno;
    return true;
}

static bool pump_out(struct tcp_conn *c)
{
    bool has_moved = false;
    for (int i = 0; i < TURNS && c->out && !c->is_lost; i++) {
        struct iovec v[IOV_BATCH];
        struct msghdr m = {.msg_iov = v, .msg_iovlen = batch_out(c, v)};
        ssize_t n = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            lose(c, n);
            break;
        }
        advance_out(c, (size_t)n);
        has_moved = true;
    }
    return has_moved;
}

/* ---- in ---- */

int tcp_memory_add(struct tcp_memory *q, void *data, size_t n)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 16;
        struct iovec *v = realloc(q->v, cap * sizeof *v);
        if (!v)
            return -1;
        q->v = v;
        q->cap = cap;
    }
    q->v[q->n++] = (struct iovec){data, n};
    q->n_bytes += n;
    return 0;
}

static void empty(struct tcp_memory *q)
{
    q->n = q->at = q->n_bytes = 0;
}

int tcp_into(struct tcp *t, int node, void *data, size_t n)
{
    return n > 0 ? tcp_memory_add(&t->conns[node].in, data, n) : 0;
}

void tcp_set_handler(struct tcp *t, const struct tcp_handler *h)
{
    t->handler = *h;
}

static void finish_message(struct tcp *t, int node)
{
    struct tcp_conn *c = &t->conns[node];
    if (c->h.kind != TCP_EXCHANGE)
        t->handler.message(t->handler.ctx, node, &c->h);
    c->is_reading = false;
    c->n_header = 0;
    empty(&c->in);
}

/* The verdict on an exchange's header, c->h. */
static enum tcp_verdict exchange_header(const struct tcp *t, struct tcp_conn *c)
{
    const struct tcp_header *h = &c->h;
    if (h->number > t->number)
        return TCP_LEAVE;
    if (h->number < t->number || h->call != t->call)
        return TCP_DIFFERS;
    if (c->expected.n == 0)
        return TCP_LEAVE;
    if (h->chunk != t->n_exchanges)
        return TCP_DIFFERS;
    struct tcp_memory was = c->in;
    c->in = c->expected;
    c->expected = was;
    empty(&c->expected);
    return TCP_READ;
}

/* The peer's call is not the one that this rank has begun at its turn, which need not be the last one. */
static void differs(struct tcp *t, const struct tcp_conn *c, watch_t *w)
{
    uint64_t mine = t->handler.call(t->handler.ctx, c->h.number);
    watch_differs(w, c->rank, c->h.call, t->world->rank, mine ? mine : t->call);
}

/* Looks at a header that is whole. 1: go on reading; 0: not now; -1: the cause has been raised. */
static int judge(struct tcp *t, int node, watch_t *w)
{
    struct tcp_conn *c = &t->conns[node];
    enum tcp_verdict v = c->h.kind == TCP_EXCHANGE ? exchange_header(t, c)
                                                   : t->handler.header(t->handler.ctx, node, &c->h);
    if (v == TCP_LEAVE)
        return 0;
    if (v == TCP_READ) {
        c->is_reading = true;
        if (c->in.n_bytes == c->h.n_bytes)
            return 1;
    }
    if (v == TCP_NO_MEMORY)
        watch_abort(w, "out of memory");
    else
        differs(t, c, w);
    return -1;
}

static size_t copy_ahead(struct tcp_conn *c, void *to, size_t n)
{
    size_t left = c->n_ahead - c->at_ahead;
    n = n < left ? n : left;
    memcpy(to, c->ahead + c->at_ahead, n);
    c->at_ahead += n;
    return n;
}

/* Takes what was read ahead for the header, or for the memory of a message that is being read. */
static void take_ahead(struct tcp_conn *c)
{
    if (!c->is_reading)
        c->n_header += copy_ahead(c, (char *)&c->h + c->n_header, sizeof c->h - c->n_header);
    while (c->is_reading && c->in.at < c->in.n && c->at_ahead < c->n_ahead) {
        const struct iovec *v = &c->in.v[c->in.at];
        advance(c->in.v, c->in.n, &c->in.at, copy_ahead(c, v->iov_base, v->iov_len));
    }
}

/* Reads what the present message lacks, and what lies behind it ahead. Returns the bytes read; *ret_is_all: the socket
 * has no more now. */
static size_t receive(struct tcp_conn *c, bool *ret_is_all)
{
    struct iovec v[IOV_BATCH];
    size_t n_v = 0, n_asked = 0;
    for (size_t i = c->in.at; i < c->in.n && n_v < IOV_BATCH - 1; i++)
        v[n_v++] = c->in.v[i];
    if (n_v == c->in.n - c->in.at)
        v[n_v++] = (struct iovec){c->ahead, sizeof c->ahead};
    for (size_t i = 0; i < n_v; i++)
        n_asked += v[i].iov_len;
    struct msghdr m = {.msg_iov = v, .msg_iovlen = n_v};
    ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);
    *ret_is_all = n < (ssize_t)n_asked;
    if (n <= 0) {
        lose(c, n);
        return 0;
    }
    c->at_ahead = 0;
    c->n_ahead = advance(c->in.v, c->in.n, &c->in.at, (size_t)n);
    return (size_t)n;
}

static int pump_in(struct tcp *t, int node, watch_t *w)
{
    struct tcp_conn *c = &t->conns[node];
    bool has_moved = false, is_all = c->is_lost;
    for (int n_turns = 0;;) {
        take_ahead(c);
        if (!c->is_reading && c->n_header == sizeof c->h) {
            int rc = judge(t, node, w);
            if (rc <= 0)
                return rc < 0 ? -1 : has_moved;
        } else if (c->is_reading && c->in.at == c->in.n) { /* nothing follows the header, or all has come */
            finish_message(t, node);
            has_moved = true;
        } else if (!is_all && n_turns++ < TURNS) {
            has_moved = receive(c, &is_all) > 0 || has_moved;
        } else {
            return has_moved;
        }
    }
}

/* ---- both ---- */

int tcp_pump(struct tcp *t, watch_t *w)
{
    int has_moved = 0;
    for (int k = 0; k < t->n_nodes; k++) {
        struct tcp_conn *c = &t->conns[k];
        if (c->fd < 0)
            continue;
        bool out = pump_out(c);
        int in = pump_in(t, k, w);
        if (in < 0)
            return -1;
        if (out || in > 0) {
            c->moved_ns = clock_ns();
            has_moved = 1;
        }
    }
    return has_moved;
}

bool tcp_is_lost(const struct tcp *t, int node)
{
    return t->conns[node].is_lost;
}

/* A closed connection is a consequence: its cause is on its way over the control connections. Only if none comes is the
 * peer itself the cause. */
void tcp_lost(struct tcp *t, int node, watch_t *w, enum watch_what what)
{
    const struct tcp_conn *c = &t->conns[node];
    int gone = -1, err = c->lost_errno;
    uint64_t until = deadline_in(NEWS_MS / 1000.0);
    while (!watch_is_broken(w) && (gone = watch_left_on_node(w, node)) < 0 && deadline_left_ns(until) > 0) {
        poll(&(struct pollfd){.fd = watch_event_fd(w), .events = POLLIN}, 1, deadline_left_ms(until));
        watch_event_clear(w);
    }
    if (gone >= 0)
        watch_raise(w, WATCH_LEFT, gone, t->world->rank, what);
    else if (err == 0 || err == ECONNRESET || err == EPIPE)
        watch_raise(w, WATCH_DIED, c->rank, WATCH_STATUS_UNKNOWN, what);
    else
        watch_raise(w, WATCH_LOST, c->rank, err, what);
}

void tcp_polls(const struct tcp *t, struct pollfd *polls)
{
    for (int k = 0; k < t->n_nodes; k++) {
        const struct tcp_conn *c = &t->conns[k];
        bool is_left = !c->is_reading && c->n_header == sizeof c->h;
        short events = (short)((c->out ? POLLOUT : 0) | (is_left ? 0 : POLLIN));
        polls[k] = (struct pollfd){.fd = events && !c->is_lost ? c->fd : -1, .events = events};
    }
}

uint64_t tcp_moved_ns(const struct tcp *t, int node)
{
    return t->conns[node].moved_ns;
}

uint64_t tcp_bytes_sent(const struct tcp *t)
{
    return t->bytes_sent;
}

void tcp_disown(struct tcp *t)
{
    for (int k = 0; t && k < t->n_nodes; k++) {
        io_close(t->conns[k].fd);
        t->conns[k].fd = -1;
    }
}

void tcp_destroy(struct tcp *t)
{
    int saved = errno;
    for (int k = 0; t && t->conns && k < t->n_nodes; k++) {
        struct tcp_conn *c = &t->conns[k];
        io_close(c->fd);
        free(c->sending);
        while (c->out) {
            struct tcp_message *m = c->out;
            c->out = m->next;
            free(m);
        }
        free(c->in.v);
        free(c->expected.v);
    }
    if (t)
        free(t->conns);
    free(t);
    errno = saved;
}
