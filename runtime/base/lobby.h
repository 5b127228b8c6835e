/* lobby.h - the accept loop of a listener that strangers can reach: admits connections that begin with the right token.
 *
 * Every caller first sends a head of fixed length that contains the token, or, where the owner checks, answers what it
 * is sent. Until the whole head has arrived the connection waits in the lobby; then it is given to the owner of the
 * lobby, or closed without an answer. Nothing else that a stranger sends is read. However many strangers connect, and
 * however fast:
 *
 *   - a step first reads from the waiting connections, then accepts at most LOBBY_ACCEPTS new ones, so it ends soon;
 *   - a connection whose head has arrived when it is accepted never waits, and a waiting connection is read once more
 *     before it is closed;
 *   - when all places are taken, or descriptors run out, the connection that has waited longest is closed. */
#ifndef DDP_BASE_LOBBY_H
#define DDP_BASE_LOBBY_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

#define LOBBY_HEAD_MAX 128 /* bytes */
#define LOBBY_NONCE_LEN 16
#define LOBBY_ACCEPTS 16   /* in one step */
#define LOBBY_ENTER_MAX 80 /* admitted by one step */

typedef struct lobby lobby_t;

/* The lobby's owner takes fd, which is non-blocking, over, and may read the head during the call. */
typedef void lobby_enter_f(void *arg, int fd, const unsigned char *head);

/* Whether a head is right that answers this nonce. */
typedef bool lobby_check_f(void *arg, const unsigned char nonce[LOBBY_NONCE_LEN], const unsigned char *head);

struct lobby_options {
    int listen_fd;           /* listening, non-blocking; borrowed for the lobby's life */
    size_t head_n;           /* bytes of a head */
    size_t token_at, token_n; /* where the token lies in it */
    const void *token;       /* token_n bytes; borrowed for the lobby's life */
    lobby_check_f *check;    /* or NULL; else in place of a token: callers are first sent a nonce, random bytes */
    bool is_same_user;       /* unix sockets: callers of other users are closed at once */
    size_t n_max;            /* connections that may wait */
    double head_s;           /* how long a connection may wait after its accept */
    lobby_enter_f *enter;
    void *arg;
};

lobby_t *lobby_create(const struct lobby_options *o, ddp_error_t *errp);

int lobby_fd(const lobby_t *l); /* readable when there is something to do: for poll or epoll */

/* Reads and accepts without waiting. 0, or -1 if the listener is broken, or if the process is out of descriptors and no
 * waiting connection has one; never because of what a stranger did. */
int lobby_step(lobby_t *l, ddp_error_t *errp);

/* Closes the waiting connections. NULL is allowed; preserves errno. */
void lobby_destroy(lobby_t *l);

#endif
