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
    unsigned zero = 0, found, *found_inf = gpu_new(&zero, sizeof zero, 0);
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
    assert_launched(cuda_norm_blocks(range, t->n_ranges, t->from, t->scale, draw() % 8 ? found_inf : NULL, NULL));
    assert_launched(cuda_norm_blocks(range, 0, t->from, t->scale, found_inf, NULL));
    gpu_read(&found, found_inf, sizeof found);
    assert_true(found <= (t->bad ? 1u : 0u));
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
    gpu_free(found_inf), free(range), free(x), free(got);
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

static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    for (int bad = 1; bad < 4; bad++)
        gpu_each_order(check_blocks, &(struct norm_trial){DDP_F32, 3, 9000, 1, bad % 2, bad});
    for (size_t i = 0; i < 3; i++) { /* the last element, and the flag alone */
        float x[9] = {0};
        unsigned zero = 0, found;
        x[3 * i + 2] = INFINITY;
        struct cuda_norm_range range = {gpu_new(x, sizeof x, 0), NULL, gpu_new(NULL, 8, 0), 9};
        unsigned *flag = gpu_new(&zero, sizeof zero, 0);
        assert_launched(cuda_norm_blocks(&range, 1, DDP_F32, 1, flag, NULL));
        gpu_read(&found, flag, sizeof found);
        assert_int_equal(found, 1);
        gpu_free(range.in), gpu_free(range.sums), gpu_free(flag);
    }
}

static double tree(const double *x, size_t n)
{
    size_t m = 1;
    while (2 * m < n)
        m *= 2;
    return n == 1 ? x[0] : tree(x, m) + tree(x + m, n - m);
}

struct total_trial {
    size_t n_tensors, max_blocks;
    double scale, bad;
    float clip;
};

static void check_total(void *arg)
{
    const struct total_trial *t = arg;
    size_t first[64] = {0};
    for (size_t i = 0; i < t->n_tensors; i++)
        first[i + 1] = first[i] + 1 + draw() % t->max_blocks;
    size_t n = first[t->n_tensors];
    double *sums = calloc(n + 1, sizeof *sums), over[64];
    for (size_t i = 0; i < n; i++)
        sums[i] = draw() * 1e-9 * draw();
    if (t->bad != 0)
        sums[draw() % n] = t->bad;
    for (size_t i = 0; i < t->n_tensors; i++)
        over[i] = tree(sums + first[i], first[i + 1] - first[i]);
    double norm = (t->n_tensors ? sqrt(tree(over, t->n_tensors)) : 0) * t->scale;
    double by = t->clip > 0 && norm + 1e-6 > t->clip ? t->clip / (norm + 1e-6) : 1;
    double *d_sums = gpu_new(sums, n * sizeof *sums, 0), *work = gpu_new(NULL, t->n_tensors * sizeof *work, 0);
    size_t *d_first = gpu_new(first, (t->n_tensors + 1) * sizeof *first, 0);
    struct cuda_step got, *step = gpu_new(NULL, sizeof *step, 0);
    assert_launched(cuda_norm_total(step, d_sums, d_first, work, t->n_tensors, t->scale, t->clip, NULL));
    gpu_read(&got, step, sizeof got);
    assert_int_equal(got.skipped, !isfinite(norm));
    if (isfinite(norm)) {
        assert_true(got.norm == norm);
        assert_true(got.grad_scale == (float)(t->scale * by));
    }
    gpu_free(d_sums), gpu_free(work), gpu_free(d_first), gpu_free(step), free(sums);
}

static void totals_match(void **state)
{
    (void)state;
    static const size_t blocks[] = {1, 2, 5, 255, 257, 1000};
    for (size_t i = 0; i < 6; i++)
        for (size_t n = 1; n <= 40; n = n * 2 + draw() % 2)
            gpu_each_order(check_total, &(struct total_trial){n > 10 && i > 3 ? 3 : n, blocks[i], 1.0 / 3, 0, 0.7f});
    check_total(&(struct total_trial){1, 4000, 1, 0, 0});
    check_total(&(struct total_trial){0, 1, 1, 0, 1});
    check_total(&(struct total_trial){5, 300, 1, NAN, 1});
    check_total(&(struct total_trial){5, 300, 1, INFINITY, 0});
    for (size_t n = 1; n < 20; n++) /* tensors of a whole number of tiles, and one more or less */
        check_total(&(struct total_trial){n, n % 3 ? 256 * n : 1, 1, 0, 1e30f});
}

/* ---- AdamW, SGD ---- */

struct update_trial {
    enum ddp_dtype grad;
    size_t n_ranges, max_elems;
    int step; /* 0: none; 1: scales; 2: skips */
    bool sgd;
};

