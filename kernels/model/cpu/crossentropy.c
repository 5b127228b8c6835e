#include "kernels/model/crossentropy.h"

#include <math.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/lanes.h"
#include "kernels/model/cpu/mathfun.h"
#include "kernels/model/cpu/pool.h"

#define ROW_TILE 16

struct job {
    double *loss;
    const float *logits;
    float *grad; /* the logits again, or NULL */
    const int32_t *target;
    float grad_scale;
    size_t rows, vocab;
};

KERNEL_INLINE float exp_sum(const float *x, float max, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += math_exp(x[i + l] - max);
    for (int l = 0; i < n; i++, l++)
        lane[l] += math_exp(x[i] - max);
    return lanes_total(lane);
}

CPU_DISPATCH static void rows_tile(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t n = j->vocab, begin = task * ROW_TILE, end = begin + ROW_TILE < j->rows ? begin + ROW_TILE : j->rows;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->logits + r * n;
        size_t target = (size_t)j->target[r];
        float max = lanes_max(x, n), sum = exp_sum(x, max, n);
        j->loss[r] = log((double)sum) + ((double)max - (double)x[target]);
        if (!j->grad)
            continue;
        float *g = j->grad + r * n, scale = j->grad_scale / sum;
        for (size_t i = 0; i < n; i++)
            g[i] = math_exp(g[i] - max) * scale;
        g[target] -= j->grad_scale;
    }
}

void kernel_crossentropy_forward(double *loss, const float *logits, const int32_t *target, size_t rows, size_t vocab)
{
    struct job j = {loss, logits, NULL, target, 0, rows, vocab};
    pool_run((rows + ROW_TILE - 1) / ROW_TILE, rows_tile, &j);
}

void kernel_crossentropy_backward(double *loss, float *logits, const int32_t *target, float grad_scale, size_t rows,
                                  size_t vocab)
{
    struct job j = {loss, logits, logits, target, grad_scale, rows, vocab};
    pool_run((rows + ROW_TILE - 1) / ROW_TILE, rows_tile, &j);
}
