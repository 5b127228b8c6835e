/* kernels/cuda/round.cu against kernels/cpu/round.c, bit for bit. */
#include "t/unit/unit.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/bits.h"
#include "kernels/cuda/round.h"
#include "t/lib/gputest.h"
#include "t/lib/floats.h"

struct trial {
    size_t n_ranges, max_elems;
    bool aligned; /* as is fastest */
};

static bool is_nan(uint16_t h)
{
    return isnan(f32_from_bits((uint32_t)h << 16));
}

static void check(void *arg)
{
    const struct trial *t = arg;
    struct cuda_round_range *range = calloc(t->n_ranges, sizeof *range);
    float **in = calloc(t->n_ranges, sizeof *in);
    const struct rounding r = {(uint64_t)draw() << 33 | draw(), (uint64_t)draw() << 33 | draw()};
    for (size_t k = 0; k < t->n_ranges; k++) {
        size_t n = draw() % (t->max_elems + 1);
        uint64_t first = ((uint64_t)draw() << draw() % 20) + draw() % 8;
        in[k] = malloc(n * sizeof **in + 1);
        for (size_t i = 0; i < n; i++)
            in[k][i] = draw() % 64 ? random_any() : f32_from_bits(0x7fffffff); /* a NaN that would become -0 */
        size_t shift = t->aligned ? first % 8 : draw() % 16;
        range[k].out = gpu_new(NULL, n * 2, shift * 2);
        range[k].in = gpu_new(in[k], n * 4, shift * 4);
        range[k].n = n, range[k].first = first;
    }
    assert_launched(cuda_round_bf16(range, t->n_ranges, &r, NULL));
    for (size_t k = 0; k < t->n_ranges; k++) {
        size_t n = range[k].n;
        uint16_t *got = malloc(n * 2 + 1), *want = malloc(n * 2 + 1);
        kernel_round_bf16(want, in[k], n, range[k].first, &r);
        gpu_read(got, range[k].out, n * 2);
        for (size_t i = 0; i < n; i++)
            if (got[i] != want[i] && !(is_nan(got[i]) && is_nan(want[i])))
                fail_msg("element %zu of %zu, range %zu of %zu, from number %llu: %04x, not %04x", i, n, k, t->n_ranges,
                         (unsigned long long)range[k].first, got[i], want[i]);
        gpu_free(range[k].out), gpu_free(range[k].in);
        free(got), free(want), free(in[k]);
    }
    free(range), free(in);
}

static void rounding_matches(void **state)
{
    (void)state;
    for (int aligned = 0; aligned < 2; aligned++) {
        gpu_each_order(check, &(struct trial){7, 40, aligned});
        gpu_each_order(check, &(struct trial){3, 20000, aligned});
    }
}

static void many_ranges_take_several_launches(void **state)
{
    (void)state;
    check(&(struct trial){100, 9, false});
    check(&(struct trial){48, 9, true});
    check(&(struct trial){49, 0, false});
    assert_launched(cuda_round_bf16(NULL, 0, &(struct rounding){0, 0}, NULL));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rounding_matches),
    cmocka_unit_test(many_ranges_take_several_launches),
};

GPU_MAIN(tests)
