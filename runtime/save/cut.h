/* cut.h - a stop inside a step whose micro-steps take long against the time that is left. The files that implement
 * ddp.h only.
 *
 * Where the last step took longer than the option stop-within on any rank (the tail says so, TAIL_SLOW; before the first
 * step: yes), ranks agree at the end of each micro-step that does not synchronise, by a tiny reduction, whether to
 * stop. If so, what the micro-steps have added up so far is kept; the next one is empty and synchronises nothing; and
 * ddp_step does nothing but say `stop` and `cut`. A checkpoint then has the state of the last whole step and, in tensors
 * of the group "window", each rank's sums; a resume on as many ranks goes on from there, one on others from the step's
 * beginning: the same bits with shards, and work lost.
 *
 * Of rank R, of n parameters: rank-R.state, doubles: loss, items, which parameters were used [n], losses of the levels
 * of shards.h; then rank-R.grads, the gradients' arena, or, with shards, rank-R.level-J for each level in use. */
#ifndef DDP_RUNTIME_SAVE_CUT_H
#define DDP_RUNTIME_SAVE_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/ckpt/manifest.h"
#include "runtime/ddp.h"

struct window {
    bool is_watched; /* ranks look, at micro-steps' ends */
    bool is_cut;     /* they have agreed to stop: the next micro-step is empty, or is being taken, */
    bool is_kept;    /* and below is what was added up before it */
    bool is_refused; /* there is no memory to save that */
    int reason;      /* enum stop_reason */
    int micro;       /* micro-steps done */
    double *state;   /* [window_n_state()] */
    float *grads;    /* the arena; NULL with shards */
    struct ddp_step last; /* what the last whole step said */
};

/* With ddp_data_open. */
void window_open(ddp_t *d);
void window_close(ddp_t *d);

/* For the tail: this step was a long one. */
bool window_is_slow(const ddp_t *d);

/* After a micro-step that did not synchronise: shall the ranks stop? Collective, where is_watched. A rank that has
 * joined (ddp_join) takes part with has_joined: the step is then not cut. */
int window_agree(ddp_t *d, bool has_joined, ddp_error_t *errp);

/* ddp_batch_next: true: *ret is the empty micro-step. Otherwise what a cut step had added up is back in its place. */
bool window_begin(ddp_t *d, struct ddp_batch *ret);

/* ddp_step, after the empty micro-step. */
struct ddp_step window_step(ddp_t *d);

/* For a checkpoint: is there something to save, and can it be? The group's tensors, of all ranks (names and shapes;
 * malloc, the caller frees), and this rank's pieces: none, if not. */
bool window_is_wanted(const ddp_t *d);
int window_tensors(ddp_t *d, struct st_tensor **ret, size_t *ret_n, ddp_error_t *errp);
int window_share(ddp_t *d, ddp_error_t *errp);

/* After everything else of the checkpoint in `path` was restored: the step that was cut goes on, if it was on as many
 * ranks, with the same batches; else a warning says that it begins anew. Collective. */
int window_load(ddp_t *d, const char *path, const struct manifest *m, ddp_error_t *errp);
int window_take_memory(ddp_t *d, ddp_error_t *errp);

#endif
