/* layernorm.h - kernels/model/layernorm.h on a GPU. The stream of residual connections is float32; `branch` is the type
 * of what branches take from it and add to it: DDP_F32, DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue.
 *
 * Differences from the CPU twin: sums run over lanes and warps. Statistics, weights and their gradients are float32,
 * and so is all arithmetic; what is stored in 16 bits is rounded once, to nearest even. The same bits every run.
 * Pointers are device memory aligned to their element; rows that start on 16-byte boundaries are fast. Each call
 * returns 0 or a cudaError_t; work runs on `stream`. */
#ifndef DDP_KERNELS_MODEL_CUDA_LAYERNORM_H
#define DDP_KERNELS_MODEL_CUDA_LAYERNORM_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_LAYERNORM_WIDTH_MAX 6144 /* of the backward pass: one block has all columns of a row */

/* out = layernorm(in) weight + bias; in, out [rows, width], weight, bias [width]; mean, rstd [rows] are for the
 * backward pass. out has the branch's type. */
int cuda_layernorm_forward(enum ddp_dtype branch, void *out, float *mean, float *rstd, const float *in,
                           const float *weight, const float *bias, size_t rows, size_t width, void *stream);

/* Floats of scratch that the backward pass needs. */
size_t cuda_layernorm_work_elems(size_t rows, size_t width);

/* din += (accumulate: a residual branch's gradient is there already) or din =; dweight +=, dbias +=. in is what the
 * statistics were taken of. dout and dbranch have the branch's type; din may be dout, where that is float32.
 *
 * in is the sum of the stream and of what a branch before added to it: dbias_before += the columns' sums of din (the
 * whole sum, before it is rounded), the gradient of that branch's last bias; NULL: none. dbranch gets din rounded, for
 * the branch itself; may be dout; NULL: none. Where the branch's type is float32 it is not written. */
int cuda_layernorm_backward(enum ddp_dtype branch, float *din, void *dbranch, float *dweight, float *dbias,
                            float *dbias_before, float *work, const void *dout, const float *in, const float *mean,
                            const float *rstd, const float *weight, size_t rows, size_t width, bool accumulate,
                            void *stream);

#ifdef __cplusplus
}
#endif

#endif
