/* Guards of a step that goes on when nodes are lost: who is the root, who has which rank, and when it ends. */
#include "config.h"
#include "t/unit/spank/elastic.h"

#include <signal.h>
#include <sys/wait.h>

static void a_spare_takes_the_place_of_a_lost_node(void **state)
{
    static const int rank[] = {0, 1, WAITS, WAITS, 4, 5, 2, 3};
    struct members m = {.restarts = 2, .spares = 1};
    (void)state;
    elastic_start(&m, 4, 2);
    elastic_kill_node(&m, 1);
    elastic_go_on(&m, 1, 6, rank);
    elastic_hear_news(&m, 0, "restart 1 of 2: 127.0.0.4 takes the place of 127.0.0.2: 3 nodes, 6 ranks");
    elastic_finish(&m, rank);
}

/* What the program of a guard that was killed has started runs on until the whole node ends. */
static void a_guards_end_is_its_nodes(void **state)
{
    static const int rank[] = {0, 1, WAITS, WAITS, 4, 5, 2, 3};
    struct members m = {.restarts = 2, .spares = 1};
    (void)state;
    elastic_start(&m, 4, 2);
    members_kill(&m, 3);
    elastic.is_dead[2] = elastic.is_dead[3] = true; /* the leader goes, too */
    elastic_go_on(&m, 1, 6, rank);
    elastic_finish(&m, rank);
}

static void so_it_does_of_the_roots(void **state)
{
    static const int rank[] = {WAITS, WAITS, 2, 3, 4, 5, 0, 1};
    struct members m = {.restarts = 2, .spares = 1};
    struct heard h;
    (void)state;
    elastic_start(&m, 4, 2);
    elastic_kill_node(&m, 0);
    elastic_go_on(&m, 1, 6, rank);
    elastic_hear_news(&m, 2, "restart 1 of 2");
    members_tell(&m, 6, DO_CARD); /* rank 0's, which is not the root's now */
    for (int r = 2; r < 8; r++) {
        elastic_hear_until(&m, r, &h, h.card[0]);
        assert_string_equal(h.card, "card");
    }
    elastic_finish(&m, rank);
}

static void without_a_spare_the_world_shrinks_down_to_min_nodes(void **state)
{
    static const int first[] = {WAITS, 0, 1, 2}, second[] = {WAITS, 0, WAITS, 1};
    struct members m = {.restarts = 5, .min_nodes = 2};
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_kill_node(&m, 0);
    elastic_go_on(&m, 1, 3, first);
    elastic_kill_node(&m, 2);
    elastic_go_on(&m, 2, 2, second);
    elastic_kill_node(&m, 3);
    elastic_end(&m);
    assert_string_equal(elastic.news,
                        "no restart: 1 of 4 nodes are left, and it takes 2 (spares, min_nodes): the step ends");
}

/* Of 40 nodes those from 33 on are below node 1. */
static void where_all_wait_is_said_of_those_that_are_left(void **state)
{
    static const char *const answers[] = {"cA", "cA", "cB", "cA"};
    static const int rank[] = {0, 1, 2, WAITS};
    struct members m = {.restarts = 5, .min_nodes = 2, .idle_s = 2, .answers = answers};
    struct heard h = {.is_warned = false};
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_kill_node(&m, 3);
    elastic_go_on(&m, 1, 3, rank);
    for (int r = 2; r >= 0; r--)
        members_tell(&m, r, DO_WAIT);
    while (!strstr(elastic.news, "all ranks wait"))
        elastic_hear(&m, 0, &h);
    assert_non_null(strstr(elastic.news, "not in the same collective: rank 2 (n3) in B, the 2 others in A"));
    members_end(&m);
}

