/* optim.h - norms and the optimizer over lists of tensors in device memory: the twins of kernels/optim.h and of
 * runtime/norm.h's tree, with the same bits. What all functions of kernels/cuda have in common: cast.h.
 *
 * A step queues three of them, and the host waits for none: block sums of the reduced gradients; their total, which
 * says how much to clip and whether to skip; the update, which obeys. */
#ifndef DDP_KERNELS_CUDA_OPTIM_H
#define DDP_KERNELS_CUDA_OPTIM_H

#include <stddef.h>

#include "kernels/optim.h"
#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor's elements from a multiple of NORM_BLOCK on, n of them: whole blocks, or up to the tensor's end. */
struct cuda_norm_range {
    const void *in;
    float *out;   /* [n], scale * in; NULL: not written. May be in, where that is float32 */
    double *sums; /* one for each NORM_BLOCK elements of n, or fewer at the end */
    size_t n;
};

/* Per block of NORM_BLOCK elements the sum of squares of scale * in, as kernel_block_sum_squares makes it of float32,
 * in one pass with the scaling. Where a sum is not finite, *found_inf becomes 1 (else it stays; NULL: not told). from
 * is DDP_F32, DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue. */
int cuda_norm_blocks(const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
                     unsigned *found_inf, void *stream);

/* In device memory: what a step does. */
struct cuda_step {
    double norm;      /* the L2 norm of scale * gradients */
    float grad_scale; /* scale, and clipped by min(1, clip / (norm + 1e-6)) */
    unsigned skipped; /* 1: norm is not finite */
};

/* *step from the sums of all blocks of n_tensors tensors: tensor i has sums [first_block[i], first_block[i + 1]), at
 * least one; combined by T over each tensor's blocks, then over the tensors. scale: as optimizer_begin's in
 * runtime/optimizer.h. clip 0: none. first_block and work [n_tensors] are device memory. */
int cuda_norm_total(struct cuda_step *step, const double *sums, const size_t *first_block, double *work,
                    size_t n_tensors, double scale, float clip, void *stream);

/* Elements of a tensor. */
struct cuda_adamw_range {
    float *value, *m, *v;
    const void *grad;
    void *copy; /* gets the new value, rounded to nearest even; NULL: none */
    size_t n;
    float weight_decay; /* in place of adamw_args's */
    enum ddp_dtype copy_type; /* of copy: DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue */
};

/* kernel_adamw on each range. grad_type: as `from` above. With step, its grad_scale stands in place of adamw_args's,
 * and nothing is written where it says skipped. */
int cuda_adamw(const struct cuda_adamw_range *range, size_t n_ranges, enum ddp_dtype grad_type,
               const struct adamw_args *args, const struct cuda_step *step, void *stream);

/* kernel_sgd on each range, likewise; m and v are not looked at. */
int cuda_sgd(const struct cuda_adamw_range *range, size_t n_ranges, enum ddp_dtype grad_type,
             const struct adamw_args *args, const struct cuda_step *step, void *stream);

#ifdef __cplusplus
}
#endif
#endif
