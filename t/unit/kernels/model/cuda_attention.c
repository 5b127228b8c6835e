/* kernels/model/cuda/attention.h against double precision. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "kernels/model/cuda/attention.h"
#include "t/lib/tensors.h"

struct size {
    enum ddp_dtype type;
    struct attention_shape s;
    size_t offset; /* elements by which every array starts off a 16-byte boundary */
    float scale;   /* of the queries, keys and values */
};

static enum cuda_attention_way way; /* of the test that runs */

static int by_mma(void **state)
{
    (void)state;
    way = CUDA_ATTENTION_MMA;
    return 0;
}

static int by_wgmma(void **state)
{
    (void)state;
    way = CUDA_ATTENTION_WGMMA;
    return 0;
}

static void skip_without_wgmma(void)
{
    struct cudaDeviceProp p;
    if (way != CUDA_ATTENTION_WGMMA)
        return;
    device_check((int)cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
    if (!cuda_attention_has_wgmma(p.major, p.minor))
        skip();
}

/* p[i][j] of one head, [length, length], from qkv of that head. */
static void probabilities(double *p, double *log_sum, const double *q, const double *k, size_t stride, size_t length,
                          size_t head)
{
    for (size_t i = 0; i < length; i++) {
        double max = -INFINITY, sum = 0;
        for (size_t j = 0; j <= i; j++) {
            double s = 0;
            for (size_t d = 0; d < head; d++)
                s += q[i * stride + d] * k[j * stride + d];
            p[i * length + j] = s / sqrt((double)head);
            max = fmax(max, p[i * length + j]);
        }
        for (size_t j = 0; j <= i; j++)
            sum += exp(p[i * length + j] - max);
        log_sum[i] = max + log(sum);
        for (size_t j = 0; j < length; j++)
            p[i * length + j] = j <= i ? exp(p[i * length + j] - log_sum[i]) : 0;
    }
}

/* out, stats; with dout, dqkv. Of one head. */
static void reference_head(double *out, double *log_sum, double *dqkv, const double *dout, const double *qkv,
                           const struct attention_shape *s)
{
    size_t n = s->length, w = s->width, head = w / s->heads, stride = 3 * w;
    const double *q = qkv, *k = q + w, *v = k + w;
    double *p = calloc(n * n, sizeof *p);
    probabilities(p, log_sum, q, k, stride, n, head);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < head; d++) {
            out[i * w + d] = 0;
            for (size_t j = 0; j <= i; j++)
                out[i * w + d] += p[i * n + j] * v[j * stride + d];
        }
    for (size_t i = 0; dout && i < n; i++) {
        double mean = 0;
        for (size_t d = 0; d < head; d++)
            mean += dout[i * w + d] * out[i * w + d];
        for (size_t j = 0; j <= i; j++) {
            double dp = 0, *di = dqkv + i * stride, *dj = dqkv + j * stride;
            for (size_t d = 0; d < head; d++)
                dp += dout[i * w + d] * v[j * stride + d];
            double ds = p[i * n + j] * (dp - mean) / sqrt((double)head);
            for (size_t d = 0; d < head; d++) {
                di[d] += ds * k[j * stride + d];
                dj[w + d] += ds * q[i * stride + d];
                dj[2 * w + d] += p[i * n + j] * dout[i * w + d];
            }
        }
    }
    free(p);
}

static void reference(double *out, double *log_sum, double *dqkv, const double *dout, const double *qkv,
                      const struct attention_shape *s)
{
    size_t one = s->length * s->width, head = s->width / s->heads;
    for (size_t b = 0; b < s->batch; b++)
        for (size_t h = 0; h < s->heads; h++) {
            size_t at = b * one + h * head, wide = 3 * b * one + h * head;
            reference_head(out + at, log_sum + (b * s->heads + h) * s->length, dqkv + wide, dout + at, qkv + wide, s);
        }
}

