/* comm.h - the communicator: what every backend (host; nccl later) offers to the reducer and to ddp.h.
 *
 * All calls are collective over all ranks in the same order, made by one thread. Each returns 0, or -1 with *errp
 * filled: DDP_E_PEER names the rank that died, left or aborted; DDP_E_TIMEOUT the rank that is waited for; DDP_E_USAGE
 * two ranks that made different calls, or the same one with other sizes. After -1 only comm_abort and comm_destroy may
 * follow.
 *
 * Reductions follow the fixed order T of doc/architecture.md: T(1) = x, T(n) = T(first m) + T(rest), m the largest
 * power of two below n; over rank numbers where every node holds an aligned power-of-two block of ranks, else first
 * over each node's ranks, then over the nodes. So results are the same bits on every rank and at every repetition,
 * whatever the transport, the chunks and the order of arrival. bf16 and f16 are summed in float32 and rounded once
 * within a node and once over the nodes, so that their bits depend on the placement too. */
#ifndef DDP_RUNTIME_COMM_H
#define DDP_RUNTIME_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "pmix/boot.h"
#include "pmix/world.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

typedef struct comm comm_t;
typedef struct comm_segment comm_segment_t;

struct comm_config {
    double timeout_s;      /* deadline of every wait */
    const char *interface; /* name of the network interface to use between nodes; NULL: the one towards MASTER_ADDR
                              (from the environment), else the first that is up */
};

/* A piece of a segment: n_elems elements of dtype at offset_bytes (a multiple of 64). */
struct comm_range {
    size_t offset_bytes, n_elems;
    enum ddp_dtype dtype;
};

/* Wires up over b (which the caller closes afterwards). w is borrowed until comm_destroy. */
comm_t *comm_create(const struct comm_config *cfg, const struct world *w, boot_t *b, ddp_error_t *errp);

/* Memory that the communicator can reduce in place: n_bytes for this rank (the same on every rank), zeroed, 64-byte
 * aligned, at an address that never moves. Freed with the communicator. */
comm_segment_t *comm_segment_create(comm_t *c, size_t n_bytes, ddp_error_t *errp);
void *comm_segment_data(const comm_segment_t *s);

/* In every range of s: each rank's elements become op over all ranks' elements. Ranges do not overlap. */
int comm_reduce_ranges(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges, enum ddp_op op,
                       ddp_error_t *errp);

/* The same for memory of the caller's own, staged through the communicator's. */
int comm_allreduce(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp);

int comm_bcast(comm_t *c, void *data, size_t n_bytes, int root, ddp_error_t *errp);
int comm_allgather(comm_t *c, const void *in, size_t n_bytes, void *out, ddp_error_t *errp); /* out: size * n_bytes */
int comm_barrier(comm_t *c, ddp_error_t *errp);

/* Makes every other rank's present or next call fail with "rank R aborted: why". Returns at once. */
void comm_abort(comm_t *c, const char *why);

/* Leaves and frees. NULL is allowed. A peer that still waits for this rank gets DDP_E_PEER "rank R left". */
void comm_destroy(comm_t *c);

/* What travelled so far, for tests and metrics: payload bytes this rank sent over TCP. A reduction of B bytes adds over
 * all ranks exactly 2 (n_nodes - 1) B: nothing is padded. With ranges cut into 64-byte blocks, the owner of slice S
 * whose node combines sub-slice s adds S + (n_nodes - 2) s bytes. Not counted: the 8 bytes by which each message says to
 * which call it belongs. */
uint64_t comm_tcp_bytes_sent(const comm_t *c);

#endif
