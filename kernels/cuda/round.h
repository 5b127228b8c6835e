/* round.h - kernels/round.h on a GPU, with the same bits. What all functions of kernels/cuda have in common: cast.h. */
#ifndef DDP_KERNELS_CUDA_ROUND_H
#define DDP_KERNELS_CUDA_ROUND_H

#include "kernels/round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pointers are multiples of their type's size; those whose element number 0 would lie on a 16-byte boundary are
 * fastest. */
struct cuda_round_range {
    uint16_t *out;
    const float *in;
    size_t n;
    uint64_t first; /* the number of element 0 */
};

/* kernel_round_bf16 on each of n_ranges, which do not overlap. */
int cuda_round_bf16(const struct cuda_round_range *range, size_t n_ranges, const struct rounding *r, void *stream);

#ifdef __cplusplus
}
#endif
#endif
