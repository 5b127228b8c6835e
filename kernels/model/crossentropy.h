/* crossentropy.h - softmax, negative log likelihood and their gradient in one pass, float32. */
#ifndef DDP_KERNELS_MODEL_CROSSENTROPY_H
#define DDP_KERNELS_MODEL_CROSSENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* loss[r] = -log softmax(logits[r])[target[r]], in nats. */
void kernel_crossentropy_forward(double *loss, const float *logits, const int32_t *target, size_t rows, size_t vocab);

/* The same, and logits[r] becomes its gradient: grad_scale * (softmax(logits[r]) - one_hot(target[r])). */
void kernel_crossentropy_backward(double *loss, float *logits, const int32_t *target, float grad_scale, size_t rows,
                                  size_t vocab);

#endif
