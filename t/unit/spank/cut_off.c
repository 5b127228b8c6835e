/* Nodes of an elastic step that are silent, or cut off from the others: which part of it goes on, and when. */
#include "config.h"
#include "t/unit/spank/elastic.h"

#include <signal.h>

#include "runtime/base/clock.h"

#define CUT_OFF(node, of) \
    "node " node " is cut off, or the others are down: it reaches " of " nodes only, and ends; they may go on " \
    "without it"

/* Silent, it may run still: the part of the step that goes on is the one with most nodes. */
static void a_part_of_few_nodes_ends(void **state)
{
    static const int rank[] = {WAITS, 1, 0};
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 3, 1);
    elastic_stop_node(&m, 0);
    elastic_go_on(&m, 1, 2, rank);
    kill(m.of[0].pid, SIGCONT);
    do {
        elastic_hear(&m, 0, &h);
        if (h.verdict.next) /* it has not missed all of them yet */
            members_tell(&m, 0, DO_GONE);
    } while (h.verdict.kind == DEATH_NONE || h.verdict.next);
    assert_string_equal(elastic.news, CUT_OFF("n1", "1 of 3"));
    assert_false(elastic.has_told[0]); /* of those that are well */
    assert_true(h.are_few);            /* so it ends no step */
    elastic.is_dead[0] = true;
    assert_true(elastic.has_told[1]);
    elastic_finish(&m, rank);
}

/* A spare is the first that the root does not hear, and then all others: too few are left, as far as it knows. */
static void nor_does_one_end_for_want_of_nodes(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_stop_node(&m, 3);
    elastic_hear_news(&m, 0, "a spare, has gone");
    elastic_stop_node(&m, 1);
    elastic_stop_node(&m, 2);
    elastic_hear_until(&m, 0, &h, h.verdict.next);
    assert_int_equal(h.verdict.of, 0);
    members_tell(&m, 0, DO_GONE);
    elastic_hear_until(&m, 0, &h, h.is_last);
    assert_true(h.are_few);
    assert_string_equal(elastic.news, CUT_OFF("n1", "1 of 4"));
    assert_false(elastic.has_told[0]);
    members_end(&m);
}

/* Of the root's loss, too, whose place it takes: the others do not come. */
static void nor_does_it_blame_the_root(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 3, 1);
    elastic_stop_node(&m, 0);
    elastic_stop_node(&m, 2);
    elastic_hear_until(&m, 1, &h, h.verdict.next);
    members_tell(&m, 1, DO_GONE);
    elastic_hear_the_end(&m);
    assert_string_equal(elastic.news, CUT_OFF("n2", "1 of 3"));
    assert_false(elastic.has_told[1]);
    members_end(&m);
}

/* Where no generation may follow, either: it does not say that the step ends. */
static void nor_does_one_without_another_restart(void **state)
{
    static const int rank[] = {0, 1, WAITS};
    struct members m = {.restarts = 1, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 3, 1);
    members_tell(&m, 1, DO_DIE);
    elastic_go_on(&m, 1, 2, rank);
    elastic.has_told[0] = false;
    elastic_stop_node(&m, 1);
    elastic_stop_node(&m, 2);
    elastic_hear_until(&m, 0, &h, h.is_last && h.are_few);
    elastic_hear_news(&m, 0, CUT_OFF("n1", "1 of 3"));
    assert_false(elastic.has_told[0]);
    members_end(&m);
}

/* The part's root may go before who is below has left: that is a root then. */
static void nor_does_who_is_left_of_it_end_the_step(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 5, 1);
    for (int i = 2; i < 5; i++)
        elastic_stop_node(&m, i);
    elastic_hear_verdict(&m);
    members_tell(&m, 0, DO_GONE);
    members_tell(&m, 1, DO_GONE);
    elastic_hear_the_end(&m);
    elastic_kill_node(&m, 0);
    elastic_hear_until(&m, 1, &h, h.are_few);
    members_end(&m);
}

/* Who has ended before, of most nodes below another one, is not missed. */
static void a_part_whose_nodes_have_ended_is_not_one_of_few(void **state)
{
    struct members m = {.restarts = 1, .min_nodes = 1};
    (void)state;
    elastic_start(&m, 70, 1);
    for (int r = 0; r < 70; r++)
        members_tell(&m, r, DO_FINISH);
    members_wait_end(&m, 0);
    members_end(&m);
}

