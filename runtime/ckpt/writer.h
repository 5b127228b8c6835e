/* writer.h - writes a rank's part of a checkpoint, in a thread of its own: copies it during the next forward and
 * backward pass, then writes the copy during the steps that follow. At most one save is in flight, in memory that was
 * allocated once.
 *
 *   IDLE -> COPYING (state is read: the optimizer must wait) -> WRITING -> WRITTEN (on disk, fsynced) -> IDLE
 *                                                            -> FAILED  (error says why)               -> IDLE
 * (If the source fails: COPYING -> FAILED.)
 * Each byte belongs to the pieces of one rank only, so no two ranks write the same byte. */
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

/* Bytes [at, at + n) of tensor `tensor` (index into files.tensor), which lie at `from` in every save. `at` is a
 * multiple of CKPT_BLOCK_BYTES, and so is n, unless the tensor ends there. */
struct writer_piece {
    const void *from;
    size_t tensor;
    uint64_t at;
    size_t n;
};

#define WRITER_CHUNK_BYTES (256 * CKPT_BLOCK_BYTES) /* the most bytes that one fetch asks for */

/* How the writer gets bytes from memory that the processor does not read, such as a GPU's: in chunks, two of which are
 * in flight at a time. The writer's thread makes the calls; for each slot, a fetch that has not failed is followed by a
 * fetched. */
struct writer_source {
    /* Starts to copy from[0..n) to `slot`, 0 or 1. -1: error. */
    int (*fetch)(void *ctx, int slot, const void *from, size_t n, ddp_error_t *errp);
    /* Waits for the slot's copy. Returns its address, valid until the slot's next fetch. NULL: error. */
    const void *(*fetched)(void *ctx, int slot, ddp_error_t *errp);
    void *ctx;
};

/* Where a save is written to. */
struct writer_folder {
    /* Called by the writer's thread in WRITING, before anything is written: opens the folder; the writer closes it. */
    int (*enter)(void *ctx, struct savedir *ret, ddp_error_t *errp);
    void *ctx; /* borrowed until the save is WRITTEN or FAILED */
};

/* Where a save is copied to. copied, or NULL, is called by the writer's thread as soon as all is there. */
struct writer_target {
    char *memory; /* [writer_bytes], aligned to SNAPSHOT_ALIGN; not to be changed until the save is WRITTEN or FAILED */
    void (*copied)(void *ctx, const uint64_t *sum); /* sum[n_tensors], as writer_sums */
    void *ctx;
};

enum writer_state { WRITER_IDLE, WRITER_COPYING, WRITER_WRITING, WRITER_WRITTEN, WRITER_FAILED };

struct writer_times {
    double copy_s, write_s; /* of the last save: copying and computing checksums; writing and fsync */
    double waited_s;        /* time in writer_wait_copied for that save */
    uint64_t n_bytes;       /* of this rank's pieces */
};

/* Starts the thread. has_memory: allocates memory of its own for a save, and touches it. source, which is copied, is
 * for all pieces; NULL: they lie in the processor's memory. f, pieces and source's ctx are borrowed until
 * writer_destroy. */
ckpt_writer_t *writer_create(const struct files *f, const struct writer_piece *piece, size_t n,
                             const struct writer_source *source, bool has_memory, ddp_error_t *errp);
void writer_destroy(ckpt_writer_t *w); /* NULL is allowed; ends a save in flight, at its next system call */

/* Ends the thread, as writer_destroy does, which may follow. -1: it is in a system call still, and what it uses must
 * stay. */
int writer_end(ckpt_writer_t *w, uint64_t deadline);

/* Bytes of memory that a save takes. */
size_t writer_bytes(const struct files *f, const struct writer_piece *piece, size_t n);

/* IDLE -> COPYING. Starts a save. has_heads: this rank also writes heads and small files. target: where to copy it to;
 * NULL: to the writer's own memory. folder and target are copied. The file system is left to the thread: this call
 * waits for nothing. */
int writer_start(ckpt_writer_t *w, const struct writer_folder *folder, bool has_heads,
                 const struct writer_target *target, ddp_error_t *errp);

enum writer_state writer_state(const ckpt_writer_t *w); /* cheap */

/* What has been written since the writer was created: bytes, and one for each folder that was entered and each file
 * that is on disk. It grows as long as the file system does what it is asked. */
uint64_t writer_progress(const ckpt_writer_t *w);

/* Called before the training state changes: returns once the writer is not COPYING. */
void writer_wait_copied(ckpt_writer_t *w);

/* Waits until the writer is WRITTEN, FAILED or IDLE (0), or until `deadline` (clock.h; -1). */
int writer_wait(ckpt_writer_t *w, uint64_t deadline, ddp_error_t *errp);

/* In WRITTEN: [n_tensors] checksums of this rank's blocks. In FAILED: the error. */
const uint64_t *writer_sums(const ckpt_writer_t *w);
const ddp_error_t *writer_error(const ckpt_writer_t *w);

/* WRITTEN or FAILED -> IDLE */
void writer_reset(ckpt_writer_t *w);

void writer_times(const ckpt_writer_t *w, struct writer_times *ret);

#endif
