#include "kernels/matmul.h"

#include <stdio.h>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

#define COLUMN_TILE 128

int kernel_matmul_open(ddp_error_t *errp)
{
    return blas_open(errp);
}

const char *kernel_matmul_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "OpenBLAS %s", blas_core());
    return name;
}

struct job {
    float *c;
    const float *a, *b, *bias;
    const struct matmul *s;
    size_t tiles_across;
};

static size_t tiles(size_t n, size_t tile)
{
    return (n + tile - 1) / tile;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

CPU_DISPATCH static void add_to_rows(float *c, size_t ldc, const float *bias, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            c[i * ldc + j] += bias[j];
}

static void matmul_tile(void *arg, size_t task, int worker)
{
    const struct job *job = arg;
    const struct matmul *s = job->s;
    size_t i = task / job->tiles_across * MATMUL_TILE_ROWS, j = task % job->tiles_across * MATMUL_TILE_COLS;
    size_t rows = smaller(MATMUL_TILE_ROWS, s->m - i), cols = smaller(MATMUL_TILE_COLS, s->n - j);
    struct blas_in a = {job->a + (s->a_transposed ? i : i * s->k), (int)(s->a_transposed ? s->m : s->k),
                        s->a_transposed};
    struct blas_in b = {job->b + (s->b_transposed ? j * s->k : j), (int)(s->b_transposed ? s->k : s->n),
                        s->b_transposed};
    float *c = job->c + i * s->n + j;
    (void)worker;
    blas_sgemm((int)rows, (int)cols, (int)s->k, 1, a, b, s->accumulate ? 1 : 0, c, (int)s->n);
    if (job->bias)
        add_to_rows(c, s->n, job->bias + j, rows, cols);
}

static void run_tiles(float *c, const float *a, const float *b, const float *bias, const struct matmul *s)
{
    struct job job = {c, a, b, bias, s, tiles(s->n, MATMUL_TILE_COLS)};
    pool_run(job.tiles_across * tiles(s->m, MATMUL_TILE_ROWS), matmul_tile, &job);
}

void kernel_matmul(float *c, const float *a, const float *b, const struct matmul *s)
{
    run_tiles(c, a, b, NULL, s);
}

void kernel_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t rows,
                           size_t n_in, size_t n_out)
{
    run_tiles(out, in, weight, bias, &(struct matmul){.m = rows, .n = n_out, .k = n_in});
}

struct column_job {
    float *sum;
    const float *x;
    size_t rows, cols;
};

CPU_DISPATCH static void column_sums(void *arg, size_t task, int worker)
{
    const struct column_job *job = arg;
    size_t j0 = task * COLUMN_TILE, j1 = smaller(j0 + COLUMN_TILE, job->cols);
    (void)worker;
    for (size_t i = 0; i < job->rows; i++)
        for (size_t j = j0; j < j1; j++)
            job->sum[j] += job->x[i * job->cols + j];
}

void kernel_linear_backward(float *din, float *dweight, float *dbias, const float *dout, const float *in,
                            const float *weight, size_t rows, size_t n_in, size_t n_out)
{
    struct column_job job = {dbias, dout, rows, n_out};
    kernel_matmul(dweight, in, dout,
                  &(struct matmul){.m = n_in, .n = n_out, .k = rows, .a_transposed = true, .accumulate = true});
    pool_run(tiles(n_out, COLUMN_TILE), column_sums, &job);
    kernel_matmul(din, dout, weight, &(struct matmul){.m = rows, .n = n_in, .k = n_out, .b_transposed = true});
}
