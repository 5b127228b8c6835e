/* When a program counts as one that computes, or waits. */
#include "config.h"
#include "t/unit/unit.h"

#include "spank/activity.h"

#define S 1000000000ull

/* Looks a second apart: per cent of a core in each, and what is known then. */
static void two_looks_in_a_row_make_an_activity(void **state)
{
    static const struct {
        int used, is;
    } looks[] = {
        {100, ACTIVITY_MIXED}, /* from the start, before the first look */
        {100, ACTIVITY_MIXED}, {16, ACTIVITY_COMPUTES}, {0, ACTIVITY_COMPUTES}, {100, ACTIVITY_COMPUTES},
        {10, ACTIVITY_COMPUTES}, {0, ACTIVITY_MIXED}, {4, ACTIVITY_WAITS}, {400, ACTIVITY_WAITS}, {1, ACTIVITY_WAITS},
        {10, ACTIVITY_WAITS}, {10, ACTIVITY_MIXED}, {0, ACTIVITY_MIXED}, {100, ACTIVITY_MIXED}, {0, ACTIVITY_MIXED},
        {0, ACTIVITY_WAITS}, {100, ACTIVITY_WAITS}, {100, ACTIVITY_COMPUTES},
    };
    struct activity p = {0};
    uint64_t now = 50 * S, used = 7 * S;
    (void)state;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        now += S;
        used += (uint64_t)looks[i].used * S / 100;
        assert_int_equal(activity_take(&p, now, used), looks[i].is);
    }
}

/* A step that was suspended is no program that waits. */
static void a_look_that_comes_late_says_nothing(void **state)
{
    struct activity p = {0};
    uint64_t now = S;
    (void)state;
    activity_take(&p, now, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(activity_take(&p, now += 10 * S, 0), ACTIVITY_MIXED);
    assert_int_equal(activity_take(&p, now += S, 0), ACTIVITY_MIXED);
    assert_int_equal(activity_take(&p, now += S, 0), ACTIVITY_WAITS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_looks_in_a_row_make_an_activity),
    cmocka_unit_test(a_look_that_comes_late_says_nothing),
};

UNIT_MAIN(tests)
