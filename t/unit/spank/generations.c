/* Guards that start their programs again: when a generation ends, when the next one begins, and when none does. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <poll.h>
#include <sys/wait.h>

static void all_hear_generation(struct members *m, int generation)
{
    for (int r = 0; r < m->n; r++) {
        struct heard h;
        assert_true(members_hears(m, r, 20, &h));
        assert_int_equal(h.generation, generation);
        assert_int_equal(h.verdict.kind, DEATH_NONE);
    }
}

static void all_hear_next(struct members *m, int next, enum death_kind kind, int rank)
{
    for (int r = 0; r < m->n; r++) {
        struct heard h;
        assert_true(members_hears(m, r, 20, &h));
        assert_int_equal(h.verdict.kind, kind);
        assert_int_equal(h.verdict.rank, rank);
        assert_int_equal(h.verdict.next, next);
        assert_int_equal(h.verdict.of, 2);
        assert_int_equal(h.is_ours, r == 0);
    }
}

/* The next generation begins when nothing is left of this one on any node, and has a card of its own. */
static void a_death_begins_the_next_generation(void **state)
{
    struct members m = {.restarts = 2};
    (void)state;
    members_start_all(&m, 3, 2);
    for (int generation = 1; generation <= 2; generation++) {
        struct heard h;
        members_tell(&m, 0, DO_CARD);
        for (int r = 0; r < m.n; r++) {
            assert_true(members_hears(&m, r, 20, &h));
            assert_string_equal(h.card, "card");
        }
        members_tell(&m, generation, generation == 1 ? DO_DIE : DO_LACK_MEMORY);
        all_hear_next(&m, generation, generation == 1 ? DEATH_ENDED : DEATH_SHORT, generation);
        for (int r = m.n - 1; r > 0; r--)
            members_tell(&m, r, DO_GONE);
        assert_false(members_hears(&m, m.n - 1, 0.2, &h)); /* one is still there */
        members_tell(&m, 0, DO_GONE);
        all_hear_generation(&m, generation);
    }
    members_tell(&m, 5, DO_DIE);
    for (int r = 0; r < m.n; r++) {
        struct heard h;
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.next, 0); /* as often as was allowed */
    }
    members_end(&m);
}

static void a_rank_that_dies_again_and_again_ends_the_step(void **state)
{
    struct members m = {.restarts = 100};
    struct heard h;
    (void)state;
    members_start_all(&m, 2, 1);
    for (int generation = 1;; generation++) {
        members_tell(&m, 1, DO_DIE);
        for (int r = 0; r < 2; r++)
            assert_true(members_hears(&m, r, 20, &h));
        if (!h.verdict.next)
            break;
        assert_true(generation < GUARDS_LOOP_N);
        members_tell(&m, 0, DO_GONE);
        members_tell(&m, 1, DO_GONE);
        all_hear_generation(&m, generation);
    }
    assert_int_equal(h.verdict.of, GUARDS_LOOP_N);
    members_end(&m);
}

/* A guard or a node cannot be started again; nor is a step that was asked to end. */
static void what_no_generation_follows(void **state)
{
    struct members m = {.restarts = 2};
    struct heard h;
    (void)state;
    members_start_all(&m, 2, 2);
    members_kill(&m, 3);
    members_all_hear(&m, 3, DEATH_GUARD, 3, 0, 0);
    members_end(&m);
    members_start_all(&m, 2, 1);
    members_tell(&m, 1, DO_DIE);
    all_hear_next(&m, 1, DEATH_ENDED, 1);
    members_kill(&m, 1); /* while it is about to follow */
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.verdict.kind, DEATH_GONE);
    assert_int_equal(h.verdict.next, 0);
    members_end(&m);
    members_start_all(&m, 2, 1);
    members_tell(&m, 1, DO_EXPECT_END);
    members_tell(&m, 1, DO_FINISH);
    assert_false(members_hears(&m, 1, 20, &h)); /* it leaves, and waits for nobody */
    members_tell(&m, 0, DO_DIE);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.verdict.next, 0);
    members_end(&m);
}

/* Who has finished may be needed again, until all have. */
static void with_restarts_all_stay_until_all_have_finished(void **state)
{
    struct members m = {.restarts = 2};
    (void)state;
    members_start_all(&m, 2, 2);
    for (int r = 0; r < 3; r++)
        members_tell(&m, r, DO_FINISH);
    for (int r = 0; r < 3; r++)
        assert_false(waitpid(m.of[r].pid, NULL, WNOHANG));
    members_tell(&m, 3, DO_DIE);
    all_hear_next(&m, 1, DEATH_ENDED, 3);
    for (int r = 0; r < 4; r++)
        members_tell(&m, r, DO_GONE);
    all_hear_generation(&m, 1);
    for (int r = 0; r < 4; r++)
        members_tell(&m, r, DO_FINISH);
    for (int r = 0; r < 4; r++)
        members_wait_end(&m, r);
}

