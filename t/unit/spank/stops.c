/* A stop in the tree of guards: all are told, who has saved is waited for, and the root is to requeue the job. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <signal.h>
#include <sys/wait.h>

static void all_hear_of_the_stop(struct members *m)
{
    for (int r = 0; r < m->n; r++) {
        struct heard h;
        if (!members_hears(m, r, 20, &h) || !h.is_stopping || h.verdict.kind != DEATH_NONE)
            fail_msg("rank %d is not told to stop", r);
    }
}

static void root_hears_of_the_requeue(struct members *m)
{
    struct heard h;
    assert_true(members_hears(m, 0, 20, &h));
    assert_true(h.wants_requeue);
}

static void who_is_told_first_tells_all(void **state)
{
    static const int first[] = {0, 1, 5};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct members m = {.saves = true};
        members_start_all(&m, 3, 2);
        members_tell(&m, first[i], DO_STOP);
        all_hear_of_the_stop(&m);
        members_end(&m);
    }
}

static void who_joins_late_is_told(void **state)
{
    struct members m = {.saves = true};
    struct heard h;
    (void)state;
    members_set_up(&m, 2, 1);
    members_start(&m, 1); /* told before there is a guard above */
    members_tell(&m, 1, DO_STOP);
    assert_true(members_hears(&m, 1, 20, &h) && h.is_stopping);
    members_start(&m, 0);
    do
        assert_true(members_hears(&m, 0, 20, &h));
    while (!h.is_stopping);
    members_end(&m);
    members_set_up(&m, 2, 1);
    members_start(&m, 0);
    members_tell(&m, 0, DO_STOP);
    members_start(&m, 1);
    do
        assert_true(members_hears(&m, 1, 20, &h));
    while (!h.is_stopping);
    members_end(&m);
}

static void the_job_is_requeued_when_all_have_saved(void **state)
{
    struct members m = {.saves = true, .requeues = true};
    (void)state;
    members_start_all(&m, 2, 2);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(waitpid(m.of[0].pid, NULL, WNOHANG), 0);
        members_tell(&m, r, DO_SAVE);
    }
    root_hears_of_the_requeue(&m);
    for (int r = 0; r < 4; r++)
        assert_int_equal(waitpid(m.of[r].pid, NULL, WNOHANG), 0);
    members_tell(&m, 0, DO_REQUEUED);
    for (int r = 1; r < 4; r++)
        members_wait_end(&m, r);
    members_end(&m);
}

static void without_a_requeue_they_leave_when_all_have_saved(void **state)
{
    struct members m = {.saves = true};
    (void)state;
    members_start_all(&m, 2, 2);
    for (int r = 3; r > 0; r--)
        members_tell(&m, r, DO_SAVE);
    for (int r = 0; r < 4; r++)
        assert_int_equal(waitpid(m.of[r].pid, NULL, WNOHANG), 0);
    members_tell(&m, 0, DO_SAVE);
    for (int r = 0; r < 4; r++)
        members_wait_end(&m, r);
}

/* By then nothing is requeued any more, but Slurm would end those that still save. */
static void who_has_saved_stays_though_one_has_just_ended(void **state)
{
    struct members m = {.saves = true, .requeues = true};
    (void)state;
    members_start_all(&m, 2, 2);
    members_tell(&m, 1, DO_SAVE);
    members_tell(&m, 2, DO_SAVE);
    members_tell(&m, 3, DO_FINISH);
    struct heard h;
    assert_false(members_hears(&m, 1, 0.3, &h));
    for (int r = 0; r < 3; r++)
        assert_int_equal(waitpid(m.of[r].pid, NULL, WNOHANG), 0);
    members_tell(&m, 0, DO_SAVE);
    for (int r = 0; r < 4; r++)
        members_wait_end(&m, r);
}

/* A verdict that a requeue follows: guards stay until nothing is left of any program. */
static void who_was_stopped_is_requeued_too(void **state)
{
    struct members m = {.saves = true, .requeues = true};
    (void)state;
    members_start_all(&m, 2, 2);
    members_tell(&m, 1, DO_FAIL_1); /* which may follow from that: */
    members_tell(&m, 3, DO_BE_STOPPED);
    members_all_hear(&m, -1, DEATH_STOPPED, 3, SIGUSR1, 0);
    for (int r = 0; r < 4; r++)
        members_tell(&m, r, DO_GONE);
    root_hears_of_the_requeue(&m);
    members_tell(&m, 0, DO_REQUEUED);
    for (int r = 0; r < 4; r++) {
        struct heard h;
        do
            assert_true(members_hears(&m, r, 20, &h));
        while (h.verdict.kind != DEATH_STOPPED);
        assert_int_equal(h.verdict.next, 0);
    }
    members_end(&m);
}

static void no_generation_follows_a_stop(void **state)
{
    struct members m = {.saves = true, .restarts = 2};
    struct heard h;
    (void)state;
    members_start_all(&m, 2, 1);
    members_tell(&m, 1, DO_STOP);
    all_hear_of_the_stop(&m);
    members_tell(&m, 1, DO_DIE);
    for (int r = 0; r < 2; r++) {
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_ENDED);
        assert_int_equal(h.verdict.next, 0);
    }
    members_end(&m);
}

/* One that was about to follow does not begin, and the job is requeued as it is. */
static void nor_does_one_that_a_stop_overtakes(void **state)
{
    struct members m = {.saves = true, .requeues = true, .restarts = 2};
    struct heard h = {.generation = 0};
    int n_lines = 0;
    (void)state;
    members_start_all(&m, 2, 1);
    members_tell(&m, 1, DO_DIE);
    members_all_hear(&m, -1, DEATH_ENDED, 1, SIGKILL, 0);
    members_tell(&m, 1, DO_STOP);
    all_hear_of_the_stop(&m);
    for (int r = 0; r < 2; r++)
        members_tell(&m, r, DO_GONE);
    while (!h.wants_requeue) {
        assert_true(members_hears(&m, 0, 20, &h));
        assert_int_equal(h.generation, 0);
        n_lines += !strcmp(h.news, "no restart: a stop was asked for before it");
    }
    assert_int_equal(n_lines, 1);
    members_tell(&m, 0, DO_REQUEUED);
    for (int r = 0; r < 2; r++) {
        do
            assert_true(members_hears(&m, r, 20, &h));
        while (h.verdict.kind == DEATH_NONE);
        assert_int_equal(h.verdict.next, 0);
    }
    members_end(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_is_told_first_tells_all),
    cmocka_unit_test(who_joins_late_is_told),
    cmocka_unit_test(the_job_is_requeued_when_all_have_saved),
    cmocka_unit_test(without_a_requeue_they_leave_when_all_have_saved),
    cmocka_unit_test(who_has_saved_stays_though_one_has_just_ended),
    cmocka_unit_test(who_was_stopped_is_requeued_too),
    cmocka_unit_test(no_generation_follows_a_stop),
    cmocka_unit_test(nor_does_one_that_a_stop_overtakes),
};

UNIT_MAIN(tests)
