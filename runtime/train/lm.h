/* lm.h - language modelling: the model over tokens, as what the loop trains (loop.h). Sample i is tokens [iT, iT + T]
 * of the training part, T the model's context; validation windows are cut the same way from the validation part. */
#ifndef DDP_RUNTIME_TRAIN_LM_H
#define DDP_RUNTIME_TRAIN_LM_H

#include "runtime/train/loop.h"
#include "runtime/train/model.h"
#include "runtime/train/tokens.h"

/* Tokens [first, first + count) of an open data set; borrowed. */
struct lm_part {
    const tokens_t *tokens;
    uint64_t first, count;
};

/* Splits one data set into a part for training and one for validation: the last 5% of the tokens, at least one window
 * (context + 1 tokens), are only for validation. 0, or -1 if less than one window is left for training. */
int lm_split(const tokens_t *all, size_t context, struct lm_part *ret_train, struct lm_part *ret_val,
             ddp_error_t *errp);

/* Windows in a part; 0 when it is too short for one. */
uint64_t lm_windows(const struct lm_part *part, size_t context);

struct lm_options {
    struct model_config model;
    size_t batch;         /* most samples per call */
    uint64_t max_windows; /* at most so many validation windows; 0: all */
    enum ddp_dtype dtype; /* DDP_F32; on a GPU DDP_BF16 and DDP_F16 too */
    bool is_gpu;          /* computes on GPU `ordinal`, for rank `rank` */
    bool wgmma;           /* there: as gmodel_config's */
    int ordinal, rank;
    double timeout_s;     /* of the model's waits for that GPU */
};

/* Fills *ret; the caller frees the model with ret->destroy. */
int lm_create(struct loop_model *ret, const struct lm_options *o, const struct lm_part *train,
              const struct lm_part *val, ddp_error_t *errp);

/* What a model of lm_create computes with, and the memory that it takes. */
struct lm_about {
    const char *products;    /* the matrix products: "own AVX-512"; owned by the model */
    size_t activation_bytes;
    size_t kept_bytes;       /* activation_bytes as they would be without recompute */
    size_t memory_free;      /* of the GPU, before the model took any; 0: not known, or none */
};
struct lm_about lm_about(const struct loop_model *m);

#endif
