/* boot_server_impl.h - what the boot server's files share: boot_server.c calls boot_protocol.c (the clients' requests),
 * and both call boot_client.c (the clients' connections). A rank's states are
 *
 *   NEW -> IN (hello accepted) -> LEFT (bye)       and back to NEW when all have LEFT
 *              IN -> LOST (connection closed without bye)
 *
 * Invariants: a connection in the lobby has not shown yet that it has the token, a client has; ranks[r].client is set
 * exactly while rank r is IN; once `failure` is set, no fence completes any more. A dropped client stays in the list
 * until the step ends. */
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
    bool is_waiting; /* has connected again before all ranks have left: no welcome sent yet */
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
    bool ends_with_round;
    struct wire_addr where;
    char addr[160];
    char call[WIRE_TOKEN_LEN + 1], answer[WIRE_TOKEN_LEN + 1]; /* proofs: of clients, and the server's own */
    struct rank *ranks;
    struct client *clients; /* newest first */
    ddp_error_t failure;    /* code 0: none */
    int failed_rank;        /* the rank that caused the failure; -1: none */
};

/* ---- boot_client.c ---- */

/* Sets, by epoll_ctl(op), the events of the client's connection that end the server's wait. */
void client_watch(boot_server_t *s, struct client *c, int op, uint32_t events);

/* Sends what is queued; if some is left, waits for EPOLLOUT too. */
void client_flush(boot_server_t *s, struct client *c);
void client_send(boot_server_t *s, struct client *c, enum wire_type type, const void *body, size_t n);
void client_send_error(boot_server_t *s, struct client *c, const ddp_error_t *e);

/* Closes the connection; a rank that was IN becomes LOST, which is a failure. */
void client_drop(boot_server_t *s, struct client *c);

/* Records a failure that `rank` caused: from now on no fence completes, and ranks that wait receive the error. The
 * first failure counts. */
void server_fail(boot_server_t *s, int rank, const char *fmt, ...) ERROR_PRINTF(3, 4);

/* ---- boot_protocol.c ---- */

/* Handles the hello of a new client, which had the right proof: body[0..WIRE_HELLO_BODY). */
void client_hello(boot_server_t *s, struct client *c, const unsigned char *body);

/* Handles all requests that have arrived from a client. */
void client_read(boot_server_t *s, struct client *c);

#endif