/* Those that look for another one above come to the new root. */
static void nor_is_one_to_which_others_are_on_their_way(void **state)
{
    static const int rank[] = {0, 1, 2, 3};
    struct members m = {.restarts = 1, .min_nodes = 1};
    struct heard h;
    (void)state;
    elastic_start(&m, 4, 1);
    members_tell(&m, 3, DO_DIE);
    elastic_go_on(&m, 1, 4, rank);
    for (int i = 2; i < 4; i++)
        assert_int_equal(kill(m.of[i].pid, SIGSTOP), 0);
    elastic_kill_node(&m, 0);
    elastic_hear_until(&m, 1, &h, h.verdict.kind != DEATH_NONE && !h.verdict.next);
    assert_true(h.are_few && !h.is_last);
    for (int i = 2; i < 4; i++)
        assert_int_equal(kill(m.of[i].pid, SIGCONT), 0);
    elastic_hear_until(&m, 1, &h, h.is_last);
    assert_false(h.are_few);
    members_end(&m);
}

/* It may run still: it is told, in case it hears, and its ranks start elsewhere when its programs must have ended. */
static void a_silent_node_ends_before_its_ranks_start_elsewhere(void **state)
{
    static const int rank[] = {0, WAITS, 2, 1};
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_stop_node(&m, 1);
    elastic_hear_verdict(&m);
    uint64_t known = clock_ns();
    kill(m.of[1].pid, SIGCONT);
    elastic_hear(&m, 1, &h);
    assert_int_equal(h.verdict.kind, DEATH_SILENT);
    assert_int_equal(h.verdict.rank, 1);
    assert_int_equal(h.verdict.next, 1);
    elastic_begin_next(&m, 1, 3, rank);
    assert_true(clock_ns() - known > (uint64_t)((GUARDS_LOST_WAIT_S - 1) * NS_PER_S)); /* which some knew first */
    assert_true(GUARDS_LOST_WAIT_S - 1 > GUARDS_LOST_KILL_S);
    elastic.is_dead[1] = true;
    elastic_finish(&m, rank);
}

/* Of 40 nodes those from 33 on are below node 1, who finds it. */
static void so_does_one_further_below(void **state)
{
    int rank[40];
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    elastic_start(&m, 40, 1);
    for (int i = 0; i < 40; i++)
        rank[i] = i == 39 ? 34 : i == 34 ? WAITS : i;
    elastic_stop_node(&m, 34);
    elastic_hear_until(&m, 0, &h, h.verdict.next);
    uint64_t known = clock_ns();
    for (int r = 1; r < 40; r++)
        do
            if (!elastic.is_dead[r])
                elastic_hear(&m, r, &h);
        while (!elastic.is_dead[r] && !h.verdict.next);
    elastic_begin_next(&m, 1, 39, rank);
    assert_true(clock_ns() - known > (uint64_t)((GUARDS_LOST_WAIT_S - 1) * NS_PER_S));
    elastic_finish(&m, rank);
}

/* Those from 1 to 5 answer nobody. */
static void many_of_the_first_nodes_are_lost(void **state)
{
    int rank[13];
    struct members m = {.restarts = 5, .spares = 6, .silent_s = 3};
    (void)state;
    elastic_start(&m, 13, 1);
    for (int i = 0; i < 13; i++)
        rank[i] = i == 6 ? 6 : i > 6 ? i - 7 : WAITS;
    for (int i = 0; i < 6; i++)
        elastic_stop_node(&m, i);
    elastic_go_on(&m, 1, 7, rank);
    for (int i = 0; i < 6; i++)
        members_kill(&m, i);
    elastic_finish(&m, rank);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_part_of_few_nodes_ends),
    cmocka_unit_test(nor_does_one_end_for_want_of_nodes),
    cmocka_unit_test(nor_does_it_blame_the_root),
    cmocka_unit_test(nor_does_one_without_another_restart),
    cmocka_unit_test(nor_does_who_is_left_of_it_end_the_step),
    cmocka_unit_test(a_part_whose_nodes_have_ended_is_not_one_of_few),
    cmocka_unit_test(nor_is_one_to_which_others_are_on_their_way),
    cmocka_unit_test(a_silent_node_ends_before_its_ranks_start_elsewhere),
    cmocka_unit_test(so_does_one_further_below),
    cmocka_unit_test(many_of_the_first_nodes_are_lost),
};

UNIT_MAIN(tests)
