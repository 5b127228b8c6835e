/* split.h - which part of the state a rank writes into a checkpoint, and reads from one. Pure.
 *
 * An arena that every rank holds whole (values; moments that are not spread) is split evenly over the ranks, at blocks
 * of CKPT_BLOCK_BYTES of each tensor, in the order of the tensors. So a rank's part of an arena is one run of bytes. */
#ifndef DDP_RUNTIME_SAVE_SPLIT_H
#define DDP_RUNTIME_SAVE_SPLIT_H

#include "runtime/base/error.h"
#include "runtime/ckpt/files.h"
#include "runtime/ckpt/writer.h"

/* Tensors [first, first + n) of the files; tensor first + i lies at base + offset[i]. Offsets rise. base NULL: they lie
 * anywhere; `from` of their pieces is NULL, for the caller to fill. */
struct split_arena {
    char *base;
    size_t first, n;
    const size_t *offset; /* [n] bytes; borrowed */
};

struct split {
    struct writer_piece *piece; /* [n] */
    size_t n, room;
};

int split_add(struct split *s, const struct writer_piece *p, ddp_error_t *errp);

/* Adds the part of the arena that `rank` writes. */
int split_add_arena(struct split *s, const struct files *f, const struct split_arena *a, int rank, int n_ranks,
                    ddp_error_t *errp);
void split_clear(struct split *s); /* a zeroed struct is allowed */

/* The place of the part of the arena that `rank` writes: *ret_n bytes from base + *ret_at, padding between tensors
 * included. */
void split_span(const struct files *f, const struct split_arena *a, int rank, int n_ranks, size_t *ret_at,
                size_t *ret_n);

#endif
