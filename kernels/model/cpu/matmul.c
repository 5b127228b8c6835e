#include "kernels/model/matmul.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/blas.h"
#include "kernels/model/cpu/gemm.h"
#include "kernels/model/cpu/inline.h"
#include "kernels/model/cpu/mathfun.h"
#include "kernels/model/cpu/pool.h"

#define TWO_SQRT_2_OVER_PI 1.5957691216f
#define CUBIC 0.044715f

/* OpenBLAS's bits depend on the tile, so that is fixed; ours is cut as it suits the threads and the second-level cache,
 * in which OWN_ELEMS of c stay. */
enum {
    BLAS_ROWS = 256,
    BLAS_COLS = 1024,
    OWN_ROWS = 512,
    OWN_ELEMS = OWN_ROWS * 512,
    OWN_COLS_MIN = 128,
    OWN_ROWS_UNIT = 12,
    LINE = 16, /* elements of a cache line */
    ROWS_AHEAD = 8,
    GELU_ROWS = 4,
    GELU_ELEMS = GELU_ROWS * GEMM_PANEL
};

static bool own;

int kernel_matmul_open(ddp_error_t *errp)
{
    const char *want = getenv("DDP_MATMUL");
    own = false;
    if (want && strcmp(want, "own") && strcmp(want, "openblas"))
        return error_set(errp, DDP_E_USAGE, EINVAL, "DDP_MATMUL=%.64s is not allowed: use own or openblas", want);
    if (want && !strcmp(want, "openblas"))
        return blas_open(errp);
    if (want && !gemm_level())
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "DDP_MATMUL=own needs a processor with AVX2 and FMA: leave it"
                         " unset");
    if (!gemm_level())
        return blas_open(errp);
    own = gemm_open(errp) == 0;
    return own ? 0 : -1;
}

const char *kernel_matmul_name(void)
{
    static char name[64];
    if (own)
        snprintf(name, sizeof name, "own %s", gemm_level());
    else
        snprintf(name, sizeof name, "OpenBLAS %s", blas_core());
    return name;
}

struct job {
    float *c;
    const float *a, *b;
    const struct matmul *s;
    size_t rows, cols, across; /* of a tile; tiles side by side */
};

/* A tile of c: rows [i, i + rows), columns [j, j + cols). */
struct tile {
    const struct job *job;
    size_t i, j, rows, cols;
};

static size_t tiles(size_t n, size_t tile)
{
    return (n + tile - 1) / tile;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What follows reads or writes rows that lie pages apart, beyond the second-level cache: no prefetcher of the
 * processor's follows them. p is the row that is worked on. */
KERNEL_INLINE void fetch_ahead(const float *p, size_t ld, size_t cols)
{
    for (size_t l = 0; l < cols; l += LINE)
        __builtin_prefetch(p + ROWS_AHEAD * ld + l);
}

CPU_DISPATCH static void add_to_rows(float *c, size_t ld, const float *bias, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t l = 0; l < cols; l++)
            c[r * ld + l] += bias[l];
}

KERNEL_INLINE void add_columns(float *c, const float *add, size_t ld, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        fetch_ahead(add + r * ld, ld, cols);
        for (size_t l = 0; l < cols; l++)
            c[r * ld + l] += add[r * ld + l];
    }
}

KERNEL_INLINE void scale_columns(float *c, const float *scale, size_t ld, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        fetch_ahead(scale + r * ld, ld, cols);
        for (size_t l = 0; l < cols; l++)
            c[r * ld + l] *= scale[r * ld + l];
    }
}

/* With s = logistic(v), v = 2u: gelu' = s + x s (1 - s) dv/dx. In loops of short chains, see mathfun.h: rows * cols is
 * at most GELU_ELEMS. */
KERNEL_INLINE void gelu_part(float *restrict c, float *restrict gelu, size_t ld, size_t rows, size_t cols)
{
    float r[GELU_ELEMS], scale[GELU_ELEMS];
    for (size_t i = 0; i < rows; i++)
        for (size_t l = 0; l < cols; l++) {
            float x = c[i * ld + l], v = TWO_SQRT_2_OVER_PI * x * (1.0f + CUBIC * x * x);
            math_exp_split(-v, &r[i * cols + l], &scale[i * cols + l]);
        }
    for (size_t i = 0; i < rows * cols; i++)
        r[i] = math_exp_finish(r[i], scale[i]);
    for (size_t i = 0; i < rows * cols; i++)
        r[i] = 1.0f / (1.0f + r[i]);
    for (size_t i = 0; i < rows; i++)
        for (size_t l = 0; l < cols; l++) {
            float x = c[i * ld + l], xx = CUBIC * x * x, s = r[i * cols + l];
            float dv = TWO_SQRT_2_OVER_PI * (1.0f + 3.0f * xx), y = x * s;
            gelu[i * ld + l] = y;
            c[i * ld + l] = s + y * (1.0f - s) * dv;
        }
}

/* A panel's width as a constant: no loop is left of it. */
CPU_DISPATCH static void add_matrix(float *c, const float *add, size_t ld, size_t rows, size_t cols)
{
    if (cols == GEMM_PANEL)
        add_columns(c, add, ld, rows, GEMM_PANEL);
    else
        add_columns(c, add, ld, rows, cols);
}

CPU_DISPATCH static void scale_matrix(float *c, const float *scale, size_t ld, size_t rows, size_t cols)
{
    if (cols == GEMM_PANEL)
        scale_columns(c, scale, ld, rows, GEMM_PANEL);
    else
        scale_columns(c, scale, ld, rows, cols);
}

