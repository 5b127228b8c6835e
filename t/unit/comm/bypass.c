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
    assert_true(n_past >= 5 * BYPASS_TRIAL && n_past <= 1000000 / 400); /* it keeps trying, and that costs little */
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
    assert_true(100000 - n_past >= BYPASS_TRIAL && 100000 - n_past <= 100000 / 200);
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

/* Ranks are not at the same operation: the others are so many ahead of the one that tries; and some are put aside by
 * the system for a while. */
static void run_apart(int ahead)
{
    struct bypass b = bypass_init();
    bool was[2 * BYPASS_LAST] = {false};
    uint32_t random = 12345;
    for (uint64_t n = 1; n < 100000; n++) {
        was[n % (2 * BYPASS_LAST)] = bypass_of(&b, n);
        bool others = ahead > 0 ? was[(n - (uint64_t)ahead) % (2 * BYPASS_LAST)] : bypass_of(&b, n + (uint64_t)-ahead);
        random = random * 1664525u + 1013904223u;
        uint64_t ns = (bypass_of(&b, n) ? 20 : 10) + (others ? 60 : 240) + (random >> 30 == 0 ? 3000000 : 0);
        bypass_took(&b, n, ns);
        if (n > 2 * BYPASS_LONGEST)
            assert_true(b.is_on);
    }
}

static void test_apart(void **state)
{
    (void)state;
    for (int ahead = -(BYPASS_LAST - 1); ahead < BYPASS_LAST; ahead++)
        run_apart(ahead);
}

/* Of some nothing is told: nothing changes for a trial of which only one side is known. */
static void test_gaps(void **state)
{
    (void)state;
    struct bypass b = bypass_init();
    for (uint64_t n = BYPASS_FIRST - 1; n < 100000; n += BYPASS_FIRST) {
        bypass_took(&b, n, 70);
        assert_false(b.is_on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stays), cmocka_unit_test(test_changes),
                                       cmocka_unit_test(test_hysteresis), cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
