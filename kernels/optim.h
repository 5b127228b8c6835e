/* optim.h - the optimizers' arithmetic over one tensor, float32 state. An optimizer is a file of kernels/cpu that ends
 * with its row. */
#ifndef DDP_KERNELS_OPTIM_H
#define DDP_KERNELS_OPTIM_H

#include <stddef.h>

#define NORM_BLOCK 4096 /* elements per partial sum: fixed, so that a norm's bits do not depend on any plan */
#define OPTIM_MOMENTS 2 /* that an optimizer has at most */

/* Sum of squares of x[0..n), n <= NORM_BLOCK, as a double: element i is added to lane i % 8, then the lanes are added
 * pairwise. The result may be inf or nan. runtime/grads/norm.h makes a norm of such sums. */
double kernel_block_sum_squares(const float *x, size_t n);

struct optim_args {
    float lr, beta1, beta2, eps, weight_decay;
    float bias1, bias2; /* 1 - beta^t */
    float grad_scale;   /* the gradient is multiplied by this first: averaging and clipping in one */
};

/* An optimizer: the rule by which a step changes values. */
struct optim_rule {
    const char *name; /* ddp_optimizer.rule */
    int n_moments;    /* numbers that it keeps beside every value, which begin as 0 */
    const char *suffix[OPTIM_MOMENTS]; /* [n_moments]: a checkpoint has a parameter's moment as NAME.SUFFIX */

    /* One step (formula in ddp.h) on value[0..n) and moment[0..n_moments)[0..n). Element by element, no contraction:
     * the same bits on every vector width. */
    void (*step)(float *value, float *const *moment, const float *grad, size_t n, const struct optim_args *a);
};

/* All there are. What they do on a GPU is found by their name in kernels/cuda/optim.cu, so that an optimizer and its
 * tests link no CUDA. A program names one by a text, so that a new one changes no struct of ddp.h. */
extern const struct optim_rule optim_adamw, optim_sgd;
#define OPTIM_RULES &optim_adamw, &optim_sgd

#endif
