/* ref_model.h - the GPT-2 forward pass again, written apart from the model: plain loops, double precision. */
#ifndef DDP_T_UNIT_TRAIN_REF_MODEL_H
#define DDP_T_UNIT_TRAIN_REF_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct ref_config {
    size_t layers, width, heads, context, vocab;
};

/* Sum of the losses of n sequences of context + 1 tokens. param: tensors in the order of GPT-2's state (wte, wpe, per
 * block ln_1, c_attn, c_proj, ln_2, c_fc, c_proj with weight before bias, ln_f). */
double ref_loss(const struct ref_config *c, double *const *param, const int32_t *tokens, size_t n);

#endif
