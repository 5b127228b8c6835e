#include "t/unit/unit.h"

#include <math.h>

#include "runtime/sched/due.h"

enum { START = 1000 };

static struct due make(int64_t every, double mtbf_s)
{
    struct due d;
    struct due_config cfg = {.every = every, .mtbf_s = mtbf_s, .guess_save_s = 7};
    due_open(&d, &cfg, 0, START);
    return d;
}

static void every_n_steps(void **state)
{
    (void)state;
    struct due d = make(10, 0);
    uint64_t saved[8];
    int n = 0;
    for (uint64_t step = 1; step <= 45; step++) {
        if (due_judge(&d, step, START + (double)step * 1e4, INFINITY) != DUE_CHECKPOINT)
            continue;
        if (step == 20 || step == 21) /* one is still in flight: postponed, not dropped */
            continue;
        due_begun(&d, step, START + (double)step);
        saved[n++] = step;
        due_over(&d, 1, 0);
    }
    assert_int_equal(n, 4);
    assert_int_equal(saved[0], 10);
    assert_int_equal(saved[1], 22);
    assert_int_equal(saved[2], 30);
    assert_int_equal(saved[3], 40);
    struct due_config cfg = {.every = 10};
    due_open(&d, &cfg, 25, START); /* resumed between two */
    assert_int_equal(due_judge(&d, 29, START, INFINITY), DUE_NOTHING);
    assert_int_equal(due_judge(&d, 30, START, INFINITY), DUE_CHECKPOINT);
    due_open(&d, &cfg, 30, START); /* at one */
    assert_int_equal(due_judge(&d, 31, START, INFINITY), DUE_NOTHING);
}

static void on_request_only(void **state)
{
    (void)state;
    struct due d = make(0, 0);
    assert_int_equal(due_judge(&d, 1000000, START + 1e9, INFINITY), DUE_NOTHING);
    assert_int_equal(due_judge(&d, 1, START + 90, START + 100), DUE_STOP);
}

/* n steps of step_s each from *now on. */
static void steps(struct due *d, double *now, int n, double step_s)
{
    for (int i = 0; i < n; i++)
        due_step(d, *now += step_s);
}

static void by_time_from_what_it_costs(void **state)
{
    (void)state;
    struct due d = make(-1, 20000);
    double now = START;
    steps(&d, &now, 59, 1);
    assert_int_equal(due_judge(&d, 60, now, INFINITY), DUE_NOTHING);
    steps(&d, &now, 1, 1);
    assert_int_equal(due_judge(&d, 61, now, INFINITY), DUE_CHECKPOINT); /* the first, to learn what it costs */
    due_begun(&d, 61, now);
    steps(&d, &now, 10, 1.3); /* ten steps that took 0.3 s longer than others: it cost 3 s, */
    due_over(&d, 12, 0.5);    /* more than the half second in which training stood still */
    double want = interval_daly_s(3, 20000);
    assert_true(fabs(due_interval_s(&d, now) - want) < 1e-6 * want);
    double from = now - 13;
    assert_int_equal(due_judge(&d, 99, from + want - 1, INFINITY), DUE_NOTHING);
    assert_int_equal(due_judge(&d, 99, from + want + 1, INFINITY), DUE_CHECKPOINT);
    due_begun(&d, 99, now);
    steps(&d, &now, 10, 1);
    due_over(&d, 12, 5); /* the mean of 3 and 5 */
    assert_true(fabs(due_interval_s(&d, now) - interval_daly_s(4, 20000)) < 1);
    due_begun(&d, 100, now);
    due_over(&d, -1, 100); /* given up: tells nothing of what one costs */
    assert_true(fabs(due_interval_s(&d, now) - interval_daly_s(4, 20000)) < 1);
}

static void failures_shorten_the_interval(void **state)
{
    (void)state;
    struct due often, seldom;
    struct due_config cfg = {.every = -1, .trained_s = 1e6, .n_failures = 0};
    due_open(&seldom, &cfg, 0, START);
    cfg.n_failures = 99;
    due_open(&often, &cfg, 0, START);
    due_begun(&often, 1, START);
    due_over(&often, 2, 2);
    due_begun(&seldom, 1, START);
    due_over(&seldom, 2, 2);
    assert_true(due_interval_s(&often, START) * 9 < due_interval_s(&seldom, START));
    assert_true(due_interval_s(&seldom, START + 1e7) > 2 * due_interval_s(&seldom, START)); /* long without one */
}

