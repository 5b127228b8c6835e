/* The kernels of kernels/cuda over arrays of more than 2^32 elements, or as many as a GPU has room for, against the
 * processor's, bit for bit, in blocks at the ends and between; over the emulator more than 2^16. */
#include "t/unit/unit.h"

#include "kernels/cast.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/fold.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/reduce.h"
#include "kernels/fold.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "t/lib/tensors.h"

#ifdef DDP_CUDA_EMULATED
#define MANY ((size_t)(1 << 17) + 5003)
#else
#define MANY (((size_t)1 << 32) + 5003)
#endif
#define N_SAMPLES 9
#define N_TERMS 5

/* Block i of those that are looked at: n elements from `first` on. */
struct sample {
    size_t first, n;
};

static void draw_samples(struct sample *s, size_t n)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        s[i].first = tensor_place(i, N_SAMPLES, (n + NORM_BLOCK - 1) / NORM_BLOCK) * NORM_BLOCK;
        s[i].n = n - s[i].first < NORM_BLOCK ? n - s[i].first : NORM_BLOCK;
    }
}

static float *part(const struct tensor *t, const struct sample *s)
{
    return tensor_part(t, s->first, s->n);
}

/* want is rounded to bfloat16 where t is. */
static void check_bits(const char *what, const struct tensor *t, const struct sample *s, const float *want)
{
    float *got = part(t, s), rounded[NORM_BLOCK];
    uint16_t bits[NORM_BLOCK];
    memcpy(rounded, want, s->n * sizeof *want);
    if (t->type == DDP_BF16) {
        kernel_store_bf16(bits, want, s->n);
        kernel_load_bf16(rounded, bits, s->n);
    }
    for (size_t i = 0; i < s->n; i++)
        if (memcmp(&got[i], &rounded[i], sizeof *got) != 0)
            fail_msg("%s[%zu] of %zu: %.9g, not %.9g", what, s->first + i, t->n, (double)got[i], (double)rounded[i]);
    free(got);
}

static float *scaled(const struct tensor *t, const struct sample *s, float scale)
{
    float *x = part(t, s);
    for (size_t i = 0; i < s->n; i++)
        x[i] *= scale;
    return x;
}

static void casts_match(void **state)
{
    (void)state;
    size_t n = tensor_fitting(MANY, 6);
    struct tensor in = tensor_repeated(DDP_F32, n, 0, 3), out = tensor_poisoned(DDP_BF16, n, 0);
    struct sample s[N_SAMPLES];
    draw_samples(s, n);
    device_check(cuda_cast(&(struct cuda_range){out.at, in.at, n}, 1, DDP_BF16, 0.3f, NULL), "cast");
    for (int i = 0; i < N_SAMPLES; i++) {
        float *want = scaled(&in, &s[i], 0.3f);
        check_bits("cast", &out, &s[i], want);
        free(want);
    }
    tensors_free(&in, &out);
}

static void norms_match(void **state)
{
    (void)state;
    size_t n = tensor_fitting(MANY, 7);
    struct tensor in = tensor_repeated(DDP_BF16, n, 0, 2), out = tensor_poisoned(DDP_F32, n, 0);
    double *sums = device_bytes(NULL, (n / NORM_BLOCK + 1) * sizeof *sums), sum;
    struct cuda_norm_range range = {.in = in.at, .out = out.at, .sums = sums, .n = n};
    struct sample s[N_SAMPLES];
    draw_samples(s, n);
    device_check(cuda_norm_blocks(&range, 1, DDP_BF16, 0.3f, NULL), "norm");
    for (int i = 0; i < N_SAMPLES; i++) {
        float *want = scaled(&in, &s[i], 0.3f);
        check_bits("scaled", &out, &s[i], want);
        device_fetch(&sum, sums + s[i].first / NORM_BLOCK, sizeof sum);
        assert_true(sum == kernel_block_sum_squares(want, s[i].n));
        free(want);
    }
    device_drop(sums);
    tensors_free(&in, &out);
}

