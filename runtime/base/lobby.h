/* lobby.h - the accept loop of a listener that strangers can reach: lets in who opens with the right token.
 *
 * Every caller opens with a head of fixed length that has the token in it, and sends it at once. Until the head is
 * whole the connection waits in the lobby; then it goes to the owner, or is closed without a word. Nothing else of a
 * stranger is ever looked at. However many strangers come, and however fast:
 *
 *   - a step reads what those who wait have sent before it accepts, and accepts LOBBY_ACCEPTS at most: it ends soon;
 *   - whose head is there when it is accepted never waits; who waits is heard once more before it must go;
 *   - when all places are taken, or descriptors run out, the one that has waited longest goes. */
#ifndef DDP_BASE_LOBBY_H
#define DDP_BASE_LOBBY_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

#define LOBBY_HEAD_MAX 128 /* bytes */
#define LOBBY_ACCEPTS 16   /* in one step */
#define LOBBY_ENTER_MAX 80 /* let in by one step */

typedef struct lobby lobby_t;

/* The owner takes fd, which is non-blocking, and may read the head during the call. */
typedef void lobby_enter_f(void *arg, int fd, const unsigned char *head);

struct lobby_options {
    int listen_fd;           /* listening, non-blocking; borrowed for the lobby's life */
    size_t head_n;           /* bytes of a head */
    size_t token_at, token_n; /* where the token lies in it */
    const void *token;       /* token_n bytes; borrowed for the lobby's life */
    bool is_same_user;       /* unix sockets: callers of other users are closed at once */
    size_t n_max;            /* how many may wait */
    double head_s;           /* how long one may, from its accept on */
    lobby_enter_f *enter;
    void *arg;
};

lobby_t *lobby_create(const struct lobby_options *o, ddp_error_t *errp);

int lobby_fd(const lobby_t *l); /* readable when there is something to do: for poll or epoll */

/* Does what there is to do, without waiting. 0, or -1 when the listener is broken or the process is out of descriptors
 * and no stranger has one; never because of what a stranger did. */
int lobby_step(lobby_t *l, ddp_error_t *errp);

/* Closes those who wait. NULL is allowed; preserves errno. */
void lobby_destroy(lobby_t *l);

#endif
