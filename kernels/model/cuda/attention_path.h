/* attention_path.h - the launches of attention_wgmma.cu and attention_wgmma_backward.cu, for attention.cu and
 * attention_backward.cu, which have checked the arguments. type: DDP_BF16 or DDP_F16. d: of flash_dots. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_PATH_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_PATH_H

#include "kernels/model/cuda/attention.h"

int attention_forward_wgmma(enum ddp_dtype type, void *out, float *stats, const void *qkv,
                            const struct attention_shape *s, void *stream);
int attention_backward_wgmma(enum ddp_dtype type, void *dqkv, const float *d, const void *dout, const void *qkv,
                             const float *stats, const struct attention_shape *s, void *stream);

#endif
