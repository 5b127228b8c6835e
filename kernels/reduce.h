/* reduce.h - the fixed pairwise sum of several arrays. */
#ifndef DDP_KERNELS_REDUCE_H
#define DDP_KERNELS_REDUCE_H

#include <stddef.h>

#include "runtime/base/dtype.h"

/* out[j][i] = T over k of in[k][i], for i in [0, n_elems), j in [0, n_out): T(1) = x, T(n) = T(first m) op T(rest), m the
 * largest power of two below n. n_in >= 1, n_out >= 1. An out[] may equal an in[]; otherwise arrays do not overlap.
 * bf16 and f16 are accumulated in float32 and rounded once, to nearest even. Integer sums wrap. */
void kernel_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                        enum ddp_dtype dtype, enum ddp_op op);

#endif
