/* handshake.h - how ranks that know each other's tokens meet over a listening socket that strangers can reach too.
 *
 * The caller's side opens with a greeting: magic, who it is, whom it wants, what for, and the token that the listening
 * rank published through the boot; it is answered with a second token. Nothing else is believed before. A stranger's
 * garbage, silence or wrong token closes that connection only. */
#ifndef DDP_RUNTIME_COMM_HANDSHAKE_H
#define DDP_RUNTIME_COMM_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"

#define MEET_TOKEN 16 /* bytes */

enum meet_kind { MEET_SHM = 1, MEET_DATA, MEET_CONTROL };

/* One listening socket and its two tokens. fd -1: none. */
struct meet {
    int fd;
    uint8_t call[MEET_TOKEN];   /* what a caller shows */
    uint8_t answer[MEET_TOKEN]; /* what it gets back */
};

/* A peer that is to come, and its connection once it came (-1 before). */
struct meet_guest {
    int rank;
    enum meet_kind kind;
    int fd;
};

int meet_tokens(struct meet *m, ddp_error_t *errp); /* draws both */

/* Accepts until every guest came. same_uid: refuse other users (unix sockets). Guests' descriptors are non-blocking and
 * not yet answered. On failure the text names the first rank that did not come, and guests that came are closed. */
int meet_accept(const struct meet *m, const struct world *w, struct meet_guest *guests, size_t n_guests, bool same_uid,
                uint64_t deadline, ddp_error_t *errp);

/* Sends the greeting over a connected socket to rank `to`, whose tokens are in *m. */
int meet_call(int fd, const struct meet *m, const struct world *w, int to, enum meet_kind kind, uint64_t deadline,
              ddp_error_t *errp);

/* Listener: answers, passing pass_fd along (-1: none). Caller: takes the answer and checks it; *ret_fd (may be NULL)
 * is the descriptor that came with it, or -1. */
int meet_answer(int fd, const struct meet *m, const char *who, int pass_fd, ddp_error_t *errp);
int meet_answered(int fd, const struct meet *m, const char *who, int *ret_fd, uint64_t deadline, ddp_error_t *errp);

#endif
