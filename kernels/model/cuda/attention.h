/* attention.h - kernels/model/attention.h on a GPU: causal multi-head attention, out = softmax(q k^T / sqrt(head
 * width), later positions left out) v, per sequence and head.
 *
 * bfloat16 and float16: heads of 64, by tiles that never leave the multiprocessor (Dao, "FlashAttention-2",
 * arXiv:2307.08691), products by the tensor cores with float32 sums; probabilities and their gradients are rounded to
 * the type before the second product. float32: any head width, plain loops, for reference runs. Neither keeps
 * probabilities: the backward pass makes them again from one number per row, and sums queries and keys in kernels of
 * their own, without atomics: the same bits every run.
 *
 * type: the type of arrays that are void *: DDP_F32, DDP_BF16 or DDP_F16. Pointers are device memory; those to 16-bit
 * types are 16-byte aligned. A number that is too large for float16 becomes infinite, and results computed from it
 * infinite or NaN. Each call returns 0 or a cudaError_t (cudaErrorInvalidValue for a type, shape or pointer that the
 * above excludes); work runs on `stream`. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_H

#include <stdbool.h>

#include "kernels/model/attention.h"
#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose products the kernels for 16-bit types take: of mma.sync, which every GPU from compute capability 8.0 on has; of
 * wgmma, which 9.0 has, and no other. The order of summation differs, and so do bits. */
enum cuda_attention_way { CUDA_ATTENTION_MMA, CUDA_ATTENTION_WGMMA };

/* For a GPU's compute capability. */
static inline bool cuda_attention_has_wgmma(int major, int minor)
{
    return major == 9 && minor == 0;
}

#define CUDA_ATTENTION_HEAD 64          /* the head width of the kernels for 16-bit types */
#define CUDA_ATTENTION_F32_LENGTH 6000  /* the longest sequence of the float32 kernels: a row lies in shared memory */

/* Floats in stats, and in work: batch * heads * length. */
static inline size_t cuda_attention_stats_elems(const struct attention_shape *s)
{
    return s->batch * s->heads * s->length;
}

/* out [batch, length, width]; qkv [batch, length, 3 * width], queries first, then keys, then values, heads side by
 * side in each; stats [batch, heads, length], the logarithms of the rows' sums of exponentials, is for the backward
 * pass. */
int cuda_attention_forward(enum ddp_dtype type, enum cuda_attention_way way, void *out, float *stats,
                           const void *qkv, const struct attention_shape *s, void *stream);

/* dqkv (written) from dout; out and stats are forward's. dqkv overlaps nothing. */
int cuda_attention_backward(enum ddp_dtype type, enum cuda_attention_way way, void *dqkv, float *work,
                            const void *dout, const void *out, const void *qkv, const float *stats,
                            const struct attention_shape *s, void *stream);

#ifdef __cplusplus
}
#endif

#endif
