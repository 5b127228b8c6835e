/* engine.h - runs the works. Private to runtime/comm.
 *
 * A work is one or more operations, numbered 1, 2, ... in the same order on all ranks. Each local rank has three
 * counters in the node's shared memory, which take the place of barriers: the last operation that the rank has arrived
 * at (its memory is ready), the last operation whose share it has reduced (and written to all ranks of the node), and
 * the last staged operation that it has finished (it has copied the result out of its part of the stage). A rank waits
 * for another rank only where its own share depends on that rank. On each rank an operation passes four states:
 *
 *   fed     this rank has arrived at the operation; if it is staged, this rank's data is copied into its slot, which
 *           happens once all ranks have finished the operation that used the slot before
 *   opened  all local ranks have arrived at the operation
 *   reduced this rank's share is done: here, or (several nodes, owners only) by internode.c
 *   over    all owners' shares are done, and a staged result is copied out
 *
 * Each of these four fields is the number of the last operation that has reached the state. At most ENGINE_OPS
 * operations are between fed and over.
 *
 * All functions here are called with the engine's lock held, by the thread that drives the engine: a waiting caller or
 * the communicator's thread (progress.c). A step takes a bounded time, some 100 us of memory traffic, so that the other
 * thread waits no longer than that for the lock. */
#ifndef DDP_COMM_ENGINE_H
#define DDP_COMM_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/comm/bypass.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/idle.h"
#include "runtime/comm/plan.h"
#include "runtime/comm/watch.h"

enum {
    ENGINE_OPS = 64,
    STAGE_SLOTS = 4,           /* copying in, reducing and copying out overlap; with two slots they would wait */
    STAGE_SLOT_BYTES = 256 << 10,
    ENGINE_TILE = COMM_UNIT_MAX, /* bytes of each rank's array that are reduced at once, and are in the cache when they
                                    are visited: whole units, whatever the unit */
    ENGINE_BUDGET = 512 << 10, /* bytes of each rank's array that one step reduces at most */
};

struct comm_segment {
    comm_t *comm;
    struct comm_segment *next;
    uint64_t number; /* of the call that created the segment; 0: the stage */
    char *map;       /* the parts of the node's ranks, `stride` bytes apart */
    size_t n_bytes;  /* of one rank's part, as asked for */
    size_t stride;
};

enum work_kind { WORK_REDUCE, WORK_GATHER };

struct comm_work {
    comm_t *comm;
    comm_work_t *next, *prev;
    enum work_kind kind;
    enum watch_what what; /* the call that it is of */
    struct comm_segment *segment;
    struct comm_ranges ranges;
    enum ddp_op op;
    bool owned_only;
    comm_visit_f *visit;
    void *ctx;
    uint64_t *done_ns;           /* or NULL */
    struct comm_range own_range; /* what `ranges` points to where the work is one array in a segment */
    struct comm_segment alias;   /* what `segment` points to where nodes have one rank each, for the caller's memory */
    bool is_staged;
    struct { /* is_staged: the caller's memory */
        char *data;
        size_t n_bytes, fed_bytes;
        enum ddp_dtype dtype;
    } staged;
    uint64_t args;               /* hash of the work's arguments */
    uint64_t number, call;       /* set when the work is begun: comm_number */
    bool is_begun, is_fed;       /* the first operation is fed; the last one is */
    uint64_t n_open;             /* operations between fed and over */
    atomic_bool is_done;
};

struct op {
    comm_work_t *work;
    bool is_first; /* the work's first operation */
    struct comm_segment *segment;
    struct comm_ranges ranges;
    struct comm_range staged_range; /* what `ranges` points to where the operation is staged */
    char *out;                      /* where the staged result is copied to */
    uint64_t stage_number;          /* 1, 2, ... over the staged operations; 0: not staged */
    bool is_past_caches;            /* staged: what others read is written so (bypass.h) */
    uint64_t trial_number;          /* staged: bypass.h's, on the rank that chooses; 0: not to be told of */
    uint64_t moved_ns;              /* and how long copies and sums have taken it */
    struct comm_span slice;         /* on an owner: the share of this local index */
    bool is_swapped;                /* both nodes have the whole slice for their sub-slice (internode.c) */
    struct comm_span *subs;         /* [n_nodes] the slice, cut into one sub-slice for each node */
};

