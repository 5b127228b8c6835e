/* reduce.h - sums of several arrays in device memory in a fixed order: the twin of kernels/reduce.h's sums of floating-
 * point numbers, with the same bits (but a NaN's payload). cast.h says what all functions of kernels/cuda have in
 * common. */
#ifndef DDP_KERNELS_CUDA_REDUCE_H
#define DDP_KERNELS_CUDA_REDUCE_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_REDUCE_MAX 128 /* arrays in; as many out */

/* out[j][i] = T over k of in[k][i], i in [0, n_elems), j in [0, n_out): T(1) = x, T(n) = T(first m) + T(rest), m the
 * largest power of two below n. An in[k] may be NULL: absent; one at least is not. An out[] may equal an in[];
 * otherwise arrays do not overlap. dtype is DDP_F32, DDP_BF16 or DDP_F16. More arrays than CUDA_REDUCE_MAX, none,
 * another type: cudaErrorInvalidValue. */
int cuda_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                     enum ddp_dtype dtype, void *stream);

#ifdef __cplusplus
}
#endif
#endif