static void check_update(const struct optim_rule *rule)
{
    static const struct optim_args a = {.lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,
                                        .bias1 = 0.271f, .bias2 = 0.142625f, .grad_scale = 1 / 3.0f};
    size_t n = tensor_fitting(MANY, 18);
    struct tensor value = tensor_repeated(DDP_F32, n, 0, 1), grad = tensor_repeated(DDP_F32, n, 0, 2);
    struct tensor copy = tensor_poisoned(DDP_BF16, n, 0);
    struct tensor moment[] = {tensor_repeated(DDP_F32, n, 0.01f, 0.01f), tensor_repeated(DDP_F32, n, 0.01f, 0.01f)};
    struct cuda_optim_range range = {.value = value.at, .moment = {moment[0].at, moment[1].at}, .grad = grad.at,
                                     .copy = copy.at, .copy_type = DDP_BF16, .n = n, .weight_decay = a.weight_decay};
    struct sample s[N_SAMPLES];
    float *want[N_SAMPLES], *m[N_SAMPLES][OPTIM_MOMENTS];
    draw_samples(s, n);
    for (int i = 0; i < N_SAMPLES; i++) {
        float *g = part(&grad, &s[i]);
        want[i] = part(&value, &s[i]), m[i][0] = part(&moment[0], &s[i]), m[i][1] = part(&moment[1], &s[i]);
        rule->step(want[i], m[i], g, s[i].n, &a);
        free(g);
    }
    device_check(cuda_optim_find(rule->name)(&range, 1, &a, NULL), rule->name);
    for (int i = 0; i < N_SAMPLES; i++) {
        check_bits("value", &value, &s[i], want[i]);
        check_bits("copy", &copy, &s[i], want[i]);
        for (int k = 0; k < rule->n_moments; k++)
            check_bits(rule->suffix[k], &moment[k], &s[i], m[i][k]);
        free(want[i]), free(m[i][0]), free(m[i][1]);
    }
    tensors_free(&value, &grad, &copy, &moment[0], &moment[1]);
}

static void updates_match(void **state)
{
    (void)state;
    static const struct optim_rule *const rules[] = {OPTIM_RULES};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check_update(rules[i]);
}

/* A tree of bfloat16, a fold of float32. */
static void check_sum(enum ddp_dtype type)
{
    size_t n = tensor_fitting(MANY, (N_TERMS + 1) * dtype_size(type));
    struct tensor in[N_TERMS], out = tensor_poisoned(type, n, 0);
    const void *at[N_TERMS];
    struct sample s[N_SAMPLES];
    for (int k = 0; k < N_TERMS; k++) {
        in[k] = tensor_repeated(type, n, 0, 1);
        at[k] = in[k].at;
    }
    draw_samples(s, n);
    device_check(type == DDP_F32 ? cuda_fold(out.at, (const float *const *)at, N_TERMS, n, NULL)
                                 : cuda_reduce_tree(&out.at, 1, at, N_TERMS, n, type, NULL), "sum");
    for (int i = 0; i < N_SAMPLES; i++) {
        float *x[N_TERMS], *want = malloc(s[i].n * sizeof *want);
        for (int k = 0; k < N_TERMS; k++)
            x[k] = part(&in[k], &s[i]);
        if (type == DDP_F32)
            kernel_fold(want, (const float *const *)x, N_TERMS, s[i].n);
        else /* rounded once, by check_bits */
            kernel_reduce_tree(&(void *){want}, 1, (const void *const *)x, N_TERMS, s[i].n, DDP_F32, DDP_SUM);
        check_bits("sum", &out, &s[i], want);
        for (int k = 0; k < N_TERMS; k++)
            free(x[k]);
        free(want);
    }
    for (int k = 0; k < N_TERMS; k++)
        tensor_free(&in[k]);
    tensor_free(&out);
}

static void sums_match(void **state)
{
    (void)state;
    check_sum(DDP_F32);
    check_sum(DDP_BF16);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(casts_match),
    cmocka_unit_test(norms_match),
    cmocka_unit_test(updates_match),
    cmocka_unit_test(sums_match),
};

TENSORS_MAIN(tests)
