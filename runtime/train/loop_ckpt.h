/* loop_ckpt.h - checkpoints in the training loop (loop.h): when one is taken, and the lines printed about it. */
#ifndef DDP_RUNTIME_TRAIN_LOOP_CKPT_H
#define DDP_RUNTIME_TRAIN_LOOP_CKPT_H

#include "runtime/train/loop.h"

struct loop_ckpt {
    const struct loop_options *o;
    uint64_t n_said;  /* commits for which a line was printed */
    bool has_warned_of_json;
    char warned[sizeof(((struct ddp_checkpoint_status *)0)->warning)]; /* the last warning that was passed on */
};

/* Fills *c, and passes on the warning of ddp_resume. */
void loop_ckpt_begin(struct loop_ckpt *c, const ddp_t *d, const struct loop_options *o);

/* Called after a step and its lines: prints a line for a checkpoint that was committed meanwhile, and takes a
 * checkpoint if one is due, once the lines of options->json are on disk; where they cannot be, it warns once. On a
 * stop, and after the last step, it returns once the checkpoint is committed, or -1 if that failed. Collective. */
int loop_ckpt_step(struct loop_ckpt *c, ddp_t *d, const struct ddp_step *s, ddp_error_t *errp);

#endif
