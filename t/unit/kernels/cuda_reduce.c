/* kernels/cuda/reduce.cu and fold.cu against the CPU's kernels, bit for bit. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/cuda/fold.h"
#include "kernels/cuda/reduce.h"
#include "kernels/fold.h"
#include "kernels/reduce.h"
#include "t/lib/floats.h"
#include "t/lib/gputest.h"

struct trial {
    enum ddp_dtype type;
    int n_in;
    size_t n;
    bool unaligned, absent, in_place;
};

static void fill(void *p, size_t n, enum ddp_dtype t)
{
    for (size_t i = 0; i < n; i++) {
        if (t == DDP_F32)
            ((float *)p)[i] = random_any();
        else
            ((uint16_t *)p)[i] = (uint16_t)(draw() >> 7);
    }
}

static bool is_nan(const void *p, enum ddp_dtype t)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    if (t == DDP_F32)
        return isnan(*(const float *)p);
    return (h & 0x7fff) > (t == DDP_BF16 ? 0x7f80 : 0x7c00);
}

static void expect_same(const char *what, const void *got, const void *want, size_t n, enum ddp_dtype t)
{
    size_t size = dtype_size(t);
    for (size_t i = 0; i < n; i++) {
        const char *a = (const char *)got + i * size, *b = (const char *)want + i * size;
        if (memcmp(a, b, size) != 0 && !(is_nan(a, t) && is_nan(b, t)))
            fail_msg("%s of %s: element %zu of %zu differs", what, dtype_name(t), i, n);
    }
}

static void check_tree(void *arg)
{
    const struct trial *t = arg;
    size_t size = dtype_size(t->type), bytes = t->n * size, shift = t->unaligned ? size : 0;
    const void *host[CUDA_REDUCE_MAX], *in[CUDA_REDUCE_MAX];
    void *out[3], *want = malloc(bytes + 1), *got = malloc(bytes + 1);
    int first = -1;
    for (int k = 0; k < t->n_in; k++) {
        void *x = malloc(bytes + 1);
        fill(x, t->n, t->type);
        host[k] = t->absent && k != t->n_in / 2 && draw() % 2 ? NULL : x;
        in[k] = host[k] ? gpu_new(x, bytes, k == t->n_in - 1 ? shift : 0) : NULL;
        if (!host[k])
            free(x);
        else if (first < 0)
            first = k;
    }
    out[0] = gpu_new(NULL, bytes, 0);
    out[1] = gpu_new(NULL, bytes, t->unaligned ? 3 * size : 0);
    out[2] = (void *)(uintptr_t)in[first];
    kernel_reduce_tree(&want, 1, host, t->n_in, t->n, t->type, DDP_SUM);
    assert_launched(cuda_reduce_tree(out, t->in_place ? 3 : 2, in, t->n_in, t->n, t->type, NULL));
    for (int j = 0; j < (t->in_place ? 3 : 2); j++) {
        gpu_read(got, out[j], bytes);
        expect_same("sum", got, want, t->n, t->type);
    }
    for (int k = 0; k < t->n_in; k++) {
        if (in[k] && !(t->in_place && k == first)) { /* untouched */
            gpu_read(got, in[k], bytes);
            assert_memory_equal(got, host[k], bytes);
        }
        gpu_free(in[k]);
        free((void *)(uintptr_t)host[k]);
    }
    gpu_free(out[0]), gpu_free(out[1]), free(want), free(got);
}

static void trees_match_for_every_type(void **state)
{
    (void)state;
    static const enum ddp_dtype types[] = {DDP_F32, DDP_BF16, DDP_F16};
    for (int i = 0; i < 3; i++)
        for (int n_in = 1; n_in <= 9; n_in++) {
            bool unaligned = draw() % 3 == 0, in_place = draw() % 2 == 0;
            gpu_each_order(check_tree, &(struct trial){types[i], n_in, 1 + draw() % 3000, unaligned, false, in_place});
        }
}

static void trees_of_many_match(void **state)
{
    (void)state;
    static const int ns[] = {15, 16, 17, 31, 33, 64, 100, 127, 128};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        for (int type = 0; type < 2; type++)
            check_tree(&(struct trial){type ? DDP_F32 : DDP_BF16, ns[i], 1 + draw() % 99, i % 2, false, i % 3 == 0});
}

static void absent_inputs_are_left_out(void **state)
{
    (void)state;
    for (int n_in = 1; n_in <= 20; n_in++)
        check_tree(&(struct trial){DDP_F32, n_in, 1 + draw() % 300, n_in % 2, true, n_in % 3 == 0});
}

static void check_fold(void *arg)
{
    const struct trial *t = arg;
    size_t bytes = t->n * sizeof(float);
    const float *host[CUDA_FOLD_MAX], *in[CUDA_FOLD_MAX];
    float *want = malloc(bytes + 1), *got = malloc(bytes + 1);
    for (int k = 0; k < t->n_in; k++) {
        float *x = malloc(bytes + 1);
        fill(x, t->n, DDP_F32);
        host[k] = x;
        in[k] = gpu_new(x, bytes, t->unaligned && k == 0 ? 4 : 0);
    }
    float *out = t->in_place ? (float *)(uintptr_t)in[t->n_in - 1] : gpu_new(NULL, bytes, t->unaligned ? 12 : 0);
    kernel_fold(want, host, t->n_in, t->n);
    assert_launched(cuda_fold(out, in, t->n_in, t->n, NULL));
    gpu_read(got, out, bytes);
    expect_same("fold", got, want, t->n, DDP_F32);
    for (int k = 0; k < t->n_in; k++)
        gpu_free(in[k]), free((void *)(uintptr_t)host[k]);
    if (!t->in_place)
        gpu_free(out);
    free(want), free(got);
}

static void folds_match(void **state)
{
    (void)state;
    static const int ns[] = {1, 2, 3, 4, 5, 6, 9, 64, 256};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        for (int kind = 0; kind < 4; kind++)
            gpu_each_order(check_fold, &(struct trial){DDP_F32, ns[i], 1 + draw() % 2000, kind % 2, false, kind / 2});
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    float *x = gpu_new(NULL, 4, 0);
    const void *in[CUDA_REDUCE_MAX + 1] = {x};
    void *out[] = {x};
    const struct {
        int n_out, n_in;
        enum ddp_dtype type;
    } wrong[] = {{1, CUDA_REDUCE_MAX + 1, DDP_F32}, {1, 0, DDP_F32}, {0, 1, DDP_F32}, {1, 1, DDP_F64}, {1, 1, DDP_I32}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cuda_reduce_tree(out, wrong[i].n_out, in, wrong[i].n_in, 1, wrong[i].type, NULL),
                         cudaErrorInvalidValue);
    assert_int_equal(cuda_fold(x, (const float *const *)in, 0, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_fold(x, (const float *const *)in, CUDA_FOLD_MAX + 1, 1, NULL), cudaErrorInvalidValue);
    assert_launched(cuda_reduce_tree(out, 1, in, 1, 0, DDP_F32, NULL));
    assert_launched(cuda_fold(x, (const float *const *)in, 1, 0, NULL));
    gpu_free(x);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(trees_match_for_every_type), cmocka_unit_test(trees_of_many_match),
    cmocka_unit_test(absent_inputs_are_left_out), cmocka_unit_test(folds_match),
    cmocka_unit_test(wrong_calls_are_refused),
};

GPU_MAIN(tests)
