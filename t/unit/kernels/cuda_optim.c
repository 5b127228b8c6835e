/* kernels/cuda/norm.cu and optim.cu against the CPU's kernels, bit for bit. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/cast.h"
#include "kernels/cuda/optim.h"
#include "t/lib/floats.h"
#include "t/lib/gputest.h"

static const enum ddp_dtype types[] = {DDP_F32, DDP_BF16, DDP_F16};

/* n gradients of type t, and what float32 they are. */
static void *gradients(float *ret, size_t n, enum ddp_dtype t)
{
    void *x = malloc(n * 4 + 1);
    float *f = random_floats(n, 2);
    if (t == DDP_F32)
        memcpy(x, f, n * sizeof *f);
    else
        (t == DDP_BF16 ? kernel_store_bf16 : kernel_store_f16)(x, f, n);
    if (t == DDP_F32)
        memcpy(ret, x, n * sizeof *f);
    else
        (t == DDP_BF16 ? kernel_load_bf16 : kernel_load_f16)(ret, x, n);
    free(f);
    return x;
}

static size_t random_shift(size_t size)
{
    return draw() % 2 * (draw() % 8) * size;
}

/* ---- norms ---- */

struct norm_trial {
    enum ddp_dtype from;
    size_t n_ranges, max_elems;
    float scale;
    bool write;
    int bad; /* that many elements are not finite */
};

static void check_blocks(void *arg)
{
    const struct norm_trial *t = arg;
    struct cuda_norm_range *range = calloc(t->n_ranges, sizeof *range);
    float **x = calloc(t->n_ranges, sizeof *x), *got = malloc(t->max_elems * sizeof *got + 1);
    size_t bad_range = draw() % t->n_ranges;
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = 1 + draw() % t->max_elems, n_blocks = (n + NORM_BLOCK - 1) / NORM_BLOCK;
        x[r] = malloc(n * sizeof **x);
        void *in = gradients(x[r], n, t->from);
        for (int k = 0; k < t->bad && r == bad_range && t->from == DDP_F32; k++) {
            size_t i = draw() % n;
            x[r][i] = ((float *)in)[i] = draw() % 2 ? NAN : -INFINITY;
        }
        size_t shift = random_shift(dtype_size(t->from));
        void *device = gpu_new(in, n * dtype_size(t->from), shift);
        range[r] = (struct cuda_norm_range){.in = device, .n = n, .sums = gpu_new(NULL, n_blocks * 8, 0)};
        if (t->write)
            range[r].out = t->from == DDP_F32 && draw() % 2 ? device : gpu_new(NULL, n * 4, random_shift(4));
        for (size_t i = 0; i < n; i++)
            x[r][i] *= t->scale;
        free(in);
    }
    assert_launched(cuda_norm_blocks(range, t->n_ranges, t->from, t->scale, NULL));
    assert_launched(cuda_norm_blocks(range, 0, t->from, t->scale, NULL));
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = range[r].n;
        for (size_t b = 0, at = 0; at < n; b++, at += NORM_BLOCK) {
            double want = kernel_block_sum_squares(x[r] + at, n - at < NORM_BLOCK ? n - at : NORM_BLOCK), sum;
            gpu_read(&sum, range[r].sums + b, sizeof sum);
            if (memcmp(&sum, &want, sizeof sum) != 0 && !(isnan(sum) && isnan(want)))
                fail_msg("%s: block %zu of %zu elements: %.17g, not %.17g", dtype_name(t->from), b, n, sum, want);
        }
        if (range[r].out) {
            gpu_read(got, range[r].out, n * sizeof *got);
            for (size_t i = 0; i < n; i++)
                assert_true(memcmp(&got[i], &x[r][i], sizeof *got) == 0 || (isnan(got[i]) && isnan(x[r][i])));
        }
        if (range[r].out != range[r].in)
            gpu_free(range[r].out);
        gpu_free(range[r].in), gpu_free(range[r].sums), free(x[r]);
    }
    free(range), free(x), free(got);
}

static void block_sums_match(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int write = 0; write < 2; write++) {
            gpu_each_order(check_blocks, &(struct norm_trial){types[i], 5, 40, 1, write, 0});
            gpu_each_order(check_blocks, &(struct norm_trial){types[i], 3, 20000, 1 / 1024.0f, write, 0});
        }
    check_blocks(&(struct norm_trial){DDP_F32, 1, 200000, 1, true, 0});
    check_blocks(&(struct norm_trial){DDP_F32, 130, 9, 1, false, 0});
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    for (int bad = 1; bad < 4; bad++)
        gpu_each_order(check_blocks, &(struct norm_trial){DDP_F32, 3, 9000, 1, bad % 2, bad});
}

/* ---- optimizers ---- */

static const struct optim_rule *const rules[] = {OPTIM_RULES};
enum { N_RULES = sizeof rules / sizeof *rules };

struct update_trial {
    size_t n_ranges, max_elems;
    const struct optim_rule *rule;
};

