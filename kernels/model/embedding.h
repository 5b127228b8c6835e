/* embedding.h - token plus position embedding, float32. */
#ifndef DDP_KERNELS_MODEL_EMBEDDING_H
#define DDP_KERNELS_MODEL_EMBEDDING_H

#include <stddef.h>
#include <stdint.h>

struct embedding_shape {
    size_t batch, length, width; /* length: positions per sequence */
    size_t token_stride;         /* from one sequence's first token to the next's, in tokens; >= length */
};

/* out[b, t] = wte[tokens[b * token_stride + t]] + wpe[t]; out [batch, length, width], tokens within wte. */
void kernel_embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe,
                              const struct embedding_shape *s);

/* dwte +=, dwpe +=, in the order of the rows. */
void kernel_embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                               const struct embedding_shape *s);

#endif
