#include "kernels/cpu/dispatch.h"
#include "kernels/optim.h"

/* Beside its use, it shows a missing 1/R in an average, which AdamW with clipping hides. */
CPU_DISPATCH
static void step(float *restrict value, float *const *moment, const float *restrict grad, size_t n,
                 const struct optim_args *a)
{
    const float keep = 1 - a->lr * a->weight_decay, rate = a->lr * a->grad_scale;
    (void)moment;
    for (size_t i = 0; i < n; i++)
        value[i] = value[i] * keep - rate * grad[i];
}

const struct optim_rule optim_sgd = {"sgd", 0, {NULL}, step};
