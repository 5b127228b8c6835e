/* layernorm.h - layer normalisation over the last dimension, float32 (Ba, Kiros, Hinton, arXiv:1607.06450):
 * out = (in - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + LAYERNORM_EPS), variance with 1/width. */
#ifndef DDP_KERNELS_MODEL_LAYERNORM_H
#define DDP_KERNELS_MODEL_LAYERNORM_H

#include <stdbool.h>
#include <stddef.h>

#define LAYERNORM_EPS 1e-5f

/* in, out [rows, width]; mean, rstd [rows] are written for the backward pass. */
void kernel_layernorm_forward(float *out, float *mean, float *rstd, const float *in, const float *weight,
                              const float *bias, size_t rows, size_t width);

/* din += (accumulate: a residual branch's gradient is there already) or din =; dweight +=, dbias +=. */
void kernel_layernorm_backward(float *din, float *dweight, float *dbias, const float *dout, const float *in,
                               const float *mean, const float *rstd, const float *weight, size_t rows, size_t width,
                               bool accumulate);

#endif
