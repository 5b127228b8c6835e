/* kernels/cuda/cast.cu against kernels/cpu/cast.c. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/cast.h"
#include "kernels/cuda/cast.h"
#include "t/lib/gputest.h"
#include "t/lib/floats.h"

static const enum ddp_dtype types[] = {DDP_F32, DDP_BF16, DDP_F16};

/* Same bits, or both NaN. */
static bool same(const void *a, const void *b, size_t i, enum ddp_dtype t)
{
    float x[2];
    const void *p[] = {a, b};
    if (t == DDP_F32) {
        x[0] = ((const float *)a)[i], x[1] = ((const float *)b)[i];
    } else {
        for (int k = 0; k < 2; k++)
            (t == DDP_BF16 ? kernel_load_bf16 : kernel_load_f16)(&x[k], (const uint16_t *)p[k] + i, 1);
    }
    return memcmp(&x[0], &x[1], sizeof x[0]) == 0 || (isnan(x[0]) && isnan(x[1]));
}

/* By the CPU's kernels, one element after the other. */
static void reference(void *out, const void *in, size_t n, enum ddp_dtype from, enum ddp_dtype to, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float x;
        if (from == DDP_F32)
            x = ((const float *)in)[i];
        else
            (from == DDP_BF16 ? kernel_load_bf16 : kernel_load_f16)(&x, (const uint16_t *)in + i, 1);
        x *= scale;
        if (to == DDP_F32)
            ((float *)out)[i] = x;
        else
            (to == DDP_BF16 ? kernel_store_bf16 : kernel_store_f16)((uint16_t *)out + i, &x, 1);
    }
}

static void fill(void *p, size_t n, enum ddp_dtype t)
{
    for (size_t i = 0; i < n; i++) {
        if (t == DDP_F32)
            ((float *)p)[i] = random_any();
        else
            ((uint16_t *)p)[i] = (uint16_t)draw();
    }
}

struct trial {
    enum ddp_dtype from, to;
    float scale;
    size_t n_ranges, max_elems;
};

static void check(void *arg)
{
    const struct trial *t = arg;
    struct cuda_range *range = calloc(t->n_ranges, sizeof *range);
    void **want = calloc(t->n_ranges, sizeof *want);
    size_t in_size = dtype_size(t->from), out_size = dtype_size(t->to);
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = draw() % (t->max_elems + 1);
        void *in = malloc(n * in_size + 1);
        fill(in, n, t->from);
        range[r].n = n;
        range[r].in = gpu_new(in, n * in_size, draw() % 2 * (draw() % 16) * in_size);
        range[r].out = gpu_new(NULL, n * out_size, draw() % 2 * (draw() % 16) * out_size);
        want[r] = malloc(n * out_size + 1);
        reference(want[r], in, n, t->from, t->to, t->scale);
        free(in);
    }
    assert_launched(cuda_cast(range, t->n_ranges, t->from, t->to, t->scale, NULL));
    for (size_t r = 0; r < t->n_ranges; r++) {
        void *got = malloc(range[r].n * out_size + 1);
        gpu_read(got, range[r].out, range[r].n * out_size);
        for (size_t i = 0; i < range[r].n; i++)
            if (!same(got, want[r], i, t->to))
                fail_msg("%s to %s: element %zu of %zu in range %zu of %zu differs", dtype_name(t->from),
                         dtype_name(t->to), i, range[r].n, r, t->n_ranges);
        gpu_free(range[r].out), gpu_free(range[r].in);
        free(got), free(want[r]);
    }
    free(range), free(want);
}

static void every_pair_of_types_matches_the_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            gpu_each_order(check, &(struct trial){types[i], types[j], 1, 5, 40});
            gpu_each_order(check, &(struct trial){types[i], types[j], 1 / 1024.0f, 3, 20000});
        }
}

static void many_ranges_take_several_launches(void **state)
{
    (void)state;
    gpu_each_order(check, &(struct trial){DDP_F32, DDP_BF16, 3, 131, 9});
    gpu_each_order(check, &(struct trial){DDP_F32, DDP_BF16, 3, 64, 9});
    gpu_each_order(check, &(struct trial){DDP_F32, DDP_BF16, 3, 65, 0});
    assert_launched(cuda_cast(NULL, 0, DDP_F32, DDP_F32, 1, NULL));
}

static void in_place(void **state)
{
    (void)state;
    enum { N = 10007 };
    float *in = random_floats(N, 3), *got = malloc(N * sizeof *got), *x = gpu_new(in, N * sizeof *x, 4);
    struct cuda_range range = {x, x, N};
    assert_launched(cuda_cast(&range, 1, DDP_F32, DDP_F32, 0.1f, NULL));
    gpu_read(got, x, N * sizeof *x);
    for (int i = 0; i < N; i++)
        assert_true(got[i] == in[i] * 0.1f);
    gpu_free(x), free(in), free(got);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    double x = 0;
    struct cuda_range range = {&x, &x, 1};
    assert_int_equal(cuda_cast(&range, 1, DDP_F64, DDP_F32, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_cast(&range, 1, DDP_F32, DDP_I32, 1, NULL), cudaErrorInvalidValue);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_pair_of_types_matches_the_cpu),
    cmocka_unit_test(many_ranges_take_several_launches),
    cmocka_unit_test(in_place),
    cmocka_unit_test(other_types_are_refused),
};

GPU_MAIN(tests)
