/* lm.h - language modelling: the model over tokens, as what the loop trains (loop.h). Sample i is tokens [iT, iT + T]
 * of the training part, T the model's context; validation windows are cut the same way from the validation part. */
#ifndef DDP_RUNTIME_TRAIN_LM_H
#define DDP_RUNTIME_TRAIN_LM_H

#include "runtime/loop.h"
#include "runtime/train/model.h"
#include "runtime/train/tokens.h"

/* Tokens [first, first + count) of something open; borrowed. */
struct lm_part {
    const tokens_t *tokens;
    uint64_t first, count;
};

/* Training and validation parts out of one: the last 5% of the tokens, at least one window (context + 1 tokens), are
 * for validation, and none of them for training. 0, or -1 when that leaves less than one window for training. */
int lm_split(const tokens_t *all, size_t context, struct lm_part *ret_train, struct lm_part *ret_val,
             ddp_error_t *errp);

/* Windows in a part; 0 when it is too short for one. */
uint64_t lm_windows(const struct lm_part *part, size_t context);

/* Fills *ret; its destroy frees what is behind it. batch: most samples per call. max_windows: at most so many
 * validation windows, 0: all. */
int lm_create(struct loop_model *ret, const struct model_config *c, size_t batch, const struct lm_part *train,
              const struct lm_part *val, uint64_t max_windows, ddp_error_t *errp);

#endif
