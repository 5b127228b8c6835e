#include "kernels/optim.h"

#include <math.h>

#include "kernels/cpu/dispatch.h"

enum { LANES = 8 };

CPU_DISPATCH
double kernel_block_sum_squares(const float *x, size_t n)
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
