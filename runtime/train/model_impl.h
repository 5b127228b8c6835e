/* model_impl.h - the model's activations. */
#ifndef DDP_RUNTIME_TRAIN_MODEL_IMPL_H
#define DDP_RUNTIME_TRAIN_MODEL_IMPL_H

#include "runtime/train/model.h"

/* One block's activations, rows = batch * context: [rows, width] unless said otherwise. */
struct layer {
    float *ln1, *mean1, *rstd1; /* mean and rstd [rows] */
    float *qkv, *stats, *att;   /* [rows, 3 width]; attention.h */
    float *mid;                 /* after the attention's residual connection */
    float *ln2, *mean2, *rstd2;
    float *slope, *gelu;        /* [rows, 4 width]: gelu' and gelu of the mlp's first product */
    float *out;
};

struct model {
    struct model_config c;
    size_t batch, n_params, logits_rows;
    struct loop_param *param;  /* [n_params] */
    struct ddp_param *tensor;  /* [n_params], borrowed memory */
    struct layer *layer;       /* [layers] */
    float *arena;              /* all floats below and in layer */
    float *embedded, *lnf, *meanf, *rstdf;
    float *logits, *work;      /* [logits_rows, vocab]; attention's scratch */
    float *dx, *dwide, *dtmp;  /* gradients: of the residual stream, [rows, 4 width], [rows, width] */
    double *loss;              /* [rows] */
    int32_t *target;           /* [rows] */
    loop_mark_f *mark;         /* or NULL */
    void *mark_ctx;
};

static inline size_t final_w(const model_t *m)
{
    return m->n_params - 2;
}

static inline size_t final_b(const model_t *m)
{
    return m->n_params - 1;
}

static inline float *value(const model_t *m, size_t id)
{
    return m->tensor[id].value;
}

static inline float *grad(const model_t *m, size_t id)
{
    return m->tensor[id].grad;
}

#endif
