/* writer.h - a rank's part of a checkpoint: copied beside the next forward and backward pass, then written beside the
 * steps that follow, by a thread of its own. At most one is in flight, in memory that was taken once.
 *
 *   IDLE -> COPYING (state is read: the optimizer must wait) -> WRITING -> WRITTEN (on disk, fsynced) -> IDLE
 *                                                            -> FAILED  (error says why)               -> IDLE
 * (a source that fails: from COPYING)
 * A rank's pieces belong to it alone, so that no two ranks write the same byte. */
#ifndef DDP_RUNTIME_CKPT_WRITER_H
#define DDP_RUNTIME_CKPT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/files.h"
#include "runtime/ckpt/savedir.h"

typedef struct ckpt_writer ckpt_writer_t;

/* Bytes [at, at + n) of tensor `tensor` (index into files.tensor), which lie at `from`, always. `at` is a multiple of
 * CKPT_BLOCK_BYTES, and so is n, or it ends with the tensor. */
struct writer_piece {
    const void *from;
    size_t tensor;
    uint64_t at;
    size_t n;
};

#define WRITER_CHUNK_BYTES (256 * CKPT_BLOCK_BYTES) /* at most, that a source is asked for at once */

/* How bytes come from memory that the processor does not read, such as a GPU's: two chunks are on their way at a time. The
 * writer's thread calls, for each slot one after the other; each fetch that did not fail is followed by a fetched. */
struct writer_source {
    /* Begins to bring from[0..n) to `slot`, 0 or 1. -1: it failed. */
    int (*fetch)(void *ctx, int slot, const void *from, size_t n, ddp_error_t *errp);
    /* Waits for that: where the bytes are, until the slot's next fetch. NULL: it failed. */
    const void *(*fetched)(void *ctx, int slot, ddp_error_t *errp);
    void *ctx;
};

enum writer_state { WRITER_IDLE, WRITER_COPYING, WRITER_WRITING, WRITER_WRITTEN, WRITER_FAILED };

struct writer_times {
    double copy_s, write_s; /* of the last save: copying and summing up; writing and fsync */
    double waited_s;        /* that writer_wait_copied took for it */
    uint64_t n_bytes;       /* of this rank's pieces */
};

/* Takes the memory (touched here, not later) and starts the thread. source, copied, is for all pieces; NULL: they lie in
 * the processor's memory. f, pieces and source's ctx are borrowed until writer_destroy. */
ckpt_writer_t *writer_create(const struct files *f, const struct writer_piece *piece, size_t n,
                             const struct writer_source *source, ddp_error_t *errp);
void writer_destroy(ckpt_writer_t *w); /* NULL is allowed; ends what is in flight, at the next system call */

/* Bytes of memory that writer_create takes. */
size_t writer_bytes(const struct files *f, const struct writer_piece *piece, size_t n);

/* IDLE only. Begins, in `folder` (commit_folder), which is the writer's from here on, also where this fails. has_heads:
 * this rank also writes heads and small files. */
int writer_start(ckpt_writer_t *w, struct savedir *folder, bool has_heads, ddp_error_t *errp);

enum writer_state writer_state(const ckpt_writer_t *w); /* cheap */

/* Before state changes: returns once nothing is being copied. */
void writer_wait_copied(ckpt_writer_t *w);

/* Until it is WRITTEN, FAILED or IDLE, or until `deadline` (clock.h): 0 or -1. */
int writer_wait(ckpt_writer_t *w, uint64_t deadline, ddp_error_t *errp);

/* WRITTEN: [n_tensors] sums of this rank's blocks. FAILED: why. */
const uint64_t *writer_sums(const ckpt_writer_t *w);
const ddp_error_t *writer_error(const ckpt_writer_t *w);

/* WRITTEN or FAILED -> IDLE */
void writer_reset(ckpt_writer_t *w);

void writer_times(const ckpt_writer_t *w, struct writer_times *ret);

#endif
