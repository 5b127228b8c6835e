/* cut.h - a stop between two micro-steps of a step that takes long compared with the time that is left.
 *
 * If the last step took longer than the option stop-within on any rank (TAIL_SLOW in the tail says so; before the first
 * step it counts as long), then at the end of each micro-step that does not synchronise the ranks agree, by a tiny
 * reduction, whether to stop. If they stop, the step is cut: the sums of its micro-steps so far are kept; the next
 * micro-step is empty and synchronises nothing; and ddp_step does nothing but set `stop` and `cut`. A checkpoint then
 * holds the state of the last whole step and, in tensors of the group "window", each rank's sums. A resume on the same
 * number of ranks continues the step there. A resume on another number of ranks, or with other batches, another loss
 * scale or parameters in another order, begins the step anew, and the work of the cut step is lost. On other ranks the
 * results have the same bits with shards.
 *
 * The tensors of rank R: rank-R.state, doubles (cut_n_state); then rank-R.grads, the gradients' arena, or, with shards,
 * rank-R.level-J for each level in use. */
#ifndef DDP_RUNTIME_SAVE_CUT_H
#define DDP_RUNTIME_SAVE_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/ckpt/manifest.h"
#include "runtime/ddp.h"

struct save;
struct state;

#define CUT_GROUP "window" /* what files call it (files.h), as does the manifest */

struct cut {
    bool is_watched; /* the ranks agree at the ends of this step's micro-steps */
    bool is_cut;     /* they have agreed to stop: the next micro-step is the empty one, or it has begun */
    bool is_kept;    /* state and grads hold the sums of the micro-steps before it */
    bool is_refused; /* there is no memory to save these sums */
    int reason;      /* enum stop_reason */
    int micro;       /* micro-steps done in the cut step */
    double *state;   /* [cut_n_state] */
    float *grads;    /* the arena; NULL with shards */
    struct ddp_step last; /* the result of the last whole step; of none yet: zeros */
};

/* Doubles in a rank's state: loss, items, which parameters were used, losses of the levels of shards.h. */
size_t cut_n_state(const struct state *st);

/* Called in ddp_data_open. */
void cut_open(struct save *save);
void cut_close(struct save *save);

/* For TAIL_SLOW: true if this step took long on this rank. */
bool cut_is_slow(const struct save *save);

/* Called after a micro-step that did not synchronise: the ranks agree whether to stop. Collective if is_watched. A rank
 * that has joined (ddp_join) takes part with has_joined set; the step is then not cut. */
int cut_agree(struct save *save, bool has_joined, ddp_error_t *errp);

/* Called in ddp_batch_next. True: *ret is the empty micro-step. False: a usual micro-step follows, and sums that were
 * kept of a cut step are back in their place. */
bool cut_begin(struct save *save, struct ddp_batch *ret);

/* The result of ddp_step after the empty micro-step. */
struct ddp_step cut_step(struct save *save);

/* For a checkpoint. cut_is_wanted: there are sums to save, and memory for that. cut_tensors: the group's tensors
 * of all ranks (names and shapes; malloc, the caller frees). cut_share: adds this rank's pieces of them. Both give
 * none if no sums are wanted. */
bool cut_is_wanted(const struct save *save);
int cut_tensors(struct save *save, struct st_tensor **ret, size_t *ret_n, ddp_error_t *errp);
int cut_share(struct save *save, ddp_error_t *errp);

/* Called after the rest of the checkpoint in `path` was restored: restores the cut step if it ran on the same number of
 * ranks with the same batches, loss scale and order of parameters; else warns that the step begins anew. Collective. */
int cut_load(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp);

/* Memory for state and, without shards, grads, where there is none yet; cut_close gives it back. -1: there is not
 * enough. */
int cut_take_memory(struct save *save, ddp_error_t *errp);

#endif
