/* kernels/cuda/cast.cu against kernels/cpu/cast.c. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/cast.h"
#include "kernels/cuda/cast.h"
#include "t/lib/floats.h"
#include "t/lib/gputest.h"

/* Same bits, or both NaN. */
static bool same(const uint16_t *a, const uint16_t *b, enum ddp_dtype t)
{
    float x, y;
    (t == DDP_BF16 ? kernel_load_bf16 : kernel_load_f16)(&x, a, 1);
    (t == DDP_BF16 ? kernel_load_bf16 : kernel_load_f16)(&y, b, 1);
    return *a == *b || (isnan(x) && isnan(y));
}

/* By the CPU's kernels, one element after the other. */
static void reference(uint16_t *out, const float *in, size_t n, enum ddp_dtype to, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float x = in[i] * scale;
        (to == DDP_BF16 ? kernel_store_bf16 : kernel_store_f16)(out + i, &x, 1);
    }
}

struct trial {
    enum ddp_dtype to;
    float scale;
    size_t n_ranges, max_elems;
};

static void check(void *arg)
{
    const struct trial *t = arg;
    struct cuda_range *range = calloc(t->n_ranges, sizeof *range);
    uint16_t **want = calloc(t->n_ranges, sizeof *want);
    for (size_t r = 0; r < t->n_ranges; r++) {
        size_t n = draw() % (t->max_elems + 1);
        float *in = malloc(n * sizeof *in + 1);
        for (size_t i = 0; i < n; i++)
            in[i] = random_any();
        range[r].n = n;
        range[r].in = gpu_new(in, n * 4, draw() % 2 * (draw() % 16) * 4);
        range[r].out = gpu_new(NULL, n * 2, draw() % 2 * (draw() % 16) * 2);
        want[r] = malloc(n * 2 + 1);
        reference(want[r], in, n, t->to, t->scale);
        free(in);
    }
    assert_launched(cuda_cast(range, t->n_ranges, t->to, t->scale, NULL));
    for (size_t r = 0; r < t->n_ranges; r++) {
        uint16_t *got = malloc(range[r].n * 2 + 1);
        gpu_read(got, range[r].out, range[r].n * 2);
        for (size_t i = 0; i < range[r].n; i++)
            if (!same(&got[i], &want[r][i], t->to))
                fail_msg("to %s: element %zu of %zu in range %zu of %zu differs", dtype_name(t->to), i, range[r].n, r,
                         t->n_ranges);
        gpu_free(range[r].out), gpu_free(range[r].in);
        free(got), free(want[r]);
    }
    free(range), free(want);
}

static void both_types_match_the_cpu(void **state)
{
    static const enum ddp_dtype types[] = {DDP_BF16, DDP_F16};
    (void)state;
    for (int i = 0; i < 2; i++) {
        gpu_each_order(check, &(struct trial){types[i], 1, 5, 40});
        gpu_each_order(check, &(struct trial){types[i], 1 / 1024.0f, 3, 20000});
    }
}

static void many_ranges_take_several_launches(void **state)
{
    (void)state;
    gpu_each_order(check, &(struct trial){DDP_BF16, 3, 131, 9});
    gpu_each_order(check, &(struct trial){DDP_BF16, 3, 64, 9});
    gpu_each_order(check, &(struct trial){DDP_BF16, 3, 65, 0});
    assert_launched(cuda_cast(NULL, 0, DDP_BF16, 1, NULL));
}

static void other_types_are_refused(void **state)
{
    (void)state;
    float x = 0;
    uint16_t h = 0;
    struct cuda_range range = {&h, &x, 1};
    assert_int_equal(cuda_cast(&range, 1, DDP_F32, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_cast(&range, 1, DDP_I32, 1, NULL), cudaErrorInvalidValue);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(both_types_match_the_cpu),
    cmocka_unit_test(many_ranges_take_several_launches),
    cmocka_unit_test(other_types_are_refused),
};

GPU_MAIN(tests)
