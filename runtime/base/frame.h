/* frame.h - short messages over a stream socket: a kind and up to FRAME_BODY_MAX bytes; over a unix socket also a
 * descriptor. No call waits. */
#ifndef DDP_BASE_FRAME_H
#define DDP_BASE_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#define FRAME_HEAD 8 /* the kind and the body's length, 4 bytes each */
#define FRAME_BODY_MAX 1024

/* What has arrived of the next frame; begins as {0}, or with takes_fd set, without which descriptors that come are
 * closed. */
struct frame {
    size_t n; /* bytes in `bytes` */
    bool takes_fd, has_fd;
    int fd; /* where has_fd is set: frame_take_fd */
    unsigned char bytes[FRAME_HEAD + FRAME_BODY_MAX];
};

/* Sends a frame. One that the socket takes only a part of ends the connection, since whatever followed would be out of
 * step; one that it takes nothing of is lost: who does not read is taken for dead by other means. */
void frame_send(int fd, int kind, const void *body, size_t n);

/* The same with a descriptor, of which the receiver gets its own; -1: none. */
void frame_send_fd(int fd, int kind, const void *body, size_t n, int passed);

/* Reads what is there of the next frame. 1: it is whole: *ret_kind, and its body of *ret_n bytes at f->bytes +
 * FRAME_HEAD until the next call; 0: not yet; -1: the connection has ended, or says what is no frame. */
int frame_next(struct frame *f, int fd, int *ret_kind, size_t *ret_n);

/* The descriptor that came last, to the caller; -1: none has come since the last call. */
int frame_take_fd(struct frame *f);

#endif
