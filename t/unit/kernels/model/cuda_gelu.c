/* kernels/model/cuda/gelu.h against double precision. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/cuda/bias.h"
#include "kernels/model/cuda/gelu.h"
#include "t/lib/tensors.h"

struct size {
    enum ddp_dtype type;
    bool bias;
    size_t rows, width, offset; /* offset: elements by which every array starts off a 16-byte boundary */
};

static bool is_large; /* inputs, so that float16 cannot hold all that comes out */

static double tanh_of(double x)
{
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu(double x)
{
    return x / 2 * (1 + tanh_of(x));
}

static double gelu_slope(double x)
{
    double t = tanh_of(x);
    return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static double *with_bias(const struct tensor *in, const struct tensor *bias, const struct size *s)
{
    double *x = tensor_values(in), *b = tensor_values(bias);
    for (size_t i = 0; s->bias && i < in->n; i++)
        x[i] += b[i % s->width];
    free(b);
    return x;
}

static void forward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    float by = is_large ? 1e4f : 1;
    struct tensor in = tensor_random(s->type, n, s->offset, 6 * by);
    struct tensor bias = tensor_random(DDP_F32, s->width, s->offset, 3 * by);
    struct tensor out = tensor_poisoned(s->type, n, s->offset);
    void *b = s->bias ? bias.at : NULL;
    device_check(cuda_gelu_forward(s->type, out.at, in.at, b, s->rows, s->width, NULL), "gelu forward");
    double *want = with_bias(&in, &bias, s);
    for (size_t i = 0; i < n; i++)
        want[i] = gelu(want[i]);
    tensor_check("out", &out, want, 2e-6);
    tensors_end(hash, &in, &bias, &out);
    free(want);
}

/* In place on dout, as the model does it. */
static void backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    struct tensor in = tensor_random(s->type, n, s->offset, 6), bias = tensor_random(DDP_F32, s->width, s->offset, 3);
    struct tensor din = tensor_random(s->type, n, s->offset, is_large ? 65500 : 1);
    struct tensor dbias = tensor_random(DDP_F32, s->width, 1, 1);
    struct tensor work = tensor_poisoned(DDP_F32, cuda_gelu_work_elems(s->rows, s->width), 1);
    double *x = with_bias(&in, &bias, s), *want = tensor_values(&din), *sums = tensor_values(&dbias);
    void *b = s->bias ? bias.at : NULL;
    device_check(cuda_gelu_backward(s->type, din.at, dbias.at, work.at, din.at, in.at, b, s->rows, s->width, NULL),
                 "gelu backward");
    for (size_t i = 0; i < n; i++) {
        want[i] *= gelu_slope(x[i]);
        sums[i % s->width] += want[i];
    }
    tensor_check("din", &din, want, 5e-6);
    tensor_check("dbias", &dbias, sums, 3e-6);
    tensors_end(hash, &in, &bias, &din, &dbias, &work);
    free(x), free(want), free(sums);
}

static void backward_without_sums(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    struct tensor in = tensor_random(s->type, n, s->offset, 6), dout = tensor_random(s->type, n, s->offset, 1);
    struct tensor din = tensor_poisoned(s->type, n, s->offset);
    double *x = tensor_values(&in), *want = tensor_values(&dout);
    device_check(cuda_gelu_backward(s->type, din.at, NULL, NULL, dout.at, in.at, NULL, s->rows, s->width, NULL),
                 "gelu backward");
    for (size_t i = 0; i < n; i++)
        want[i] *= gelu_slope(x[i]);
    tensor_check("din", &din, want, 5e-6);
    tensors_end(hash, &in, &dout, &din);
    free(x), free(want);
}

static void bias_backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    struct tensor dout = tensor_random(s->type, n, s->offset, 1), dbias = tensor_random(DDP_F32, s->width, 0, 1);
    struct tensor work = tensor_poisoned(DDP_F32, cuda_gelu_work_elems(s->rows, s->width), 0);
    double *dy = tensor_values(&dout), *sums = tensor_values(&dbias);
    device_check(cuda_bias_backward(s->type, dbias.at, work.at, dout.at, s->rows, s->width, NULL), "bias backward");
    for (size_t i = 0; i < n; i++)
        sums[i % s->width] += dy[i];
    tensor_check("dbias", &dbias, sums, 3e-6);
    tensors_end(hash, &dout, &dbias, &work);
    free(dy), free(sums);
}

