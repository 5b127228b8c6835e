/* Exchanges: what a call that waits sends to and receives from other nodes, one message each way. */
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/comm/tcp_impl.h"

void tcp_begin(struct tcp *t, uint64_t number, uint64_t call)
{
    t->number = number;
    t->call = call;
    t->n_exchanges = 0;
}

static struct tcp_header header_of(const struct tcp *t)
{
    return (struct tcp_header){.call = t->call, .number = t->number, .kind = TCP_EXCHANGE};
}

int tcp_send(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp)
{
    struct tcp_conn *c = &t->conns[node];
    struct tcp_message *m = c->sending;
    struct tcp_header h = header_of(t);
    if (n == 0)
        return 0;
    if (!m)
        m = tcp_message_create(&h, 4);
    else if (m->n == m->cap) {
        m = realloc(m, sizeof *m + 2 * m->cap * sizeof m->v[0]);
        if (m)
            m->cap *= 2;
    }
    if (!m)
        return error_errno(errp, "exchange");
    c->sending = m;
    tcp_message_add(m, data, n);
    return 0;
}

int tcp_recv(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp)
{
    if (n > 0 && tcp_memory_add(&t->conns[node].expected, data, n) < 0)
        return error_errno(errp, "exchange");
    return 0;
}

static bool needs(const struct tcp_conn *c)
{
    return c->out || c->expected.n > 0 || (c->is_reading && c->h.kind == TCP_EXCHANGE);
}

/* The peer for which this exchange has waited longest, or -1: all is done. */
static int find_needed(const struct tcp *t)
{
    int found = -1;
    for (int k = 0; k < t->n_nodes; k++)
        if (needs(&t->conns[k]) && (found < 0 || t->conns[k].moved_ns < t->conns[found].moved_ns))
            found = k;
    return found;
}

static void post_sends(struct tcp *t)
{
    for (int k = 0; k < t->n_nodes; k++) {
        struct tcp_conn *c = &t->conns[k];
        if (!c->sending)
            continue;
        c->sending->header.chunk = t->n_exchanges;
        tcp_post(t, k, c->sending, 0);
        c->sending = NULL;
    }
}

/* 1: all is done; 0: look again; -1: the watch's cause. */
static int exchange_turn(struct tcp *t, watch_t *w, enum watch_what what, uint64_t *deadline, struct pollfd *polls,
                         ddp_error_t *errp)
{
    int moved = tcp_pump(t, w), node = find_needed(t);
    if (moved < 0)
        return watch_error(w, errp);
    if (node < 0)
        return 1;
    for (int k = 0; k < t->n_nodes; k++)
        if (needs(&t->conns[k]) && tcp_is_lost(t, k))
            tcp_lost(t, k, w, what);
    if (watch_is_broken(w))
        return watch_error(w, errp);
    if (moved > 0) {
        *deadline = deadline_in(t->timeout_s); /* a slow link is not a dead one */
        return 0;
    }
    int suspect = t->conns[node].rank;
    watch_waits_for(w, suspect);
    if (deadline_left_ns(*deadline) == 0 && watch_is_late(w, suspect, *deadline, t->timeout_s, what))
        return 0;
    tcp_polls(t, polls);
    polls[t->n_nodes] = (struct pollfd){.fd = watch_event_fd(w), .events = POLLIN};
    poll(polls, (nfds_t)t->n_nodes + 1, deadline_left_ms(watch_alarm(*deadline)));
    if (polls[t->n_nodes].revents)
        watch_event_clear(w);
    return 0;
}

int tcp_exchange(struct tcp *t, watch_t *w, enum watch_what what, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(t->timeout_s);
    struct pollfd *polls = calloc((size_t)t->n_nodes + 1, sizeof *polls);
    int rc = polls ? 0 : error_errno(errp, "exchange");
    if (rc < 0)
        watch_abort(w, "out of memory");
    else
        post_sends(t);
    while (rc == 0)
        rc = exchange_turn(t, w, what, &deadline, polls, errp);
    if (rc > 0)
        watch_waits_for(w, -1);
    free(polls);
    t->n_exchanges++;
    return rc > 0 ? 0 : -1;
}
