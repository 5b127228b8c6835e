/* reduce.h - the fixed pairwise sum of several arrays. */
#ifndef DDP_KERNELS_REDUCE_H
#define DDP_KERNELS_REDUCE_H

#include <stddef.h>

#include "runtime/base/dtype.h"

/* out[j][i] = T over k of in[k][i], for i in [0, n_elems), j in [0, n_out): T(1) = x, T(n) = T(first m) op T(rest), m
 * the largest power of two below n. n_in >= 1, n_out >= 1. An out[] may equal an in[]; otherwise arrays do not overlap.
 *
 * An in[k] may be NULL: absent, so that x op absent = x in the tree's place; at least one is not. (That is how nodes of
 * unequal size combine along the tree over rank numbers.)
 *
 * bf16 and f16 are accumulated in float32 and rounded once, to nearest even. Integer sums wrap. Sums follow IEEE 754; a
 * NaN's payload is not specified. min and max: if any input is NaN the result is one; of equal values (+0 and -0) the
 * first in the order of k. */
void kernel_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                        enum ddp_dtype dtype, enum ddp_op op);

#endif