static const struct size sizes[] = {
    {DDP_F16, true, 9, 40, 0},    {DDP_F16, false, 7, 35, 3},   {DDP_F16, true, 3, 520, 0},
    {DDP_F32, true, 1, 1, 0},     {DDP_F32, true, 7, 129, 1},   {DDP_F32, false, 3, 512, 0},
    {DDP_BF16, true, 1, 8, 0},    {DDP_BF16, false, 9, 35, 3},  {DDP_BF16, true, 5, 1032, 0},
    {DDP_BF16, true, 70, 257, 1}, {DDP_F32, true, 2, 3072, 0},  {DDP_BF16, true, 3, 35, 0},
    {DDP_F32, true, 4, 30, 0},
};

static void forward_matches(void **state)
{
    (void)state;
    each_in_every_order(forward, sizes);
}

static void backward_matches(void **state)
{
    (void)state;
    each_in_every_order(backward, sizes);
    each_in_every_order(backward_without_sums, sizes);
}

static void bias_backward_matches(void **state)
{
    (void)state;
    each_in_every_order(bias_backward, sizes);
}

/* Some of what comes out is beyond float16's range: infinite, and the rest is right (tensor_check). */
static void what_float16_cannot_hold_is_infinite(void **state)
{
    (void)state;
    static const struct size f16[] = {{DDP_F16, true, 5, 64, 1}, {DDP_F16, true, 2, 72, 0}};
    is_large = true;
    each_in_every_order(forward, f16);
    each_in_every_order(backward, f16);
    is_large = false;
}

/* More rows than the strips' warps take in one go. */
static void strips_of_many_rows(void **state)
{
    (void)state;
    struct size s = {DDP_BF16, true, 1100, 24, 0};
    in_every_order(backward, &s);
}

/* gelu and its slope of n inputs, one row. */
static void gelu_of(float *ret, float *ret_slope, const float *x, const float *bias, size_t n)
{
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    void *in = device_bytes(x, n * sizeof *x), *out = device_bytes(NULL, n * sizeof *x);
    void *dout = device_bytes(ones, n * sizeof *x), *b = bias ? device_bytes(bias, n * sizeof *x) : NULL;
    device_check(cuda_gelu_forward(DDP_F32, out, in, b, 1, n, NULL), "gelu forward");
    device_fetch(ret, out, n * sizeof *x);
    device_check(cuda_gelu_backward(DDP_F32, out, NULL, NULL, dout, in, b, 1, n, NULL), "gelu backward");
    device_fetch(ret_slope, out, n * sizeof *x);
    device_drop(in), device_drop(out), device_drop(dout), device_drop(b);
    free(ones);
}

static void large_arguments_saturate(void **state)
{
    (void)state;
    float x[] = {-1e12f, -1e4f, -40, -15, 40, 1e4f, 1e9f, 1e12f}, got[8], slope[8];
    gelu_of(got, slope, x, NULL, 8);
    for (int i = 0; i < 8; i++) {
        float want = x[i] < 0 ? 0 : x[i], want_slope = x[i] < 0 ? 0 : 1;
        assert_true(fabsf(got[i] - want) <= 0x1p-22f * want && fabsf(slope[i] - want_slope) <= 0x1p-22f * want_slope);
    }
}

