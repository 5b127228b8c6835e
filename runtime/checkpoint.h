/* checkpoint.h - a checkpoint's way through a job.
 *
 *   IDLE -> SAVING      every rank copies and writes its part (ckpt/writer.h)
 *        -> COMMITTING  all have written: the sums are added up, rank 0 commits (ckpt/commit.h)
 *        -> IDLE        committed; or, from either, given up
 *
 * Ranks move by the tail of the gradients' reduction alone (reducer.h), which is the same on all of them, so they are
 * always in the same state, and no thread but the caller's ever makes a collective call. */
#ifndef DDP_RUNTIME_CHECKPOINT_H
#define DDP_RUNTIME_CHECKPOINT_H

#include <stdbool.h>

#include "runtime/ddp.h"

struct checkpoint {
    struct ddp_checkpoint_status status;
};

/* This rank's part of a tail: in ddp_backward_end, and where ddp_join makes an empty pass. */
void checkpoint_fill_tail(const ddp_t *d, double *tail);

/* In ddp_step, with the summed tail: sets s->checkpoint. */
void checkpoint_after_step(ddp_t *d, const double *tail, struct ddp_step *s);

#endif
