#include "t/unit/unit.h"

#include "runtime/comm/bypass.h"

/* Runs operations from..to - 1, each of which takes cost_ns[is past the caches]. How many of them were past them. */
static uint64_t run(struct bypass *b, uint64_t from, uint64_t to, const uint64_t cost_ns[2])
{
    uint64_t n_past = 0;
    for (uint64_t n = from; n < to; n++) {
        bool is_past = bypass_of(b, n);
        n_past += is_past;
        bypass_took(b, n, cost_ns[is_past]);
    }
    return n_past;
}

static void test_stays(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    uint64_t n_past = run(&b, 1, 1000000, (uint64_t[]){70, 95});
    assert_false(b.is_on);
    assert_in_range(n_past, 5 * BYPASS_TRIAL, 1000000 / 400); /* it keeps trying, and that costs little */
    assert_int_equal(b.period, BYPASS_LONGEST);
}

static void test_changes(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    run(&b, 1, 100000, (uint64_t[]){70, 95});
    run(&b, 100000, 100000 + BYPASS_LONGEST + 1, (uint64_t[]){280, 90});
    assert_true(b.is_on);
    uint64_t n = 100000 + BYPASS_LONGEST + 1, n_past = run(&b, n, n + 100000, (uint64_t[]){280, 90});
    assert_true(b.is_on);
    assert_in_range(100000 - n_past, BYPASS_TRIAL, 100000 / 200);
    run(&b, n + 100000, n + 100000 + BYPASS_LONGEST + 1, (uint64_t[]){70, 95});
    assert_false(b.is_on);
}

/* A small gain is noise. */
static void test_hysteresis(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    run(&b, 1, 100000, (uint64_t[]){100, 90});
    assert_false(b.is_on);
}

/* Ranks are not at the same operation, and some are put aside by the system for a while. */
static void test_noise(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    bool was[4] = {false};
    uint32_t random = 12345;
    for (uint64_t n = 1; n < 200000; n++) {
        bool is_past = bypass_of(&b, n), others = was[n % 4]; /* of which they have heard later */
        was[n % 4] = is_past;
        random = random * 1664525u + 1013904223u;
        uint64_t ns = (is_past ? 20 : 10) + (others ? 60 : 240) + (random >> 30 == 0 ? 3000000 : 0);
        bypass_took(&b, n, ns);
        if (n > 2 * BYPASS_LONGEST)
            assert_true(b.is_on);
    }
}

/* Not all operations are as large as those that are told of. */
static void test_gaps(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    for (uint64_t n = 1; n < 1000000; n += 100 + n % 7)
        bypass_took(&b, n, bypass_of(&b, n) ? 90 : 280);
    for (uint64_t n = 1000000; n < 1000000 + 2 * BYPASS_LONGEST; n++)
        bypass_took(&b, n, bypass_of(&b, n) ? 90 : 280);
    assert_true(b.is_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stays), cmocka_unit_test(test_changes),
                                       cmocka_unit_test(test_hysteresis), cmocka_unit_test(test_noise),
                                       cmocka_unit_test(test_gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
