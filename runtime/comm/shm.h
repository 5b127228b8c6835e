/* shm.h - the memory that the ranks of one node share, and the barrier in it.
 *
 * Local rank 0, the node's leader, makes a memfd and an abstract unix socket; the others fetch the memfd there. Nothing
 * has a path, so nothing can be left behind. The file begins with the barrier, the watch's board and a staging area;
 * segments follow as they are made. It is sealed against shrinking, so that no access can fail once mapped. */
#ifndef DDP_COMM_SHM_H
#define DDP_COMM_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"
#include "runtime/comm/handshake.h"
#include "runtime/comm/watch.h"

#define SHM_NAME_MAX 47

enum {
    SHM_CALLS = 256,    /* how many of a rank's last calls can be looked up */
    SHM_CPU_WORDS = 64, /* 4096 CPUs */
};

/* What one rank publishes to the node's other ranks. Counters only grow, and each has one writer. */
struct shm_slot {
    _Alignas(64) _Atomic uint64_t n_barriers; /* barriers that this rank has reached */
    _Alignas(64) _Atomic uint64_t arrived;    /* operations (engine.h) that this rank has arrived at, */
    _Atomic uint64_t reduced;                 /* operations whose share it has written to all ranks of the node, */
    _Atomic uint64_t finished;                /* and staged operations whose result it has copied out */
    _Atomic uint32_t in_poll;                 /* this rank sleeps in poll(): its doorbell wakes it */
    char doorbell[SHM_NAME_MAX + 1];          /* the name of an abstract datagram socket */
    _Alignas(64) _Atomic uint64_t begun;      /* calls that this rank has begun */
    _Atomic uint64_t calls[SHM_CALLS];        /* watch_call() of call n at n % SHM_CALLS */
    uint64_t want_bytes;
    uint64_t cpus[SHM_CPU_WORDS];
};

struct shm_control {
    _Alignas(64) _Atomic uint64_t count; /* arrivals at all barriers */
    _Alignas(64) _Atomic uint64_t epoch; /* barriers completed */
    _Alignas(64) _Atomic uint32_t is_past_caches; /* as local rank 0 has it (bypass.h) */
    struct shm_slot slots[];
};

struct shm {
    const struct world *world;
    int node, local, local_size;
    double timeout_s;
    int memfd;
    size_t file_bytes; /* length of the file: the same on every rank of the node */
    char *base;        /* the file's first part, mapped */
    size_t base_bytes, stage_bytes;
    struct shm_control *control;
    struct watch_board *board;
    char *stage;              /* local_size * stage_bytes */
    struct watch_peer *peers; /* connections for the watch; once the watch has taken them over, n_peers is 0 */
    size_t n_peers;
    watch_t *watch; /* borrowed; set before the first barrier */
    size_t n_cores; /* cores that the node's ranks may use, all together */
    bool may_spin;
    uint64_t seq;   /* barriers so far */
    uint64_t begun; /* calls so far */
    int door;       /* datagram socket: this rank's doorbell, and the socket that rings the others'; -1: none */
};

/* Before the boot's fence: is there address space for what this node's ranks will share? It is kept for that. -1: as
 * below. */
int shm_reserve(struct shm *s, ddp_error_t *errp);

/* The leader calls this before the boot's fence: creates memory and socket. name: of the abstract socket. -1: the
 * caller publishes the error, so that the node's other ranks can report it. */
int shm_offer(struct shm *s, struct handshake *m, char name[SHM_NAME_MAX + 1], ddp_error_t *errp);

/* All call this after the fence: the leader accepts the others; the other ranks fetch the memory from the leader, whose
 * socket name and tokens are `name` and *m. Then the memory is mapped. */
int shm_join(struct shm *s, const struct handshake *m, const char *name, uint64_t deadline, ddp_error_t *errp);

/* Records that this rank begins its next call, which `call` (watch_call()) describes. */
void shm_begin(struct shm *s, uint64_t call);

/* Compares call n of this rank with call n of every other local rank that has begun it. `all`: ranks that have not
 * begun call n are compared too, by the last call that they have begun. 0, or -1 with the watch's cause if two calls
 * differ. */
int shm_check_calls(struct shm *s, uint64_t n, bool all, ddp_error_t *errp);
uint64_t shm_call(const struct shm *s, int local, uint64_t n); /* 0: not begun, or too long ago */

/* The doorbell of a local rank, for sleeping in poll(). shm_doorbell_open comes before a barrier that all ranks pass. A
 * rank that wants to sleep sets in_poll, looks once more for something to do, polls s->door, and calls
 * shm_doorbell_clear. A rank that has made a change which others may wait for calls shm_ring, which wakes all sleepers:
 * those in poll() and those on the watch's bell. */
int shm_doorbell_open(struct shm *s, ddp_error_t *errp);
void shm_doorbell_clear(struct shm *s);
void shm_ring(struct shm *s);

/* Pauses between two polls of what other ranks have done. False: it has paused often enough, and the caller should
 * sleep. Start from a zeroed struct.
 *
 * Where every rank has a core and the poll only reads memory, the pause is short and keeps the core (with sched_yield
 * two ranks could share one core for long: 64 KiB took 0.011 instead of 0.002 ms, at times). Otherwise, and where the
 * poll is a system call anyway (is_system_call), the pause is a sched_yield, because the rank that this one waits for
 * may need this very core: the kernel tends to put processes that wake each other on one core. It yields for a limited
 * time only, because a busy rank then takes its whole time slice: connections are polled for 5 ms where every rank has
 * a core, all else for 0.1.
 *
 * A core that halts is slow when it goes on, a virtual machine's all the more: what its caches held has gone, and its
 * host may have moved it. A step of two ranks that computes for 30 ms, and waits as long for a wire of 1 Gbit/s, took
 * 68.0 ms where polls ended after 0.1 ms, 67.8 after 1, 66.3 after 5 and 65.7 after 100 (medians; a forward pass in it
 * 10.7, 10.4, 9.6 and 9.4). Where 8 ranks of 4 "nodes" shared two cores it took 128.7, 128.3 (5 ms) and 128.6.
 *
 * Measured, float32 sums in ms. Sleeping at once / yielding: 4 ranks on 2 cores, 64 KiB 0.063 / 0.008, 1 MiB 0.127 /
 * 0.060, 25 MiB 2.75 / 2.65. Keeping the core for 20 polls of connections / yielding: 2 nodes of 1 rank 64 KiB 0.075 /
 * 0.027, 2 nodes of 2 ranks 1 MiB 0.46 / 0.31. */
struct shm_pause {
    int n;
    uint64_t since_ns;
};
bool shm_pause(const struct shm *s, struct shm_pause *p, bool is_system_call);

/* Waits for the node's ranks. Returns 0, or -1 with the watch's cause, also where a rank makes another call. */
int shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp);

/* Collective over the node, after the first barrier: finds out whether there is a core for each rank. */
int shm_count_cores(struct shm *s, ddp_error_t *errp);

/* Collective over the node: maps n_bytes for each local rank, *ret_stride bytes apart, and returns the address of the
 * first. NULL: this rank failed, and the caller has to abort. */
char *shm_map(struct shm *s, size_t n_bytes, size_t *ret_stride, ddp_error_t *errp);
void shm_unmap(struct shm *s, char *map, size_t stride);

void shm_disown(struct shm *s); /* in a forked child (forked.h); its memory stays mapped */
void shm_clear(struct shm *s); /* frees what shm_reserve, shm_offer and shm_join made */

#endif
