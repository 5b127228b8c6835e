/* kernels/cuda/layernorm.h against double precision. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/cuda/layernorm.h"
#include "t/lib/tensors.h"

struct size {
    bool bf16;
    size_t rows, width, offset; /* offset: elements by which every array starts off a 16-byte boundary */
    bool add;                   /* forward: with a residual; backward: accumulate */
};

struct want {
    double *out, *sum, *mean, *rstd, *din, *dweight, *dbias;
};

static double *doubles(size_t n)
{
    return calloc(n + 1, sizeof(double));
}

/* The statistics of in, and out. */
static void reference_forward(struct want *w, const double *in, const double *weight, const double *bias,
                              const struct size *s)
{
    for (size_t r = 0; r < s->rows; r++) {
        const double *x = in + r * s->width;
        double mean = 0, variance = 0;
        for (size_t i = 0; i < s->width; i++)
            mean += x[i] / (double)s->width;
        for (size_t i = 0; i < s->width; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)s->width;
        w->mean[r] = mean;
        w->rstd[r] = 1 / sqrt(variance + 1e-5);
        for (size_t i = 0; i < s->width; i++)
            w->out[r * s->width + i] = (x[i] - mean) * w->rstd[r] * weight[i] + bias[i];
    }
}

static void forward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    struct tensor in = tensor_random(s->bf16, n, s->offset, 3), add = tensor_random(s->bf16, n, s->offset, 2);
    struct tensor weight = tensor_random(false, s->width, s->offset, 2);
    struct tensor bias = tensor_random(false, s->width, s->offset, 2);
    struct tensor out = tensor_poisoned(s->bf16, n, s->offset), sum = tensor_poisoned(s->bf16, n, s->offset);
    struct tensor mean = tensor_poisoned(false, s->rows, 1), rstd = tensor_poisoned(false, s->rows, 1);
    void *other = s->add ? add.at : NULL;
    int rc = s->bf16 ? cuda_layernorm_forward_bf16(out.at, sum.at, mean.at, rstd.at, in.at, other, weight.at, bias.at,
                                                   s->rows, s->width, NULL)
                     : cuda_layernorm_forward_f32(out.at, sum.at, mean.at, rstd.at, in.at, other, weight.at, bias.at,
                                                  s->rows, s->width, NULL);
    device_check(rc, "layernorm forward");
    double *x = tensor_values(&in), *y = tensor_values(&add), *wv = tensor_values(&weight), *bv = tensor_values(&bias);
    struct want w = {.out = doubles(n), .mean = doubles(s->rows), .rstd = doubles(s->rows)};
    if (s->add) {
        for (size_t i = 0; i < n; i++)
            x[i] += y[i];
        tensor_check("sum", &sum, x, 1e-7);
        free(x);
        x = tensor_values(&sum); /* what is normalised is the rounded sum */
    }
    reference_forward(&w, x, wv, bv, s);
    tensor_check("out", &out, w.out, 2e-6);
    tensor_check("mean", &mean, w.mean, 2e-6);
    tensor_check("rstd", &rstd, w.rstd, 2e-6);
    struct tensor *all[] = {&out, &mean, &rstd, &sum, &in, &add, &weight, &bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tensor_hash(hash, all[i]);
        tensor_free(all[i]);
    }
    free(x), free(y), free(wv), free(bv), free(w.out), free(w.mean), free(w.rstd);
}

/* din, dweight and dbias are added to what is in w. */
static void reference_backward(struct want *w, const double *dout, const double *in, const double *weight,
                               const struct size *s)
{
    for (size_t r = 0; r < s->rows; r++) {
        const double *x = in + r * s->width, *dy = dout + r * s->width;
        double mean = w->mean[r], rstd = w->rstd[r], g = 0, gn = 0;
        for (size_t i = 0; i < s->width; i++) {
            double n = (x[i] - mean) * rstd;
            w->dweight[i] += dy[i] * n;
            w->dbias[i] += dy[i];
            g += dy[i] * weight[i] / (double)s->width;
            gn += dy[i] * weight[i] * n / (double)s->width;
        }
        for (size_t i = 0; i < s->width; i++)
            w->din[r * s->width + i] += rstd * (dy[i] * weight[i] - g - (x[i] - mean) * rstd * gn);
    }
}

