/* nccl.h - the NCCL communicator: reduces buckets that lie in device memory. It is used beside a host communicator
 * (comm.h), which does everything else: agreement, the tail, finding out which rank died.
 *
 * A rank never blocks inside NCCL. All calls are non-blocking; a wait polls NCCL, the watch (watch.h) and a deadline.
 * So a rank that dies or aborts ends every wait with the same cause as in the host communicator, and a rank that is
 * late is named. After any failure this rank's NCCL communicator is aborted, the error is reported to the other ranks,
 * and only nccl_destroy may follow; a program that wants to go on has to wire up again, the host communicator too.
 * (ncclCommShrink, from 2.27 on, would save only NCCL's part of that wire-up; it is not used.)
 *
 * Life:
 *     n = nccl_create(&cfg, w, c, &e);    // ranks agree on NCCL and exchange ids over the host communicator c
 *     nccl_start(n, &e);                  // the wire-up, with the rank's device current
 *     ...
 *     nccl_close(n, &e); nccl_destroy(n); // before comm_destroy; else nccl_abort, and a wait for the device
 *
 * Operations are collective, in the same order on all ranks, in place unless said otherwise, made by one thread. They
 * enqueue work on a stream and do not wait for it. A stream is a cudaStream_t, memory is device memory; both are
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

/* What the communicator needs of the rank's GPU; ctx is passed to each function. */
struct nccl_device {
    void *ctx;

    /* Makes the GPU current in the calling thread. The communicator's own threads call it before they call NCCL, since
     * some of NCCL's functions restore the device that was current before. In a new thread that is the first GPU, and
     * restoring it would create a CUDA context there (from 12.0 on), several hundred MiB for each rank of the node.
     * NULL: the rank's GPU is the first. */
    void (*enter)(void *ctx);

    /* Enqueues on stream out[i] = T over k of in[k][i] (comm.h), i in [0, n_elems), as cuda_reduce_tree does; for
     * nccl_allreduce_fixed. Does not wait. 0, or -1 with *errp. */
    int (*sum)(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
               ddp_error_t *errp);
};

struct nccl_config {
    double timeout_s; /* deadline of every wait */
    struct nccl_device device;

    /* Ranks may share a GPU, which is useful in tests only, and which NCCL normally refuses: NCCL_HOSTID is set, unless
     * it is set already, so that NCCL takes each rank for a node of its own. */
    bool share_devices;

    /* One rank in this many is a root and makes an id, where the library takes several ids; 0: one in 128, as NCCL
     * advises. */
    int ranks_per_root;

    /* Called with a line for the user, the same on all ranks, by nccl_create and nccl_memory_create. NULL: nobody
     * reads it. */
    void (*warn)(void *ctx, const char *line);
    void *warn_ctx;

    /* NCCL's own log: a file for each rank, in whose name %r becomes the rank (NCCL's %h and %p work too). Sets
     * NCCL_DEBUG and NCCL_DEBUG_FILE, unless they are set already. NULL: as the environment says. */
    const char *log;
};

/* Opens libnccl. The roots make ids, which all ranks get by one comm_allgather of c, together with each rank's library
 * version or its reason not to take part. Collective. Returns NULL on all ranks alike if one rank has no NCCL, another
 * version or build of it, or an environment in which NCCL cannot work; c can then be used as before. Returns NULL on
 * one rank if c fails, or if this rank's memory runs out, which breaks c. w and c are borrowed until nccl_destroy. */
nccl_t *nccl_create(const struct nccl_config *cfg, const struct world *w, comm_t *c, ddp_error_t *errp);

/* Connects the ranks (NCCL's wire-up); waits for all of them. */
int nccl_start(nccl_t *n, ddp_error_t *errp);

/* ---- operations ---- */

struct nccl_range {
    void *data;
    size_t n_elems;
    enum ddp_dtype dtype;
};

/* Every range becomes its sum over all ranks, as one operation of NCCL's (a group). In NCCL's order of summation. */
int nccl_allreduce(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, void *stream, ddp_error_t *errp);

/* in: size x n_each elements; out: this rank's n_each elements of the sums, which may lie at in + rank * n_each. */
int nccl_reduce_scatter(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                        ddp_error_t *errp);

/* out: size x n_each elements; rank r's `in` goes to out + r * n_each, and this rank's `in` may lie at its place
 * there. */
int nccl_allgather(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                   ddp_error_t *errp);

/* Broadcast: every range becomes root's, as one group. */
int nccl_bcast(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, int root, void *stream, ddp_error_t *errp);