static void the_last_moment(void **state)
{
    (void)state;
    struct due d = make(-1, 0);
    double now = START, end = START + 500;
    assert_int_equal(due_judge(&d, 1, end - 7 - INTERVAL_MARGIN_S - 1, INFINITY), DUE_CHECKPOINT);
    assert_int_equal(due_judge(&d, 1, end - 7 - INTERVAL_MARGIN_S, end), DUE_STOP); /* by the guess */
    steps(&d, &now, 20, 1);
    steps(&d, &now, 1, 4); /* a validation */
    due_begun(&d, 21, now);
    due_over(&d, 30, 0);
    double last = end - 60 - 4 - INTERVAL_MARGIN_S; /* twice the only save, the longest step */
    assert_int_equal(due_judge(&d, 22, last - 0.1, end) == DUE_STOP, 0);
    assert_int_equal(due_judge(&d, 22, last + 0.1, end), DUE_STOP);
    assert_int_equal(due_judge(&d, 22, last + 0.1, end + 100) == DUE_STOP, 0); /* the limit was extended */
    double ask = last - 4 - DUE_ASK_AHEAD_S;
    assert_false(due_wants_to_know(&d, ask - 0.1, end, -INFINITY));
    assert_true(due_wants_to_know(&d, ask + 0.1, end, -INFINITY));
    assert_true(due_wants_to_know(&d, ask + 0.1, end, START));
    assert_false(due_wants_to_know(&d, ask + 1, end, ask + 0.1));
    assert_false(due_wants_to_know(&d, ask + 1, INFINITY, -INFINITY));
    assert_false(due_wants_to_know(&d, last + 4, end, ask)); /* one step behind each */
    assert_false(due_wants_to_know(&d, ask + 70, end + 100, ask + 0.1));
    assert_true(due_wants_to_know(&d, ask + 70, end, ask + 0.1)); /* the job was suspended behind the question */
}

/* 7200 s of suspension, of which the controller tells during the step or some steps later. */
static void a_suspension_is_no_steps_time(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        struct due d = make(-1, 0);
        double now = START, end = START + 20000;
        steps(&d, &now, 20, 5);
        if (is_late) {
            steps(&d, &now, 1, 7203);
            steps(&d, &now, 3, 5);
            due_suspended(&d, 7200, now);
        } else {
            due_suspended(&d, 7200, now + 7202);
            steps(&d, &now, 1, 7203);
        }
        due_suspended(&d, 7200, now); /* nothing new */
        double last = end - 7 - 5 - INTERVAL_MARGIN_S;
        assert_false(due_judge(&d, 30, last - 0.1, end) == DUE_STOP);
        assert_int_equal(due_judge(&d, 30, last + 0.1, end), DUE_STOP);
        assert_true(recent_mean_s(&d.calm) < 6);
        due_suspended(&d, 7300, now); /* no step took 100 s: it was none of ours */
        assert_int_equal(due_judge(&d, 30, last + 0.1, end), DUE_STOP);
    }
}

/* The controller tells of all that have been. */
static void a_second_suspension_is_counted_by_itself(void **state)
{
    (void)state;
    struct due d = make(-1, 0);
    double now = START, end = START + 20000, last = end - 7 - 5 - INTERVAL_MARGIN_S;
    steps(&d, &now, 20, 5);
    due_suspended(&d, 1000, now + 1002);
    steps(&d, &now, 1, 1003);
    due_suspended(&d, 1060, now + 62);
    steps(&d, &now, 1, 63);
    assert_false(due_judge(&d, 30, last - 0.1, end) == DUE_STOP);
    assert_int_equal(due_judge(&d, 30, last + 0.1, end), DUE_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_n_steps),
        cmocka_unit_test(on_request_only),
        cmocka_unit_test(by_time_from_what_it_costs),
        cmocka_unit_test(failures_shorten_the_interval),
        cmocka_unit_test(the_last_moment),
        cmocka_unit_test(a_suspension_is_no_steps_time),
        cmocka_unit_test(a_second_suspension_is_counted_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
