/* boot_conn.h - one connection of the boot server: frames in, frames out, never blocking. Private to pmix/. */
#ifndef DDP_PMIX_BOOT_CONN_H
#define DDP_PMIX_BOOT_CONN_H

#include "pmix/boot_wire.h"

struct boot_conn {
    int fd;
    size_t body_max; /* a longer frame is a violation; set before reading */
    unsigned char *in, *out;
    size_t in_n, in_cap;
    size_t out_at, out_n, out_cap; /* out[out_at..out_n) is to be sent */
};

struct boot_frame {
    int type;
    const unsigned char *body; /* borrowed until conn_consume */
    size_t n;
};

/* Receives, without waiting, bytes that have arrived and fit. 1: some were received, 0: none have arrived, -1: the
 * connection is closed or broken. */
int conn_receive(struct boot_conn *c);

/* *ret becomes the first frame received. 1: it is whole, 0: it is not whole yet, -1: its length is not allowed. */
int conn_frame(const struct boot_conn *c, struct boot_frame *ret);
void conn_consume(struct boot_conn *c, const struct boot_frame *f);

/* Queues a frame whose body is a[0..a_n) and then b[0..b_n). 0, or -1 when memory runs out. */
int conn_queue(struct boot_conn *c, enum wire_type type, const void *a, size_t a_n, const void *b, size_t b_n);

/* Sends as much as the socket takes. 1: some is left to send, 0: nothing is left, -1: the connection is broken. */
int conn_flush(struct boot_conn *c);

void conn_close(struct boot_conn *c);

#endif
