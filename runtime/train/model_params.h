/* model_params.h - what a model of the GPT-2 family has: its sizes, its parameters' names, shapes and order, and their
 * first values. The same wherever it is computed (model.h, gmodel.h). Pure. */
#ifndef DDP_RUNTIME_TRAIN_MODEL_PARAMS_H
#define DDP_RUNTIME_TRAIN_MODEL_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/train/loop.h"

struct model_config {
    size_t layers, width, heads, context, vocab;
    bool recompute; /* keep only what enters each block, and compute a block again before its backward pass (Chen et
                     * al., arXiv:1604.06174): the same bits, less memory, a third more work */
};

enum { WTE, WPE, FIRST_BLOCK_PARAM };
enum { LN1_W, LN1_B, QKV_W, QKV_B, OUT_W, OUT_B, LN2_W, LN2_B, FC_W, FC_B, PROJ_W, PROJ_B, BLOCK_PARAMS };

/* Parameter k of block l; weights are [in, out], as GPT-2's are, each followed by its bias. */
static inline size_t block_id(size_t l, int k)
{
    return FIRST_BLOCK_PARAM + l * BLOCK_PARAMS + (size_t)k;
}

/* Sizes that can be: none is 0, heads divides width. 0 or -1. */
int model_params_check(const struct model_config *c, ddp_error_t *errp);

/* The last two are ln_f's. */
size_t model_params_count(const struct model_config *c);

/* All of them in registration order: wte.weight, wpe.weight, h.0.ln_1.weight, ..., ln_f.bias. The caller frees; NULL:
 * no memory. */
struct loop_param *model_params_create(const struct model_config *c);

/* Elements altogether. */
size_t model_params_elems(const struct model_config *c);

/* ret[its elements]: parameter id's first values. Weights normal(0, 0.02), residual projections scaled by
 * 1 / sqrt(2 layers), biases 0, layer norm weights 1. */
void model_params_init(const struct model_config *c, const struct loop_param *param, size_t id, uint64_t seed,
                       float *ret);

/* Floating-point operations of a forward and backward pass, per token: 6 P + 6 L T C, P the matrices' elements with the
 * head once and without the embeddings, causal attention counted as half (Chowdhery et al., arXiv:2204.02311, appendix
 * B, has it whole). Without those of recomputation. */
double model_flops_per_token(const struct model_config *c);

#endif
