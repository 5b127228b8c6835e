/* guards_impl.h - what the files of guards.h share: from the bottom up guards_link.c (messages over a connection),
 * guards_join.c (who is connected with whom) and guards.c (what it means). */
#ifndef DDP_SPANK_GUARDS_IMPL_H
#define DDP_SPANK_GUARDS_IMPL_H

#include <netdb.h>

#include "runtime/base/lobby.h"
#include "spank/guards.h"

#define MESSAGE_LEN (4 + DEATH_BYTES)

enum { TOLD_BEAT, TOLD_DEATH, TOLD_VERDICT, TOLD_FAREWELL };

/* How far a connection is. Who asks says who it is, hears that it is let in, and confirms that it has heard that: one
 * that gave up in between is nobody's death. */
enum state { LINK_CONNECTS, LINK_ASKS, LINK_IS_IN };

/* A connection to another guard. */
struct link {
    int fd;
    enum state state;
    bool is_remote, is_over; /* TCP; it has said farewell */
    int rank, node;          /* at the other end */
    char name[HOSTLIST_NAME_MAX + 1];
    uint64_t heard;
    size_t n; /* bytes of a message that are here */
    unsigned char in[MESSAGE_LEN];
    struct link *next;
};

struct guards {
    struct guards_facts f;
    int epoll, listen_fd[2]; /* unix, TCP */
    lobby_t *lobby[2];
    struct link *below, *above; /* above: NULL until it is joined */
    bool is_finished, is_alone; /* alone: there is none above, or it cannot be reached */
    bool is_ending;             /* nobody's end is a death any more */
    struct link *trial;         /* on its way to be the one above; NULL: none is */
    uint64_t join_at;           /* of the next trial, or the end of this one */
    uint64_t join_until, beat_at, looked_at;
    int join_wait_ms, join_port; /* the wait before the next round; which port is next */
    struct addrinfo *above_at, *above_now;
    struct death first, verdict; /* first: what the verdict will be at settle_at */
    uint64_t settle_at;          /* 0: nothing has died */
    struct death lost;           /* who has gone without a farewell, and counts as dead from lost_at on */
    uint64_t lost_at;            /* 0: nobody */
    bool is_lost_above, is_loss_ours, is_ours;
};

/* ---- guards_link.c ---- */

/* A connection, which takes fd. NULL: fd is closed. */
struct link *link_add(guards_t *g, int fd, bool is_remote, enum state state);
void link_drop(guards_t *g, struct link *l);

/* d: NULL where the message has none. */
void link_send(const struct link *l, int what, const struct death *d);
void link_send_below(const guards_t *g, int what, const struct death *d);

/* 1: a message, in *ret_what and *ret; 0: none now; -1: the connection has ended. */
int link_next(struct link *l, int *ret_what, struct death *ret);

/* ---- guards_join.c ---- */

void join_open(guards_t *g); /* listens where others are to come, and finds the one above */
bool join_is_open(const guards_t *g); /* there is one above to join still */
void join_step(guards_t *g); /* at g->join_at */

/* The trial's connection can be written to or has failed; has ended; has brought the answer. */
void join_ask(guards_t *g);
void join_fail(guards_t *g);
void join_succeed(guards_t *g, const struct death *who);

#endif
