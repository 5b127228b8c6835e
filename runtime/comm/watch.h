/* watch.h - finds out which rank of the job has ended, and ends every wait of every rank with that cause.
 *
 * The ranks of a node share a board in memory. The first cause that is written to the board stays; later ones are
 * ignored. (A rank that leaves because another rank died is not a cause.) Each rank has a watch thread. The thread of
 * local rank 0, the node's leader, polls a pidfd of and a unix socket to each other rank of the node, and a control
 * connection to the leader of each other node; the other ranks' threads poll the leader alone. A thread that finds a
 * cause writes it to the board and wakes the node's other ranks by a byte on the unix sockets; the leader forwards the
 * cause to every other node before it can itself be seen to leave. Every leader that receives a cause forwards it
 * again, so that each rank sees a cause before its consequences.
 *
 * A process that ends without watch_leave counts as died, whatever its exit code. One that dies after the boot's
 * exchange and before its watch has started is found by its guard (notice.h); without one by the launcher, or by the
 * other ranks at their deadline. The guards also find what no connection here shows: a node that has gone silent. */
#ifndef DDP_RUNTIME_WATCH_H
#define DDP_RUNTIME_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"
#include "runtime/base/flight.h"

typedef struct watch watch_t;
struct watch_board; /* lies in memory shared by the node's ranks, which starts as zeros */

enum watch_kind {
    WATCH_DIED = 1, /* the rank died; arg: its wait status, or WATCH_STATUS_UNKNOWN */
    WATCH_LOST,     /* the connection to the rank failed; arg: errno */
    WATCH_LEFT,     /* the rank left although rank `arg` waits for it, in `what` */
    WATCH_LATE,     /* rank `arg` waited for the rank until its deadline (raised by watch_is_late); a text says which */
    WATCH_ABORT,    /* the rank aborted; a text says why */
    WATCH_DIFFERS,  /* the rank made another call than another rank, which a text names */
    WATCH_STUCK,    /* every rank waits for all others, and nothing moves; rank: who found this out */
    WATCH_NOTICE,   /* the guards say that the step ends by the rank's death; a text says how */
    WATCH_LEFT_ABORT, /* the rank left, the first and only one, and then rank `arg` aborted; a text says why */
};
#define WATCH_STATUS_UNKNOWN 0xfffff
#define WATCH_TEXT_MAX 255 /* bytes of an abort's reason: a whole error's, and a notice's */

/* The call that a rank waits in, for error texts. */
enum watch_what {
    WATCH_IN_BARRIER,
    WATCH_IN_ALLREDUCE,
    WATCH_IN_BCAST,
    WATCH_IN_ALLGATHER,
    WATCH_IN_REDUCE_SCATTER,
    WATCH_IN_ALLTOALL,
    WATCH_IN_SEGMENT,
    WATCH_IN_WIRING,
    WATCH_IN_NCCL_INIT,
    WATCH_IN_NCCL,
    WATCH_IN_NCCL_MEMORY,
    WATCH_IN_NCCL_WINDOW,
    WATCH_IN_NCCL_END
};
const char *watch_what_name(enum watch_what what);

/* A collective call as one number, equal on two ranks where they make the same call. hash: of the call's number and
 * arguments. */
static inline uint64_t watch_call(enum watch_what what, uint64_t hash)
{
    return ((uint64_t)what + 1) << 56 | hash >> 8;
}

struct watch_peer {
    int rank;
    int fd;    /* a stream socket to the peer; the watch takes it over */
    int pidfd; /* or -1; the watch takes it over */
    int pid;   /* or 0: the peer's wait status is then not known */
};

struct watch_config {
    const struct world *world;
    struct watch_board *board;
    struct watch_peer *local; /* of the leader: the node's other ranks; of another rank: the leader. Copied */
    size_t n_local;
    struct watch_peer *remote; /* of the leader: the other nodes' leaders, with pidfd -1. Copied */
    size_t n_remote;
    flight_t *flight; /* where a wait is noted, or NULL; borrowed */
    const char *timeout_name; /* as in comm.h */
    int notice_fd; /* to the guard (notice.h), or -1; the watch takes it over */
};

size_t watch_board_bytes(int size, int local_size);

/* Starts the watch thread, with all signals blocked. On failure the caller still owns the descriptors. */
watch_t *watch_create(const struct watch_config *cfg, ddp_error_t *errp);
/* NULL is allowed. Returns, too, where the program has closed the watch's descriptors; the thread then stays. */
void watch_destroy(watch_t *w);
void watch_disown(watch_t *w);  /* in a forked child (forked.h) */

/* True once a cause has been found. Cheap. */
bool watch_is_broken(const watch_t *w);
bool watch_has_left(const watch_t *w, int rank);
int watch_left_on_node(const watch_t *w, int node); /* a rank of the node that has left, or -1 */

/* Forwards the cause to the other nodes, then fills *errp from it (DDP_E_PEER or DDP_E_TIMEOUT). Returns -1. */
int watch_error(watch_t *w, ddp_error_t *errp);

/* Records a cause unless there is one already, and wakes all waiters. */
void watch_raise(watch_t *w, enum watch_kind kind, int rank, int arg, enum watch_what what);
/* WATCH_ABORT by this rank, or by R where `why` begins with "rank R: "; where one other has left, which this rank's may
 * come from, WATCH_LEFT_ABORT. */
void watch_abort(watch_t *w, const char *why);

/* Raises WATCH_DIFFERS: `rank` makes the call `call`, and rank `other` another one. */
void watch_differs(watch_t *w, int rank, uint64_t call, int other, uint64_t others_call);

/* In place of a rank that is waited for: any rank that does not wait itself. For waits in a library that does not
 * report which rank it waits for. */
#define WATCH_ANYONE (-2)

/* A waiter calls this before each sleep with the rank that it waits for, and with -1 when its wait is over. Once the
 * deadline of some rank has passed, the call publishes that rank on the board and to the other nodes; before that it is
 * cheap. */
void watch_waits_for(watch_t *w, int suspect);

/* A waiter calls this when its wait for `suspect` has passed the deadline. It makes all waiters publish which rank they
 * wait for, and a moment later it follows these from rank to rank and blames the last one, which does not wait. True:
 * the cause is raised. False: it is too early; the caller looks again at what it waits for, then sleeps until
 * watch_alarm(). A process that stood still over its deadline, in a suspended step, waits for timeout_s more. With
 * WATCH_ANYONE the lowest rank that does not wait is to blame; where all ranks wait, the cause is WATCH_STUCK. */
bool watch_is_late(watch_t *w, int suspect, uint64_t deadline, double timeout_s, enum watch_what what);
uint64_t watch_alarm(uint64_t deadline);

/* From now on the end of this rank's process does not count as a death. */
void watch_leave(watch_t *w);

/* The bell: how a rank sleeps until another rank of its node has done something. A waiter reads the bell, looks at what
 * it waits for and at the watch, then calls watch_bell_wait. A rank whose progress others may wait for calls
 * watch_bell_ring. (Futexes on the board.) */
uint32_t watch_bell(const watch_t *w);
void watch_bell_wait(watch_t *w, uint32_t seen, uint64_t deadline);
void watch_bell_ring(watch_t *w);

/* The same for waits in poll(): a descriptor that becomes readable when something has happened. watch_event_signal
 * wakes a waiter of this process; watch_event_clear makes the descriptor unreadable again. */
int watch_event_fd(const watch_t *w);
void watch_event_signal(watch_t *w);
void watch_event_clear(watch_t *w);

#endif
