/* snapshot.h - where a rank's pieces lie in its snapshot: in the order of the files, so that a run of bytes in a file
 * is a run in memory, at the same offset modulo SNAPSHOT_ALIGN. So the whole pages of a run can be written past the
 * page cache, for which memory and file offset must be aligned. Pure. */
#ifndef DDP_RUNTIME_CKPT_SNAPSHOT_H
#define DDP_RUNTIME_CKPT_SNAPSHOT_H

#include "runtime/base/error.h"
#include "runtime/ckpt/files.h"
#include "runtime/ckpt/writer.h"

#define SNAPSHOT_ALIGN 4096

struct snapshot_run {
    int file;
    uint64_t at; /* offset in the file */
    size_t offset, n; /* offset in memory; bytes */
};

struct snapshot_piece {
    const struct writer_piece *piece;
    size_t offset; /* in memory */
};

struct snapshot {
    struct snapshot_piece *piece; /* [n_pieces] in the order of the files */
    size_t n_pieces;
    struct snapshot_run *run;     /* [n_runs] in the same order */
    size_t n_runs;
    size_t n_bytes;      /* of memory */
    uint64_t data_bytes; /* of the pieces */
};

/* The pieces, which are borrowed, do not overlap. snapshot_clear frees. */
int snapshot_plan(struct snapshot *ret, const struct files *f, const struct writer_piece *piece, size_t n,
                  ddp_error_t *errp);
void snapshot_clear(struct snapshot *s); /* a zeroed struct is allowed */

#endif
