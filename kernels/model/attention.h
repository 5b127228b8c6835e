/* attention.h - causal multi-head attention (Vaswani et al., arXiv:1706.03762), float32:
 * out = softmax(q k^T / sqrt(head width), later positions left out) v, per sequence and head.
 *
 * The probabilities (length^2 per head) are not kept: the backward pass computes them again, bit for bit, from qkv and
 * two numbers per row. Results do not depend on the number of threads. */
#ifndef DDP_KERNELS_MODEL_ATTENTION_H
#define DDP_KERNELS_MODEL_ATTENTION_H

#include <stddef.h>

struct attention_shape {
    size_t batch, length, width, heads; /* heads divides width */
};

/* Floats of scratch that either pass needs, 64-byte aligned, for the threads in use now. After kernel_matmul_open. */
size_t kernel_attention_work_elems(const struct attention_shape *s);

/* Floats per call in stats: 2 * batch * heads * length. */
size_t kernel_attention_stats_elems(const struct attention_shape *s);

/* out [batch, length, width]; qkv [batch, length, 3 * width], queries first, then keys, then values, heads side by side
 * in each; stats is written for the backward pass. */
void kernel_attention_forward(float *out, float *stats, const float *qkv, float *work, const struct attention_shape *s);

/* dqkv (written) from dout. */
void kernel_attention_backward(float *dqkv, const float *dout, const float *qkv, const float *stats, float *work,
                               const struct attention_shape *s);

#endif