static void those_below_a_lost_node_join_another(void **state)
{
    int rank[40];
    struct members m = {.restarts = 5, .spares = 2};
    (void)state;
    elastic_start(&m, 40, 1);
    for (int i = 0; i < 40; i++)
        rank[i] = i < 38 ? i : WAITS;
    elastic_kill_node(&m, 1);
    rank[38] = 1;
    rank[1] = WAITS;
    elastic_go_on(&m, 1, 38, rank);
    elastic_kill_node(&m, 0);
    rank[39] = 0;
    rank[0] = WAITS;
    elastic_go_on(&m, 2, 38, rank);
    elastic_finish(&m, rank);
}

/* A program dies, a node joins it, and then the spare that was to take its place: each has a line, and who never came
 * takes nobody's place. */
static void what_joins_a_restart_is_said(void **state)
{
    static const int rank[] = {0, WAITS, 2, WAITS, 1};
    struct members m = {.restarts = 3, .spares = 2};
    (void)state;
    elastic_start(&m, 5, 1);
    members_tell(&m, 2, DO_DIE);
    elastic_hear_verdict(&m);
    elastic_kill_node(&m, 1);
    elastic_hear_news(&m, 0, "warning: node 127.0.0.2 (rank 1) is lost, too, before restart 1 of 3");
    elastic_kill_node(&m, 3);
    elastic_hear_news(&m, 0, "warning: node 127.0.0.4, a spare, has gone: 0 left");
    elastic_begin_next(&m, 1, 3, rank);
    elastic_hear_news(&m, 0, "restart 1 of 3: 127.0.0.5 takes the place of 127.0.0.2: 3 nodes, 3 ranks");
    elastic_finish(&m, rank);
}

/* The root and the next one at once, while programs are about to be started again. */
static void losses_meet(void **state)
{
    static const int rank[] = {WAITS, WAITS, 2, 0, 1};
    struct members m = {.restarts = 2, .spares = 2};
    (void)state;
    elastic_start(&m, 5, 1);
    members_tell(&m, 2, DO_DIE);
    elastic_hear_verdict(&m);
    elastic_kill_node(&m, 0);
    elastic_kill_node(&m, 1);
    elastic_go_on(&m, 2, 3, rank);
    elastic_hear_news(&m, 2, "restart 1 of 2"); /* the one that was about to follow has not begun, and is not counted */
    members_tell(&m, 3, DO_DIE);
    elastic_go_on(&m, 3, 3, rank);
    elastic_finish(&m, rank);
}

/* What its loss costs is a line. */
static void a_spares_end_ends_nothing(void **state)
{
    struct members m = {.restarts = 5, .spares = 1};
    struct heard h;
    (void)state;
    elastic_start(&m, 3, 1);
    elastic_kill_node(&m, 2);
    elastic_hear_until(&m, 0, &h, h.is_warned);
    assert_string_equal(elastic.news, "warning: node 127.0.0.3, a spare, has gone: 0 left");
    assert_false(members_hears(&m, 1, 0.3, &h));
    elastic_kill_node(&m, 1);
    elastic_end(&m);
}

/* Of each of those that end at once there is a line. */
static void spares_end_together(void **state)
{
    struct members m = {.restarts = 5, .spares = 2};
    struct heard h;
    int n_left = 2;
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_kill_node(&m, 2);
    elastic_kill_node(&m, 3);
    while (n_left > 0) {
        elastic_hear(&m, 0, &h);
        n_left -= h.is_warned && strstr(elastic.news, "a spare, has gone: 1 left");
        n_left -= h.is_warned && strstr(elastic.news, "a spare, has gone: 0 left");
    }
    elastic_kill_node(&m, 1);
    elastic_end(&m);
}

/* Nor does it hide a failure that comes with it. */
static void a_spare_and_a_rank_end_together(void **state)
{
    static const int rank[] = {0, 1, 2, WAITS};
    struct members m = {.restarts = 5, .spares = 1};
    (void)state;
    elastic_start(&m, 4, 1);
    elastic_kill_node(&m, 3);
    siginfo_t info;
    waitid(P_PID, (id_t)m.of[3].pid, &info, WEXITED | WNOWAIT); /* the root may know of it, then */
    members_tell(&m, 1, DO_FAIL_1);
    elastic_go_on(&m, 1, 3, rank);
    elastic_finish(&m, rank);
}

