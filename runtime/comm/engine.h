/* engine.h - carries works out. Private to runtime/comm.
 *
 * A work is one or more operations, numbered 1, 2, ... in the same order on all ranks. Three counters of each local rank,
 * in the node's shared memory, take the place of barriers: it has arrived at operation n (its memory is ready), it has
 * reduced its share of n (and written it everywhere on the node), it has finished its n-th staged one (copied out of its
 * part of the stage). Nobody waits for another before its own share can be done:
 *
 *   fed     this rank has arrived at it; staged: the data is copied in, once all have finished what its slot held
 *   opened  all local ranks have arrived at it
 *   reduced this rank's share is done: here, or (several nodes, owners only) by internode.c
 *   over    all owners' shares are done, and staged data is copied out
 *
 * Each of the four is the number of the last operation of which it holds. At most ENGINE_OPS are between fed and over.
 *
 * Everything here is done with the engine's lock held, by whoever drives: a waiting caller or the thread (progress.c). A
 * step takes a bounded time, some 100 us of memory traffic, so that the other waits no longer for the lock. */
#ifndef DDP_COMM_ENGINE_H
#define DDP_COMM_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/comm/plan.h"

enum {
    ENGINE_OPS = 64,
    STAGE_SLOTS = 4,           /* two would wait for each other: copy in, reduce and copy out overlap */
    STAGE_SLOT_BYTES = 256 << 10,
    ENGINE_TILE = COMM_UNIT_MAX, /* bytes of each rank's array that are reduced at once, and stay in the cache for the
                                    visit: whole units, whatever the unit */
    ENGINE_BUDGET = 512 << 10, /* of each rank's array, reduced in one step */
};

struct comm_segment {
    comm_t *comm;
    struct comm_segment *next;
    uint64_t number; /* the call that made it; 0: the stage */
    char *map;       /* the node's ranks' parts, `stride` bytes apart */
    size_t n_bytes;  /* of one rank's part, as asked for */
    size_t stride;
};

enum work_kind { WORK_REDUCE, WORK_GATHER };

struct comm_work {
    comm_t *comm;
    comm_work_t *next, *prev;
    enum work_kind kind;
    struct comm_segment *segment;
    struct comm_ranges ranges;
    enum ddp_op op;
    bool owned_only;
    comm_visit_f *visit;
    void *ctx;
    struct comm_range own_range; /* which `ranges` is, for one array in a segment */
    struct comm_segment alias;   /* which `segment` is, for the caller's own memory where nodes hold one rank each */
    bool is_staged;
    struct { /* the caller's own memory */
        char *data;
        size_t n_bytes, fed_bytes;
        enum ddp_dtype dtype;
    } staged;
    uint64_t args, number, call; /* hash of its arguments; set when it is begun */
    bool is_begun, is_fed;       /* its first, its last operation is fed */
    uint64_t n_open;             /* operations between fed and over */
    atomic_bool is_done;
};

struct op {
    comm_work_t *work;
    bool is_first; /* of its work */
    struct comm_segment *segment;
    struct comm_ranges ranges;
    struct comm_range staged_range; /* which `ranges` is, where it is staged */
    char *out;                      /* where staged data goes */
    uint64_t stage_number;          /* 1, 2, ... over the staged operations; 0: not staged */
    struct comm_span slice;         /* this local index's share, of an owner; */
    struct comm_span *subs;         /* [n_nodes] cut for the nodes */
};

struct engine {
    pthread_mutex_t lock;
    _Atomic int n_wanting;      /* how many wait for the lock: the thread lets them go first */
    comm_work_t *first, *last;  /* in order of their start, until they are waited for */
    comm_work_t *feeding;       /* the first that is not fed wholly */
    size_t n_works;             /* not done */
    struct op ops[ENGINE_OPS];  /* n at n % ENGINE_OPS */
    uint64_t fed, opened, reduced, over, n_staged;
    struct comm_pieces walk;    /* one node: through the slice of operation reduced + 1, */
    struct comm_piece piece;    /* whose piece this is, */
    size_t piece_at;            /* in which this element is next; */
    bool is_walking, has_piece;
    struct net *net; /* NULL: one node, or no owner */
    /* progress.c: */
    pthread_cond_t turn;
    pthread_t thread;
    bool has_thread, stop, is_driven; /* driven: a caller waits, and drives itself */
    bool is_asleep;                   /* the thread, in poll() or on the bell; */
    bool is_polite;                   /* it waits for a caller that wants the lock to have had it */
    struct pollfd *polls[2];          /* the caller's, the thread's */
};

static inline struct op *engine_op(struct engine *e, uint64_t n)
{
    return &e->ops[n % ENGINE_OPS];
}

int engine_init(comm_t *c, ddp_error_t *errp);
void engine_clear(comm_t *c); /* frees the works too */

/* Puts w into the queue, and takes it out again. */
void engine_add(comm_t *c, comm_work_t *w);
void engine_remove(comm_t *c, comm_work_t *w);

/* Arrives at what it may. Has it at any? A part of each step. */
bool engine_feed(comm_t *c);

/* Does what can be done. Has anything been? (Not after the watch has found a cause.) */
bool engine_step(comm_t *c);

/* The rank that the oldest operation waits for, or -1. */
int engine_suspect(comm_t *c);

/* Before a sleep: local ranks' calls are compared, ranks that will never come found. Causes are raised. */
void engine_look(comm_t *c);

/* ---- engine_share.c: for engine.c and internode.c ---- */

/* Sums a piece's elements [at, at + n) of the node's ranks, into this rank's part or into all. */
void engine_reduce_node(comm_t *c, const struct op *o, const struct comm_piece *p, size_t at, size_t n, bool into_all);

/* Copies n bytes of this rank's part of a segment over the other local ranks'. */
void engine_spread(comm_t *c, struct comm_segment *s, size_t offset_bytes, size_t n);

/* This rank's share of operation reduced + 1 is done. */
void engine_end_share(comm_t *c);

/* ---- progress.c ---- */

int progress_start(comm_t *c, enum comm_progress_mode mode, ddp_error_t *errp); /* after engine_init */
void progress_stop(comm_t *c);
void progress_lock(comm_t *c);
void progress_unlock(comm_t *c);
void progress_wake(comm_t *c); /* with the lock held: there is something to drive */

/* Drives until w is done (NULL: all works are). 0, or -1 with the watch's cause. */
int progress_wait(comm_t *c, const comm_work_t *w, ddp_error_t *errp);

/* ---- internode.c: between nodes ---- */

int net_init(comm_t *c, ddp_error_t *errp);
void net_clear(comm_t *c);
bool net_step(comm_t *c);             /* raises `reduced` */
int net_suspect(comm_t *c);           /* a rank that operation reduced + 1, which is open, waits for */

#endif
