/* watch.h - learns which rank of the job ended, and tells every wait of every rank.
 *
 * The ranks of a node share a board; the first cause written to it stands (a rank that leaves because another died is
 * not a cause). Each rank has a watch thread. Local rank 0, the node's leader, polls a pidfd of and a unix socket to
 * each other rank of the node, and a control connection to each other node's leader; the others poll the leader alone.
 * What one learns goes onto the board, a byte on the unix sockets wakes the others, and the leader forwards the cause
 * to every other node, before it can itself be seen to leave. Each leader that learns a cause forwards it again, so
 * that a cause is everywhere seen before its consequences.
 *
 * A process that ends without watch_leave has died, whatever its exit code. One that dies after the boot's exchange and
 * before its watch has started is found by the launcher, or by the other ranks at their deadline. */
#ifndef DDP_RUNTIME_WATCH_H
#define DDP_RUNTIME_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"

typedef struct watch watch_t;
struct watch_board; /* lies in memory shared by the node's ranks, which starts as zeros */

enum watch_kind {
    WATCH_DIED = 1, /* arg: its wait status, or WATCH_STATUS_UNKNOWN */
    WATCH_LOST,     /* its connection failed; arg: errno */
    WATCH_LEFT,     /* arg: the rank that waits for it, in `what` */
    WATCH_LATE,     /* the same; the deadline passed (raised by watch_is_late) */
    WATCH_ABORT,    /* with a text */
    WATCH_DIFFERS,  /* made another call than another rank, which a text names */
    WATCH_STUCK,    /* all ranks wait for all others, and nothing moves; rank: who says so */
};
#define WATCH_STATUS_UNKNOWN 0xfffff
#define WATCH_TEXT_MAX 159 /* bytes of an abort's reason */

/* What a rank waits in, for the texts. */
enum watch_what {
    WATCH_IN_BARRIER,
    WATCH_IN_ALLREDUCE,
    WATCH_IN_BCAST,
    WATCH_IN_ALLGATHER,
    WATCH_IN_SEGMENT,
    WATCH_IN_WIRING,
    WATCH_IN_NCCL_INIT,
    WATCH_IN_NCCL,
    WATCH_IN_NCCL_END
};
const char *watch_what_name(enum watch_what what);

/* One collective call in a word: equal where two ranks make the same call. hash is of its number and arguments. */
static inline uint64_t watch_call(enum watch_what what, uint64_t hash)
{
    return ((uint64_t)what + 1) << 56 | hash >> 8;
}

struct watch_peer {
    int rank;
    int fd;    /* a stream socket to it, taken over */
    int pidfd; /* or -1; taken over */
    int pid;   /* or 0: how it ended is then not known */
};

struct watch_config {
    const struct world *world;
    struct watch_board *board;
    struct watch_peer *local; /* the leader: the node's other ranks; another rank: the leader. The array is copied */
    size_t n_local;
    struct watch_peer *remote; /* the leader: the other nodes' leaders; pidfd -1 */
    size_t n_remote;
};

size_t watch_board_bytes(int size, int local_size);

/* Starts the thread, which has all signals blocked. On failure the descriptors are still the caller's. */
watch_t *watch_create(const struct watch_config *cfg, ddp_error_t *errp);
void watch_destroy(watch_t *w); /* NULL is allowed */

/* Has a cause been found? Cheap. */
bool watch_is_broken(const watch_t *w);
bool watch_has_left(const watch_t *w, int rank);
int watch_left_on_node(const watch_t *w, int node); /* a rank of node that left, or -1 */

/* Fills *errp from the cause, DDP_E_PEER or DDP_E_TIMEOUT, after making sure that the other nodes know. Returns -1. */
int watch_error(watch_t *w, ddp_error_t *errp);

/* Records a cause unless there is one already, and wakes everyone. */
void watch_raise(watch_t *w, enum watch_kind kind, int rank, int arg, enum watch_what what);
void watch_abort(watch_t *w, const char *why); /* WATCH_ABORT by this rank */

/* WATCH_DIFFERS: rank's call is not that of `other`. */
void watch_differs(watch_t *w, int rank, uint64_t call, int other, uint64_t others_call);

/* A suspect: whichever other rank does not wait. For waits in a library that does not say for whom. */
#define WATCH_ANYONE (-2)

/* To be called by a wait before each sleep, and with -1 when it is over: once a rank's deadline has passed, all say for
 * whom they wait. Cheap before that. */
void watch_waits_for(watch_t *w, int suspect);

/* This rank's wait for `suspect` has passed its deadline. Asks all that wait for whom, and a moment later blames the
 * rank at the chain's end, which does not answer: true, the cause is raised. False: not yet; look again at what is
 * waited for, then sleep until watch_alarm(). Of WATCH_ANYONE the lowest rank that does not wait is to blame; where all
 * wait the cause is WATCH_STUCK. */
bool watch_is_late(watch_t *w, int suspect, uint64_t deadline, double timeout_s, enum watch_what what);
uint64_t watch_alarm(uint64_t deadline);

/* From now on the end of this rank is not a death. */
void watch_leave(watch_t *w);

/* Sleeping until something happens: read the bell, look at what is waited for and at the watch, then wait. A rank that
 * makes progress which others may sleep for, rings. Futexes on the board: of this node only. */
uint32_t watch_bell(const watch_t *w);
void watch_bell_wait(watch_t *w, uint32_t seen, uint64_t deadline);
void watch_bell_ring(watch_t *w);

/* Readable when something happened, for waits in poll(); watch_event_signal wakes one of this process, watch_event_clear
 * empties it. */
int watch_event_fd(const watch_t *w);
void watch_event_signal(watch_t *w);
void watch_event_clear(watch_t *w);

#endif