/* The node may be broken; if the rank dies elsewhere, too, it is not that. */
static void a_rank_that_dies_again_and_again_is_moved_once(void **state)
{
    static const int before[] = {0, 1, WAITS, WAITS}, after[] = {0, WAITS, 1, WAITS};
    struct members m = {.restarts = 100, .spares = 2};
    (void)state;
    elastic_start(&m, 4, 1);
    for (int generation = 1; generation < 2 * GUARDS_LOOP_N; generation++) {
        members_tell(&m, generation <= GUARDS_LOOP_N ? 1 : 2, DO_DIE_AS_1);
        elastic_go_on(&m, generation, 2, generation < GUARDS_LOOP_N ? before : after);
    }
    members_tell(&m, 2, DO_DIE_AS_1);
    elastic_hear_the_end(&m);
    members_end(&m);
}

/* Slurm does not end the step for that. */
static void a_task_that_never_comes_ends_the_step(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .join_s = 3};
    (void)state;
    memset(&elastic, 0, sizeof elastic);
    members_set_up(&m, 3, 2);
    for (int r = 0; r < 6; r++)
        if (r != 3)
            members_start(&m, r);
    elastic.is_dead[3] = true;
    struct death d = elastic_hear_the_end(&m);
    assert_int_equal(d.kind, DEATH_MISSING);
    assert_int_equal(d.how, 1);
    members_end(&m);
}

/* The first, whom all would tell. When it comes after all it ends, and not the step. */
static void a_spare_takes_the_place_of_a_node_that_never_comes(void **state)
{
    static const int rank[] = {WAITS, WAITS, 2, 3, 0, 1};
    struct members m = {.restarts = 5, .spares = 1, .join_s = 3};
    struct heard h;
    (void)state;
    memset(&elastic, 0, sizeof elastic);
    elastic.is_dead[0] = elastic.is_dead[1] = true;
    members_set_up(&m, 3, 2);
    for (int r = 2; r < 6; r++)
        members_start(&m, r);
    elastic_hear_until(&m, 2, &h, h.is_ours); /* by the first of those that are there */
    assert_int_equal(h.verdict.kind, DEATH_ABSENT);
    assert_int_equal(h.verdict.rank, 0);
    assert_int_equal(h.verdict.next, 1);
    elastic_begin_next(&m, 1, 4, rank);
    members_start(&m, 0);
    members_start(&m, 1);
    elastic_hear_until(&m, 0, &h, h.verdict.kind != DEATH_NONE);
    assert_int_equal(h.verdict.kind, DEATH_MISSING);
    assert_true(h.are_few);
    elastic_finish(&m, rank);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_spare_takes_the_place_of_a_lost_node),
    cmocka_unit_test(a_guards_end_is_its_nodes),
    cmocka_unit_test(so_it_does_of_the_roots),
    cmocka_unit_test(where_all_wait_is_said_of_those_that_are_left),
    cmocka_unit_test(without_a_spare_the_world_shrinks_down_to_min_nodes),
    cmocka_unit_test(those_below_a_lost_node_join_another),
    cmocka_unit_test(what_joins_a_restart_is_said),
    cmocka_unit_test(losses_meet),
    cmocka_unit_test(a_spares_end_ends_nothing),
    cmocka_unit_test(spares_end_together),
    cmocka_unit_test(a_spare_and_a_rank_end_together),
    cmocka_unit_test(a_rank_that_dies_again_and_again_is_moved_once),
    cmocka_unit_test(a_task_that_never_comes_ends_the_step),
    cmocka_unit_test(a_spare_takes_the_place_of_a_node_that_never_comes),
};

UNIT_MAIN(tests)