struct engine {
    pthread_mutex_t lock;
    _Atomic int n_wanting;      /* callers that wait for the lock: the thread lets them go first */
    comm_work_t *first, *last;  /* works in the order of their starts, until they are waited for */
    comm_work_t *feeding;       /* the first work whose operations are not all fed */
    _Atomic size_t n_works;     /* works that are not done */
    struct op ops[ENGINE_OPS];  /* operation n is at n % ENGINE_OPS */
    uint64_t fed, opened, reduced, over, n_staged;
    struct bypass bypass;       /* of the staged operations that fill a slot, */
    uint64_t n_trials;          /* of which so many are fed */
    struct comm_pieces walk;    /* one node: the walk through the slice of operation reduced + 1, */
    struct comm_piece piece;    /* the walk's present piece, */
    size_t piece_at;            /* and the element of that piece that is reduced next */
    bool is_walking, has_piece;
    struct net *net; /* NULL: one node, or a rank that owns nothing */
    /* progress.c: */
    pthread_cond_t turn;
    pthread_t thread;
    struct idle idle;        /* the thread's sleep while it has nothing to drive */
    bool has_thread, stop;
    atomic_bool is_driven;   /* a caller waits and drives the engine itself, */
    _Atomic uint64_t drives; /* so often so far, */
    uint64_t drives_seen;    /* and when the thread last looked */
    atomic_bool is_asleep;   /* the thread sleeps in poll() or on the bell */
    bool is_polite;          /* the thread waits until a caller that wants the lock has had it */
    struct pollfd *polls[2]; /* the caller's, the thread's */
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

/* Feeds the operations that can be fed now. True if there was one. engine_step calls it. */
bool engine_feed(comm_t *c);

/* One step: does what can be done without waiting. True if it did anything; false, and nothing, once the watch has
 * found a cause. */
bool engine_step(comm_t *c);

/* The rank that the oldest operation waits for, or -1. */
int engine_suspect(comm_t *c);

/* Called before a sleep: compares the local ranks' calls, looks for ranks that will never arrive, and raises what it
 * finds as a cause. */
void engine_look(comm_t *c);

/* ---- engine_share.c: for engine.c and internode.c ---- */

/* Sums elements [at, at + n) of piece p over the node's ranks, into this rank's part or (into_all) into the parts of
 * all local ranks. */
void engine_reduce_node(comm_t *c, const struct op *o, const struct comm_piece *p, size_t at, size_t n, bool into_all);

/* Copies n bytes of this rank's part of a segment to the same place in the other local ranks' parts. */
void engine_spread(comm_t *c, struct comm_segment *s, size_t offset_bytes, size_t n);

/* Records that this rank's share of operation reduced + 1 is done. */
void engine_end_share(comm_t *c);

/* ---- stage.c: for engine.c ---- */

/* Copies this rank's data into its slot, and the result out of the slots. */
void stage_copy_in(comm_t *c, struct op *o);
void stage_copy_out(comm_t *c, struct op *o);

/* Sums the n elements of piece p at offset bytes over the node's ranks, into the caller's memory and the slot. */
void stage_reduce(comm_t *c, struct op *o, const struct comm_piece *p, size_t offset, size_t n);

/* ---- progress.c ---- */

int progress_start(comm_t *c, enum comm_progress_mode mode, ddp_error_t *errp); /* after engine_init */
void progress_stop(comm_t *c);
void progress_lock(comm_t *c);
void progress_unlock(comm_t *c);

/* Called with the lock held: tell the thread that there is work to drive, at once or unless a caller drives it soon. */
void progress_wake(comm_t *c);
void progress_wake_soon(comm_t *c);

/* Drives the engine until w is done (NULL: until all works are). 0, or -1 with the watch's cause. */
int progress_wait(comm_t *c, const comm_work_t *w, ddp_error_t *errp);

/* ---- internode.c: between nodes ---- */

int net_init(comm_t *c, ddp_error_t *errp);
void net_clear(comm_t *c);
bool net_is_swapped(const comm_t *c, const struct op *o); /* o: with its slice */
bool net_step(comm_t *c);   /* advances `reduced` */
void net_compare(comm_t *c, uint64_t call); /* what has come early with `call`, which this rank begins: no work */
int net_suspect(comm_t *c); /* a rank that operation reduced + 1 waits for, once all local ranks have arrived at it */

#endif
