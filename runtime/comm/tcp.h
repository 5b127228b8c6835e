/* tcp.h - connections between the owners of equal local index of all nodes, and messages over them.
 *
 * Each message says to which call it belongs, so that ranks whose calls differ notice, and so that a peer may be ahead:
 * what belongs to a later call is left in its connection, or absorbed by who has room. Nodes' leaders also hold a control
 * connection to each other, which belongs to the watch. */
#ifndef DDP_COMM_TCP_H
#define DDP_COMM_TCP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/comm/handshake.h"
#include "runtime/comm/watch.h"

#define TCP_ADDR_MAX 63

/* Where a rank listens: a numeric address and its port. */
struct tcp_address {
    char host[TCP_ADDR_MAX + 1];
    uint16_t port;
};

/* Opens m->fd on a free port of one address: that of `interface`, else (NULL) the one from which MASTER_ADDR is reached
 * (itself, where it is this machine's). */
int tcp_listen(struct meet *m, const char *interface, struct tcp_address *ret, ddp_error_t *errp);

/* Connects to `who`, who listens there: a non-blocking descriptor, or -1 by the deadline. */
int tcp_connect(const struct tcp_address *to, const char *who, uint64_t deadline, ddp_error_t *errp);

/* A peer: the owner of equal local index on a node, where it listens, its tokens. */
struct tcp_peer {
    int rank;
    struct tcp_address address;
    struct meet meet;
};

struct tcp;

/* Connects to peers[k] for every node k but this one's. own: where this rank listens. On a leader *ret_control holds
 * n_nodes - 1 control connections for the watch (caller frees the array); else NULL. */
struct tcp *tcp_wire(const struct world *w, const struct meet *own, const struct tcp_peer *peers, double timeout_s,
                     uint64_t deadline, struct watch_peer **ret_control, ddp_error_t *errp);
void tcp_destroy(struct tcp *t); /* NULL is allowed */
uint64_t tcp_bytes_sent(const struct tcp *t); /* payload */

enum tcp_kind { TCP_PARTIAL = 1, TCP_RESULT, TCP_EXCHANGE };

/* What every message begins with. */
struct tcp_header {
    uint64_t call;   /* watch_call() of the call that it belongs to, */
    uint64_t number; /* and how many calls the sender had begun by then */
    uint32_t kind, chunk;
    uint64_t n_bytes; /* that follow */
};

/* A message on its way out: the header is copied, the data is not. */
struct tcp_message;
struct tcp_message *tcp_message_create(const struct tcp_header *h, size_t max_pieces); /* n_bytes: 0; NULL: no memory */
void tcp_message_add(struct tcp_message *m, void *data, size_t n);
void tcp_post(struct tcp *t, int node, struct tcp_message *m, uint64_t tag); /* takes m over */

/* Has every message to node with a tag of at most `tag` been handed to the kernel? */
bool tcp_is_sent(const struct tcp *t, int node, uint64_t tag);

/* What is done with a message that begins to arrive: read into what `header` passes to tcp_into, left in the connection
 * (and asked for again at the next tcp_pump), or taken for another call's. */
enum tcp_verdict { TCP_READ, TCP_LEAVE, TCP_DIFFERS, TCP_NO_MEMORY };
struct tcp_handler {
    void *ctx;
    enum tcp_verdict (*header)(void *ctx, int node, const struct tcp_header *h);
    void (*message)(void *ctx, int node, const struct tcp_header *h); /* it is there */
};
void tcp_set_handler(struct tcp *t, const struct tcp_handler *h); /* of all but TCP_EXCHANGE */
int tcp_into(struct tcp *t, int node, void *data, size_t n); /* 0, or -1 without memory */

/* Moves what can be moved now: 1 if something was, 0, or -1: the cause has been raised. A connection that is closed or
 * broken is an error only for who needs it: tcp_is_lost, tcp_lost. */
int tcp_pump(struct tcp *t, watch_t *w);
bool tcp_is_lost(const struct tcp *t, int node);
void tcp_lost(struct tcp *t, int node, watch_t *w, enum watch_what what); /* raises what ended it */

/* Fills n_nodes entries with what to poll for. Entries of connections that rest have fd -1. */
void tcp_polls(const struct tcp *t, struct pollfd *polls);

/* When data last moved to or from node; 0: never. */
uint64_t tcp_moved_ns(const struct tcp *t, int node);

/* The call that this rank is in: messages of later calls wait, of other calls at this turn are an error. */
void tcp_begin(struct tcp *t, uint64_t number, uint64_t call);

/* One exchange: what is to be sent to, or received from, node k in one message of the present call; then tcp_exchange moves
 * all of it, in both directions at once. Every peer makes the matching calls. -1: the watch's cause. */
int tcp_send(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);
int tcp_recv(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);
int tcp_exchange(struct tcp *t, watch_t *w, enum watch_what what, ddp_error_t *errp);

#endif
