/* comm.h - the host communicator: collectives over memory of the processors, for the reducer and for ddp.h.
 * (Its counterpart for device memory is runtime/nccl/nccl.h.)
 *
 * All collective calls are made by all ranks in the same order, by one thread of each. A call returns 0, or -1 with
 * *errp filled: DDP_E_PEER names the rank that died, left or aborted; DDP_E_TIMEOUT names the rank that is waited for;
 * DDP_E_USAGE names two ranks that made different calls, or the same call with different sizes. After -1 only
 * comm_abort and comm_destroy may follow.
 *
 * Reductions follow the fixed order T of doc/architecture.md: T(1) = x, T(n) = T(first m) + T(rest), m the largest
 * power of two below n; over rank numbers where every node holds an aligned power-of-two block of ranks, else first
 * over each node's ranks, then over the nodes. So results are the same bits on every rank and at every repetition,
 * whatever the transport, the chunks and the order of arrival. bf16 and f16 are summed in float32 and rounded once
 * within a node and once over the nodes, so that their bits depend on the placement too. */
#ifndef DDP_RUNTIME_COMM_H
#define DDP_RUNTIME_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/boot.h"
#include "pmix/world.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

typedef struct comm comm_t;
typedef struct comm_segment comm_segment_t;
typedef struct comm_work comm_work_t;

#define COMM_BLOCK 64            /* bytes, a cache line: the smallest unit in which ranges are cut */
#define COMM_UNIT_MAX (64 << 10) /* bytes, the largest */

/* Which thread makes progress on works that nobody waits for: CALLER, the thread that calls the communicator, inside
 * its calls; THREAD, a thread of the communicator (which sleeps while the caller waits, since a waiting caller makes
 * the progress itself). AUTO chooses; runtime/comm/progress.c has the rule and its measurement. */
enum comm_progress_mode { COMM_PROGRESS_AUTO, COMM_PROGRESS_CALLER, COMM_PROGRESS_THREAD };

struct comm_config {
    double timeout_s;      /* deadline of every wait */
    const char *timeout_name; /* what sets it, for errors, as in "DDP_TIMEOUT"; NULL: they do not say. Borrowed */
    const char *interface; /* name of the network interface to use between nodes; NULL: the one towards MASTER_ADDR
                              (from the environment), else the first that is up */
    enum comm_progress_mode progress;
};

/* A piece of a segment: n_elems elements of dtype at offset_bytes (a multiple of 64). */
struct comm_range {
    size_t offset_bytes, n_elems;
    enum ddp_dtype dtype;
};

/* Elements [first, first + n_elems) of ranges[range]. comm_piece_next walks over the pieces in a span of blocks, where
 * the ranges are laid end to end and each takes whole blocks. */
struct comm_piece {
    size_t range, first;
    size_t offset_bytes, n_bytes, n_elems;
    enum ddp_dtype dtype;
    size_t packed_bytes; /* the piece's offset in memory where the span's blocks are packed one after another */
};
struct comm_span {
    uint64_t first, end; /* blocks */
};
struct comm_pieces {
    const struct comm_range *ranges;
    size_t n_ranges, i;
    uint64_t base; /* the block at which range i starts */
    struct comm_span span;
};
bool comm_piece_next(struct comm_pieces *it, struct comm_piece *ret);

/* Wires up over b (which the caller closes afterwards). w is borrowed until comm_destroy. */
comm_t *comm_create(const struct comm_config *cfg, const struct world *w, boot_t *b, ddp_error_t *errp);

/* Memory that the communicator can reduce in place: n_bytes for this rank (the same on every rank), zeroed, 64-byte
 * aligned, at an address that never moves. Freed with the communicator. */
comm_segment_t *comm_segment_create(comm_t *c, size_t n_bytes, ddp_error_t *errp);
void *comm_segment_data(const comm_segment_t *s);

/* ---- works: collectives in flight ----
 *
 * A start returns at once. Works run in the order in which they were started, asynchronously to the caller: in the
 * communicator's thread, or whenever the caller enters comm_progress, comm_wait or another call of the communicator.
 * Until comm_wait returns, the caller must not touch the memory that a work reduces; the array of ranges is borrowed
 * until then. */

/* Called with results that this rank has just computed, while they are in its cache: elements [first, first + n_elems)
 * of ranges[range], at `data` in this rank's part of the segment. Over all ranks each element of a work is visited
 * once, by its owner (comm_owned). `first` is a multiple of the work's unit. The call may come from the communicator's
 * thread; the caller may read what the visitor has written after comm_wait. The visitor must not call the
 * communicator. */
typedef void comm_visit_f(void *ctx, size_t range, size_t first, const void *data, size_t n_elems);

struct comm_reduce {
    comm_segment_t *segment;
    const struct comm_range *ranges; /* they do not overlap */
    size_t n_ranges;
    enum ddp_op op;
    size_t unit_bytes; /* ranges are cut, between ranks and into chunks, only at multiples of this from each range's
                          start: a power of two, COMM_BLOCK to COMM_UNIT_MAX; 0: COMM_BLOCK */
    bool owned_only;   /* reduce-scatter: only the pieces that this rank owns (comm_owned) hold results; the content of
                          the others is undefined */
    bool is_scatter;   /* a part of comm_reduce_scatter: what ranks compare, and what errors call it */
    comm_visit_f *visit; /* or NULL */
    void *ctx;
    uint64_t *done_ns; /* or NULL; borrowed until comm_wait: when this rank had all results (clock.h), which stands
                          there once comm_is_done */
};

