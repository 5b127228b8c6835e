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

/* What one rank tells the node's others. Counters only grow, and each has one writer. */
struct shm_slot {
    _Alignas(64) _Atomic uint64_t n_barriers; /* barriers that this rank has reached */
    _Alignas(64) _Atomic uint64_t arrived;    /* operations (engine.h) that it has started, */
    _Atomic uint64_t reduced;                 /* whose share it has written everywhere on the node, */
    _Atomic uint64_t finished;                /* and staged ones that it has copied out of */
    _Atomic uint32_t in_poll;                 /* sleeps in poll(): to be woken at its doorbell */
    char doorbell[SHM_NAME_MAX + 1];          /* the name of an abstract datagram socket */
    _Alignas(64) _Atomic uint64_t begun;      /* calls so far */
    _Atomic uint64_t calls[SHM_CALLS];        /* watch_call() of call n at n % SHM_CALLS */
    uint64_t want_bytes;
    uint64_t cpus[SHM_CPU_WORDS];
};

struct shm_control {
    _Alignas(64) _Atomic uint64_t count; /* arrivals at all barriers */
    _Alignas(64) _Atomic uint64_t epoch; /* barriers completed */
    struct shm_slot slots[];
};

struct shm {
    const struct world *world;
    int node, local, local_size;
    double timeout_s;
    int memfd;
    size_t file_bytes; /* how far the file reaches: the same on every rank of the node */
    char *base;        /* its first part, mapped */
    size_t base_bytes, stage_bytes;
    struct shm_control *control;
    struct watch_board *board;
    char *stage;              /* local_size * stage_bytes */
    struct watch_peer *peers; /* connections for the watch, which takes them over: then n_peers is 0 */
    size_t n_peers;
    watch_t *watch; /* borrowed; set before the first barrier */
    size_t n_cores; /* that the node's ranks may use together */
    bool may_spin;
    uint64_t seq;   /* barriers so far */
    uint64_t begun; /* calls so far */
    int door;       /* datagram socket: this rank's doorbell, and what it rings others' with; -1: none */
};

/* The leader, before the boot's fence: memory and socket. name: of the abstract socket. -1: the error is to be
 * published, so that the node's other ranks can say why. */
int shm_offer(struct shm *s, struct meet *m, char name[SHM_NAME_MAX + 1], ddp_error_t *errp);

/* After the fence: the leader admits the others; another rank fetches from the leader, whose name and tokens those are.
 * Then the memory is mapped. */
int shm_join(struct shm *s, const struct meet *m, const char *name, uint64_t deadline, ddp_error_t *errp);

/* This rank makes its next call, of that watch_call(). */
void shm_begin(struct shm *s, uint64_t call);

/* Compares call n, which this rank has begun, with every local rank that has begun it too (all: those that have not are
 * in another call as well). 0, or -1 with the watch's cause. */
int shm_check_calls(struct shm *s, uint64_t n, bool all, ddp_error_t *errp);
uint64_t shm_call(const struct shm *s, int local, uint64_t n); /* 0: not begun, or too long ago */

/* A local rank's doorbell, for sleeping in poll(): shm_doorbell_open before a barrier that all pass; then set in_poll, look
 * once more for something to do, poll s->door, and clear. After a change that others may wait for, shm_ring wakes all
 * that sleep, here or by the watch's bell. */
int shm_doorbell_open(struct shm *s, ddp_error_t *errp);
void shm_doorbell_clear(struct shm *s);
void shm_ring(struct shm *s);

/* A moment between two looks at what others do; false: enough of them have passed, it is time to sleep. Start from zeros.
 * With a core for each rank, looks at memory follow each other closely (handing cores over, two ranks could share one for
 * long: 64 KiB 0.011 instead of 0.002 ms, at times). Else, and between looks that are system calls anyway, this rank hands
 * its core over, for who it waits for may want that very core: processes that wake each other tend to be put on one. But
 * only for so long, because a rank that is busy takes its whole time slice. Float32 sums in
 * ms, asleep at once / handing over: 4 ranks on 2 cores, 64 KiB 0.063 / 0.008, 1 MiB 0.127 / 0.060, 25 MiB 2.75 / 2.65; holding
 * the core for 20 looks at connections / handing it over: 2 nodes of 1 rank 64 KiB 0.075 / 0.027, 2 nodes of 2 ranks 1 MiB
 * 0.46 / 0.31. */
struct shm_pause {
    int n;
    uint64_t since_ns;
};
bool shm_pause(const struct shm *s, struct shm_pause *p, bool is_system_call);

/* Waits for the node's ranks. Returns 0, or -1 with the watch's cause; ranks that make another call are one. */
int shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp);

/* Collective over the node, after the first barrier: finds out whether there is a core for each rank. */
int shm_count_cores(struct shm *s, ddp_error_t *errp);

/* Collective over the node: n_bytes for each local rank, one after another at *ret_stride, mapped at the returned
 * address. NULL: this rank failed and the caller has to abort. */
char *shm_map(struct shm *s, size_t n_bytes, size_t *ret_stride, ddp_error_t *errp);
void shm_unmap(struct shm *s, char *map, size_t stride);

void shm_clear(struct shm *s); /* frees what shm_offer and shm_join made */

#endif
