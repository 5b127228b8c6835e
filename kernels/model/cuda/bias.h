/* bias.h - fills every row with a bias, on a GPU: a matrix product is then added to it, if cuBLASLt cannot add a bias
 * itself (matmul.c). */
#ifndef DDP_KERNELS_MODEL_CUDA_BIAS_H
#define DDP_KERNELS_MODEL_CUDA_BIAS_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = bias on every row, plus add. All of type t, DDP_F32, DDP_BF16 or DDP_F16, in device memory that begins at
 * multiples of 16 bytes; out, add [rows, width], bias [width]; add may be out, or NULL: zeros. Added in float32,
 * rounded once. 0 or a cudaError_t; work runs on `stream`. */
int cuda_bias_rows(void *out, const void *add, const void *bias, size_t rows, size_t width, enum ddp_dtype t,
                   void *stream);

#ifdef __cplusplus
}
#endif

#endif
