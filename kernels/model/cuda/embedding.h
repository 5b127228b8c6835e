/* embedding.h - kernels/model/embedding.h on a GPU, in float32, the type of the residual stream (layernorm.h).
 *
 * Differences from the CPU twin: the backward pass sums the rows of one token, or position, by eight warps and then
 * adds the sum; it needs the rows sorted by token, which can be done any time before, also beside other work. No
 * float is added atomically: the same bits every run. Pointers are device memory aligned to their element; rows that
 * start on 16-byte boundaries are fast. Each call returns 0 or a cudaError_t; work runs on `stream`. */
#ifndef DDP_KERNELS_MODEL_CUDA_EMBEDDING_H
#define DDP_KERNELS_MODEL_CUDA_EMBEDDING_H

#include "kernels/model/embedding.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[b, t] = wte[tokens[b * token_stride + t]] + wpe[t]; out [batch, length, width], tokens within wte. */
int cuda_embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe,
                           const struct embedding_shape *s, void *stream);

/* Words of 4 bytes that a batch's rows need, sorted. */
size_t cuda_embedding_sorted_elems(const struct embedding_shape *s);

/* sorted: the rows by token, stable. Tokens in [0, vocab). */
int cuda_embedding_sort(uint32_t *sorted, const int32_t *tokens, const struct embedding_shape *s, size_t vocab,
                        void *stream);

/* dwte +=, dwpe +=, with the rows sorted. */
int cuda_embedding_backward(float *dwte, float *dwpe, const float *dout, const uint32_t *sorted,
                            const struct embedding_shape *s, void *stream);

#ifdef __cplusplus
}
#endif

#endif
