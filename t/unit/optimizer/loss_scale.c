/* The loss scale: what is accepted, and the rule by which it changes. */
#include "runtime/optimizer/loss_scale.h"

#include <string.h>

#include "t/unit/unit.h"

static void texts(void **state)
{
    static const struct {
        const char *text;
        double scale;
    } good[] = {{"off", 1}, {"dynamic", 65536}, {"1", 1}, {"1024", 1024}, {"0.5", 0.5}, {"1e0", 1}};
    static const char *const bad[] = {"", "on", "3", "0", "-2", "nan", "inf", "1e300", "1e-300", "1024x"};
    struct loss_scale s;
    ddp_error_t e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(loss_scale_parse(good[i].text, i % 2, &s, &e), 0);
        assert_true(loss_scale_factor(&s) == good[i].scale);
        assert_int_equal(s.is_dynamic, !strcmp(good[i].text, "dynamic"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(loss_scale_parse(bad[i], false, &s, &e), -1);
        assert_non_null(strstr(e.text, "loss-scale="));
    }
}

static void automatic_is_dynamic_in_float16(void **state)
{
    (void)state;
    struct loss_scale s;
    assert_int_equal(loss_scale_parse("auto", true, &s, NULL), 0);
    assert_true(s.is_dynamic && loss_scale_factor(&s) == 65536);
    assert_int_equal(loss_scale_parse("auto", false, &s, NULL), 0);
    assert_true(!s.is_dynamic && loss_scale_factor(&s) == 1);
    assert_int_equal(loss_scale_parse("off", true, &s, NULL), 0);
    assert_true(!s.is_dynamic && loss_scale_factor(&s) == 1);
}

/* Halved at each skipped step; doubled after so many good ones in a row, and only then. */
static void the_rule(void **state)
{
    struct loss_scale s;
    (void)state;
    assert_int_equal(loss_scale_parse("dynamic", false, &s, NULL), 0);
    loss_scale_after_step(&s, true);
    loss_scale_after_step(&s, true);
    assert_true(loss_scale_factor(&s) == 16384);
    for (int i = 1; i < LOSS_SCALE_GROWTH_STEPS; i++)
        loss_scale_after_step(&s, false);
    assert_true(loss_scale_factor(&s) == 16384);
    loss_scale_after_step(&s, true); /* one too early: from the beginning */
    for (int i = 1; i < LOSS_SCALE_GROWTH_STEPS; i++)
        loss_scale_after_step(&s, false);
    assert_true(loss_scale_factor(&s) == 8192);
    loss_scale_after_step(&s, false);
    assert_true(loss_scale_factor(&s) == 16384 && s.n_good == 0);
}

static void it_stays_in_range(void **state)
{
    struct loss_scale s;
    (void)state;
    assert_int_equal(loss_scale_parse("dynamic", false, &s, NULL), 0);
    for (int i = 0; i < 1000; i++)
        loss_scale_after_step(&s, true);
    assert_true((float)loss_scale_factor(&s) > 0 && 1 / (float)loss_scale_factor(&s) < 1e38f);
    for (int i = 0; i < 300 * LOSS_SCALE_GROWTH_STEPS; i++)
        loss_scale_after_step(&s, false);
    assert_true((float)loss_scale_factor(&s) < 1e38f);
}

static void one_that_is_fixed_stays(void **state)
{
    struct loss_scale s;
    (void)state;
    assert_int_equal(loss_scale_parse("8", false, &s, NULL), 0);
    loss_scale_after_step(&s, true);
    loss_scale_restore(&s, 1024, 3);
    assert_true(loss_scale_factor(&s) == 8);
}

static void it_goes_on_where_another_was(void **state)
{
    struct loss_scale s;
    (void)state;
    assert_int_equal(loss_scale_parse("dynamic", false, &s, NULL), 0);
    loss_scale_restore(&s, 0, 0); /* nothing known */
    assert_true(loss_scale_factor(&s) == 65536);
    loss_scale_restore(&s, 1024, LOSS_SCALE_GROWTH_STEPS - 1);
    assert_true(loss_scale_factor(&s) == 1024);
    loss_scale_after_step(&s, false);
    assert_true(loss_scale_factor(&s) == 2048);
    loss_scale_restore(&s, 1e38, 1 << 30); /* no power of two */
    assert_true(loss_scale_factor(&s) == 2048);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(texts),
    cmocka_unit_test(automatic_is_dynamic_in_float16),
    cmocka_unit_test(the_rule),
    cmocka_unit_test(it_stays_in_range),
    cmocka_unit_test(one_that_is_fixed_stays),
    cmocka_unit_test(it_goes_on_where_another_was),
};
UNIT_MAIN(tests)
