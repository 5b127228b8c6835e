/* Matrix products, what is fused with them, and attention, which is made of them. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/attention.h"
#include "kernels/model/cpu/gemm.h"
#include "kernels/model/matmul.h"
#include "t/lib/floats.h"

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static void gelu_matches(void **state)
{
    (void)state;
    enum { N = 20011 };
    float *x = random_floats(N, 6), *y = poisoned(N), *slope = poisoned(N), *dy = random_floats(N, 1);
    float *dx = poisoned(N);
    double *want = calloc(N, 8), *dwant = calloc(N, 8);
    x[0] = 0;
    x[1] = 40;
    x[2] = -40;
    for (int i = 0; i < N; i++) {
        want[i] = gelu(x[i]);
        dwant[i] = dy[i] * (gelu(x[i] + 1e-5) - gelu(x[i] - 1e-5)) / 2e-5;
    }
    struct matmul product = {.m = 1, .n = N, .k = 1, .gelu = y}, gradient = {.m = 1, .n = N, .k = 1, .scale = slope};
    kernel_matmul(slope, (float[]){1}, x, &product);
    kernel_matmul(dx, (float[]){1}, dy, &gradient);
    check_close("gelu", y + 3, want + 3, N - 3, 1e-6);
    check_close("dgelu", dx, dwant, N, 2e-6);
    assert_true(y[0] == 0 && y[1] == 40 && fabsf(y[2]) < 1e-30f);
    free(x), free(y), free(slope), free(dy), free(dx), free(want), free(dwant);
}

/* flags: 1 a transposed, 2 b transposed, 4 accumulate. */
static void check_matmul(size_t m, size_t n, size_t k, int flags)
{
    struct matmul shape = {.m = m, .n = n, .k = k, .a_transposed = flags & 1, .b_transposed = flags & 2,
                           .accumulate = flags & 4}, *s = &shape;
    float *a = random_floats(m * k, 1), *b = random_floats(k * n, 1);
    float *c = s->accumulate ? random_floats(m * n, 1) : poisoned(m * n);
    double *want = calloc(m * n, 8);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = s->accumulate ? c[i * n + j] : 0;
            for (size_t l = 0; l < k; l++)
                sum += (double)a[s->a_transposed ? l * m + i : i * k + l] * b[s->b_transposed ? j * k + l : l * n + j];
            want[i * n + j] = sum;
        }
    kernel_matmul(c, a, b, s);
    check_close("matmul", c, want, m * n, 2e-6);
    free(a), free(b), free(c), free(want);
}

static void products_match(void **state)
{
    (void)state;
    for (int flags = 0; flags < 8; flags++) {
        check_matmul(1, 1, 1, flags);
        check_matmul(7, 13, 5, flags);
        for (size_t m = 1; m <= 13; m++)
            check_matmul(m, 35, 9, flags);
        check_matmul(259, 31, 17, flags);
        check_matmul(5, 1033, 19, flags);
        check_matmul(GEMM_MAX_ROWS + 1, 48, 3, flags);
        check_matmul(25, 65, 2 * GEMM_K_BLOCK + 5, flags);
    }
}

/* What gemm.h says a product is, term by term. */
static float chain(const float *a, const float *b, size_t k, size_t step)
{
    float sum = 0;
    for (size_t k0 = 0; k0 < k; k0 += GEMM_K_BLOCK) {
        float block = 0;
        for (size_t l = k0; l < k && l < k0 + GEMM_K_BLOCK; l++)
            block = fmaf(a[l], b[l * step], block);
        sum = k0 ? sum + block : block;
    }
    return sum;
}

static void check_chain(size_t m, size_t n, size_t k)
{
    float *a = random_floats(m * k, 1), *b = random_floats(k * n, 1), *c = poisoned(m * n);
    kernel_matmul(c, a, b, &(struct matmul){.m = m, .n = n, .k = k});
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            assert_true(c[i * n + j] == chain(a + i * k, b + j, k, n));
    free(a), free(b), free(c);
}

