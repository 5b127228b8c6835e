/* gelu.h - bias and GELU on a GPU, forward and backward, float32, bfloat16 or float16 activations.
 *
 * gelu is its tanh form (Hendrycks, Gimpel, arXiv:1606.08415), as in kernels/model/matmul.h, whose products do this on
 * the CPU: gelu(x) = x/2 (1 + tanh(u)) = x logistic(2u), u = sqrt(2/pi) (x + 0.044715 x^3). Biases and their gradients
 * are float32; so is all arithmetic; what is stored in 16 bits is rounded once. The exponential and the reciprocal are
 * the device's fast ones (cuda.h), in float32 too: gelu is off by 2^-20 of itself and 1e-7 at most, its slope by 2^-19;
 * gelu(-infinity) is NaN, as the formula has it. The same bits every run. Pointers are device memory aligned to their
 * element; rows that start on 16-byte boundaries are fast. Each call returns 0 or a cudaError_t; work runs on `stream`.
 * type: DDP_F32, DDP_BF16 or DDP_F16, of what is void *; another is cudaErrorInvalidValue. */
#ifndef DDP_KERNELS_MODEL_CUDA_GELU_H
#define DDP_KERNELS_MODEL_CUDA_GELU_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = gelu(in + bias); in, out [rows, width], bias [width] or NULL: none. out may be in. */
int cuda_gelu_forward(enum ddp_dtype type, void *out, const void *in, const float *bias, size_t rows, size_t width,
                      void *stream);

/* Floats of scratch that the calls below need, where they sum columns. */
size_t cuda_gelu_work_elems(size_t rows, size_t width);

/* din = dout gelu'(in + bias), and dbias += its column sums (before rounding) unless dbias is NULL; then work may be,
 * too. din may be dout or in. */
int cuda_gelu_backward(enum ddp_dtype type, void *din, float *dbias, float *work, const void *dout, const void *in,
                       const float *bias, size_t rows, size_t width, void *stream);

/* dbias += column sums of dout [rows, width]: the gradient of any other layer's bias. */
int cuda_bias_backward(enum ddp_dtype type, float *dbias, float *work, const void *dout, size_t rows, size_t width,
                       void *stream);

#ifdef __cplusplus
}
#endif

#endif
