/* reduce.h - sums of several arrays in device memory in a fixed order, minima and maxima: the twin of kernels/reduce.h,
 * with the same bits (but a NaN's payload). What all functions of kernels/cuda have in common: cast.h. */
#ifndef DDP_KERNELS_CUDA_REDUCE_H
#define DDP_KERNELS_CUDA_REDUCE_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_REDUCE_MAX 128 /* arrays in; as many out */

/* out[j][i] = T over k of in[k][i], i in [0, n_elems), j in [0, n_out): T(1) = x, T(n) = T(first m) op T(rest), m the
 * largest power of two below n. An in[k] may be NULL: absent; one at least is not. An out[] may equal an in[];
 * otherwise arrays do not overlap. More arrays than CUDA_REDUCE_MAX, none, an unknown type or operation:
 * cudaErrorInvalidValue. */
int cuda_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                     enum ddp_dtype dtype, enum ddp_op op, void *stream);

#ifdef __cplusplus
}
#endif
#endif
