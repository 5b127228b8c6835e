/* boot_server_impl.h - what the boot server's files share: boot_server.c calls boot_protocol.c (what clients say), and both
 * boot_client.c (their connections). A rank goes
 *
 *   NEW -> IN (hello accepted) -> LEFT (bye)       and back to NEW when all have LEFT
 *              IN -> LOST (connection closed without bye)
 *
 * Invariants: who is in the lobby has not shown the token; a client has; ranks[r].client is set exactly while r is IN;
 * once `failure` is set no fence completes any more. A dropped client stays in the list until the step ends. */
#ifndef DDP_PMIX_BOOT_SERVER_IMPL_H
#define DDP_PMIX_BOOT_SERVER_IMPL_H

#include "pmix/boot_conn.h"
#include "pmix/boot_server.h"
#include "pmix/boot_store.h"
#include "runtime/base/lobby.h"

enum rank_state { NEW, IN, LEFT, LOST };

struct client {
    struct client *next;
    struct boot_conn conn;
    int rank; /* -1: refused */
    bool is_waiting; /* came again before the others have left: no welcome yet */
    bool in_fence;
    bool is_dropped; /* freed at the end of the step */
};

struct rank {
    enum rank_state state;
    struct client *client;
    struct boot_item *items;
    char how[64]; /* how its process ended; empty while it lives */
};

struct boot_server {
    int listen_fd, epoll_fd, size;
    lobby_t *lobby;
    int n_left, n_fence;
    bool is_round_done; /* all have left once */
    struct wire_addr where;
    char addr[160], token[WIRE_TOKEN_LEN + 1];
    struct rank *ranks;
    struct client *clients; /* newest first */
    ddp_error_t failure;    /* code 0: none */
    int failed_rank;        /* whose doing that was; -1: none */
};

/* ---- boot_client.c ---- */

/* The events of its connection that end the server's wait, by epoll_ctl. */
void client_watch(boot_server_t *s, struct client *c, int op, uint32_t events);

/* Sends what is queued, and watches for room if something is left. */
void client_flush(boot_server_t *s, struct client *c);
void client_send(boot_server_t *s, struct client *c, enum wire_type type, const void *body, size_t n);
void client_send_error(boot_server_t *s, struct client *c, const ddp_error_t *e);

/* Closes; a rank that was IN is LOST, which is a failure. */
void client_drop(boot_server_t *s, struct client *c);

/* From now on no fence completes, because of `rank`; whoever waits is told. The first failure counts. */
void server_fail(boot_server_t *s, int rank, const char *fmt, ...) ERROR_PRINTF(3, 4);

/* ---- boot_protocol.c ---- */

/* A new client has said hello with the token: body[0..WIRE_HELLO_BODY). */
void client_hello(boot_server_t *s, struct client *c, const unsigned char *body);

/* Does all that a client has said. */
void client_read(boot_server_t *s, struct client *c);

#endif
