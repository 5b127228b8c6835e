#include "kernels/attention.h"

#include <math.h>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/mathfun.h"
#include "kernels/cpu/pool.h"

#define QUERY_TILE 128 /* queries at a time: bounds the scratch, and skips the keys that none of them sees */

/* One sequence and head: pointers to its first query, key, value, and a query tile's scores. */
struct head {
    const float *q, *k, *v, *dout;
    float *dq, *dk, *dv, *out;
    float *max, *inv;  /* [length] each: the row's maximum and 1 / sum of exp */
    float *p, *dp;     /* [QUERY_TILE, length]: probabilities and their gradient */
    int size, length;  /* head width, positions */
    int ld, ld_out;    /* from one position to the next in qkv and in out */
    float scale;
    float *gemm;       /* scratch of our own products, or NULL */
};

struct job {
    float *out, *stats, *work, *dqkv;
    const float *qkv, *dout;
    const struct attention_shape *s;
};

static int tile_rows(int first, int length)
{
    return first + QUERY_TILE < length ? QUERY_TILE : length - first;
}

size_t kernel_attention_work_elems(const struct attention_shape *s)
{
    return (size_t)pool_threads() * 2 * QUERY_TILE * s->length;
}

size_t kernel_attention_stats_elems(const struct attention_shape *s)
{
    return 2 * s->batch * s->heads * s->length;
}

static struct head head_of(const struct job *j, size_t task, int worker)
{
    const struct attention_shape *s = j->s;
    size_t b = task / s->heads, h = task % s->heads, w = s->width, size = w / s->heads, len = s->length;
    size_t in = b * len * 3 * w + h * size, out = b * len * w + h * size;
    struct head a = {.size = (int)size, .length = (int)len, .ld = (int)(3 * w), .ld_out = (int)w,
                     .scale = 1.0f / sqrtf((float)size), .gemm = gemm_work(worker)};
    a.q = j->qkv + in;
    a.k = a.q + w;
    a.v = a.k + w;
    a.max = j->stats + task * 2 * len;
    a.inv = a.max + len;
    a.p = j->work + (size_t)worker * 2 * QUERY_TILE * len;
    a.dp = a.p + QUERY_TILE * len;
    if (j->dqkv) {
        a.dq = j->dqkv + in;
        a.dk = a.dq + w;
        a.dv = a.dk + w;
        a.dout = j->dout + out;
    } else {
        a.out = j->out + out;
    }
    return a;
}

/* c[m, n] (+)= a b. */
static void product(const struct head *h, int m, int n, int k, struct blas_in a, struct blas_in b, bool accumulate,
                    float *c, int ldc)
{
    if (!h->gemm) {
        blas_sgemm(m, n, k, a, b, accumulate ? 1 : 0, c, ldc);
        return;
    }
    for (int i = 0; i < m; i += GEMM_MAX_ROWS)
        gemm_run(&(struct gemm){.m = (size_t)(m - i < GEMM_MAX_ROWS ? m - i : GEMM_MAX_ROWS), .n = (size_t)n,
                                .k = (size_t)k, .accumulate = accumulate, .c = c + (size_t)i * ldc, .ldc = (size_t)ldc,
                                .a = {a.data + (size_t)i * (a.transposed ? 1 : a.ld), (size_t)a.ld, a.transposed},
                                .b = {b.data, (size_t)b.ld, b.transposed}},
                 h->gemm);
}

/* p = scores of queries [first, first + rows) with keys [0, keys), not scaled yet. */
static void scores(const struct head *a, int first, int rows, int keys)
{
    product(a, rows, keys, a->size, (struct blas_in){a->q + (size_t)first * a->ld, a->ld, false},
            (struct blas_in){a->k, a->ld, true}, false, a->p, keys);
}

/* p = softmax of its scaled rows, each over keys up to its own position, 0 beyond. Fills max and inv, or uses them. */
CPU_DISPATCH static void softmax_rows(const struct head *a, int first, int rows, int keys, bool fill)
{
    for (int r = 0; r < rows; r++) {
        float *p = a->p + (size_t)r * keys;
        int n = first + r + 1;
        if (fill)
            a->max[first + r] = lanes_max(p, n);
        float max = a->max[first + r];
        for (int i = 0; i < n; i++)
            p[i] = math_exp((p[i] - max) * a->scale);
        for (int i = n; i < keys; i++)
            p[i] = 0;
        if (fill)
            a->inv[first + r] = 1.0f / lanes_sum(p, n);
        float inv = a->inv[first + r];
        for (int i = 0; i < n; i++)
            p[i] *= inv;
    }
}

/* dp = scale * p * (dp - sum(p dp)), the gradient before the softmax. */
CPU_DISPATCH static void softmax_backward(const struct head *a, int rows, int keys)
{
    for (int r = 0; r < rows; r++) {
        const float *p = a->p + (size_t)r * keys;
        float *dp = a->dp + (size_t)r * keys, sum = lanes_dot(p, dp, keys);
        for (int i = 0; i < keys; i++)
            dp[i] = a->scale * p[i] * (dp[i] - sum);
    }
}

static void forward_head(void *arg, size_t task, int worker)
{
    struct head a = head_of(arg, task, worker);
    for (int first = 0; first < a.length; first += QUERY_TILE) {
        int rows = tile_rows(first, a.length), keys = first + rows;
        scores(&a, first, rows, keys);
        softmax_rows(&a, first, rows, keys, true);
        product(&a, rows, a.size, keys, (struct blas_in){a.p, keys, false}, (struct blas_in){a.v, a.ld, false}, false,
                a.out + (size_t)first * a.ld_out, a.ld_out);
    }
}

/* From the last queries, which see every key, to the first: so the first product sets dk and dv, later ones add. */
static void backward_head(void *arg, size_t task, int worker)
{
    struct head a = head_of(arg, task, worker);
    bool add = false;
    for (int first = (a.length - 1) / QUERY_TILE * QUERY_TILE; first >= 0; first -= QUERY_TILE, add = true) {
        int rows = tile_rows(first, a.length), keys = first + rows;
        struct blas_in dout = {a.dout + (size_t)first * a.ld_out, a.ld_out, false};
        scores(&a, first, rows, keys);
        softmax_rows(&a, first, rows, keys, false);
        product(&a, keys, a.size, rows, (struct blas_in){a.p, keys, true}, dout, add, a.dv, a.ld);
        product(&a, rows, keys, a.size, dout, (struct blas_in){a.v, a.ld, true}, false, a.dp, keys);
        softmax_backward(&a, rows, keys);
        product(&a, rows, a.size, keys, (struct blas_in){a.dp, keys, false}, (struct blas_in){a.k, a.ld, false}, false,
                a.dq + (size_t)first * a.ld, a.ld);
        product(&a, keys, a.size, rows, (struct blas_in){a.dp, keys, true},
                (struct blas_in){a.q + (size_t)first * a.ld, a.ld, false}, add, a.dk, a.ld);
    }
}

void kernel_attention_forward(float *out, float *stats, const float *qkv, float *work, const struct attention_shape *s)
{
    struct job j = {.out = out, .stats = stats, .qkv = qkv, .work = work, .s = s};
    pool_run(s->batch * s->heads, forward_head, &j);
}

void kernel_attention_backward(float *dqkv, const float *dout, const float *qkv, const float *stats, float *work,
                               const struct attention_shape *s)
{
    struct job j = {.dqkv = dqkv, .dout = dout, .qkv = qkv, .stats = (float *)stats, .work = work, .s = s};
    pool_run(s->batch * s->heads, backward_head, &j);
}
