/* kernels/model/cuda/crossentropy.h against double precision. */
#include "t/unit/unit.h"

#include <float.h>
#include <math.h>

#include "kernels/model/cuda/crossentropy.h"
#include "t/lib/tensors.h"

struct size {
    enum ddp_dtype type;
    size_t rows, vocab, stride, offset; /* offset: elements by which the logits start off a 16-byte boundary */
    float scale;
};

static float grad_scale = 0.75f;

static void *random_targets(int32_t *target, const struct size *s)
{
    for (size_t r = 0; r < s->rows; r++)
        target[r] = (int32_t)(r == 0 ? s->vocab - 1 : draw() % s->vocab);
    return device_bytes(target, s->rows * sizeof *target);
}

/* x becomes its gradient; the columns from vocab to stride 0. */
static void reference(double *loss, double *x, const int32_t *target, const struct size *s)
{
    for (size_t r = 0; r < s->rows; r++) {
        double *row = x + r * s->stride, sum = 0, max = row[0];
        for (size_t i = 0; i < s->vocab; i++)
            max = fmax(max, row[i]);
        for (size_t i = 0; i < s->vocab; i++)
            sum += exp(row[i] - max);
        loss[r] = log(sum) + (max - row[target[r]]);
        for (size_t i = 0; i < s->stride; i++)
            row[i] = i < s->vocab ? (double)grad_scale * (exp(row[i] - max) / sum - (i == (size_t)target[r])) : 0;
    }
}

static void check_losses(const char *what, void *device, const double *want, const struct size *s, uint64_t *hash)
{
    double *got = malloc(s->rows * sizeof *got);
    device_fetch(got, device, s->rows * sizeof *got);
    for (size_t r = 0; r < s->rows; r++) {
        if (!(fabs(got[r] - want[r]) <= 1e-6 * fmax(1, want[r])))
            fail_msg("%s: loss[%zu] of %zu: %.9g, want %.9g", what, r, s->rows, got[r], want[r]);
        uint64_t bits;
        memcpy(&bits, &got[r], sizeof bits);
        *hash = (*hash ^ bits) * 1099511628211u;
    }
    free(got);
}

static void check(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    int32_t *target = calloc(s->rows, sizeof *target);
    double *want = calloc(s->rows, sizeof *want), *poison = malloc(s->rows * sizeof *poison);
    struct tensor x = tensor_random(s->type, s->rows * s->stride, s->offset, s->scale);
    memset(poison, 0xff, s->rows * sizeof *poison);
    void *targets = random_targets(target, s);
    void *forward = device_bytes(poison, s->rows * sizeof *poison);
    void *both = device_bytes(poison, s->rows * sizeof *poison);
    double *grad = tensor_values(&x);
    for (size_t r = 0; r < s->rows; r++) /* must not be read */
        for (size_t i = s->vocab; i < s->stride; i++)
            tensor_set(&x, r * s->stride + i, 6e4f);
    struct tensor same = tensor_copy(&x);
    device_check(cuda_crossentropy_forward(s->type, forward, x.at, targets, s->rows, s->vocab, s->stride, NULL),
                 "forward");
    uint64_t before = 0, after = 0;
    tensor_hash(&before, &same);
    tensor_hash(&after, &x);
    assert_true(before == after);
    int rc = cuda_crossentropy_backward(s->type, both, x.at, targets, grad_scale, s->rows, s->vocab, s->stride,
                                        NULL);
    device_check(rc, "backward");
    reference(want, grad, target, s);
    check_losses("forward", forward, want, s, hash);
    check_losses("backward", both, want, s, hash);
    tensor_check("gradient", &x, grad, 2e-6);
    tensors_end(hash, &x, &same);
    device_drop(targets), device_drop(forward), device_drop(both);
    free(target), free(want), free(poison), free(grad);
}

static const struct size sizes[] = {
    {DDP_F16, 1, 7, 7, 3, 3},          {DDP_F16, 5, 33, 40, 7, 3},        {DDP_F16, 2, 5025, 5056, 0, 9},
    {DDP_F16, 2, 8191, 8191, 1, 60},   {DDP_F32, 1, 1, 1, 0, 3},          {DDP_F32, 3, 5, 8, 1, 3},
    {DDP_F32, 4, 513, 513, 3, 5},      {DDP_F32, 2, 50257, 50257, 0, 9},  {DDP_F32, 3, 2049, 2100, 2, 80},
    {DDP_BF16, 1, 7, 7, 3, 3},         {DDP_BF16, 5, 33, 40, 7, 3},       {DDP_BF16, 2, 50257, 50304, 0, 9},
    {DDP_BF16, 2, 50257, 50257, 5, 9}, {DDP_BF16, 4, 8191, 8191, 1, 60},
};

static void matches(void **state)
{
    (void)state;
    each_in_every_order(check, sizes);
}

/* Some of what comes out is beyond float16's range: infinite, and the rest is right (tensor_check). */
static void what_float16_cannot_hold_is_infinite(void **state)
{
    (void)state;
    static const struct size f16[] = {{DDP_F16, 3, 1000, 1008, 0, 3}, {DDP_F16, 2, 35, 37, 5, 3}};
    grad_scale = 1e5f;
    each_in_every_order(check, f16);
    grad_scale = 0.75f;
}

