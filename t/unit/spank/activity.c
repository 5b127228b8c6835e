/* When a program counts as one that computes, or waits. */
#include "config.h"
#include "t/unit/unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "spank/guard/process.h"
#include "spank/guards/activity.h"

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
        assert_int_equal(activity_take(&p, now, used, 0), looks[i].is);
    }
}

/* Looks a second apart at a program that takes nothing itself. */
static void who_waits_for_what_it_has_started_does_not_wait(void **state)
{
    static const struct {
        uint64_t below;
        enum activity_kind is;
    } looks[] = {
        {0, ACTIVITY_MIXED}, {S / 50, ACTIVITY_MIXED}, {S / 25, ACTIVITY_WAITS}, /* two per cent of a core */
        {S, ACTIVITY_WAITS}, {2 * S, ACTIVITY_MIXED}, {3 * S, ACTIVITY_MIXED},   /* it computes */
        {3 * S, ACTIVITY_MIXED}, {3 * S, ACTIVITY_WAITS},
        {0, ACTIVITY_WAITS}, {0, ACTIVITY_WAITS},                                /* it has ended */
        {ACTIVITY_UNKNOWN, ACTIVITY_WAITS}, {0, ACTIVITY_MIXED}, {0, ACTIVITY_MIXED}, {0, ACTIVITY_WAITS},
    };
    struct activity p = {0};
    uint64_t now = 50 * S;
    (void)state;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        assert_int_equal(activity_take(&p, now += S, 7 * S, looks[i].below), looks[i].is);
}

/* Takes processor time, tells, and waits until the other end closes. */
static void burn(int told, int ends)
{
    uint64_t used;
    char c = 0;
    while (process_used(getpid(), &used) && used < S / 20)
        continue;
    (void)!write(told, &c, 1);
    (void)!read(ends, &c, 1);
    _exit(0);
}

static void what_a_process_has_started_is_counted(void **state)
{
    int told[2], ends[2];
    char c;
    (void)state;
    assert_true(pipe(told) == 0 && pipe(ends) == 0);
    assert_int_equal(process_used_below(getpid()), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        if (fork() == 0)
            burn(told[1], ends[0]);
        burn(told[1], ends[0]);
    }
    assert_true(pid > 0 && read(told[0], &c, 1) == 1 && read(told[0], &c, 1) == 1);
    assert_true(process_used_below(getpid()) >= S / 10); /* a child and its child */
    close(ends[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A step that was suspended is no program that waits. */
static void a_look_that_comes_late_says_nothing(void **state)
{
    struct activity p = {0};
    uint64_t now = S;
    (void)state;
    activity_take(&p, now, 0, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(activity_take(&p, now += 10 * S, 0, 0), ACTIVITY_MIXED);
    assert_int_equal(activity_take(&p, now += S, 0, 0), ACTIVITY_MIXED);
    assert_int_equal(activity_take(&p, now += S, 0, 0), ACTIVITY_WAITS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_looks_in_a_row_make_an_activity),
    cmocka_unit_test(who_waits_for_what_it_has_started_does_not_wait),
    cmocka_unit_test(what_a_process_has_started_is_counted),
    cmocka_unit_test(a_look_that_comes_late_says_nothing),
};

UNIT_MAIN(tests)