/* nccl_allreduce with sums in the order T of comm.h, so that results have the bits of the host communicator's
 * comm_allreduce: four exchanges of data, and sums by the device's own kernel. The call waits until NCCL has enqueued
 * each exchange on the stream. At most 128 ranks on a node and 128 nodes.
 *
 * stage: 256-byte aligned device memory of the same size on all ranks, borrowed until the device is done. With
 * nccl_fixed_stage_bytes it holds all ranges at once: about as many bytes as they have, and more where nodes have
 * unequal numbers of ranks. With a smaller one the ranges are done in rounds; 64 KiB for each rank of a node, or for
 * each node, is enough. */
struct nccl_stage {
    void *data;
    size_t n_bytes;
};
int nccl_allreduce_fixed(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, const struct nccl_stage *stage,
                         void *stream, ddp_error_t *errp);
size_t nccl_fixed_stage_bytes(const struct world *w, const struct nccl_range *ranges, size_t n_ranges);

/* The first half of nccl_allreduce_fixed: data is size x n_each elements, of which this rank's n_each, at data + rank *
 * n_each, become sums; the content of the others is undefined afterwards. Two exchanges, or one within a node. It can
 * use the same stage. */
int nccl_reduce_scatter_fixed(nccl_t *n, void *data, size_t n_each, enum ddp_dtype t, const struct nccl_stage *stage,
                              void *stream, ddp_error_t *errp);

/* Data to send to, or to receive from, one other rank. */
struct nccl_piece {
    int peer;
    bool is_send;
    void *data;
    size_t n_elems;
    enum ddp_dtype dtype;
};

/* Moves all pieces as one group, so that their order cannot cause a deadlock; the pieces between two ranks match in
 * order. A rank without pieces need not call. */
int nccl_exchange(nccl_t *n, const struct nccl_piece *pieces, size_t n_pieces, void *stream, ddp_error_t *errp);

/* ---- waiting ----
 *
 * A thread of NCCL's enqueues an operation's work on the stream, some 10 us after the call. An event that is to come
 * after the work may be recorded only then: call nccl_settle before, which waits for it. (The next operation calls it
 * by itself.) */
int nccl_settle(nccl_t *n, ddp_error_t *errp);

/* Has the device finished what the caller asks about? 1: yes; 0: not yet; -1 with an error. Does not wait. */
typedef int nccl_done_f(void *ctx, ddp_error_t *errp);

/* Waits until done(ctx) returns 1 (typically it is a cudaEventQuery). Of all waits for device work only this one ends
 * when a peer dies. */
int nccl_wait(nccl_t *n, nccl_done_f *done, void *ctx, ddp_error_t *errp);

/* ---- memory ---- */

/* *ret: device memory that NCCL has allocated and registered, so that NCCL reduces it without copies where the hardware
 * can; its content is undefined. Freed by nccl_destroy. Collective: the same size (> 0) on all ranks, in one order.
 *
 * is_summed: sums over the ranks happen in it. Then it is a symmetric window, within one node and where NCCL has any
 * (lib.h); what that buys has not been measured. A sum begins at the same offset of it on all ranks, and so does `in`
 * of a reduce-scatter. (What is gathered is none: NCCL may do that by the GPU's copy engines, whose waits no abort
 * ends: 2.30.7, src/ce_coll.cc.)
 *
 * Where one rank's NCCL allocates nothing, or does not register, no rank does, and all are warned (nccl_config.warn).
 * 0; *ret is NULL on all ranks if NCCL allocates nothing: the caller's own memory will do. -1: the communicator has
 * failed. */
int nccl_memory_create(nccl_t *n, size_t n_bytes, bool is_summed, void **ret, ddp_error_t *errp);

/* ---- the end, and what comes after a failure ---- */

/* Leaves the communicator and frees what NCCL holds, but not the memory of nccl_memory_create. Call it only after
 * nccl_wait has shown that the device is done with all operations, since it ends the memory's registration. It does not
 * wait for other ranks; a rank that still has operations with this one waits until comm_destroy reports that this rank
 * has left. */
int nccl_close(nccl_t *n, ddp_error_t *errp);

/* If n was not closed, aborts NCCL's communicator, which ends its work on the device. Call it before device memory is
 * freed, since freeing may wait for that work. */
void nccl_abort(nccl_t *n);

/* Calls nccl_abort, then frees n and the memory of nccl_memory_create without waiting: nothing on the device may use
 * that memory any more. NULL is allowed. */
void nccl_destroy(nccl_t *n);

/* Makes nccl_destroy leave that memory to the process's end: for a device that has failed, or that still computes. */
void nccl_leave_memory(nccl_t *n);

const char *nccl_version(const nccl_t *n); /* "2.28.9"; "none" where there is no library */

#endif