/* What crossentropy.h says of errors, of n logits that are at random about a common one. */
static void check_errors(size_t n, float scale, float common)
{
    struct size s = {DDP_F32, 1, n, n, 0, scale};
    struct tensor x = tensor_random(DDP_F32, n, 0, scale);
    double *want = tensor_values(&x), loss = NAN, want_loss;
    uint64_t hash = 0;
    int32_t target = (int32_t)(n / 3);
    for (size_t i = 0; i < n; i++)
        tensor_set(&x, i, (float)want[i] + common);
    free(want);
    want = tensor_values(&x);
    reference(&want_loss, want, &target, &s);
    void *targets = device_bytes(&target, sizeof target), *losses = device_bytes(&loss, sizeof loss);
    device_check(cuda_crossentropy_backward(DDP_F32, losses, x.at, targets, grad_scale, 1, n, n, NULL), "backward");
    check_losses("sweep", losses, &want_loss, &s, &hash);
    tensor_check("sweep's gradient", &x, want, 2e-6 * (double)grad_scale);
    tensor_free(&x);
    free(want);
    device_drop(targets), device_drop(losses);
}

static void errors_are_as_stated(void **state)
{
    (void)state;
    static const float scales[] = {0, 1e-3f, 1, 5, 20, 100, 1e4f, 1e10f, 1e38f};
    static const float commons[] = {0, -50, 1e3f, -1e7f, 3e38f};
    static const size_t widths[] = {1, 2, 31, 4096, 50257};
    grad_scale = 1;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
            for (size_t k = 0; k < sizeof commons / sizeof *commons; k++)
                if (scales[i] + fabsf(commons[k]) < FLT_MAX)
                    check_errors(widths[w], scales[i], commons[k]);
    grad_scale = 0.75f;
}

/* Two of n logits are possible, `target` and `other`: of most threads' pieces none. */
static void check_impossible(size_t n, size_t target, size_t other)
{
    struct tensor x = tensor_random(DDP_F32, n, 0, 1);
    double loss = NAN, *want = calloc(n, sizeof *want);
    int32_t index = (int32_t)target;
    void *targets = device_bytes(&index, sizeof index), *losses = device_bytes(&loss, sizeof loss);
    for (size_t i = 0; i < n; i++)
        tensor_set(&x, i, i == target || i == other ? 2 : -INFINITY);
    device_check(cuda_crossentropy_backward(DDP_F32, losses, x.at, targets, 2, 1, n, n, NULL), "backward");
    device_fetch(&loss, losses, sizeof loss);
    assert_true(fabs(loss - log(2)) < 1e-6);
    want[target] = -1, want[other] = 1;
    tensor_check("gradient", &x, want, 1e-6);
    tensor_free(&x);
    free(want);
    device_drop(targets), device_drop(losses);
}

static void impossible_probabilities_are_zero(void **state)
{
    (void)state;
    check_impossible(4, 1, 3);
    check_impossible(599, 5, 570);
    check_impossible(599, 598, 0);
}

/* Where none is possible, or one infinitely so, there is no loss to tell. */
static void infinite_logits_give_no_number(void **state)
{
    (void)state;
    static const float logits[][3] = {{1, INFINITY, 2}, {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < 2; i++) {
        int32_t target = 1;
        double loss = 0;
        void *x = device_bytes(logits[i], sizeof logits[i]), *targets = device_bytes(&target, sizeof target);
        void *losses = device_bytes(&loss, sizeof loss);
        device_check(cuda_crossentropy_forward(DDP_F32, losses, x, targets, 1, 3, 3, NULL), "forward");
        device_fetch(&loss, losses, sizeof loss);
        assert_true(isnan(loss));
        device_drop(x), device_drop(targets), device_drop(losses);
    }
}

/* A NaN anywhere is a NaN in the loss: it must not be lost in a maximum. */
static void nan_is_not_lost(void **state)
{
    (void)state;
    for (size_t at = 0; at < 600; at += 599) {
        struct tensor x = tensor_random(DDP_BF16, 600, 0, 1);
        int32_t target = 3;
        double loss = 0;
        void *targets = device_bytes(&target, sizeof target), *losses = device_bytes(&loss, sizeof loss);
        tensor_set(&x, at, NAN);
        device_check(cuda_crossentropy_forward(DDP_BF16, losses, x.at, targets, 1, 600, 600, NULL), "forward");
        device_fetch(&loss, losses, sizeof loss);
        assert_true(isnan(loss));
        tensor_free(&x);
        device_drop(targets), device_drop(losses);
    }
}

static void no_rows_are_nothing_and_others_are_refused(void **state)
{
    (void)state;
    assert_int_equal(cuda_crossentropy_forward(DDP_F32, NULL, NULL, NULL, 0, 5, 5, NULL), 0);
    assert_int_not_equal(cuda_crossentropy_forward(DDP_F32, NULL, NULL, NULL, 1, 0, 5, NULL), 0);
    assert_int_not_equal(cuda_crossentropy_forward(DDP_F32, NULL, NULL, NULL, 1, 6, 5, NULL), 0);
    assert_int_not_equal(cuda_crossentropy_forward(DDP_F64, NULL, NULL, NULL, 0, 5, 5, NULL), 0);
    assert_int_not_equal(cuda_crossentropy_backward(DDP_F64, NULL, NULL, NULL, 1, 0, 5, 5, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(matches),
    cmocka_unit_test(errors_are_as_stated),
    cmocka_unit_test(what_float16_cannot_hold_is_infinite),
    cmocka_unit_test(impossible_probabilities_are_zero),
    cmocka_unit_test(infinite_logits_give_no_number),
    cmocka_unit_test(nan_is_not_lost),
    cmocka_unit_test(no_rows_are_nothing_and_others_are_refused),
};

TENSORS_MAIN(tests)
