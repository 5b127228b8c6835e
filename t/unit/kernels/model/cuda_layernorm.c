/* kernels/model/cuda/layernorm.h against double precision. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/cuda/layernorm.h"
#include "t/lib/tensors.h"

struct size {
    enum ddp_dtype branch;
    size_t rows, width, offset; /* offset: elements by which every array starts off a 16-byte boundary */
    bool accumulate;            /* backward */
};

static bool is_large; /* inputs, so that float16 cannot hold all that comes out */

struct want {
    double *out, *mean, *rstd, *din, *dweight, *dbias, *before;
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
    size_t n = s->rows * s->width, o = s->offset;
    struct tensor in = tensor_random(DDP_F32, n, o, 3), out = tensor_poisoned(s->branch, n, o);
    struct tensor weight = tensor_random(DDP_F32, s->width, o, is_large ? 6e4f : 2);
    struct tensor bias = tensor_random(DDP_F32, s->width, o, 2);
    struct tensor mean = tensor_poisoned(DDP_F32, s->rows, 1), rstd = tensor_poisoned(DDP_F32, s->rows, 1);
    int rc = cuda_layernorm_forward(s->branch, out.at, mean.at, rstd.at, in.at, weight.at, bias.at, s->rows, s->width,
                                    NULL);
    device_check(rc, "layernorm forward");
    double *x = tensor_values(&in), *wv = tensor_values(&weight), *bv = tensor_values(&bias);
    struct want w = {.out = doubles(n), .mean = doubles(s->rows), .rstd = doubles(s->rows)};
    reference_forward(&w, x, wv, bv, s);
    tensor_check("out", &out, w.out, 2e-6);
    tensor_check("mean", &mean, w.mean, 2e-6);
    tensor_check("rstd", &rstd, w.rstd, 2e-6);
    tensors_end(hash, &out, &mean, &rstd, &in, &weight, &bias);
    free(x), free(wv), free(bv), free(w.out), free(w.mean), free(w.rstd);
}

/* din, dweight and dbias are added to what is in w, and the columns of din to before. */
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
        for (size_t i = 0; i < s->width; i++) {
            double *din = &w->din[r * s->width + i];
            *din += rstd * (dy[i] * weight[i] - g - (x[i] - mean) * rstd * gn);
            w->before[i] += *din;
        }
    }
}

/* The tensors of a backward pass. */
struct pass {
    struct tensor in, dout, weight, din, branch, dweight, dbias, before, mean, rstd, work;
};

/* Before the norm, whose bias has a gradient too. */
static bool has_branch(const struct size *s)
{
    return s->offset % 2 == 0;
}

static int run_backward(const struct pass *p, const struct size *s)
{
    void *branch = has_branch(s) ? p->branch.at : NULL, *before = has_branch(s) ? p->before.at : NULL;
    return cuda_layernorm_backward(s->branch, p->din.at, branch, p->dweight.at, p->dbias.at, before, p->work.at,
                                   p->dout.at, p->in.at, p->mean.at, p->rstd.at, p->weight.at, s->rows, s->width,
                                   s->accumulate, NULL);
}

/* What the branch gets is din, rounded to nearest even; where it was not asked for, it is untouched. */
static void check_branch(const struct pass *p, const struct size *s)
{
    double *din = tensor_values(&p->din), *got = tensor_values(&p->branch);
    bool is_asked = s->branch != DDP_F32 && has_branch(s);
    struct tensor want = tensor_poisoned(s->branch, p->din.n, 0);
    for (size_t i = 0; i < p->din.n && is_asked; i++)
        tensor_set(&want, i, (float)din[i]);
    double *rounded = tensor_values(&want);
    assert_memory_equal(got, rounded, p->din.n * sizeof *got);
    tensor_free(&want);
    free(din), free(got), free(rounded);
}

static void backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->rows * s->width, o = s->offset;
    struct pass p = {.in = tensor_random(DDP_F32, n, o, 3)};
    p.dout = tensor_random(s->branch, n, o, is_large ? 6e4f : 1);
    p.weight = tensor_random(DDP_F32, s->width, o, 2);
    p.din = s->accumulate ? tensor_random(DDP_F32, n, o, 1) : tensor_poisoned(DDP_F32, n, o);
    p.branch = tensor_poisoned(s->branch, n, o);
    p.dweight = tensor_random(DDP_F32, s->width, 1, 1), p.dbias = tensor_random(DDP_F32, s->width, 1, 1);
    p.before = tensor_random(DDP_F32, s->width, 1, 1);
    p.mean = tensor_random(DDP_F32, s->rows, 0, 0.1f), p.rstd = tensor_random(DDP_F32, s->rows, 0, 0.1f);
    p.work = tensor_poisoned(DDP_F32, cuda_layernorm_work_elems(s->rows, s->width), 1);
    double *x = tensor_values(&p.in), *dy = tensor_values(&p.dout), *wv = tensor_values(&p.weight);
    struct want w = {.out = doubles(n), .mean = doubles(s->rows), .rstd = doubles(s->rows)};
    w.din = s->accumulate ? tensor_values(&p.din) : doubles(n);
    w.dweight = tensor_values(&p.dweight), w.dbias = tensor_values(&p.dbias), w.before = tensor_values(&p.before);
    double *untouched = tensor_values(&p.before);
    reference_forward(&w, x, wv, wv, s);
    for (size_t r = 0; r < s->rows; r++) {
        tensor_set(&p.mean, r, (float)w.mean[r]);
        tensor_set(&p.rstd, r, (float)w.rstd[r]);
    }
    device_check(run_backward(&p, s), "layernorm backward");
    reference_backward(&w, dy, x, wv, s);
    tensor_check("din", &p.din, w.din, 1e-5);
    tensor_check("dweight", &p.dweight, w.dweight, 5e-6);
    tensor_check("dbias", &p.dbias, w.dbias, 5e-6);
    tensor_check("dbias before", &p.before, has_branch(s) ? w.before : untouched, has_branch(s) ? 1e-5 : 0);
    check_branch(&p, s);
    tensors_end(hash, &p.din, &p.branch, &p.dweight, &p.dbias, &p.before, &p.in, &p.dout, &p.weight, &p.mean, &p.rstd,
                &p.work);
    free(x), free(dy), free(wv), free(w.out), free(w.mean), free(w.rstd), free(w.din), free(w.dweight), free(w.dbias);
    free(w.before), free(untouched);
}