static void check(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t n = s->s.batch * s->s.length * s->s.width, rows = s->s.batch * s->s.heads * s->s.length;
    struct tensor qkv = tensor_random(s->type, 3 * n, s->offset, s->scale);
    struct tensor dout = tensor_random(s->type, n, s->offset, 1);
    struct tensor out = tensor_poisoned(s->type, n, s->offset), dqkv = tensor_poisoned(s->type, 3 * n, s->offset);
    struct tensor stats = tensor_poisoned(DDP_F32, rows, 1), work = tensor_poisoned(DDP_F32, rows, 1);
    double *x = tensor_values(&qkv), *dy = tensor_values(&dout), *want = calloc(n, sizeof *want);
    double *dwant = calloc(3 * n, sizeof *dwant), *log_sum = calloc(rows, sizeof *log_sum);
    assert_int_equal(cuda_attention_stats_elems(&s->s), rows);
    reference(want, log_sum, dwant, dy, x, &s->s);
    bool f32 = s->type == DDP_F32;
    /* A score is at most scale^2 sqrt(head); in float32 it is off by some units of its last place. */
    double scores = s->scale * s->scale * sqrt((double)s->s.width / s->s.heads) * 0x1p-23;
    device_check(cuda_attention_forward(s->type, way, out.at, stats.at, qkv.at, &s->s, NULL), "attention forward");
    tensor_check("out", &out, want, f32 ? 5e-6 + scores : s->type == DDP_F16 ? 4e-4 : 3e-3);
    tensor_check("stats", &stats, log_sum, 3e-6);
    device_check(cuda_attention_backward(s->type, way, dqkv.at, work.at, dout.at, out.at, qkv.at, stats.at, &s->s,
                                         NULL), "attention backward");
    tensor_check("dqkv", &dqkv, dwant, f32 ? 1e-5 + scores : s->type == DDP_F16 ? 1.5e-3 : 1.2e-2);
    tensors_end(hash, &out, &stats, &dqkv, &qkv, &dout, &work);
    free(x), free(dy), free(want), free(dwant), free(log_sum);
}

static void float32_matches(void **state)
{
    (void)state;
    static const struct size sizes[] = {
        {DDP_F32, {1, 1, 4, 1}, 0, 1},   {DDP_F32, {2, 33, 24, 3}, 1, 2},    {DDP_F32, {1, 65, 128, 2}, 0, 1},
        {DDP_F32, {3, 31, 35, 1}, 3, 2}, {DDP_F32, {1, 100, 80, 5}, 0, 6},
    };
    each_in_every_order(check, sizes);
}

/* Lengths about the tiles of 64 keys, and about blocks of 128, 192 and 256; scores from flat to one that counts. */
static void bf16_matches(void **state)
{
    (void)state;
    skip_without_wgmma();
    static const struct size sizes[] = {
        {DDP_BF16, {1, 1, 64, 1}, 0, 1},   {DDP_BF16, {2, 17, 128, 2}, 8, 2},  {DDP_BF16, {1, 64, 64, 1}, 0, 1},
        {DDP_BF16, {1, 65, 192, 3}, 0, 3}, {DDP_BF16, {1, 127, 64, 1}, 8, 1},  {DDP_BF16, {2, 129, 64, 1}, 0, 0.1f},
        {DDP_BF16, {1, 201, 128, 2}, 0, 2}, {DDP_BF16, {1, 257, 64, 1}, 0, 1},
    };
    each_in_every_order(check, sizes);
}

static void f16_matches(void **state)
{
    (void)state;
    skip_without_wgmma();
    static const struct size sizes[] = {
        {DDP_F16, {1, 1, 64, 1}, 0, 1},  {DDP_F16, {2, 17, 128, 2}, 8, 2},
        {DDP_F16, {1, 65, 64, 1}, 0, 3}, {DDP_F16, {1, 129, 64, 1}, 8, 1},
        {DDP_F16, {1, 193, 64, 1}, 0, 2},
    };
    each_in_every_order(check, sizes);
}

/* Gradients too large for float16: what is finite is right. The first four queries are 0, so they weigh their 1 to 4
 * keys alike: whatever the seed, the first value's gradient is at least (1 + 1/2 + 1/3 + 1/4) * 6e4 > 1.2e5. */
