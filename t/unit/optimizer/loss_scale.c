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
    struct scaler s;
    ddp_error_t e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(scaler_parse(good[i].text, i % 2, &s, &e), 0);
        assert_true(scaler_scale(&s) == good[i].scale);
        assert_int_equal(s.is_dynamic, !strcmp(good[i].text, "dynamic"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(scaler_parse(bad[i], false, &s, &e), -1);
        assert_non_null(strstr(e.text, "loss-scale="));
    }
}

static void automatic_is_dynamic_in_float16(void **state)
{
    (void)state;
    struct scaler s;
    assert_int_equal(scaler_parse("auto", true, &s, NULL), 0);
    assert_true(s.is_dynamic && scaler_scale(&s) == 65536);
    assert_int_equal(scaler_parse("auto", false, &s, NULL), 0);
    assert_true(!s.is_dynamic && scaler_scale(&s) == 1);
    assert_int_equal(scaler_parse("off", true, &s, NULL), 0);
    assert_true(!s.is_dynamic && scaler_scale(&s) == 1);
}

/* Halved at each skipped step; doubled after so many good ones in a row, and only then. */
static void the_rule(void **state)
{
    struct scaler s;
    (void)state;
    assert_int_equal(scaler_parse("dynamic", false, &s, NULL), 0);
    scaler_after_step(&s, true);
    scaler_after_step(&s, true);
    assert_true(scaler_scale(&s) == 16384);
    for (int i = 1; i < SCALER_GROWTH_STEPS; i++)
        scaler_after_step(&s, false);
    assert_true(scaler_scale(&s) == 16384);
    scaler_after_step(&s, true); /* one too early: from the beginning */
    for (int i = 1; i < SCALER_GROWTH_STEPS; i++)
        scaler_after_step(&s, false);
    assert_true(scaler_scale(&s) == 8192);
    scaler_after_step(&s, false);
    assert_true(scaler_scale(&s) == 16384 && s.n_good == 0);
}

static void it_stays_in_range(void **state)
{
    struct scaler s;
    (void)state;
    assert_int_equal(scaler_parse("dynamic", false, &s, NULL), 0);
    for (int i = 0; i < 1000; i++)
        scaler_after_step(&s, true);
    assert_true((float)scaler_scale(&s) > 0 && 1 / (float)scaler_scale(&s) < 1e38f);
    for (int i = 0; i < 300 * SCALER_GROWTH_STEPS; i++)
        scaler_after_step(&s, false);
    assert_true((float)scaler_scale(&s) < 1e38f);
}

static void one_that_is_fixed_stays(void **state)
{
    struct scaler s;
    (void)state;
    assert_int_equal(scaler_parse("8", false, &s, NULL), 0);
    scaler_after_step(&s, true);
    scaler_restore(&s, 1024, 3);
    assert_true(scaler_scale(&s) == 8);
}

static void it_goes_on_where_another_was(void **state)
{
    struct scaler s;
    (void)state;
    assert_int_equal(scaler_parse("dynamic", false, &s, NULL), 0);
    scaler_restore(&s, 0, 0); /* nothing known */
    assert_true(scaler_scale(&s) == 65536);
    scaler_restore(&s, 1024, SCALER_GROWTH_STEPS - 1);
    assert_true(scaler_scale(&s) == 1024);
    scaler_after_step(&s, false);
    assert_true(scaler_scale(&s) == 2048);
    scaler_restore(&s, 1e38, 1 << 30); /* no power of two */
    assert_true(scaler_scale(&s) == 2048);
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
