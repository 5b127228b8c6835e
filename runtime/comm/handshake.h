/* handshake.h - how ranks that know each other's tokens meet over a listening socket that strangers can reach too.
 *
 * The connecting rank sends a greeting: magic, its own rank, the rank that it wants, the connection's purpose, and the
 * token that the listening rank published through the boot, or whose nonce it did (boot_token). The listener answers
 * with a second token. Until both are checked, neither side uses anything that it received. A stranger that sends
 * garbage, nothing or a wrong token only loses its own connection. */
#ifndef DDP_RUNTIME_COMM_HANDSHAKE_H
#define DDP_RUNTIME_COMM_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"

#define MEET_TOKEN 16 /* bytes */

enum handshake_kind { MEET_SHM = 1, MEET_DATA, MEET_CONTROL, MEET_PAIR };

/* One listening socket and its two tokens. fd -1: none. */
struct handshake {
    int fd;
    uint8_t call[MEET_TOKEN];   /* the token in the caller's greeting */
    uint8_t answer[MEET_TOKEN]; /* the token in the listener's answer */
};

/* A peer that is expected to connect; fd is its connection, -1 until it has. */
struct handshake_guest {
    int rank;
    enum handshake_kind kind;
    int fd;
};

int handshake_tokens(struct handshake *m, ddp_error_t *errp); /* draws both */

/* Accepts connections until every guest has arrived. same_uid: refuse other users (unix sockets). The guests'
 * descriptors are non-blocking; handshake_answer still has to answer them. On failure the text names the first rank
 * that has not arrived, and the connections of those that have are closed. */
int handshake_accept(const struct handshake *m, const struct world *w, struct handshake_guest *guests, size_t n_guests,
                     bool same_uid, uint64_t deadline, ddp_error_t *errp);

/* Sends the greeting over a connected socket to rank `to`, whose tokens are in *m. */
int handshake_call(int fd, const struct handshake *m, const struct world *w, int to, enum handshake_kind kind,
                   uint64_t deadline, ddp_error_t *errp);

/* The listener sends its answer, with the descriptor pass_fd (-1: none). The caller receives the answer and checks it;
 * *ret_fd (may be NULL) is the descriptor that came with it, or -1. */
int handshake_answer(int fd, const struct handshake *m, const char *who, int pass_fd, ddp_error_t *errp);
int handshake_answered(int fd, const struct handshake *m, const char *who, int *ret_fd, uint64_t deadline,
                       ddp_error_t *errp);

#endif
