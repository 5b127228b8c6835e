/* optim.h - the optimizer's arithmetic over one tensor, float32 state. */
#ifndef DDP_KERNELS_OPTIM_H
#define DDP_KERNELS_OPTIM_H

#include <stddef.h>

#define NORM_BLOCK 4096 /* elements per partial sum: fixed, so that a norm's bits do not depend on any plan */

/* Sum of squares of x[0..n), n <= NORM_BLOCK, as a double: element i goes to lane i % 8, the lanes are added pairwise.
 * The result may be inf or nan. Of such sums norms are made (runtime/grads/norm.h). */
double kernel_block_sum_squares(const float *x, size_t n);

struct adamw_args {
    float lr, beta1, beta2, eps, weight_decay;
    float bias1, bias2; /* 1 - beta^t */
    float grad_scale;   /* the gradient is multiplied by this first: averaging and clipping in one */
};

/* One AdamW step (formula in ddp.h) on value, m and v[0..n). Element by element, no contraction: the same bits on every
 * vector width. */
void kernel_adamw(float *value, float *m, float *v, const float *grad, size_t n, const struct adamw_args *a);

/* value = value * (1 - lr * weight_decay) - lr * grad_scale * grad. */
void kernel_sgd(float *value, const float *grad, size_t n, const struct adamw_args *a);

#endif
