/* tcp_impl.h - the data structures of tcp.h. Private to tcp*.c. */
#ifndef DDP_COMM_TCP_IMPL_H
#define DDP_COMM_TCP_IMPL_H

#include <sys/uio.h>

#include "runtime/comm/tcp.h"

/* Bytes read ahead: a small message comes with its header. Of a large one so many are copied once more. */
enum { TCP_AHEAD = 4096 };

struct tcp_message {
    struct tcp_message *next;
    uint64_t tag;
    struct tcp_header header;
    size_t n, at, cap;  /* v[at..n) is still to be sent */
    struct iovec v[];   /* [0] is the header */
};

/* Memory that received data goes to. */
struct tcp_memory {
    struct iovec *v;
    size_t n, cap, at; /* v[at..n) is still to be filled */
    size_t n_bytes;    /* of all entries together, when they were added */
};

struct tcp_conn {
    int rank, fd; /* fd -1: this node itself */
    struct tcp_message *out, **out_end;
    struct tcp_message *sending; /* of the exchange that is being prepared */
    struct tcp_header h;         /* of the message that is being read */
    size_t n_header;             /* bytes of it that have arrived */
    bool is_reading;             /* the header has been accepted: `in` is being filled */
    char ahead[TCP_AHEAD];       /* bytes that came with those before them: [at_ahead, n_ahead) are still to be taken */
    size_t at_ahead, n_ahead;
    struct tcp_memory in, expected; /* expected: what the present exchange receives */
    bool is_lost;
    int lost_errno; /* 0: closed */
    uint64_t moved_ns;
    uint64_t acked; /* when tcp_rate last looked */
};

struct tcp {
    const struct world *world;
    int n_nodes;
    double timeout_s;
    struct tcp_conn *conns; /* [n_nodes] */
    struct tcp_handler handler;
    uint64_t bytes_sent, number, call;
    uint32_t n_exchanges; /* of the present call */
};

int tcp_memory_add(struct tcp_memory *q, void *data, size_t n); /* -1: no memory */

#endif