struct tensor {
    float *value, *moment[OPTIM_MOMENTS], *grad;
};

static void check_state(const char *what, const float *device, const float *want, size_t n)
{
    float *got = malloc(n * sizeof *got);
    gpu_read(got, device, n * sizeof *got);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s[%zu] of %zu: %.9g, not %.9g", what, i, n, (double)got[i], (double)want[i]);
    free(got);
}

static void check_copy(const struct cuda_optim_range *r, const float *value)
{
    size_t n = r->n;
    uint16_t *got = malloc(n * 2), *want = malloc(n * 2);
    (r->copy_type == DDP_F16 ? kernel_store_f16 : kernel_store_bf16)(want, value, n);
    gpu_read(got, r->copy, n * 2);
    assert_memory_equal(got, want, n * 2);
    free(got), free(want);
}

static void make_tensor(struct tensor *t, struct cuda_optim_range *r, size_t n, const struct optim_rule *rule)
{
    bool odd = draw() % 3 == 0;
    t->value = random_floats(n, draw() % 4 ? 1 : 1e5f); /* more than float16 can hold */
    t->grad = random_floats(n, 2);
    *r = (struct cuda_optim_range){.value = gpu_new(t->value, n * 4, odd ? random_shift(4) : 0),
                                   .grad = gpu_new(t->grad, n * 4, odd ? random_shift(4) : 0),
                                   .copy = draw() % 2 ? gpu_new(NULL, n * 2, odd ? random_shift(2) : 0) : NULL,
                                   .copy_type = draw() % 2 ? DDP_BF16 : DDP_F16,
                                   .n = n,
                                   .weight_decay = draw() % 2 ? 0.1f : 0};
    for (int k = 0; k < rule->n_moments; k++) {
        t->moment[k] = random_floats(n, 0.01f);
        for (size_t i = 0; k == 1 && i < n; i++)
            t->moment[k][i] = fabsf(t->moment[k][i]);
        r->moment[k] = gpu_new(t->moment[k], n * 4, odd ? random_shift(4) : 0);
    }
}

static void check_update(void *arg)
{
    const struct update_trial *t = arg;
    cuda_optim_f *step = cuda_optim_find(t->rule->name);
    if (!step) /* a rule for processors only */
        return;
    struct tensor *x = calloc(t->n_ranges, sizeof *x);
    struct cuda_optim_range *range = calloc(t->n_ranges, sizeof *range);
    struct optim_args a = {.lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 77,
                           .bias1 = 0.271f, .bias2 = 0.142625f, .grad_scale = 1 / 3.0f};
    for (size_t r = 0; r < t->n_ranges; r++)
        make_tensor(&x[r], &range[r], 1 + draw() % t->max_elems, t->rule);
    assert_launched(step(range, t->n_ranges, &a, NULL));
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = range[r].n;
        struct optim_args of = a;
        of.weight_decay = range[r].weight_decay;
        t->rule->step(x[r].value, x[r].moment, x[r].grad, n, &of);
        check_state("value", range[r].value, x[r].value, n);
        for (int k = 0; k < t->rule->n_moments; k++)
            check_state(t->rule->suffix[k], range[r].moment[k], x[r].moment[k], n);
        if (range[r].copy)
            check_copy(&range[r], x[r].value);
        gpu_free(range[r].value), gpu_free(range[r].grad), gpu_free(range[r].copy);
        free(x[r].value), free(x[r].grad);
        for (int k = 0; k < t->rule->n_moments; k++)
            gpu_free(range[r].moment[k]), free(x[r].moment[k]);
    }
    free(x), free(range);
}

static void updates_match(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++)
        for (int r = 0; r < N_RULES; r++) {
            gpu_each_order(check_update, &(struct update_trial){5, 30, rules[r]});
            gpu_each_order(check_update, &(struct update_trial){3, 7000, rules[r]});
        }
    for (int r = 0; r < N_RULES; r++)
        check_update(&(struct update_trial){100, 9, rules[r]});
}

static void other_types_are_refused(void **state)
{
    (void)state;
    struct optim_args a = {0};
    struct cuda_norm_range n = {0};
    struct cuda_optim_range r = {.copy = &a}; /* of type 0 */
    cuda_optim_f *adamw = cuda_optim_find("adamw"), *sgd = cuda_optim_find("sgd");
    assert_int_equal(cuda_norm_blocks(&n, 1, DDP_F64, 1, NULL), cudaErrorInvalidValue);
    assert_true(adamw && sgd && !cuda_optim_find("adamx"));
    assert_int_equal(adamw(&r, 1, &a, NULL), cudaErrorInvalidValue);
    assert_int_equal(sgd(&r, 1, &a, NULL), cudaErrorInvalidValue);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(block_sums_match),
    cmocka_unit_test(what_is_not_finite_stays_so),
    cmocka_unit_test(updates_match),
    cmocka_unit_test(other_types_are_refused),
};

GPU_MAIN(tests)