struct tensor {
    float *value, *m, *v, *grad;
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

static void check_copy(const struct cuda_adamw_range *r, const float *value, bool skipped)
{
    size_t n = r->n;
    uint16_t *got = malloc(n * 2), *want = malloc(n * 2);
    (r->copy_type == DDP_F16 ? kernel_store_f16 : kernel_store_bf16)(want, value, n);
    if (skipped)
        memset(want, 0xff, n * 2);
    gpu_read(got, r->copy, n * 2);
    assert_memory_equal(got, want, n * 2);
    free(got), free(want);
}

static void make_tensor(struct tensor *t, struct cuda_adamw_range *r, size_t n, enum ddp_dtype grad)
{
    bool odd = draw() % 3 == 0;
    t->value = random_floats(n, draw() % 4 ? 1 : 1e5f); /* more than float16 can hold */
    t->m = random_floats(n, 0.1f);
    t->v = random_floats(n, 0.01f);
    t->grad = malloc(n * sizeof(float));
    void *g = gradients(t->grad, n, grad);
    for (size_t i = 0; i < n; i++)
        t->v[i] = fabsf(t->v[i]);
    *r = (struct cuda_adamw_range){.value = gpu_new(t->value, n * 4, odd ? random_shift(4) : 0),
                                   .m = gpu_new(t->m, n * 4, odd ? random_shift(4) : 0),
                                   .v = gpu_new(t->v, n * 4, odd ? random_shift(4) : 0),
                                   .grad = gpu_new(g, n * dtype_size(grad), 0),
                                   .copy = draw() % 2 ? gpu_new(NULL, n * 2, odd ? random_shift(2) : 0) : NULL,
                                   .copy_type = draw() % 2 ? DDP_BF16 : DDP_F16,
                                   .n = n,
                                   .weight_decay = draw() % 2 ? 0.1f : 0};
    free(g);
}

static void check_update(void *arg)
{
    const struct update_trial *t = arg;
    struct tensor *x = calloc(t->n_ranges, sizeof *x);
    struct cuda_adamw_range *range = calloc(t->n_ranges, sizeof *range);
    struct adamw_args a = {.lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 77,
                           .bias1 = 0.271f, .bias2 = 0.142625f, .grad_scale = 1 / 3.0f};
    struct cuda_step step = {1, 0.7f, t->step == 2}, *d_step = t->step ? gpu_new(&step, sizeof step, 0) : NULL;
    for (size_t r = 0; r < t->n_ranges; r++)
        make_tensor(&x[r], &range[r], 1 + draw() % t->max_elems, t->grad);
    for (size_t r = 0; t->sgd && r < t->n_ranges; r++) {
        gpu_free(range[r].m), gpu_free(range[r].v);
        range[r].m = range[r].v = NULL;
    }
    assert_launched((t->sgd ? cuda_sgd : cuda_adamw)(range, t->n_ranges, t->grad, &a, d_step, NULL));
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = range[r].n;
        struct adamw_args of = a;
        of.weight_decay = range[r].weight_decay;
        if (t->step)
            of.grad_scale = step.grad_scale;
        if (t->step != 2 && t->sgd)
            kernel_sgd(x[r].value, x[r].grad, n, &of);
        else if (t->step != 2)
            kernel_adamw(x[r].value, x[r].m, x[r].v, x[r].grad, n, &of);
        check_state("value", range[r].value, x[r].value, n);
        if (!t->sgd) {
            check_state("m", range[r].m, x[r].m, n);
            check_state("v", range[r].v, x[r].v, n);
        }
        if (range[r].copy)
            check_copy(&range[r], x[r].value, t->step == 2);
        gpu_free(range[r].value), gpu_free(range[r].m), gpu_free(range[r].v), gpu_free(range[r].grad);
        gpu_free(range[r].copy);
        free(x[r].value), free(x[r].m), free(x[r].v), free(x[r].grad);
    }
    gpu_free(d_step), free(x), free(range);
}

static void updates_match(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int step = 0; step < 2; step++)
            for (int sgd = 0; sgd < 2; sgd++) {
                gpu_each_order(check_update, &(struct update_trial){types[i], 5, 30, step, sgd});
                gpu_each_order(check_update, &(struct update_trial){types[i], 3, 7000, step, sgd});
            }
    check_update(&(struct update_trial){DDP_F32, 100, 9, 1, false});
    check_update(&(struct update_trial){DDP_F32, 100, 9, 1, true});
}

static void a_skipped_step_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        gpu_each_order(check_update, &(struct update_trial){types[i % 3], 3, 3000, 2, i / 3});
}

static void other_types_are_refused(void **state)
{
    (void)state;
    struct adamw_args a = {0};
    struct cuda_norm_range n = {0};
    struct cuda_adamw_range r = {0};
    assert_int_equal(cuda_norm_blocks(&n, 1, DDP_F64, 1, NULL, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_adamw(&r, 1, DDP_I32, &a, NULL, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_sgd(&r, 1, DDP_F64, &a, NULL, NULL), cudaErrorInvalidValue);
    r.copy = &a; /* of type 0 */
    assert_int_equal(cuda_adamw(&r, 1, DDP_F32, &a, NULL, NULL), cudaErrorInvalidValue);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(block_sums_match), cmocka_unit_test(what_is_not_finite_is_found),
    cmocka_unit_test(totals_match),     cmocka_unit_test(updates_match),
    cmocka_unit_test(a_skipped_step_moves_nothing), cmocka_unit_test(other_types_are_refused),
};

GPU_MAIN(tests)
