/* gmodel.h - the model of model.h on a GPU, over device.h and kernels/cuda, with the same parameters (model_params.h).
 *
 * dtype DDP_F32: everything float32, the reference. DDP_BF16, DDP_F16: matrices and what goes into products are of that
 * type, products add in float32; the stream of residual connections, layer norm, softmax, losses, parameters and their
 * gradients stay float32, as under PyTorch's autocast. A product that adds to the stream writes float32, so that a
 * branch is not rounded before it is added. Gradients of activations in float16 want a grad_scale with which they
 * neither vanish nor overflow (runtime/optimizer/loss_scale.h); where one overflows, a parameter's gradient is not
 * finite.
 *
 * Work is enqueued on the model's own stream; the host waits only for losses, which are copied while the backward pass
 * runs. The same bits every run.
 *
 * A build without CUDA's runtime has gmodel_stub.c in its place, whose gmodel_create fails with an error that says
 * so. */
#ifndef DDP_RUNTIME_TRAIN_GMODEL_H
#define DDP_RUNTIME_TRAIN_GMODEL_H

#include "runtime/base/dtype.h"
#include "runtime/train/model_params.h"

struct gmodel_config {
    struct model_config model;
    size_t batch;         /* sequences at once, at most */
    enum ddp_dtype dtype; /* DDP_F32, DDP_BF16 or DDP_F16 */
    bool wgmma;           /* 16 bits: attention by wgmma, where the GPU has it */
    int ordinal;          /* of the GPU */
    int rank;             /* for errors */
    double timeout_s;     /* of the waits for what is queued; 0: 300 */
    size_t logits_rows;   /* rows of logits in memory at a time, at most; 0: so many that they have 2^31 - 1 elements */
};

typedef struct gmodel gmodel_t;

/* 0 if a model of these sizes can be computed in this type (attention in 16 bits needs heads of width 64), else -1; the
 * error says what to change. */
int gmodel_check(const struct model_config *c, enum ddp_dtype dtype, ddp_error_t *errp);

/* Opens GPU and matrix library. gmodel_bind allocates the memory for `batch` sequences. The caller destroys the model,
 * after all other users of its stream. */
gmodel_t *gmodel_create(const struct gmodel_config *c, ddp_error_t *errp);
void gmodel_destroy(gmodel_t *m); /* NULL is allowed */

/* The parameters in registration order, borrowed; those whose values the model needs in bfloat16 or float16 have the
 * flag DDP_KEEP_BF16 or DDP_KEEP_F16; the embedding has DDP_PAD_ROWS. */
const struct loop_param *gmodel_params(const gmodel_t *m, size_t *ret_n);

void *gmodel_stream(const gmodel_t *m);           /* the cudaStream_t */
const char *gmodel_products(const gmodel_t *m);   /* "cuBLASLt 13.1.0 bf16, wgmma" */
size_t gmodel_memory_free(const gmodel_t *m);     /* of the GPU, in bytes, before gmodel_create took any */

/* Bytes that gmodel_create and gmodel_bind allocate on the GPU. */
size_t gmodel_activation_bytes(const struct gmodel_config *c);

/* Borrows tensor[n_params] (copied; device memory) and allocates activations. 0 or -1. */
int gmodel_bind(gmodel_t *m, const struct ddp_param *tensor, ddp_error_t *errp);

/* As model_forward_backward. tokens are in the processor's memory, and the caller may change them after the return.
 * ready is called when the work that completes a gradient is enqueued. 0 or -1. */
int gmodel_forward_backward(gmodel_t *m, const int32_t *tokens, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, ddp_error_t *errp);

/* As model_evaluate. 0 or -1. */
int gmodel_evaluate(gmodel_t *m, const int32_t *tokens, size_t n, double *ret_loss_sum, ddp_error_t *errp);

#endif
