/* gelu.h - the tanh form of GELU (Hendrycks, Gimpel, arXiv:1606.08415), float32:
 * gelu(x) = x/2 (1 + tanh(u)) = x logistic(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
#ifndef DDP_KERNELS_GELU_H
#define DDP_KERNELS_GELU_H

#include <stddef.h>

void kernel_gelu_forward(float *out, const float *in, size_t n);

/* dx = dx * gelu'(in), in place: dx comes in as the gradient of the output. */
void kernel_gelu_backward(float *dx, const float *in, size_t n);

#endif
