#include "t/unit/unit.h"

#include <math.h>

#include "kernels/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/mathfun.h"
#include "kernels/cpu/pool.h"
#include "kernels/crossentropy.h"
#include "kernels/embedding.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"

/* Every output starts as nan: what a kernel forgets to write, or reads without need, shows. */

static uint64_t seed = 99;

static uint32_t draw(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33);
}

static float *random_floats(size_t n, float scale)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)draw() / (float)(1u << 30) - 1) * scale;
    return x;
}

static float *poisoned(size_t n)
{
    float *x = aligned_alloc(64, (n + 16) / 16 * 64);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

/* Largest error of got, relative to the largest element of want. */
static void check_close(const char *what, const float *got, const double *want, size_t n, double tolerance)
{
    double largest = 1e-30;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * largest))
            fail_msg("%s[%zu] of %zu: %.9g, want %.9g", what, i, n, (double)got[i], want[i]);
}

static double ulps(float got, double want)
{
    float near = fabsf((float)want);
    return fabs((double)got - want) / (double)(nextafterf(near, INFINITY) - near);
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void functions_keep_their_error_bounds(void **state)
{
    (void)state;
    double worst_exp = 0, worst_logistic = 0;
    for (uint64_t b = 0; b <= UINT32_MAX; b += 1009) {
        float x = from_bits((uint32_t)b);
        if (x >= MATH_EXP_MIN && x <= MATH_EXP_MAX)
            worst_exp = fmax(worst_exp, ulps(math_exp(x), exp((double)x)));
        if (x >= MATH_EXP_MIN && x <= 1e30f)
            worst_logistic = fmax(worst_logistic, ulps(math_logistic(x), 1 / (1 + exp(-(double)x))));
    }
    print_message("# worst: exp %.2f ulp, logistic %.2f ulp\n", worst_exp, worst_logistic);
    assert_true(worst_exp <= 2);
    assert_true(worst_logistic <= 4);
    assert_true(math_exp(0) == 1);
    assert_true(math_exp(-88) == 0 && math_exp(-INFINITY) == 0);
    for (float x = MATH_EXP_MIN; x > -89; x = nextafterf(x, -INFINITY)) /* on the way to 0, and from the greatest to inf */
        assert_true(fabs(math_exp(x) - exp((double)x)) < 1.2e-38);
    for (float x = MATH_EXP_MAX; x < 89; x = nextafterf(x, INFINITY))
        assert_true(ulps(math_exp(x), exp((double)x)) <= 2 || (x > 88.37f && math_exp(x) == INFINITY));
    assert_true(math_exp(89) == INFINITY && math_exp(INFINITY) == INFINITY);
    assert_true(isnan(math_exp(NAN)) && isnan(math_logistic(NAN)));
    assert_true(math_logistic(-1000) == 0 && math_logistic(1000) == 1);
}

static const size_t odd_sizes[][2] = {{1, 1}, {3, 15}, {5, 16}, {7, 17}, {65, 33}, {130, 129}};
#define N_SIZES (sizeof odd_sizes / sizeof *odd_sizes)

static void check_layernorm(size_t rows, size_t w)
{
    float *x = random_floats(rows * w, 3), *weight = random_floats(w, 2), *bias = random_floats(w, 2);
    float *dy = random_floats(rows * w, 1), *y = poisoned(rows * w), *mean = poisoned(rows), *rstd = poisoned(rows);
    float *dx = random_floats(rows * w, 1), *dw = random_floats(w, 1), *db = random_floats(w, 1);
    double *wy = calloc(rows * w, 8), *wdx = calloc(rows * w, 8), *wdw = calloc(w, 8), *wdb = calloc(w, 8);
    for (size_t i = 0; i < w; i++) {
        wdw[i] = dw[i];
        wdb[i] = db[i];
    }
    for (size_t r = 0; r < rows; r++) {
        double mu = 0, var = 0, g = 0, gn = 0;
        for (size_t i = 0; i < w; i++)
            mu += x[r * w + i] / (double)w;
        for (size_t i = 0; i < w; i++)
            var += (x[r * w + i] - mu) * (x[r * w + i] - mu) / (double)w;
        double rs = 1 / sqrt(var + 1e-5);
        for (size_t i = 0; i < w; i++) {
            double n = (x[r * w + i] - mu) * rs, d = dy[r * w + i];
            wy[r * w + i] = n * weight[i] + bias[i];
            wdw[i] += d * n;
            wdb[i] += d;
            g += d * weight[i] / (double)w;
            gn += d * weight[i] * n / (double)w;
        }
        for (size_t i = 0; i < w; i++)
            wdx[r * w + i] = dx[r * w + i] + rs * (dy[r * w + i] * weight[i] - g - (x[r * w + i] - mu) * rs * gn);
    }
    kernel_layernorm_forward(y, mean, rstd, x, weight, bias, rows, w);
    kernel_layernorm_backward(dx, dw, db, dy, x, mean, rstd, weight, rows, w, true);
    check_close("layernorm", y, wy, rows * w, 2e-6);
    check_close("layernorm dx", dx, wdx, rows * w, 1e-5);
    check_close("layernorm dweight", dw, wdw, w, 5e-6);
    check_close("layernorm dbias", db, wdb, w, 5e-6);
    void *all[] = {x, weight, bias, dy, y, mean, rstd, dx, dw, db, wy, wdx, wdw, wdb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void layernorm_matches(void **state)
{
    (void)state;
    for (size_t i = 1; i < N_SIZES; i++)
        check_layernorm(odd_sizes[i][0], odd_sizes[i][1]);
}

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

static void embeddings_match(void **state)
{
    (void)state;
    enum { B = 3, T = 5, W = 131, V = 4, STRIDE = 6 };
    struct embedding_shape s = {B, T, W, STRIDE};
    int32_t tokens[B * STRIDE];
    for (int i = 0; i < B * STRIDE; i++)
        tokens[i] = (int32_t)(draw() % V);
    float *wte = random_floats(V * W, 1), *wpe = random_floats(T * W, 1), *y = poisoned(B * T * W);
    float *dy = random_floats(B * T * W, 1), *dwte = random_floats(V * W, 1), *dwpe = random_floats(T * W, 1);
    double *wdwte = calloc(V * W, 8), *wdwpe = calloc(T * W, 8);
    for (int i = 0; i < V * W; i++)
        wdwte[i] = dwte[i];
    for (int i = 0; i < T * W; i++)
        wdwpe[i] = dwpe[i];
    kernel_embedding_forward(y, tokens, wte, wpe, &s);
    kernel_embedding_backward(dwte, dwpe, dy, tokens, &s);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            for (int i = 0; i < W; i++) {
                int32_t token = tokens[b * STRIDE + t];
                assert_true(y[(b * T + t) * W + i] == wte[token * W + i] + wpe[t * W + i]);
                wdwte[token * W + i] += dy[(b * T + t) * W + i];
                wdwpe[t * W + i] += dy[(b * T + t) * W + i];
            }
    check_close("dwte", dwte, wdwte, V * W, 1e-6);
    check_close("dwpe", dwpe, wdwpe, T * W, 1e-6);
    free(wte), free(wpe), free(y), free(dy), free(dwte), free(dwpe), free(wdwte), free(wdwpe);
}

static void check_crossentropy(size_t rows, size_t v, float scale)
{
    float *x = random_floats(rows * v, scale);
    double *loss = calloc(rows, 8), *again = calloc(rows, 8), *want = calloc(rows * v, 8);
    int32_t *target = calloc(rows, 4);
    kernel_crossentropy_forward(again, x, target, rows, v);
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        target[r] = (int32_t)(draw() % v);
        for (size_t i = 0; i < v; i++)
            sum += exp((double)x[r * v + i]);
        for (size_t i = 0; i < v; i++)
            want[r * v + i] = 3 * (exp((double)x[r * v + i]) / sum - (i == (size_t)target[r]));
        loss[r] = log(sum) - x[r * v + (size_t)target[r]];
    }
    kernel_crossentropy_forward(again, x, target, rows, v);
    for (size_t r = 0; r < rows; r++)
        assert_true(fabs(loss[r] - again[r]) <= 1e-6 * (1 + fabs(loss[r])));
    kernel_crossentropy_backward(loss, x, target, 3, rows, v);
    assert_memory_equal(loss, again, rows * 8);
    check_close("crossentropy", x, want, rows * v, 3e-6);
    free(x), free(loss), free(again), free(want), free(target);
}

static void crossentropy_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        check_crossentropy(odd_sizes[i][0], odd_sizes[i][1], 5);
    check_crossentropy(5, 1000, 60); /* one class has all the probability, most exp are 0 */
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

/* All that a layer computes, into one buffer that is then compared. */
static float *everything(size_t *ret_n)
{
    enum { R = 600, I = 96, O = 1100 };
    struct attention_shape s = {3, 200, 96, 3};
    seed = 4;
    float *x = random_floats(R * I, 1), *w = random_floats(I * O, 1), *b = random_floats(O, 1);
    float *qkv = random_floats(R * 3 * I, 1), *dy = random_floats(R * O, 1);
    float *work = poisoned(kernel_attention_work_elems(&s)), *stats = poisoned(kernel_attention_stats_elems(&s));
    float *mean = poisoned(R), *rstd = poisoned(R);
    size_t n = 3 * R * O + R * I + I * O + O + R * I + 3 * R * I + R * I + I;
    float *all = calloc(n, sizeof *all), *y = all, *dx = y + R * O, *dw = dx + R * I, *db = dw + I * O, *att = db + O;
    float *dqkv = att + R * I, *norm = dqkv + 3 * R * I, *dbias = norm + R * I,
          *g = dbias + I, *slope = g + R * O;
    double *loss = calloc(R, 8);
    int32_t *target = calloc(R, 4);
    kernel_matmul(g, x, w, &(struct matmul){.m = R, .n = O, .k = I, .bias = b, .gelu = slope});
    kernel_matmul(y, x, w, &(struct matmul){.m = R, .n = O, .k = I, .bias = b});
    kernel_crossentropy_backward(loss, y, target, 1, R, O);
    kernel_linear_dweight(dw, db, dy, x, R, I, O);
    kernel_linear_din(dx, dy, w, x, R, I, O);
    kernel_attention_forward(att, stats, qkv, work, &s);
    kernel_attention_backward(dqkv, dx, qkv, stats, work, &s);
    kernel_layernorm_forward(norm, mean, rstd, att, w, b, R, I);
    kernel_layernorm_backward(norm, b, dbias, dx, att, mean, rstd, w, R, I, true);
    void *done[] = {x, w, b, qkv, dy, work, stats, mean, rstd, loss, target};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        free(done[i]);
    *ret_n = n;
    return all;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    size_t n;
    pool_set_threads(1);
    float *one = everything(&n);
    for (int threads = 2; threads <= 3; threads++) {
        pool_set_threads(threads);
        assert_int_equal(pool_threads(), threads);
        float *many = everything(&n);
        assert_memory_equal(one, many, n * sizeof *one);
        free(many);
    }
    pool_set_threads(1);
    free(one);
}

static void bits_do_not_depend_on_the_vector_width(void **state)
{
    (void)state;
    size_t n;
    float *wide = everything(&n);
    gemm_prefer_avx2(true);
    float *narrow = everything(&n);
    gemm_prefer_avx2(false);
    assert_memory_equal(wide, narrow, n * sizeof *wide);
    free(wide), free(narrow);
}

static void count_task(void *arg, size_t task, int worker)
{
    (void)worker;
    __atomic_fetch_add((int *)arg + task, 1, __ATOMIC_RELAXED);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    int count[N] = {0};
    pool_set_threads(3);
    for (int i = 0; i < 200; i++)
        pool_run(N, count_task, count);
    for (int i = 0; i < N; i++)
        assert_int_equal(count[i], 200);
    pool_run(0, count_task, NULL);
    pool_set_threads(1);
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
    cmocka_unit_test(functions_keep_their_error_bounds),
    cmocka_unit_test(layernorm_matches),
    cmocka_unit_test(gelu_matches),
    cmocka_unit_test(products_match),
    cmocka_unit_test(products_have_the_bits_that_are_stated),
    cmocka_unit_test(what_follows_a_product_matches),
    cmocka_unit_test(linear_layers_match),
    cmocka_unit_test(embeddings_match),
    cmocka_unit_test(crossentropy_matches),
    cmocka_unit_test(attention_matches),
    cmocka_unit_test(openblas_products_match),
    cmocka_unit_test(bits_do_not_depend_on_threads),
    cmocka_unit_test(bits_do_not_depend_on_the_vector_width),
    cmocka_unit_test(every_task_runs_once),
};

int main(void)
{
    return cmocka_run_group_tests(tests, open_blas, NULL);
}
