/* tcp.h - connections between the owners of equal local index of all nodes, and full-duplex exchanges over them.
 *
 * Both ends know from the call what comes next. What one sends another in an exchange begins with a word that says which
 * call it belongs to, so that ranks whose calls differ notice. Nodes' leaders also hold a control connection to each
 * other, which belongs to the watch. */
#ifndef DDP_COMM_TCP_H
#define DDP_COMM_TCP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "pmix/world.h"
#include "runtime/comm/meet.h"
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

/* The call (watch_call) that the next exchanges belong to. */
void tcp_set_call(struct tcp *t, uint64_t call);

/* What is to be sent to, or received from, node k in one exchange. They grow as needed and are emptied by it. */
int tcp_send(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);
int tcp_recv(struct tcp *t, int node, void *data, size_t n, ddp_error_t *errp);

/* Moves all of it, in both directions at once. Every peer must make the matching calls. -1: the watch's cause. */
int tcp_exchange(struct tcp *t, watch_t *w, enum watch_what what, ddp_error_t *errp);

#endif
