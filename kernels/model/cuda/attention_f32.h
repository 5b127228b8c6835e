/* attention_f32.h - attention.h's functions for DDP_F32. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_F32_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_F32_H

#include "kernels/model/cuda/attention.h"

int attention_forward_f32(float *out, float *stats, const float *qkv, const struct attention_shape *s, void *stream);
int attention_backward_f32(float *dqkv, float *work, const float *dout, const float *out, const float *qkv,
                           const float *stats, const struct attention_shape *s, void *stream);

#endif
