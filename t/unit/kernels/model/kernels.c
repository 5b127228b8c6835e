/* The model's kernels but for matrix products (matmul.c), and that no bit depends on threads or vectors. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/bits.h"
#include "kernels/model/attention.h"
#include "kernels/model/cpu/gemm.h"
#include "kernels/model/cpu/mathfun.h"
#include "kernels/model/cpu/pool.h"
#include "kernels/model/crossentropy.h"
#include "kernels/model/embedding.h"
#include "kernels/model/layernorm.h"
#include "kernels/model/matmul.h"
#include "t/lib/floats.h"

/* The range of math_exp's bound. */
#define EXP_MIN (-87.3f)
#define EXP_MAX 88.3f

static double ulps(float got, double want)
{
    float near = fabsf((float)want);
    return fabs((double)got - want) / (double)(nextafterf(near, INFINITY) - near);
}

static void functions_keep_their_error_bounds(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t b = 0; b <= UINT32_MAX; b += 1009) {
        float x = f32_from_bits((uint32_t)b);
        if (x >= EXP_MIN && x <= EXP_MAX)
            worst = fmax(worst, ulps(math_exp(x), exp((double)x)));
    }
    print_message("# worst: %.2f ulp\n", worst);
    assert_true(worst <= 2);
    assert_true(math_exp(0) == 1);
    assert_true(math_exp(-88) == 0 && math_exp(-INFINITY) == 0);
    /* on the way to 0, and from the greatest to inf */
    for (float x = EXP_MIN; x > -89; x = nextafterf(x, -INFINITY))
        assert_true(fabs(math_exp(x) - exp((double)x)) < 1.2e-38);
    for (float x = EXP_MAX; x < 89; x = nextafterf(x, INFINITY))
        assert_true(ulps(math_exp(x), exp((double)x)) <= 2 || (x > 88.37f && math_exp(x) == INFINITY));
    assert_true(math_exp(89) == INFINITY && math_exp(INFINITY) == INFINITY);
    assert_true(isnan(math_exp(NAN)));
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

/* All that a layer computes, into one buffer that is then compared. */
static float *everything(size_t *ret_n)
{
    enum { R = 600, I = 96, O = 1100 };
    struct attention_shape s = {3, 200, 96, 3};
    seed_floats(4);
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
    cmocka_unit_test(embeddings_match),
    cmocka_unit_test(crossentropy_matches),
    cmocka_unit_test(bits_do_not_depend_on_threads),
    cmocka_unit_test(bits_do_not_depend_on_the_vector_width),
    cmocka_unit_test(every_task_runs_once),
};

int main(void)
{
    return cmocka_run_group_tests(tests, open_blas, NULL);
}
