#include "kernels/gelu.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/mathfun.h"
#include "kernels/cpu/pool.h"

#define TILE 16384
#define TWO_SQRT_2_OVER_PI 1.5957691216f
#define CUBIC 0.044715f

struct job {
    float *out;
    const float *in;
    size_t n;
};

CPU_DISPATCH static void forward_tile(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t begin = task * TILE, end = begin + TILE < j->n ? begin + TILE : j->n;
    float *restrict out = j->out;
    const float *restrict in = j->in;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        float x = in[i];
        out[i] = x * math_logistic(TWO_SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    }
}

/* With s = logistic(v), v = 2u: gelu' = s + x s (1 - s) dv/dx. */
CPU_DISPATCH static void backward_tile(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t begin = task * TILE, end = begin + TILE < j->n ? begin + TILE : j->n;
    float *restrict dx = j->out;
    const float *restrict in = j->in;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        float x = in[i];
        float s = math_logistic(TWO_SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        float dv = TWO_SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
        dx[i] *= s + x * s * (1.0f - s) * dv;
    }
}

void kernel_gelu_forward(float *out, const float *in, size_t n)
{
    struct job j = {out, in, n};
    pool_run((n + TILE - 1) / TILE, forward_tile, &j);
}

void kernel_gelu_backward(float *dx, const float *in, size_t n)
{
    struct job j = {dx, in, n};
    pool_run((n + TILE - 1) / TILE, backward_tile, &j);
}
