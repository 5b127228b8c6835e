#include <math.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/optim.h"

CPU_DISPATCH
static void step(float *restrict value, float *const *moment, const float *restrict grad, size_t n,
                 const struct optim_args *a)
{
    const float keep = 1 - a->lr * a->weight_decay, rate = a->lr / a->bias1, scale = a->grad_scale, eps = a->eps;
    const float b1 = a->beta1, b2 = a->beta2, c1 = 1 - b1, c2 = 1 - b2, root = 1 / sqrtf(a->bias2);
    float *restrict m = moment[0], *restrict v = moment[1];
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        m[i] = b1 * m[i] + c1 * g;
        v[i] = b2 * v[i] + c2 * g * g;
        value[i] = value[i] * keep - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
}

const struct optim_rule optim_adamw = {"adamw", 2, {"exp_avg", "exp_avg_sq"}, step};
