/* nccl.h - the NCCL communicator: moves buckets that lie in device memory. It stands beside a host communicator
 * (comm.h), which goes on doing all else: agreement, the tail, finding out who died.
 *
 * Nobody is ever alone inside NCCL. All its calls are non-blocking; a wait polls NCCL, the watch (watch.h) and a
 * deadline, so that a rank that dies or aborts ends every wait with the same cause as in the host communicator, and
 * whoever is late is named. After any failure this rank's part is aborted, the others are told, and only nccl_destroy
 * may follow; whoever wants to go on wires up again, host communicator and all. (ncclCommShrink, from 2.27 on, would
 * spare NCCL's part of that wire-up and nothing else; it is not used.)
 *
 * Life:
 *     n = nccl_create(&cfg, w, c, &e);    // ranks agree on NCCL and exchange ids over the host communicator c
 *     nccl_start(n, &e);                  // the wire-up, with the rank's device current
 *     ...
 *     nccl_close(n, &e); nccl_destroy(n); // before comm_destroy; else nccl_abort, and a wait for the device
 *
 * Operations are collective, in the same order on all ranks, in place unless said otherwise, made by one thread. They
 * start work on a stream and wait for none of it. A stream is a cudaStream_t, memory is device memory; both are
 * borrowed. */
#ifndef DDP_RUNTIME_NCCL_NCCL_H
#define DDP_RUNTIME_NCCL_NCCL_H

#include <stdbool.h>
#include <stddef.h>

#include "pmix/world.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/comm/comm.h"

typedef struct nccl nccl_t;

/* The rank's GPU, as far as the communicator touches it; ctx goes to each function. */
struct nccl_device {
    void *ctx;

    /* Makes it current in the calling thread: before calls of NCCL's from threads of the communicator's own, since
     * some of them make current again what was so before. In a new thread that is the first GPU, on which CUDA would
     * make a context for it (from 12.0 on), several hundred MiB for each rank of the node. NULL: it is the first. */
    void (*enter)(void *ctx);

    /* Asks stream for out[i] = T over k of in[k][i] (comm.h), i in [0, n_elems), as cuda_reduce_tree does; for
     * nccl_allreduce_fixed. Does not wait. 0, or -1 with *errp. */
    int (*sum)(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
               ddp_error_t *errp);
};

struct nccl_config {
    double timeout_s; /* deadline of every wait */
    struct nccl_device device;

    /* Ranks may share a GPU, which NCCL else refuses and which is good for tests alone: NCCL_HOSTID, unless it is set,
     * makes NCCL take each rank for a node of its own. */
    bool share_devices;

    /* One rank of so many makes an id, where the library takes several; 0: of 128, as NCCL advises. */
    int ranks_per_root;

    /* NCCL's own log: a file for each rank, in whose name %r becomes the rank (NCCL's %h and %p work too). NCCL_DEBUG
     * and NCCL_DEBUG_FILE are set, unless they are. NULL: as the environment says. */
    const char *log;
};

/* Opens libnccl; the roots make ids, which travel in one comm_allgather of c with what each rank says of itself.
 * Collective. NULL on all ranks alike where one has no NCCL, another version of it, or an environment in which it
 * cannot work: then c is as good as before. NULL on one where c fails, or its memory runs out, which breaks c. w and c
 * are borrowed until nccl_destroy. */
nccl_t *nccl_create(const struct nccl_config *cfg, const struct world *w, comm_t *c, ddp_error_t *errp);

/* Wires up; waits for all ranks. */
int nccl_start(nccl_t *n, ddp_error_t *errp);

/* ---- operations ---- */

struct nccl_range {
    void *data;
    size_t n_elems;
    enum ddp_dtype dtype;
};

/* Every range becomes its sum over all ranks, as one operation of NCCL's (a group). In NCCL's order of summation. */
int nccl_allreduce(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, void *stream, ddp_error_t *errp);

/* in: size x n_each elements; out: this rank's n_each of their sums, which may be in + rank * n_each. */
int nccl_reduce_scatter(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                        ddp_error_t *errp);

