#include "kernels/optim.h"

#include <math.h>

#include "kernels/cpu/dispatch.h"

enum { LANES = 8 };

/* Sum of squares of at most NORM_BLOCK elements: lane l takes elements l, l + 8, ..., the lanes are added pairwise. */
CPU_DISPATCH
static double block_sum_squares(const float *x, size_t n)
{
    double lane[LANES] = {0};
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * x[i + l];
    for (size_t i = whole; i < n; i++)
        lane[i - whole] += (double)x[i] * x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* T over blocks [0, n_blocks): the first m, m the largest power of two below n_blocks, plus the rest. */
static double tree(const float *x, size_t n, size_t n_blocks)
{
    if (n_blocks == 1)
        return block_sum_squares(x, n);
    size_t m = 1;
    while (2 * m < n_blocks)
        m *= 2;
    size_t head = m * NORM_BLOCK;
    return tree(x, head, m) + tree(x + head, n - head, n_blocks - m);
}

double kernel_sum_squares(const float *x, size_t n)
{
    return n ? tree(x, n, (n + NORM_BLOCK - 1) / NORM_BLOCK) : 0;
}

CPU_DISPATCH
void kernel_adamw(float *restrict value, float *restrict m, float *restrict v, const float *restrict grad, size_t n,
                  const struct adamw_args *a)
{
    const float keep = 1 - a->lr * a->weight_decay, step = a->lr / a->bias1, scale = a->grad_scale, eps = a->eps;
    const float b1 = a->beta1, b2 = a->beta2, c1 = 1 - b1, c2 = 1 - b2, root = 1 / sqrtf(a->bias2);
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        m[i] = b1 * m[i] + c1 * g;
        v[i] = b2 * v[i] + c2 * g * g;
        value[i] = value[i] * keep - step * m[i] / (sqrtf(v[i]) * root + eps);
    }
}

CPU_DISPATCH
void kernel_sgd(float *restrict value, const float *restrict grad, size_t n, const struct adamw_args *a)
{
    const float keep = 1 - a->lr * a->weight_decay, step = a->lr * a->grad_scale;
    for (size_t i = 0; i < n; i++)
        value[i] = value[i] * keep - step * grad[i];
}
