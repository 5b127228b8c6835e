/* tcp.h - connections between the owners of equal local index of all nodes, and messages over them.
 *
 * The header of each message names the call that it belongs to. So ranks find out when their calls differ, and a peer
 * may be ahead: a message of a later call stays in its connection, or is read by a handler that has room for it. The
 * nodes' leaders also hold a control connection to each other, which belongs to the watch. */
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

/* Listens with m->fd on a free port of one local address: that of `interface`; without one (NULL), the address from
 * which MASTER_ADDR is reached, which is MASTER_ADDR itself on its own machine; where that is not known, the first
 * interface's, or without a network the loopback's. */
int tcp_listen(struct handshake *m, const char *interface, struct tcp_address *ret, ddp_error_t *errp);

/* Connects to `to`, where `who` (for errors) listens. Returns a non-blocking descriptor, or -1 by the deadline. */
int tcp_connect(const struct tcp_address *to, const char *who, uint64_t deadline, ddp_error_t *errp);

/* A peer: the owner of the same local index on another node, its address and its tokens. */
struct tcp_peer {
    int rank;
    struct tcp_address address;
    struct handshake meet;
};

struct tcp;

/* Connects to peers[k] for every node k but this rank's. own: this rank's listening socket. On a leader *ret_control is
 * an array of n_nodes - 1 control connections for the watch, which the caller frees; on others it is NULL. */
struct tcp *tcp_wire(const struct world *w, const struct handshake *own, const struct tcp_peer *peers, double timeout_s,
                     uint64_t deadline, struct watch_peer **ret_control, ddp_error_t *errp);
void tcp_destroy(struct tcp *t); /* NULL is allowed */
void tcp_disown(struct tcp *t);  /* in a forked child (forked.h); NULL is allowed */
uint64_t tcp_bytes_sent(const struct tcp *t); /* payload */

#define TCP_RATE_BYTES (1 << 20)

/* Bytes a second that the path of the fastest connection takes, as the kernel knows it. A slower one may be its peer's
 * fault. NAN: none has sent TCP_RATE_BYTES since the last call. */
double tcp_rate(struct tcp *t);

enum tcp_kind { TCP_PARTIAL = 1, TCP_RESULT, TCP_EXCHANGE, TCP_SWAP };

/* What every message begins with. */
struct tcp_header {
    uint64_t call;   /* watch_call() of the call that the message belongs to, */
    uint64_t number; /* and how many calls the sender had begun by then */
    uint32_t kind, chunk;
    uint64_t n_bytes; /* of data after the header */
};

/* A message to send: the header is copied, the data is not. */
struct tcp_message;
struct tcp_message *tcp_message_create(const struct tcp_header *h, size_t max_pieces); /* n_bytes: 0; NULL: no memory */
void tcp_message_add(struct tcp_message *m, void *data, size_t n);
void tcp_post(struct tcp *t, int node, struct tcp_message *m, uint64_t tag); /* takes m over */

/* True once the kernel has taken every message to `node` whose tag is at most `tag`. */
bool tcp_is_sent(const struct tcp *t, int node, uint64_t tag);

/* What `header` decides about a message whose header has arrived. TCP_READ: its data is read into the memory that
 * `header` has passed to tcp_into. TCP_LEAVE: it stays in the connection, and the next tcp_pump asks again.
 * TCP_DIFFERS: it belongs to a call that differs from this rank's. */
enum tcp_verdict { TCP_READ, TCP_LEAVE, TCP_DIFFERS, TCP_NO_MEMORY };
struct tcp_handler {
    void *ctx;
    enum tcp_verdict (*header)(void *ctx, int node, const struct tcp_header *h);
    void (*message)(void *ctx, int node, const struct tcp_header *h); /* the whole message has arrived */
    uint64_t (*call)(void *ctx, uint64_t number); /* this rank's call of that number; 0: not begun, or too long ago */
};
void tcp_set_handler(struct tcp *t, const struct tcp_handler *h); /* TCP_EXCHANGE goes to no `header` or `message` */
int tcp_into(struct tcp *t, int node, void *data, size_t n); /* 0, or -1 without memory */

/* Sends and receives what the sockets take and have now. 1: something was moved; 0: nothing was; -1: a cause has been
 * raised. A connection that was closed or broke is not an error yet: who needs it asks tcp_is_lost, and raises the
 * cause by tcp_lost. */
int tcp_pump(struct tcp *t, watch_t *w);
bool tcp_is_lost(const struct tcp *t, int node);
void tcp_lost(struct tcp *t, int node, watch_t *w, enum watch_what what);

/* Fills n_nodes entries for poll(). A connection with nothing to wait for has fd -1. */
void tcp_polls(const struct tcp *t, struct pollfd *polls);

/* When data was last sent to or received from `node`, in ns of clock.h; 0: never. */
uint64_t tcp_moved_ns(const struct tcp *t, int node);

/* Sets the call that this rank is in. Messages of later calls wait; a message of this number that belongs to another
 * call is an error. */
void tcp_begin(struct tcp *t, uint64_t number, uint64_t call);

/* One exchange: tcp_send and tcp_recv name what goes to, or comes from, node k in one message of the present call; then
 * tcp_exchange moves all of it, in both directions at once. Every peer makes the matching calls. -1: the watch's
 * cause. */
int tcp_send(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);
int tcp_recv(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);
int tcp_exchange(struct tcp *t, watch_t *w, enum watch_what what, ddp_error_t *errp);

#endif
