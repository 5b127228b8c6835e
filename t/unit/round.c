/* kernels/round.h: the generator, and that rounding is what it promises. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/bits.h"
#include "kernels/round.h"
#include "t/lib/floats.h"

/* Known answers of Random123 (its kat_vectors). */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t got[4];
        kernel_philox(got, known[i].counter, known[i].key);
        assert_memory_equal(got, known[i].want, sizeof got);
    }
}

/* Of 65536 the number's fraction of a step is rounded up, within five standard deviations. */
static void the_mean_is_the_number(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float in[N];
    static uint16_t out[N];
    static const uint32_t fractions[] = {0, 1, 0x100, 0x4000, 0x8000, 0xc000, 0xffff};
    for (size_t f = 0; f < sizeof fractions / sizeof *fractions; f++)
        for (int negative = 0; negative < 2; negative++) {
            struct rounding r = {draw(), draw()};
            uint32_t bits = (negative ? 0xbf9d0000u : 0x3f9d0000u) + fractions[f];
            double p = fractions[f] / 65536.0, up = 0;
            for (size_t i = 0; i < N; i++)
                in[i] = f32_from_bits(bits);
            kernel_round_bf16(out, in, N, draw(), &r);
            for (size_t i = 0; i < N; i++) {
                assert_true(out[i] == bits >> 16 || out[i] == (bits >> 16) + 1);
                up += out[i] != bits >> 16;
            }
            assert_true(fabs(up - N * p) <= 5 * sqrt(N * p * (1 - p)));
        }
}

static void other_seeds_and_steps_give_other_bits(void **state)
{
    (void)state;
    enum { N = 256 };
    float in[N];
    uint16_t out[4][N];
    static const struct rounding by[] = {{1, 1}, {2, 1}, {1, 2}, {1, (uint64_t)1 << 40}};
    for (size_t i = 0; i < N; i++)
        in[i] = f32_from_bits(0x40490fdb);
    for (int k = 0; k < 4; k++)
        kernel_round_bf16(out[k], in, N, 0, &by[k]);
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < k; j++)
            assert_memory_not_equal(out[k], out[j], sizeof out[k]);
}

static void cuts_change_nothing(void **state)
{
    (void)state;
    enum { N = 1000 };
    const struct rounding r = {draw(), draw()};
    uint64_t first = ((uint64_t)1 << 35) - 500 + draw() % 16;
    float *in = random_floats(N, 3);
    uint16_t whole[N], parts[N];
    kernel_round_bf16(whole, in, N, first, &r);
    for (size_t at = 0, n; at < N; at += n) {
        n = 1 + draw() % 20;
        n = n < N - at ? n : N - at;
        kernel_round_bf16(parts + at, in + at, n, first + at, &r);
    }
    assert_memory_equal(whole, parts, sizeof whole);
    free(in);
}

static void what_is_no_number_stays(void **state)
{
    (void)state;
    const float in[] = {INFINITY, -INFINITY, NAN, 0, -0.0f, f32_from_bits(0xff800001)};
    uint16_t out[6];
    for (uint64_t step = 0; step < 50; step++) {
        kernel_round_bf16(out, in, 6, step, &(struct rounding){7, step});
        assert_true(out[0] == 0x7f80 && out[1] == 0xff80 && out[3] == 0 && out[4] == 0x8000);
        assert_true(isnan(f32_from_bits((uint32_t)out[2] << 16)) && isnan(f32_from_bits((uint32_t)out[5] << 16)));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers), cmocka_unit_test(the_mean_is_the_number),
        cmocka_unit_test(other_seeds_and_steps_give_other_bits), cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(what_is_no_number_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