static void products_have_the_bits_that_are_stated(void **state)
{
    (void)state;
    if (!gemm_level() || strncmp(kernel_matmul_name(), "own", 3))
        return;
    for (int avx2 = 0; avx2 < 2; avx2++) {
        gemm_prefer_avx2(avx2);
        print_message("# %s\n", gemm_level());
        check_chain(19, 70, 2 * GEMM_K_BLOCK + 7);
        check_chain(GEMM_MAX_ROWS + 30, 33, 5);
    }
    gemm_prefer_avx2(false);
}

static void what_follows_a_product_matches(void **state)
{
    (void)state;
    enum { M = 530, N = 77, K = 300 };
    float *a = random_floats(M * K, 1), *b = random_floats(K * N, 1), *other = random_floats(M * N, 1);
    float *bias = random_floats(N, 1), *sums = calloc(N, 4), *plain = poisoned(M * N), *c = poisoned(M * N);
    double *want = calloc(N, 8);
    for (size_t l = 0; l < K; l++)
        for (size_t j = 0; j < N; j++)
            want[j] += b[l * N + j];
    kernel_matmul(plain, a, b, &(struct matmul){.m = M, .n = N, .k = K, .bias = bias});
    kernel_matmul(c, a, b, &(struct matmul){.m = M, .n = N, .k = K, .bias = bias, .add = other, .b_sums = sums});
    for (size_t i = 0; i < M * N; i++)
        assert_true(c[i] == plain[i] + other[i]);
    check_close("column sums", sums, want, N, 2e-6);
    kernel_matmul(c, a, b, &(struct matmul){.m = M, .n = N, .k = K, .bias = bias, .scale = other});
    for (size_t i = 0; i < M * N; i++)
        assert_true(c[i] == plain[i] * other[i]);
    free(a), free(b), free(other), free(bias), free(sums), free(plain), free(c), free(want);
}

