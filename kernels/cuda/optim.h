/* optim.h - norms and the optimizer over lists of tensors in device memory: the twins of kernels/optim.h and of
 * runtime/grads/norm.h's blocks, with the same bits. cast.h says what all functions of kernels/cuda have in common. */
#ifndef DDP_KERNELS_CUDA_OPTIM_H
#define DDP_KERNELS_CUDA_OPTIM_H

#include <stddef.h>

#include "kernels/optim.h"
#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n elements of a tensor, beginning at a multiple of NORM_BLOCK: whole blocks, or up to the tensor's end. */
struct cuda_norm_range {
    const void *in;
    float *out;   /* [n], scale * in; NULL: not written. May be in, where that is float32 */
    double *sums; /* one for each NORM_BLOCK elements of n, or fewer at the end */
    size_t n;
};

/* Per block of NORM_BLOCK elements the sum of squares of scale * in, as kernel_block_sum_squares makes it of float32,
 * in one pass with the scaling. from is DDP_F32, DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue. */
int cuda_norm_blocks(const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
                     void *stream);

/* Elements of a tensor. */
struct cuda_optim_range {
    float *value, *moment[OPTIM_MOMENTS]; /* as many as the rule has */
    const float *grad;
    void *copy; /* gets the new value, rounded to nearest even; NULL: none */
    size_t n;
    float weight_decay; /* in place of optim_args's */
    enum ddp_dtype copy_type; /* of copy: DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue */
};

/* optim_rule.step on each range. */
typedef int cuda_optim_f(const struct cuda_optim_range *range, size_t n_ranges, const struct optim_args *args,
                         void *stream);

/* That of the rule of this name; NULL: it has none. */
cuda_optim_f *cuda_optim_find(const char *rule);

#ifdef __cplusplus
}
#endif
#endif