/* In every range: each rank's elements become op over all ranks' elements. */
comm_work_t *comm_reduce_start(comm_t *c, const struct comm_reduce *r, ddp_error_t *errp);

/* All-gather in place: in every range, each element becomes, on all ranks, what its owner has (comm_owned with the same
 * ranges and unit). */
comm_work_t *comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                               size_t unit_bytes, ddp_error_t *errp);

/* data[0..n_elems) becomes op over all ranks' data. Data in a segment of c (64-byte aligned, at the same offset on
 * every rank) is reduced in place; other data is copied through the communicator's staging memory. */
comm_work_t *comm_allreduce_start(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op,
                                  ddp_error_t *errp);

/* Makes progress on works in flight without waiting; cheap when there are none. comm_wait reports the errors. */
void comm_progress(comm_t *c);

bool comm_is_done(const comm_work_t *w); /* cheap; makes no progress */

/* Waits for w and frees it, also on failure. w may be NULL: returns 0. comm_destroy frees works that were not waited
 * for. */
int comm_wait(comm_work_t *w, ddp_error_t *errp);

/* The pieces of the ranges that this rank owns: the part of a reduction that it visits, and that owned_only gives
 * results for. Each element has exactly one owner, which stays the same for the communicator's life. */
struct comm_pieces comm_owned(const comm_t *c, const struct comm_range *ranges, size_t n_ranges, size_t unit_bytes);

/* ---- calls that wait ---- */

/* Start and wait in one. */
int comm_reduce_ranges(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges, enum ddp_op op,
                       ddp_error_t *errp);
int comm_allreduce(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp);

int comm_bcast(comm_t *c, void *data, size_t n_bytes, int root, ddp_error_t *errp);
int comm_allgather(comm_t *c, const void *in, size_t n_bytes, void *out, ddp_error_t *errp); /* out: size * n_bytes */

/* What a rank gives to rank r, n_in[r] bytes at in[r], and has room for of it, n_out[r] at out[r]. [size] each; where
 * there are no bytes, no address is looked at. */
struct comm_parts {
    const void *const *in;
    const size_t *n_in;
    void *const *out;
    const size_t *n_out;
};

/* Every rank's out[r] becomes rank r's `in` for it: the same memory, for this rank's own part, or another. Where a rank
 * gives another number of bytes than there is room for, all ranks are told so by DDP_E_USAGE, nothing moves, and c goes
 * on. */
int comm_alltoall(comm_t *c, const struct comm_parts *parts, ddp_error_t *errp);

/* out[0..n_elems) = op over all ranks' in[rank * n_elems ..]; in: size * n_elems, of which out may be this rank's own
 * part. */
int comm_reduce_scatter(comm_t *c, const void *in, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, void *out,
                        ddp_error_t *errp);
int comm_barrier(comm_t *c, ddp_error_t *errp);

/* Makes the present or next call of every other rank fail with "rank R aborted: why", R being this rank, or the one
 * with which `why` begins ("rank R: "): what one rank cannot do, all know, and any may be the first to end by it.
 * Returns at once. */
void comm_abort(comm_t *c, const char *why);

/* True once c has failed on all ranks: *ret is then the cause that they report. */
bool comm_why(const comm_t *c, ddp_error_t *ret);

/* In a process that this rank has forked since comm_create: c is its parent's, and no other call may follow. c may be
 * NULL. */
bool comm_is_parents(const comm_t *c);

/* Leaves the communicator and frees it. c may be NULL. A peer that still waits for this rank gets DDP_E_PEER "rank R
 * left". */
void comm_destroy(comm_t *c);

/* True where sums are T over the rank numbers, because every node holds an aligned power-of-two block of ranks: their
 * bits then do not depend on how the ranks are spread over nodes. False where sums go over each node's ranks first. The
 * same on every rank. */
bool comm_is_by_rank(const comm_t *c);

/* After an error of this rank alone: makes all other ranks fail with errp's text. Returns -1. */
int comm_fail(comm_t *c, ddp_error_t *errp);

/* For nccl, which stands beside c: how c's sums are cut (plan.h), and who watches the ranks (watch.h). Borrowed. */
struct comm_plan;
struct watch;
const struct comm_plan *comm_plan(const comm_t *c);
struct watch *comm_watch(const comm_t *c);

/* For whoever looks at a rank from outside (flight.h): steps that were taken. */
void comm_note_step(const comm_t *c, uint64_t n_steps);

/* Payload bytes that this rank has sent over TCP so far, for tests and metrics. A reduction of B bytes adds exactly 2
 * (n_nodes - 1) B over all ranks: nothing is padded. With ranges cut into 64-byte blocks, the owner of slice S whose
 * node combines sub-slice s sends S + (n_nodes - 2) s bytes. The header of 32 bytes before each message, of less than
 * 192 KiB, is not counted. */
uint64_t comm_tcp_bytes_sent(const comm_t *c);

/* How fast this rank sends over TCP (tcp_rate); NAN: it has sent too little since the last call. */
double comm_tcp_rate(comm_t *c);

#endif