/* out: size x n_each elements, rank r's `in` at r * n_each, where `in` may lie itself. */
int nccl_allgather(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                   ddp_error_t *errp);

/* Every range becomes root's; one group. */
int nccl_bcast(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, int root, void *stream, ddp_error_t *errp);

/* The same in the order T of comm.h, so that results have the bits of the host communicator's comm_allreduce: four
 * exchanges of data, and sums by the device's own kernel. The caller waits within for each to stand on the stream. At
 * most 128 ranks on a node and 128 nodes.
 *
 * stage: 256-byte aligned device memory of the same size on all ranks, borrowed until the device is done. One of
 * nccl_fixed_stage_bytes takes all ranges at once: about what they have, and more where nodes have unequal numbers of
 * ranks. A smaller one takes them in turns; 64 KiB for each rank of a node, or for each node, is enough. */
struct nccl_stage {
    void *data;
    size_t n_bytes;
};
int nccl_allreduce_fixed(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, const struct nccl_stage *stage,
                         void *stream, ddp_error_t *errp);
size_t nccl_fixed_stage_bytes(const struct world *w, const struct nccl_range *ranges, size_t n_ranges);

/* The first half of it: data is size x n_each elements, of which this rank's n_each, at data + rank * n_each, become
 * their sums; the others hold anything afterwards. Two exchanges, or one within a node. The same stage will do. */
int nccl_reduce_scatter_fixed(nccl_t *n, void *data, size_t n_each, enum ddp_dtype t, const struct nccl_stage *stage,
                              void *stream, ddp_error_t *errp);

/* One piece to or from another rank. */
struct nccl_piece {
    int peer;
    bool is_send;
    void *data;
    size_t n_elems;
    enum ddp_dtype dtype;
};

/* All pieces at once, as one group, so that their order cannot deadlock; those of one pair of ranks match in order.
 * Ranks with no pieces need not call. */
int nccl_exchange(nccl_t *n, const struct nccl_piece *pieces, size_t n_pieces, void *stream, ddp_error_t *errp);

/* ---- waiting ----
 *
 * An operation's work stands on its stream some 10 us after the call, put there by a thread of NCCL's. Only then may an
 * event be recorded behind it: call nccl_settle before. The next operation does it by itself. */
int nccl_settle(nccl_t *n, ddp_error_t *errp);

/* Is something that runs on the device over? 1: yes; 0: not yet; -1 with an error. Does not wait. */
typedef int nccl_done_f(void *ctx, ddp_error_t *errp);

/* Waits until done(ctx) says yes (typically: cudaEventQuery). The one wait for device work that a dead peer ends. */
int nccl_wait(nccl_t *n, nccl_done_f *done, void *ctx, ddp_error_t *errp);

/* ---- memory ---- */

/* Device memory that NCCL has allocated and registered, so that it needs no copies where the hardware can do without;
 * its content is undefined. Freed by nccl_destroy. The same size (> 0) on all ranks, in the same order. */
void *nccl_memory_create(nccl_t *n, size_t n_bytes, ddp_error_t *errp);

/* ---- the end, and what comes after a failure ---- */

/* Leaves, and frees what NCCL holds but its memory, once nccl_wait has said that the device is done with all operations:
 * memory that they still use would lose its registration first. Waits for no other rank; those that still have
 * operations with this one wait until comm_destroy tells them that it has left. */
int nccl_close(nccl_t *n, ddp_error_t *errp);

/* Where it was not closed, ends NCCL's part: its work on the device ends. Before memory of the device is freed, which may
 * wait for that work. */
void nccl_abort(nccl_t *n);

/* Aborts, if that is to be done, and frees, its memory too: nothing on the device may use that any more, since it goes
 * without a wait. NULL is allowed. */
void nccl_destroy(nccl_t *n);

/* nccl_destroy is to leave that memory to the process's end: for a device that failed, or still computes. */
void nccl_leave_memory(nccl_t *n);

const char *nccl_version(const nccl_t *n); /* "2.28.9"; "none" where there is no library */

#endif
