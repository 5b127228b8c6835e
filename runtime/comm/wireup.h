/* wireup.h - the data structures of the host communicator: shared memory within a node, TCP between nodes. Private to
 * runtime/comm.
 *
 * With L the smallest number of ranks on a node, local ranks below L are owners: each reduces one slice of every range
 * over its node and, between nodes, exchanges it with the owners of the same local index. On one node all ranks are
 * owners. */
#ifndef DDP_RUNTIME_COMM_WIREUP_H
#define DDP_RUNTIME_COMM_WIREUP_H

#include "runtime/base/flight.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/engine.h"
#include "runtime/comm/plan.h"
#include "runtime/comm/shm.h"
#include "runtime/comm/tcp.h"
#include "runtime/comm/watch.h"

struct comm {
    const struct world *world;
    int rank, node, local, local_size, n_nodes, n_owners;
    struct shm shm;
    flight_t *flight; /* NULL: none is to be had */
    watch_t *watch;
    struct tcp *tcp; /* NULL on a rank that owns nothing, and where there is one node */
    struct comm_plan plan;
    struct comm_segment stage; /* staging memory for works on the caller's memory, */
    struct comm_segment moves; /* and for the calls of collectives.c, since ranks may still copy out of `stage` then */
    struct comm_segment *segments;
    comm_t *next_heeded; /* forked.c */
    bool is_parents;     /* likewise */
    struct engine engine;
    void **out;      /* [local_size], and */
    const void **in; /* [max(local_size, n_slots)]: the kernel's arguments, used by the thread that drives */
};

/* The part of segment s that belongs to local rank l. */
static inline char *segment_part(const struct comm_segment *s, int l)
{
    return s->map + (size_t)l * s->stride;
}

/* ---- the counters of engine.h ---- */

static inline struct shm_slot *engine_slot(const comm_t *c, int local)
{
    return &c->shm.control->slots[local];
}

/* True once the counter at that offset in the slots of local ranks 0 .. n_ranks-1 has reached `n` everywhere. */
static inline bool engine_all_at(const comm_t *c, size_t counter, int n_ranks, uint64_t n)
{
    for (int l = 0; l < n_ranks; l++)
        if (atomic_load((_Atomic uint64_t *)((char *)engine_slot(c, l) + counter)) < n)
            return false;
    return true;
}
#define ENGINE_ALL_AT(c, counter, n_ranks, n) engine_all_at(c, offsetof(struct shm_slot, counter), n_ranks, n)

/* ---- calls ---- */

/* A step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static inline uint64_t comm_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

/* Numbers this rank's next call, a work or a call that waits, and returns its watch_call(). */
uint64_t comm_number(comm_t *c, enum watch_what what, uint64_t args);

/* Begins a collective call that waits, once all works are done. args: a hash of the arguments that must be equal on all
 * ranks; ranks compare the calls that they have begun. -1: the watch's cause. (progress.c) */
int comm_begin(comm_t *c, enum watch_what what, uint64_t args, ddp_error_t *errp);

/* comm_allgather, as the first part of the call that it is for. */
int comm_gather_as(comm_t *c, enum watch_what what, const void *in, size_t n_bytes, void *out, ddp_error_t *errp);

#endif
