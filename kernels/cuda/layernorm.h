/* layernorm.h - kernels/layernorm.h on a GPU, float32 or bfloat16 activations (uint16_t bits), or mixed: the stream of
 * residual connections in float32, what branches take from it and add to it in bfloat16.
 *
 * Differences from the CPU twin: the residual connection before it can be fused in; sums run over 32 lanes.
 * Statistics, weights and their gradients are float32 in both, and so is all arithmetic; what is stored as bfloat16 is
 * rounded once, to nearest even. The same bits every run. Pointers are device memory aligned to their element; rows
 * that start on 16-byte boundaries are fast. Each call returns 0 or a cudaError_t; work runs on `stream`. */
#ifndef DDP_KERNELS_CUDA_LAYERNORM_H
#define DDP_KERNELS_CUDA_LAYERNORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_LAYERNORM_WIDTH_MAX 6144 /* of the backward pass: its column sums live in shared memory */

/* out = layernorm(in) weight + bias; in, out [rows, width], weight, bias [width]; mean, rstd [rows] are for the
 * backward pass. With add: sum = in + add, rounded to the activations' type, and out = layernorm(sum); sum may be in
 * or add. Without (NULL): sum is not used. */
int cuda_layernorm_forward_f32(float *out, float *sum, float *mean, float *rstd, const float *in, const float *add,
                               const float *weight, const float *bias, size_t rows, size_t width, void *stream);
int cuda_layernorm_forward_bf16(uint16_t *out, uint16_t *sum, float *mean, float *rstd, const uint16_t *in,
                                const uint16_t *add, const float *weight, const float *bias, size_t rows, size_t width,
                                void *stream);

int cuda_layernorm_forward_mixed(uint16_t *out, float *sum, float *mean, float *rstd, const float *in,
                                 const uint16_t *add, const float *weight, const float *bias, size_t rows, size_t width,
                                 void *stream);

/* Floats of scratch that the backward pass needs. */
size_t cuda_layernorm_work_elems(size_t rows, size_t width);

/* din += (accumulate: a residual branch's gradient is there already) or din =; dweight +=, dbias +=. in is what the
 * statistics were taken of: forward's sum, where there was an add. din may be dout.
 * branch: gets din (the whole sum) rounded to bfloat16, for the branch that was added to the stream; may be dout; NULL:
 * none. */
int cuda_layernorm_backward_f32(float *din, float *dweight, float *dbias, float *work, const float *dout,
                                const float *in, const float *mean, const float *rstd, const float *weight,
                                size_t rows, size_t width, bool accumulate, void *stream);
int cuda_layernorm_backward_bf16(uint16_t *din, float *dweight, float *dbias, float *work, const uint16_t *dout,
                                 const uint16_t *in, const float *mean, const float *rstd, const float *weight,
                                 size_t rows, size_t width, bool accumulate, void *stream);
int cuda_layernorm_backward_mixed(float *din, uint16_t *branch, float *dweight, float *dbias, float *work,
                                  const uint16_t *dout, const float *in, const float *mean, const float *rstd,
                                  const float *weight, size_t rows, size_t width, bool accumulate, void *stream);

#ifdef __cplusplus
}
#endif

#endif
