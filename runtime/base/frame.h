/* frame.h - short messages over a stream socket: a kind and up to FRAME_BODY_MAX bytes. Neither call waits. */
#ifndef DDP_BASE_FRAME_H
#define DDP_BASE_FRAME_H

#include <stddef.h>

#define FRAME_HEAD 8 /* the kind and the body's length, 4 bytes each */
#define FRAME_BODY_MAX 1024

/* What has arrived of the next frame; begins as {0}. */
struct frame {
    size_t n; /* bytes in `bytes` */
    unsigned char bytes[FRAME_HEAD + FRAME_BODY_MAX];
};

/* Sends a frame. One that the socket takes only a part of ends the connection, since whatever followed would be out of
 * step; one that it takes nothing of is lost: who does not read is taken for dead by other means. */
void frame_send(int fd, int kind, const void *body, size_t n);

/* Reads what is there of the next frame. 1: it is whole: *ret_kind, and its body of *ret_n bytes at f->bytes +
 * FRAME_HEAD until the next call; 0: not yet; -1: the connection has ended, or says what is no frame. */
int frame_next(struct frame *f, int fd, int *ret_kind, size_t *ret_n);

#endif