static void backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width;
    struct tensor in = tensor_random(s->bf16, n, s->offset, 3), dout = tensor_random(s->bf16, n, s->offset, 1);
    struct tensor weight = tensor_random(false, s->width, s->offset, 2);
    struct tensor din = s->add ? tensor_random(s->bf16, n, s->offset, 1) : tensor_poisoned(s->bf16, n, s->offset);
    struct tensor dweight = tensor_random(false, s->width, 1, 1), dbias = tensor_random(false, s->width, 1, 1);
    struct tensor mean = tensor_random(false, s->rows, 0, 0.1f), rstd = tensor_random(false, s->rows, 0, 0.1f);
    struct tensor work = tensor_poisoned(false, cuda_layernorm_work_elems(s->rows, s->width), 1);
    double *x = tensor_values(&in), *dy = tensor_values(&dout), *wv = tensor_values(&weight);
    struct want w = {.out = doubles(n), .mean = doubles(s->rows), .rstd = doubles(s->rows)};
    w.din = s->add ? tensor_values(&din) : doubles(n);
    w.dweight = tensor_values(&dweight), w.dbias = tensor_values(&dbias);
    reference_forward(&w, x, wv, wv, s);
    for (size_t r = 0; r < s->rows; r++) {
        tensor_set(&mean, r, (float)w.mean[r]);
        tensor_set(&rstd, r, (float)w.rstd[r]);
    }
    int rc = s->bf16 ? cuda_layernorm_backward_bf16(din.at, dweight.at, dbias.at, work.at, dout.at, in.at, mean.at,
                                                    rstd.at, weight.at, s->rows, s->width, s->add, NULL)
                     : cuda_layernorm_backward_f32(din.at, dweight.at, dbias.at, work.at, dout.at, in.at, mean.at,
                                                   rstd.at, weight.at, s->rows, s->width, s->add, NULL);
    device_check(rc, "layernorm backward");
    reference_backward(&w, dy, x, wv, s);
    tensor_check("din", &din, w.din, 1e-5);
    tensor_check("dweight", &dweight, w.dweight, 5e-6);
    tensor_check("dbias", &dbias, w.dbias, 5e-6);
    struct tensor *all[] = {&din, &dweight, &dbias, &in, &dout, &weight, &mean, &rstd, &work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tensor_hash(hash, all[i]);
        tensor_free(all[i]);
    }
    free(x), free(dy), free(wv), free(w.out), free(w.mean), free(w.rstd), free(w.din), free(w.dweight), free(w.dbias);
}

/* Not narrower than 7: of few elements the gradient is a difference of equals. */
static const struct size sizes[] = {
    {false, 1, 7, 0, false},    {false, 5, 33, 1, true},  {false, 9, 768, 0, true}, {false, 3, 1024, 0, false},
    {false, 2, 1600, 0, true},  {false, 7, 1033, 3, false}, {true, 1, 8, 0, true},  {true, 4, 17, 3, false},
    {true, 13, 768, 0, false},  {true, 6, 1280, 0, true},   {true, 3, 1601, 1, true}, {true, 2, 1025, 0, false},
    {true, 3, 2500, 0, true},   {true, 2, 6144, 0, false},
};

static void forward_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        in_every_order(forward, &sizes[i]);
}

static void backward_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        in_every_order(backward, &sizes[i]);
}

/* More rows than warps: each takes several. */
static void warps_take_several_rows(void **state)
{
    (void)state;
    struct size s = {true, 2200, 16, 0, true};
    in_every_order(backward, &s);
}

static void no_rows_are_nothing_and_bad_widths_are_refused(void **state)
{
    (void)state;
    assert_int_equal(cuda_layernorm_forward_f32(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 8, NULL), 0);
    assert_int_equal(
        cuda_layernorm_backward_f32(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 8, false, NULL), 0);
    assert_int_not_equal(cuda_layernorm_forward_f32(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, NULL), 0);
    assert_int_not_equal(cuda_layernorm_backward_f32(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1,
                                                     CUDA_LAYERNORM_WIDTH_MAX + 1, false, NULL),
                         0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_matches),
    cmocka_unit_test(backward_matches),
    cmocka_unit_test(warps_take_several_rows),
    cmocka_unit_test(no_rows_are_nothing_and_bad_widths_are_refused),
};

TENSORS_MAIN(tests)