/* Not narrower than 7: of few elements the gradient is a difference of equals. */
static const struct size sizes[] = {
    {DDP_F32, 1, 7, 0, false},     {DDP_F32, 5, 33, 1, true},     {DDP_F32, 9, 768, 0, true},
    {DDP_F32, 3, 1024, 0, false},  {DDP_F32, 2, 1600, 0, true},   {DDP_F32, 7, 1033, 3, false},
    {DDP_F32, 3, 2500, 0, true},   {DDP_F32, 2, 6144, 0, false},  {DDP_BF16, 1, 8, 0, true},
    {DDP_BF16, 4, 17, 3, false},   {DDP_BF16, 9, 768, 0, true},   {DDP_BF16, 3, 33, 2, true},
    {DDP_BF16, 5, 1028, 1, true},  {DDP_BF16, 2, 2504, 0, false}, {DDP_BF16, 3, 1600, 0, true},
    {DDP_BF16, 6, 1280, 0, false}, {DDP_BF16, 2, 6144, 0, false}, {DDP_F16, 1, 8, 0, true},
    {DDP_F16, 9, 768, 0, true},    {DDP_F16, 4, 17, 3, false},    {DDP_F16, 3, 33, 2, true},
    {DDP_F16, 2, 1160, 0, false},  {DDP_F16, 3, 1033, 3, true},
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
}

/* Some of what comes out is beyond float16's range: infinite, and the rest is right (tensor_check). */
static void what_float16_cannot_hold_is_infinite(void **state)
{
    (void)state;
    static const struct size f16[] = {{DDP_F16, 5, 72, 0, true}, {DDP_F16, 4, 50, 2, false}};
    is_large = true;
    each_in_every_order(forward, f16);
    each_in_every_order(backward, f16);
    is_large = false;
}

/* More rows than blocks take at once: some take several, and of two at a time one has a single one at the end. */
static void blocks_take_several_rows(void **state)
{
    (void)state;
    struct size pairs = {DDP_BF16, 1 << 20, 512, 0, true}, singles = {DDP_F32, 1 << 20, 1540, 0, true};
    pairs.rows = 2 * cuda_layernorm_work_elems(pairs.rows, pairs.width) / (3 * pairs.width) + 3;
    in_every_order(backward, &pairs);
    singles.rows = cuda_layernorm_work_elems(singles.rows, singles.width) / (3 * singles.width) + 2;
    in_every_order(backward, &singles);
}

static int forward_of_nothing(enum ddp_dtype branch, size_t rows, size_t width)
{
    return cuda_layernorm_forward(branch, NULL, NULL, NULL, NULL, NULL, NULL, rows, width, NULL);
}

static int backward_of_nothing(enum ddp_dtype branch, size_t rows, size_t width)
{
    return cuda_layernorm_backward(branch, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, rows,
                                   width, false, NULL);
}

static void no_rows_are_nothing_and_others_are_refused(void **state)
{
    (void)state;
    assert_int_equal(forward_of_nothing(DDP_F32, 0, 8), 0);
    assert_int_equal(backward_of_nothing(DDP_F32, 0, 8), 0);
    assert_int_equal(backward_of_nothing(DDP_BF16, 0, 8), 0);
    assert_int_not_equal(forward_of_nothing(DDP_F32, 1, 0), 0);
    assert_int_not_equal(backward_of_nothing(DDP_F32, 1, CUDA_LAYERNORM_WIDTH_MAX + 1), 0);
    assert_int_not_equal(forward_of_nothing(DDP_F64, 0, 8), 0);
    assert_int_not_equal(backward_of_nothing(DDP_F64, 0, 8), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_matches),
    cmocka_unit_test(backward_matches),
    cmocka_unit_test(what_float16_cannot_hold_is_infinite),
    cmocka_unit_test(blocks_take_several_rows),
    cmocka_unit_test(no_rows_are_nothing_and_others_are_refused),
};

TENSORS_MAIN(tests)
