/* shm.h - the memory that the ranks of one node share, and the barrier in it.
 *
 * Local rank 0, the node's leader, makes a memfd and an abstract unix socket; the others fetch the memfd there. Nothing
 * has a path, so nothing can be left behind. The file begins with the barrier, the watch's board and a staging area;
 * segments follow as they are made. It is sealed against shrinking, so that no access can fail once mapped. */
#ifndef DDP_COMM_SHM_H
#define DDP_COMM_SHM_H

#include <stdint.h>

#include "pmix/world.h"
#include "runtime/base/error.h"
#include "runtime/comm/meet.h"
#include "runtime/comm/watch.h"

#define SHM_NAME_MAX 47

struct shm_control;

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
    bool may_spin;
    uint64_t seq;  /* barriers so far */
    uint64_t call; /* watch_call() of the present call: the ranks of a barrier compare it */
};

/* The leader, before the boot's fence: memory and socket. name: of the abstract socket. -1: the error is to be
 * published, so that the node's other ranks can say why. */
int shm_offer(struct shm *s, struct meet *m, char name[SHM_NAME_MAX + 1], ddp_error_t *errp);

/* After the fence: the leader admits the others; another rank fetches from the leader, whose name and tokens those are.
 * Then the memory is mapped. */
int shm_join(struct shm *s, const struct meet *m, const char *name, uint64_t deadline, ddp_error_t *errp);

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
