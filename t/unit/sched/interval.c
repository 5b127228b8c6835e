#include "t/unit/unit.h"

#include <math.h>

#include "runtime/sched/interval.h"

/* What Daly minimises, with no time to restart: failures are Poisson, a segment of
 * tau + cost is repeated until it ends without one. Time per tau of work: mtbf (exp((tau + cost) / mtbf) - 1). */
static double time_per_work(double tau, double cost, double mtbf)
{
    return mtbf * expm1((tau + cost) / mtbf) / tau;
}

static double search_best(double cost, double mtbf)
{
    double low = cost / 100, high = 20 * mtbf;
    for (int i = 0; i < 200; i++) { /* convex in tau: ternary search */
        double a = low + (high - low) / 3, b = high - (high - low) / 3;
        if (time_per_work(a, cost, mtbf) < time_per_work(b, cost, mtbf))
            high = b;
        else
            low = a;
    }
    return low;
}

static void young_is_the_square_root(void **state)
{
    (void)state;
    assert_true(interval_young_s(2, 100) == 20);
    assert_true(fabs(interval_young_s(30, 86400) - 2276.8398) < 1e-3);
}

/* Against the optimum found by search: Daly's estimate is to lose next to nothing, and to be better than Young's. */
static void daly_finds_the_optimum(void **state)
{
    (void)state;
    for (double mtbf = 60; mtbf < 1e7; mtbf *= 7)
        for (double part = 1e-6; part < 1.9; part *= 1.7) {
            double cost = part * mtbf, daly = interval_daly_s(cost, mtbf), best = search_best(cost, mtbf);
            double lost = time_per_work(daly, cost, mtbf) / time_per_work(best, cost, mtbf);
            assert_true(daly > 0);
            if (lost > 1.001)
                fail_msg("cost %g, mtbf %g: %g instead of %g costs %g", cost, mtbf, daly, best, lost);
            if (part > 1e-3 && part < 0.5)
                assert_true(fabs(daly - best) < fabs(interval_young_s(cost, mtbf) - best));
        }
    assert_true(interval_daly_s(200, 100) == 100);
    assert_true(interval_daly_s(1e6, 100) == 100);
}

static void the_interval_grows_with_cost_and_mtbf(void **state)
{
    (void)state;
    for (double cost = 0.001; cost < 100; cost *= 2)
        for (double mtbf = 1000; mtbf < 1e7; mtbf *= 2) {
            assert_true(interval_daly_s(cost, 2 * mtbf) > interval_daly_s(cost, mtbf));
            assert_true(interval_daly_s(2 * cost, mtbf) > interval_daly_s(cost, mtbf));
        }
}

static void failures_are_learnt(void **state)
{
    (void)state;
    assert_true(interval_mtbf_s(0, 0) == INTERVAL_PRIOR_S);
    assert_true(interval_mtbf_s(86400, 0) == 2 * INTERVAL_PRIOR_S);
    assert_true(interval_mtbf_s(0, 1) == INTERVAL_PRIOR_S / 2);
    assert_true(fabs(interval_mtbf_s(3600.0 * 1000, 1000) / 3600 - 1) < 0.03); /* one an hour, a thousand times */
}

static void p99_of_few_is_careful_and_of_many_is_the_rank(void **state)
{
    (void)state;
    struct recent r = {.n = 0};
    assert_true(recent_p99_s(&r) == 0 && recent_max_s(&r) == 0 && recent_mean_s(&r) == 0);
    recent_add(&r, 3);
    assert_true(recent_p99_s(&r) == 6);
    recent_add(&r, 1);
    assert_true(recent_p99_s(&r) == 4.5 && recent_max_s(&r) == 3 && recent_mean_s(&r) == 2);
    for (int i = 2; i < 10; i++)
        recent_add(&r, 1);
    assert_true(recent_p99_s(&r) == 3);
    for (int i = 10; i < 99; i++)
        recent_add(&r, 2);
    assert_true(recent_p99_s(&r) == 3);
    recent_add(&r, 2.5); /* the hundredth: the longest one is beyond the 99th percentile */
    assert_true(recent_p99_s(&r) == 2.5);
    recent_add(&r, 2.5); /* takes the place of the oldest, 3 */
    assert_true(recent_max_s(&r) == 2.5 && recent_p99_s(&r) == 2.5);
    for (int i = 0; i < INTERVAL_RECENT; i++)
        recent_add(&r, 1);
    assert_true(recent_p99_s(&r) == 1 && recent_mean_s(&r) == 1);
}

/* Whoever begins at the last moment, after a step as long as any, is through with a save as long as any. */
static void the_last_moment_leaves_time(void **state)
{
    (void)state;
    assert_true(interval_last_moment_s(1000, 60, 5) == 1000 - 65 - INTERVAL_MARGIN_S);
    assert_true(interval_last_moment_s(10, 60, 5) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(young_is_the_square_root),
        cmocka_unit_test(daly_finds_the_optimum),
        cmocka_unit_test(the_interval_grows_with_cost_and_mtbf),
        cmocka_unit_test(failures_are_learnt),
        cmocka_unit_test(p99_of_few_is_careful_and_of_many_is_the_rank),
        cmocka_unit_test(the_last_moment_leaves_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