CPU_DISPATCH static void gelu_matrix(float *restrict c, float *restrict gelu, size_t ld, size_t rows, size_t cols)
{
    size_t r = 0;
    for (; cols == GEMM_PANEL && r + GELU_ROWS <= rows; r += GELU_ROWS) {
        for (size_t i = r; i < r + GELU_ROWS; i++)
            fetch_ahead(gelu + i * ld, ld, cols);
        gelu_part(c + r * ld, gelu + r * ld, ld, GELU_ROWS, GEMM_PANEL);
    }
    for (; r < rows; r++)
        for (size_t l = 0; l < cols; l += GELU_ELEMS)
            gelu_part(c + r * ld + l, gelu + r * ld + l, ld, 1, smaller(GELU_ELEMS, cols - l));
}

/* What follows the product, on a part of c that is complete. */
static void finish(const struct job *job, size_t i, size_t j, size_t rows, size_t cols)
{
    const struct matmul *s = job->s;
    size_t at = i * s->n + j;
    if (s->add)
        add_matrix(job->c + at, s->add + at, s->n, rows, cols);
    if (s->scale)
        scale_matrix(job->c + at, s->scale + at, s->n, rows, cols);
    if (s->gelu)
        gelu_matrix(job->c + at, s->gelu + at, s->n, rows, cols);
}

static struct tile tile_of(const struct job *job, size_t task)
{
    const struct matmul *s = job->s;
    size_t i = task / job->across * job->rows, j = task % job->across * job->cols;
    return (struct tile){job, i, j, smaller(job->rows, s->m - i), smaller(job->cols, s->n - j)};
}

static void finish_columns(const struct gemm *g, size_t j, size_t cols)
{
    const struct tile *t = g->arg;
    finish(t->job, t->i, t->j + j, t->rows, cols);
}

static void own_tile(void *arg, size_t task, int worker)
{
    const struct job *job = arg;
    const struct matmul *s = job->s;
    struct tile t = tile_of(job, task);
    struct gemm g = {
        .m = t.rows, .n = t.cols, .k = s->k,
        .a = {job->a + (s->a_transposed ? t.i : t.i * s->k), s->a_transposed ? s->m : s->k, s->a_transposed},
        .b = {job->b + (s->b_transposed ? t.j * s->k : t.j), s->b_transposed ? s->k : s->n, s->b_transposed},
        .c = job->c + t.i * s->n + t.j,
        .ldc = s->n,
        .accumulate = s->accumulate,
        .bias = s->bias ? s->bias + t.j : NULL,
        .column_sums = s->b_sums && t.i == 0 ? s->b_sums + t.j : NULL,
        .done = s->add || s->scale || s->gelu ? finish_columns : NULL,
        .arg = &t,
    };
    gemm_run(&g, gemm_work(worker));
}

static void blas_tile(void *arg, size_t task, int worker)
{
    const struct job *job = arg;
    const struct matmul *s = job->s;
    struct tile t = tile_of(job, task);
    struct blas_in a = {job->a + (s->a_transposed ? t.i : t.i * s->k), (int)(s->a_transposed ? s->m : s->k),
                        s->a_transposed};
    struct blas_in b = {job->b + (s->b_transposed ? t.j * s->k : t.j), (int)(s->b_transposed ? s->k : s->n),
                        s->b_transposed};
    float *c = job->c + t.i * s->n + t.j;
    (void)worker;
    blas_sgemm((int)t.rows, (int)t.cols, (int)s->k, a, b, s->accumulate ? 1 : 0, c, (int)s->n);
    if (s->bias)
        add_to_rows(c, s->n, s->bias + t.j, t.rows, t.cols);
    for (size_t l = 0; s->b_sums && t.i == 0 && l < s->k; l++)
        add_to_rows(s->b_sums + t.j, 0, job->b + l * s->n + t.j, 1, t.cols);
    finish(job, t.i, t.j, t.rows, t.cols);
}

/* Columns are shared out among the threads, or rows where columns are few. */
static void cut(struct job *job)
{
    const struct matmul *s = job->s;
    size_t threads = (size_t)pool_threads(), parts = tiles(s->m, GEMM_MAX_ROWS), share = tiles(s->n, threads);
    size_t most = OWN_ELEMS / smaller(s->m, OWN_ROWS) / GEMM_PANEL * GEMM_PANEL;
    job->cols = most;
    if (threads > 1 && share >= OWN_COLS_MIN)
        job->cols = smaller(most, tiles(tiles(s->n, tiles(share, most) * threads), GEMM_PANEL) * GEMM_PANEL);
    else if (threads > 1)
        parts = parts > threads ? parts : threads;
    job->rows = tiles(tiles(s->m, parts), OWN_ROWS_UNIT) * OWN_ROWS_UNIT;
    job->across = tiles(s->n, job->cols);
}

void kernel_matmul(float *c, const float *a, const float *b, const struct matmul *s)
{
    struct job job = {c, a, b, s, BLAS_ROWS, BLAS_COLS, tiles(s->n, BLAS_COLS)};
    if (own)
        cut(&job);
    pool_run(job.across * tiles(s->m, job.rows), own ? own_tile : blas_tile, &job);
}

void kernel_linear_dweight(float *dweight, float *dbias, const float *dout, const float *in, size_t rows, size_t n_in,
                           size_t n_out)
{
    kernel_matmul(dweight, in, dout,
                  &(struct matmul){.m = n_in, .n = n_out, .k = rows, .a_transposed = true, .accumulate = true,
                                   .b_sums = dbias});
}

void kernel_linear_din(float *din, const float *dout, const float *weight, const float *scale, size_t rows, size_t n_in,
                       size_t n_out)
{
    kernel_matmul(din, dout, weight,
                  &(struct matmul){.m = rows, .n = n_in, .k = n_out, .b_transposed = true, .scale = scale});
}
