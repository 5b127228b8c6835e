/* loop_ckpt.h - checkpoints in the training loop (loop.h): when one is taken, and what is said about it. */
#ifndef DDP_RUNTIME_TRAIN_LOOP_CKPT_H
#define DDP_RUNTIME_TRAIN_LOOP_CKPT_H

#include "runtime/train/loop.h"

struct loop_ckpt {
    const struct loop_options *o;
    uint64_t n_said;  /* commits that a line was printed about */
    char warned[sizeof(((struct ddp_checkpoint_status *)0)->warning)]; /* the last warning that was passed on */
};

/* Begins to look: passes on what ddp_resume warned of. */
void loop_ckpt_begin(struct loop_ckpt *c, const ddp_t *d, const struct loop_options *o);

/* After a step and its lines: says what was committed meanwhile, and takes a checkpoint where one is due. On a stop,
 * and after the last step, it returns when the checkpoint is there; -1 where it cannot be had. Collective. */
int loop_ckpt_step(struct loop_ckpt *c, ddp_t *d, const struct ddp_step *s, ddp_error_t *errp);

#endif
