/* The bits of the model's kernels, as recorded: the same on every processor and vector width. Without the matrix
 * products, and what is done with a product while it is in the cache: those are a BLAS's but on x86-64 (matmul.h).
 * Without losses: their logarithm is libm's. */
#include "t/unit/unit.h"

#include "kernels/bits.h"
#include "kernels/model/cpu/mathfun.h"
#include "kernels/model/crossentropy.h"
#include "kernels/model/layernorm.h"
#include "kernels/model/vector.h"
#include "runtime/base/hash.h"
#include "t/lib/golden.h"

enum { ROWS = 37, WIDTH = 203, N = ROWS * WIDTH };

static const struct golden recorded[] = {
    {"exp", 0x94c688e311c4cb99},
    {"layernorm", 0xa57852abd3210471},
    {"layernorm_backward", 0xc41777260f40660f},
    {"add", 0xe5fe85a3b6d8e3c6},
    {"crossentropy_backward", 0xed8b5955e83014a2},
};

static float in[N], grad[N], out[N], weight[WIDTH], bias[WIDTH];

static void check(const char *name, uint64_t sum)
{
    golden_check(recorded, sizeof recorded / sizeof *recorded, name, sum);
}

static int fill(void **state)
{
    (void)state;
    golden_even(in, N, 1);
    golden_even(grad, N, 2);
    golden_even(weight, WIDTH, 3);
    golden_even(bias, WIDTH, 4);
    return 0;
}

static void exponentials(void **state)
{
    (void)state;
    uint64_t sum = HASH_START;
    for (uint64_t b = 0; b <= UINT32_MAX; b += 10007) {
        float y = math_exp(f32_from_bits((uint32_t)b));
        sum = golden_f32(sum, &y, 1);
    }
    check("exp", sum);
}

static void layers(void **state)
{
    (void)state;
    float mean[ROWS], rstd[ROWS], dweight[WIDTH] = {0}, dbias[WIDTH] = {0};
    kernel_layernorm_forward(out, mean, rstd, in, weight, bias, ROWS, WIDTH);
    check("layernorm", golden_f32(golden_f32(golden_f32(HASH_START, out, N), mean, ROWS), rstd, ROWS));
    kernel_layernorm_backward(out, dweight, dbias, grad, in, mean, rstd, weight, ROWS, WIDTH, true);
    check("layernorm_backward", golden_f32(golden_f32(golden_f32(HASH_START, out, N), dweight, WIDTH), dbias, WIDTH));
    kernel_add(out, in, grad, N);
    check("add", golden_f32(HASH_START, out, N));
}

static void losses(void **state)
{
    (void)state;
    int32_t target[ROWS];
    double loss[ROWS];
    for (int r = 0; r < ROWS; r++)
        target[r] = r * 5 % WIDTH;
    for (int i = 0; i < N; i++)
        out[i] = 9 * in[i];
    kernel_crossentropy_backward(loss, out, target, 0.125f, ROWS, WIDTH);
    check("crossentropy_backward", golden_f32(HASH_START, out, N));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(exponentials, fill),
    cmocka_unit_test_setup(layers, fill),
    cmocka_unit_test_setup(losses, fill),
};
UNIT_MAIN(tests)
