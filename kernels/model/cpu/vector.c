#include "kernels/model/vector.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/pool.h"

#define TILE 65536

struct job {
    float *out;
    const float *a, *b;
    size_t n;
};

CPU_DISPATCH static void add_tile(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t begin = task * TILE, end = begin + TILE < j->n ? begin + TILE : j->n;
    float *out = j->out;
    const float *a = j->a, *b = j->b;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        out[i] = a[i] + b[i];
}

void kernel_add(float *out, const float *a, const float *b, size_t n)
{
    struct job j = {out, a, b, n};
    pool_run((n + TILE - 1) / TILE, add_tile, &j);
}
