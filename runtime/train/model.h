/* model.h - a decoder of the GPT-2 family, forward and backward, float32 (Radford et al., "Language Models are
 * Unsupervised Multitask Learners", 2019): token and position embedding; blocks of x += attention(ln_1(x)),
 * x += mlp(ln_2(x)) with the tanh form of GELU; ln_f; logits by the token embedding (tied); cross-entropy.
 *
 * Weights are stored [in, out], as GPT-2's are. The model owns its activations and borrows its parameters. */
#ifndef DDP_RUNTIME_TRAIN_MODEL_H
#define DDP_RUNTIME_TRAIN_MODEL_H

#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/train/loop.h"
#include "runtime/train/model_params.h"

typedef struct model model_t;

/* Checks the sizes (heads divides width) and opens the matrix library. model_bind allocates the memory for `batch`
 * sequences of `context` tokens. The caller destroys. */
model_t *model_create(const struct model_config *c, size_t batch, ddp_error_t *errp);
void model_destroy(model_t *m); /* NULL is allowed */

/* The parameters in registration order (model_params.h), borrowed. */
const struct loop_param *model_params(const model_t *m, size_t *ret_n);

/* Bytes that model_bind allocates for activations, with the given batch. Call it after kernel_matmul_open. */
size_t model_activation_bytes(const struct model_config *c, size_t batch);

/* Borrows tensor[n_params] (copied; value and grad each n_elems floats) and allocates activations. 0 or -1. */
int model_bind(model_t *m, const struct ddp_param *tensor, ddp_error_t *errp);

/* Fills all values as model_params_init does. */
void model_init(model_t *m, uint64_t seed);

/* tokens [n, context + 1]: each sequence's inputs, and one more as the last target; all below vocab, n <= batch.
 * Adds grad_scale * gradient of the sum of all n * context losses, calls ready per parameter in backward order (tied
 * wte last), and returns the sum of the losses. */
double model_forward_backward(model_t *m, const int32_t *tokens, size_t n, float grad_scale, loop_ready_f *ready,
                              void *ctx);

/* mark(ctx, DDP_MARK_BACKWARD) is called from now on where backward begins; NULL: nothing is. */
void model_listen(model_t *m, loop_mark_f *mark, void *ctx);

/* ret_loss_sum[n]: each sequence's sum of losses. */
void model_evaluate(model_t *m, const int32_t *tokens, size_t n, double *ret_loss_sum);

#endif