static void what_f16_cannot_hold_is_not_finite(void **state)
{
    (void)state;
    skip_without_wgmma();
    const struct attention_shape s = {1, 40, 64, 1};
    size_t n = s.length * s.width;
    struct tensor qkv = tensor_random(DDP_F16, 3 * n, 0, 2), dout = tensor_random(DDP_F16, n, 0, 6e4f);
    struct tensor out = tensor_poisoned(DDP_F16, n, 0), dqkv = tensor_poisoned(DDP_F16, 3 * n, 0);
    struct tensor stats = tensor_poisoned(DDP_F32, s.length, 0), work = tensor_poisoned(DDP_F32, s.length, 0);
    for (size_t i = 0; i < 4 * s.width; i++)
        tensor_set(&qkv, i / s.width * 3 * s.width + i % s.width, 0);
    for (size_t i = 0; i < s.length; i++)
        tensor_set(&dout, i * s.width, 6e4f);
    double *x = tensor_values(&qkv), *dy = tensor_values(&dout), *o = calloc(n, sizeof *o);
    double *sums = calloc(n, sizeof *sums), *want = calloc(3 * n, sizeof *want), largest = 0;
    reference(o, sums, want, dy, x, &s);
    device_check(cuda_attention_forward(DDP_F16, way, out.at, stats.at, qkv.at, &s, NULL), "attention forward");
    device_check(cuda_attention_backward(DDP_F16, way, dqkv.at, work.at, dout.at, out.at, qkv.at, stats.at, &s, NULL),
                 "attention backward");
    double *got = tensor_values(&dqkv);
    for (size_t i = 0; i < 3 * n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < 3 * n; i++)
        if (isfinite(got[i]) && !(fabs(got[i] - want[i]) <= 2e-3 * largest))
            fail_msg("dqkv[%zu]: %.9g, want %.9g", i, got[i], want[i]);
    assert_true(want[2 * s.width] > 1.2e5 && !isfinite(got[2 * s.width]));
    free(x), free(dy), free(o), free(sums), free(want), free(got);
    tensors_end(&(uint64_t){0}, &qkv, &dout, &out, &dqkv, &stats, &work);
}

static void empty_batches_are_nothing_and_others_are_refused(void **state)
{
    (void)state;
    struct attention_shape none = {0, 5, 64, 1}, wide = {1, 5, 128, 1}, odd = {1, 5, 65, 2};
    uint16_t *unaligned = (uint16_t *)2; /* never read */
    struct attention_shape one = {1, 5, 64, 1};
    assert_int_equal(cuda_attention_forward(DDP_BF16, way, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_equal(cuda_attention_backward(DDP_BF16, way, NULL, NULL, NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_equal(cuda_attention_forward(DDP_F32, way, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_equal(cuda_attention_backward(DDP_F32, way, NULL, NULL, NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_not_equal(cuda_attention_forward(DDP_BF16, way, NULL, NULL, NULL, &wide, NULL), 0);
    assert_int_not_equal(cuda_attention_backward(DDP_BF16, way, NULL, NULL, NULL, NULL, NULL, NULL, &wide, NULL), 0);
    assert_int_not_equal(cuda_attention_forward(DDP_F32, way, NULL, NULL, NULL, &odd, NULL), 0);
    assert_int_not_equal(cuda_attention_backward(DDP_F32, way, NULL, NULL, NULL, NULL, NULL, NULL, &odd, NULL), 0);
    assert_int_not_equal(cuda_attention_forward(DDP_BF16, way, unaligned, NULL, NULL, &one, NULL), 0);
    assert_int_not_equal(cuda_attention_backward(DDP_BF16, way, NULL, NULL, unaligned, NULL, NULL, NULL, &one, NULL),
                         0);
    assert_int_not_equal(cuda_attention_forward(DDP_F64, way, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_not_equal(cuda_attention_backward(DDP_F64, way, NULL, NULL, NULL, NULL, NULL, NULL, &none, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(float32_matches),
    cmocka_unit_test_setup(bf16_matches, by_mma),
    cmocka_unit_test_setup(f16_matches, by_mma),
    cmocka_unit_test_setup(what_f16_cannot_hold_is_not_finite, by_mma),
    cmocka_unit_test_setup(empty_batches_are_nothing_and_others_are_refused, by_mma),
    {"bf16_matches_by_wgmma", bf16_matches, by_wgmma, NULL, NULL},
    {"f16_matches_by_wgmma", f16_matches, by_wgmma, NULL, NULL},
    {"what_f16_cannot_hold_is_not_finite_by_wgmma", what_f16_cannot_hold_is_not_finite, by_wgmma, NULL, NULL},
    {"empty_batches_are_nothing_by_wgmma", empty_batches_are_nothing_and_others_are_refused, by_wgmma, NULL, NULL},
};

TENSORS_MAIN(tests)
