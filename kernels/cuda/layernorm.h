/* layernorm.h - kernels/layernorm.h on a GPU. Two types: `stream`, of the stream of residual connections, and `branch`,
 * of what branches take from it and add to it: DDP_F32, DDP_BF16 or DDP_F16. stream is the same or DDP_F32;
 * another type is cudaErrorInvalidValue.
 *
 * Differences from the CPU twin: the residual connection before it can be fused in; sums run over 32 lanes.
 * Statistics, weights and their gradients are float32 in both, and so is all arithmetic; what is stored in 16 bits is
 * rounded once, to nearest even. The same bits every run. Pointers are device memory aligned to their element; rows
 * that start on 16-byte boundaries are fast. Each call returns 0 or a cudaError_t; work runs on `stream`. */
#ifndef DDP_KERNELS_CUDA_LAYERNORM_H
#define DDP_KERNELS_CUDA_LAYERNORM_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_LAYERNORM_WIDTH_MAX 6144 /* of the backward pass: its column sums live in shared memory */

struct cuda_layernorm_types {
    enum ddp_dtype branch, stream;
};

/* out = layernorm(in) weight + bias; in, out [rows, width], weight, bias [width]; mean, rstd [rows] are for the
 * backward pass. With add: sum = in + add, rounded to its type, and out = layernorm(sum); sum may be in or, where the
 * types are one, add. Without (NULL): sum is not used. in and sum have the stream's type, out and add the branch's. */
int cuda_layernorm_forward(struct cuda_layernorm_types types, void *out, void *sum, float *mean, float *rstd,
                           const void *in, const void *add, const float *weight, const float *bias, size_t rows,
                           size_t width, void *stream);

/* Floats of scratch that the backward pass needs. */
size_t cuda_layernorm_work_elems(size_t rows, size_t width);

/* din += (accumulate: a residual branch's gradient is there already) or din =; dweight +=, dbias +=. in is what the
 * statistics were taken of: forward's sum, where there was an add. din may be dout, where the types are one. din and in
 * have the stream's type, dout and dbranch the branch's.
 * dbranch: gets din (the whole sum) rounded, for the branch that was added to the stream; may be dout; NULL: none.
 * Where the types are one it is not written. */
int cuda_layernorm_backward(struct cuda_layernorm_types types, void *din, void *dbranch, float *dweight, float *dbias,
                            float *work, const void *dout, const void *in, const float *mean, const float *rstd,
                            const float *weight, size_t rows, size_t width, bool accumulate, void *stream);

#ifdef __cplusplus
}
#endif

#endif
