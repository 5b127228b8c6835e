/* Nodes that say nothing: of their own, because Slurm has suspended the step, or while an exit code waits to be
 * judged. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <poll.h>
#include <signal.h>

/* A guard whose node is above, and does not answer. */
static void silence_is_found_and_named(void **state)
{
    struct members m = {.silent_s = 5};
    (void)state;
    members_start_all(&m, 3, 1);
    kill(m.of[2].pid, SIGSTOP);
    struct heard h;
    assert_true(members_hears(&m, 0, 20, &h));
    assert_true(h.is_warned && h.verdict.kind == DEATH_NONE); /* by the one above it, once */
    for (int r = 0; r < 2; r++) {
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_SILENT);
        assert_int_equal(h.verdict.how, 5);
        assert_int_equal(h.verdict.rank, 2);
        assert_string_equal(h.verdict.node, "n3");
        assert_int_equal(h.is_ours, r == 0);
    }
    members_end(&m);
}

/* All stop together, as when the step is suspended, longer than silence may last; then they go on, and one dies. */
static void a_step_that_was_suspended_blames_nobody(void **state)
{
    struct members m = {.silent_s = 3};
    (void)state;
    members_start_all(&m, 3, 1);
    for (int r = 0; r < 3; r++)
        kill(m.of[r].pid, SIGSTOP);
    struct pollfd none = {.fd = -1};
    poll(&none, 1, (GUARDS_SAY_SILENT_S + 2) * 1000); /* this much time must pass: it is what is tested */
    for (int r = 0; r < 3; r++)
        kill(m.of[r].pid, SIGCONT);
    members_tell(&m, 2, DO_FAIL_1);
    members_all_hear(&m, -1, DEATH_ENDED, 2, EXIT(1), 0);
    members_end(&m);
}

static void tell_answered(struct members *m, int rank, enum order order)
{
    struct heard h;
    members_tell(m, rank, order);
    assert_true(members_hears(m, rank, 20, &h) && h.verdict.kind == DEATH_NONE);
}

/* All nodes that Slurm is about to suspend tell each other. */
static void rest_all(struct members *m)
{
    for (int r = 0; r < m->n; r++)
        for (int i = 0; i < 2; i++) /* the first has been told when the second is answered */
            tell_answered(m, r, DO_REST);
}

/* It is not, where Slurm reaches its nodes one after the other: n3 goes on while the others stand still already, then
 * n2 stands still while the others go on again. */
static void a_part_that_is_suspended_is_not_blamed(void **state)
{
    struct members m = {.silent_s = 3};
    struct pollfd none = {.fd = -1};
    (void)state;
    members_start_all(&m, 3, 1);
    rest_all(&m);
    kill(m.of[0].pid, SIGSTOP);
    kill(m.of[1].pid, SIGSTOP);
    poll(&none, 1, (GUARDS_SAY_SILENT_S + 2) * 1000); /* as above */
    kill(m.of[0].pid, SIGCONT);
    tell_answered(&m, 0, DO_WAKE);
    poll(&none, 1, (GUARDS_SAY_SILENT_S + 2) * 1000);
    kill(m.of[1].pid, SIGCONT);
    members_tell(&m, 2, DO_FAIL_1);
    members_all_hear(&m, -1, DEATH_ENDED, 2, EXIT(1), 0);
    members_end(&m);
}

/* Its slurmstepd was killed meanwhile, say, or the node has gone down. Where it wakes all the same it learns why the
 * others have ended. */
static void a_node_that_is_not_woken_is_lost(void **state)
{
    (void)state;
    for (int sleeper = 0; sleeper < 2; sleeper++) {
        struct members m = {.silent_s = 3, .wake_s = 5};
        struct heard h;
        int other = !sleeper;
        members_start_all(&m, 2, 1);
        rest_all(&m);
        kill(m.of[sleeper].pid, SIGSTOP);
        tell_answered(&m, other, DO_WAKE);
        assert_true(members_hears(&m, other, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_SILENT);
        assert_int_equal(h.verdict.rank, sleeper);
        assert_true(h.verdict.how >= 5 && h.is_ours);
        kill(m.of[sleeper].pid, SIGCONT);
        do /* first it has woken, and then knows */
            assert_true(members_hears(&m, sleeper, 20, &h));
        while (h.verdict.kind == DEATH_NONE);
        assert_int_equal(h.verdict.kind, DEATH_SILENT);
        assert_int_equal(h.verdict.rank, sleeper);
        members_end(&m);
    }
}

/* That nobody is heard any more is this node's own fault, where there were several. */
static void who_hears_nobody_blames_itself(void **state)
{
    struct members m = {.silent_s = 5};
    struct heard h;
    (void)state;
    members_start_all(&m, 3, 1);
    kill(m.of[1].pid, SIGSTOP);
    kill(m.of[2].pid, SIGSTOP);
    do /* after the warnings */
        assert_true(members_hears(&m, 0, 20, &h));
    while (h.is_warned);
    assert_int_equal(h.verdict.kind, DEATH_DEAF);
    assert_int_equal(h.verdict.rank, 0);
    assert_string_equal(h.verdict.node, "n1");
    assert_string_equal(h.verdict.text, "");
    members_end(&m);
}

/* One is late when an exit code comes, which may be of its silence, or not. */
static void an_exit_code_waits_for_who_is_late(void **state)
{
    (void)state;
    for (int speaks = 0; speaks < 2; speaks++) {
        struct members m = {.silent_s = 5};
        struct heard h;
        members_start_all(&m, 3, 1);
        kill(m.of[1].pid, SIGSTOP);
        struct pollfd none = {.fd = -1};
        poll(&none, 1, 2400); /* late, and not silent: it is what is tested */
        members_tell(&m, 2, DO_FAIL_1);
        assert_false(members_hears(&m, 2, 0.4, &h));
        if (speaks)
            kill(m.of[1].pid, SIGCONT);
        do
            assert_true(members_hears(&m, 2, 20, &h));
        while (h.is_warned);
        assert_int_equal(h.verdict.kind, speaks ? DEATH_ENDED : DEATH_SILENT);
        assert_int_equal(h.verdict.rank, speaks ? 2 : 1);
        members_end(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(silence_is_found_and_named),
    cmocka_unit_test(a_step_that_was_suspended_blames_nobody),
    cmocka_unit_test(a_part_that_is_suspended_is_not_blamed),
    cmocka_unit_test(a_node_that_is_not_woken_is_lost),
    cmocka_unit_test(who_hears_nobody_blames_itself),
    cmocka_unit_test(an_exit_code_waits_for_who_is_late),
};

UNIT_MAIN(tests)
