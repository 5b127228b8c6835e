/* crossentropy.h - kernels/model/crossentropy.h on a GPU, float32, bfloat16 or float16 logits.
 *
 * Differences from the CPU twin: rows may lie further apart than their length (a vocabulary padded for the matrix
 * products), sums run over a block's threads. Arithmetic is float32, the loss double. Exponentials are the device's
 * fast powers of two (cuda.h), in float32 too: a loss is off by 1e-6 of it, or of 1 where it is less, and a probability
 * by 2e-6 at most. The same bits every run. Pointers are device memory aligned to their element; any row start is fast.
 * Each call returns 0 or a cudaError_t; work runs on `stream`. type: of the logits, DDP_F32, DDP_BF16 or DDP_F16;
 * another is cudaErrorInvalidValue. */
#ifndef DDP_KERNELS_MODEL_CUDA_CROSSENTROPY_H
#define DDP_KERNELS_MODEL_CUDA_CROSSENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* loss[r] = -log softmax(logits[r])[target[r]], in nats; row r begins at r * stride, stride >= vocab; targets lie
 * within the vocabulary. What lies between vocab and stride is not read. */
int cuda_crossentropy_forward(enum ddp_dtype type, double *loss, const void *logits, const int32_t *target, size_t rows,
                              size_t vocab, size_t stride, void *stream);

/* The same, and logits[r] becomes its gradient: grad_scale * (softmax(logits[r]) - one_hot(target[r])), rounded once;
 * zeros between vocab and stride. */
int cuda_crossentropy_backward(enum ddp_dtype type, double *loss, void *logits, const int32_t *target, float grad_scale,
                               size_t rows, size_t vocab, size_t stride, void *stream);

#ifdef __cplusplus
}
#endif

#endif