/* As gelu.h says, over all of where gelu is neither 0 nor x. */
static void errors_are_as_stated(void **state)
{
    (void)state;
    enum { COUNT = 1 << 14 };
    float *x = malloc(3 * COUNT * sizeof *x), *got = x + COUNT, *slope = got + COUNT;
    for (int i = 0; i < COUNT; i++)
        x[i] = -12 + 24 * (float)i / COUNT;
    gelu_of(got, slope, x, NULL, COUNT);
    for (int i = 0; i < COUNT; i++) {
        double want = gelu(x[i]), want_slope = gelu_slope(x[i]);
        if (!(fabs(got[i] - want) <= 0x1p-20 * fabs(want) + 1e-7 && fabs(slope[i] - want_slope) <= 0x1p-19))
            fail_msg("gelu(%.9g) = %.9g, slope %.9g; want %.9g and %.9g", x[i], got[i], slope[i], want, want_slope);
    }
    free(x);
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    float x[] = {INFINITY, NAN, -INFINITY, 1, 0, -0.0f}, bias[] = {0, 0, 0, NAN, 0, 0}, got[6], slope[6];
    gelu_of(got, slope, x, bias, 6);
    assert_true(got[0] == INFINITY && got[4] == 0 && got[5] == 0);
    for (int i = 1; i < 4; i++) /* 0 times infinity */
        assert_true(isnan(got[i]));
    for (int i = 0; i < 4; i++)
        assert_true(isnan(slope[i]));
    assert_true(slope[4] > 0.499999f && slope[4] < 0.500001f && slope[5] == slope[4]);
}

struct zero_gpu {
    size_t rows, width;
    enum ddp_dtype type;
    bool add;
};

static void spread(const void *arg, uint64_t *hash)
{
    const struct zero_gpu *x = arg;
    size_t n = x->rows * x->width;
    struct tensor bias = tensor_random(x->type, x->width, 0, 1);
    struct tensor add = tensor_random(x->type, n, 0, 1);
    struct tensor out = tensor_random(x->type, n, 0, 1);
    double *b = tensor_values(&bias), *a = tensor_values(&add), *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        want[i] = b[i % x->width] + (x->add ? a[i] : 0);
    device_check(cuda_bias_rows(out.at, x->add ? add.at : NULL, bias.at, x->rows, x->width, x->type, NULL),
                 "cuda_bias_rows");
    tensor_check("out", &out, want, 2e-7);
    tensor_hash(hash, &out);
    free(a), free(b), free(want);
    tensor_free(&bias), tensor_free(&add), tensor_free(&out);
}

static void a_bias_lies_on_every_row(void **state)
{
    (void)state;
    static const enum ddp_dtype types[] = {DDP_F32, DDP_BF16, DDP_F16};
    for (int i = 0; i < 12; i++) {
        struct zero_gpu x = {.rows = 5, .width = i & 1 ? 1037 : 64, .type = types[i / 4], .add = i & 2};
        in_every_order(spread, &x);
    }
}

static void other_types_and_starts_are_refused(void **state)
{
    (void)state;
    struct tensor t = tensor_random(DDP_F32, 8, 0, 1);
    void *off = (char *)t.at + 4;
    assert_int_not_equal(cuda_bias_rows(off, NULL, t.at, 1, 4, DDP_F32, NULL), 0);
    assert_int_not_equal(cuda_bias_rows(t.at, off, t.at, 1, 4, DDP_F32, NULL), 0);
    assert_int_not_equal(cuda_bias_rows(t.at, NULL, off, 1, 4, DDP_F32, NULL), 0);
    tensor_free(&t);
    assert_int_not_equal(cuda_gelu_forward(DDP_F64, NULL, NULL, NULL, 0, 4, NULL), 0);
    assert_int_not_equal(cuda_gelu_backward(DDP_F64, NULL, NULL, NULL, NULL, NULL, NULL, 0, 4, NULL), 0);
    assert_int_not_equal(cuda_bias_backward(DDP_I32, NULL, NULL, NULL, 0, 4, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_matches),
    cmocka_unit_test(backward_matches),
    cmocka_unit_test(bias_backward_matches),
    cmocka_unit_test(what_float16_cannot_hold_is_infinite),
    cmocka_unit_test(strips_of_many_rows),
    cmocka_unit_test(large_arguments_saturate),
    cmocka_unit_test(errors_are_as_stated),
    cmocka_unit_test(what_is_not_finite_stays_so),
    cmocka_unit_test(a_bias_lies_on_every_row),
    cmocka_unit_test(other_types_and_starts_are_refused),
};

TENSORS_MAIN(tests)
