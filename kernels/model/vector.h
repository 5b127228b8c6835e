/* vector.h - element-wise sums, float32. */
#ifndef DDP_KERNELS_MODEL_VECTOR_H
#define DDP_KERNELS_MODEL_VECTOR_H

#include <stddef.h>

/* out = a + b; out may be a or b. The residual connection. */
void kernel_add(float *out, const float *a, const float *b, size_t n);

#endif