static void linear_layers_match(void **state)
{
    (void)state;
    enum { R = 261, I = 19, O = 133 };
    float *x = random_floats(R * I, 1), *w = random_floats(I * O, 1), *b = random_floats(O, 1), *y = poisoned(R * O);
    float *dy = random_floats(R * O, 1), *dx = poisoned(R * I), *dw = random_floats(I * O, 1);
    float *db = random_floats(O, 1);
    double *wy = calloc(R * O, 8), *wdx = calloc(R * I, 8), *wdw = calloc(I * O, 8), *wdb = calloc(O, 8);
    for (int i = 0; i < I * O; i++)
        wdw[i] = dw[i];
    for (int o = 0; o < O; o++)
        wdb[o] = db[o];
    for (int r = 0; r < R; r++)
        for (int o = 0; o < O; o++) {
            wy[r * O + o] = b[o];
            wdb[o] += dy[r * O + o];
            for (int i = 0; i < I; i++) {
                wy[r * O + o] += (double)x[r * I + i] * w[i * O + o];
                wdx[r * I + i] += (double)dy[r * O + o] * w[i * O + o];
                wdw[i * O + o] += (double)x[r * I + i] * dy[r * O + o];
            }
        }
    kernel_matmul(y, x, w, &(struct matmul){.m = R, .n = O, .k = I, .bias = b});
    kernel_linear_dweight(dw, db, dy, x, R, I, O);
    kernel_linear_din(dx, dy, w, NULL, R, I, O);
    check_close("linear", y, wy, R * O, 2e-6);
    check_close("linear dx", dx, wdx, R * I, 2e-6);
    check_close("linear dweight", dw, wdw, I * O, 2e-6);
    check_close("linear dbias", db, wdb, O, 2e-6);
    void *all[] = {x, w, b, y, dy, dx, dw, db, wy, wdx, wdw, wdb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Naive attention and its gradients in double, with probabilities kept. */
static void naive_attention(const struct attention_shape *s, const float *qkv, const float *dout, double *out,
                            double *dqkv)
{
    size_t w = s->width, d = w / s->heads, len = s->length;
    double *p = calloc(len, 8), *dp = calloc(len, 8), scale = 1 / sqrt((double)d);
    for (size_t b = 0; b < s->batch; b++)
        for (size_t h = 0; h < s->heads; h++)
            for (size_t t = 0; t < len; t++) {
                size_t q = (b * len + t) * 3 * w + h * d, o = (b * len + t) * w + h * d;
                double sum = 0, dot = 0;
                for (size_t u = 0; u <= t; u++) {
                    size_t k = (b * len + u) * 3 * w + w + h * d;
                    p[u] = dp[u] = 0;
                    for (size_t i = 0; i < d; i++)
                        p[u] += (double)qkv[q + i] * qkv[k + i] * scale;
                    p[u] = exp(p[u]);
                    sum += p[u];
                }
                for (size_t u = 0; u <= t; u++) {
                    size_t v = (b * len + u) * 3 * w + 2 * w + h * d;
                    p[u] /= sum;
                    for (size_t i = 0; i < d; i++) {
                        out[o + i] += p[u] * qkv[v + i];
                        dqkv[v + i] += p[u] * dout[o + i];
                        dp[u] += (double)qkv[v + i] * dout[o + i];
                    }
                    dot += p[u] * dp[u];
                }
                for (size_t u = 0; u <= t; u++) {
                    size_t k = (b * len + u) * 3 * w + w + h * d;
                    double ds = p[u] * (dp[u] - dot) * scale;
                    for (size_t i = 0; i < d; i++) {
                        dqkv[q + i] += ds * qkv[k + i];
                        dqkv[k + i] += ds * qkv[q + i];
                    }
                }
            }
    free(p), free(dp);
}

static void check_attention(size_t batch, size_t length, size_t width, size_t heads)
{
    struct attention_shape s = {batch, length, width, heads};
    size_t n = batch * length * width;
    float *qkv = random_floats(3 * n, 2), *dout = random_floats(n, 1), *out = poisoned(n), *dqkv = poisoned(3 * n);
    float *work = poisoned(kernel_attention_work_elems(&s)), *stats = poisoned(kernel_attention_stats_elems(&s));
    double *want = calloc(n, 8), *dwant = calloc(3 * n, 8);
    naive_attention(&s, qkv, dout, want, dwant);
    kernel_attention_forward(out, stats, qkv, work, &s);
    kernel_attention_backward(dqkv, dout, qkv, stats, work, &s);
    check_close("attention", out, want, n, 2e-6);
    check_close("attention dqkv", dqkv, dwant, 3 * n, 5e-6);
    free(qkv), free(dout), free(out), free(dqkv), free(work), free(stats), free(want), free(dwant);
}

static void attention_matches(void **state)
{
    (void)state;
    check_attention(1, 1, 1, 1);
    check_attention(2, 7, 15, 3);
    check_attention(2, 17, 32, 2);
    check_attention(1, 128, 16, 1);
    check_attention(1, 129, 16, 2);
    check_attention(1, 300, 24, 2);
    check_attention(2, 64, 96, 3);
    check_attention(1, 140, 160, 2);
    check_attention(1, 37, 300, 1);
}

/* All of these once more with a BLAS's products, as processors without our own have them. */
static void openblas_products_match(void **state)
{
    ddp_error_t e;
    setenv("DDP_MATMUL", "openblas", 1);
    if (kernel_matmul_open(&e) < 0)
        fail_msg("%s", e.text);
    print_message("# %s\n", kernel_matmul_name());
    products_match(state);
    what_follows_a_product_matches(state);
    linear_layers_match(state);
    gelu_matches(state);
    attention_matches(state);
    unsetenv("DDP_MATMUL");
    assert_int_equal(kernel_matmul_open(&e), 0);
    setenv("DDP_MATMUL", "best", 1);
    assert_int_equal(kernel_matmul_open(&e), -1);
    assert_error_has(e, "own or openblas");
    unsetenv("DDP_MATMUL");
    assert_int_equal(kernel_matmul_open(&e), 0);
}

static int open_blas(void **state)
{
    (void)state;
    ddp_error_t e;
    if (kernel_matmul_open(&e) < 0) {
        print_error("%s\n", e.text);
        return -1;
    }
    print_message("# %s\n", kernel_matmul_name());
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gelu_matches),
    cmocka_unit_test(products_match),
    cmocka_unit_test(products_have_the_bits_that_are_stated),
    cmocka_unit_test(what_follows_a_product_matches),
    cmocka_unit_test(linear_layers_match),
    cmocka_unit_test(attention_matches),
    cmocka_unit_test(openblas_products_match),
};

int main(void)
{
    return cmocka_run_group_tests(tests, open_blas, NULL);
}