/* A guard that never joins: the others do not wait for it for ever. */
static void who_never_joins_is_not_waited_for(void **state)
{
    struct members m = {.restarts = 2, .join_s = 0.5};
    struct heard h;
    (void)state;
    members_set_up(&m, 2, 1);
    members_start(&m, 0);
    members_wait_joined(&m, 0);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.n_missing, 1);
    members_tell(&m, 0, DO_FINISH);
    members_wait_end(&m, 0);
}

/* Slurm ends a step whose first node's tasks did not start: whoever looks for the guard there does not outlive that by
 * long, whether its program ends before or after the word, or has been stopped. */
static void who_looks_for_another_ends_with_the_step(void **state)
{
    const enum order order[][2] = {{DO_FINISH, DO_EXPECT_END}, {DO_EXPECT_END, DO_FINISH}, {DO_END_STOP, DO_SAVE}};
    struct members m = {.restarts = 2, .saves = true};
    (void)state;
    members_set_up(&m, 4, 1);
    for (int i = 0; i < 3; i++) {
        members_start(&m, 1 + i);
        members_tell(&m, 1 + i, order[i][0]);
        members_tell(&m, 1 + i, order[i][1]);
    }
    struct heard h;
    assert_true(members_hears(&m, 3, 20, &h) && h.is_stopping);
    for (int i = 0; i < 3; i++)
        members_wait_end(&m, 1 + i);
}

/* Nor a program that does not go: its node is named. */
static void who_does_not_go_ends_the_step(void **state)
{
    struct members m = {.restarts = 2, .stuck_s = 0.5};
    (void)state;
    members_start_all(&m, 2, 2);
    members_tell(&m, 0, DO_DIE);
    all_hear_next(&m, 1, DEATH_ENDED, 0);
    for (int r = 0; r < 3; r++)
        members_tell(&m, r, DO_GONE);
    for (int r = 0; r < 4; r++) {
        struct heard h;
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_STUCK);
        assert_int_equal(h.verdict.next, 0);
        assert_string_equal(h.verdict.node, "n2");
        assert_int_equal(h.is_ours, r == 0);
    }
    members_end(&m);
}

/* Before all have joined that is another matter. */
static void who_cannot_be_reached_is_told_as_that(void **state)
{
    struct members m = {.restarts = 2, .stuck_s = 0.5};
    struct heard h;
    (void)state;
    members_set_up(&m, 2, 1);
    members_start(&m, 0);
    members_tell(&m, 0, DO_DIE); /* by which it wakes */
    members_wait_joined(&m, 0);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.verdict.next, 1);
    members_tell(&m, 0, DO_GONE);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.verdict.kind, DEATH_MISSING);
    assert_int_equal(h.verdict.how, 1);
    assert_string_equal(h.verdict.node, "");
    members_end(&m);
}

/* Longer than programs may take to end. */
static void a_step_that_was_suspended_is_not_stuck(void **state)
{
    struct members m = {.restarts = 2, .stuck_s = 4};
    struct pollfd none = {.fd = -1};
    struct heard h;
    (void)state;
    members_start_all(&m, 2, 1);
    members_tell(&m, 0, DO_DIE);
    members_all_hear(&m, -1, DEATH_ENDED, 0, SIGKILL, 0);
    for (int r = 0; r < 2; r++)
        kill(m.of[r].pid, SIGSTOP);
    poll(&none, 1, 5000); /* this much time must pass: it is what is tested */
    for (int r = 0; r < 2; r++)
        kill(m.of[r].pid, SIGCONT);
    members_tell(&m, 0, DO_GONE);
    assert_false(members_hears(&m, 0, 1, &h));
    members_tell(&m, 1, DO_GONE);
    all_hear_generation(&m, 1);
    members_end(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_death_begins_the_next_generation),
    cmocka_unit_test(a_rank_that_dies_again_and_again_ends_the_step),
    cmocka_unit_test(what_no_generation_follows),
    cmocka_unit_test(with_restarts_all_stay_until_all_have_finished),
    cmocka_unit_test(who_never_joins_is_not_waited_for),
    cmocka_unit_test(who_looks_for_another_ends_with_the_step),
    cmocka_unit_test(who_does_not_go_ends_the_step),
    cmocka_unit_test(who_cannot_be_reached_is_told_as_that),
    cmocka_unit_test(a_step_that_was_suspended_is_not_stuck),
};

UNIT_MAIN(tests)
