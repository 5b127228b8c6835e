/* Guards of a step that goes on when nodes are lost: who is the root, who has which rank, and when it ends. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <signal.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"

#define WAITS (-1)

static bool is_dead[MEMBERS_MAX];
static char news[200]; /* the last that any guard had for the user */
static bool has_told[MEMBERS_MAX]; /* the guard a verdict to the user */

static void start(struct members *m, int nodes, int ranks)
{
    memset(is_dead, 0, sizeof is_dead);
    memset(has_told, 0, sizeof has_told);
    news[0] = 0;
    members_start_all(m, nodes, ranks);
}

static void kill_node(struct members *m, int node)
{
    for (int r = node * m->per_node; r < (node + 1) * m->per_node; r++) {
        members_kill(m, r);
        is_dead[r] = true;
    }
}

/* A node of one rank stands still. */
static void stop_node(struct members *m, int node)
{
    assert_int_equal(kill(m->of[node].pid, SIGSTOP), 0);
    is_dead[node] = true;
}

static void hear(struct members *m, int r, struct heard *h)
{
    if (!members_hears(m, r, 40, h))
        fail_msg("rank %d has heard nothing", r);
    if (h->news[0])
        strcpy(news, h->news);
    has_told[r] |= h->is_ours;
}

/* All hear that another generation follows. */
static void hear_verdict(struct members *m)
{
    struct heard h;
    for (int r = 0; r < m->n; r++)
        do
            if (!is_dead[r])
                hear(m, r, &h);
        while (!is_dead[r] && !h.verdict.next);
}

/* It begins when all programs have gone; each task has that rank then, or WAITS. */
static void begin_next(struct members *m, int generation, int size, const int *rank)
{
    struct heard h;
    for (int r = 0; r < m->n; r++)
        if (!is_dead[r])
            members_tell(m, r, DO_GONE);
    for (int r = 0; r < m->n; r++) {
        if (is_dead[r])
            continue;
        do
            hear(m, r, &h);
        while (h.generation != generation);
        if (h.rank != rank[r] || (h.rank != WAITS && h.size != size))
            fail_msg("task %d is rank %d of %d", r, h.rank, h.size);
    }
}

static void go_on(struct members *m, int generation, int size, const int *rank)
{
    hear_verdict(m);
    begin_next(m, generation, size, rank);
}

/* The last verdict. */
static struct death hear_the_end(struct members *m)
{
    struct heard h = {.verdict = {.kind = DEATH_NONE}};
    for (int r = 0; r < m->n; r++)
        do
            if (!is_dead[r])
                hear(m, r, &h);
        while (!is_dead[r] && (h.verdict.kind == DEATH_NONE || h.verdict.next));
    return h.verdict;
}

/* After a loss, for want of nodes: when all programs have gone. */
static void end(struct members *m)
{
    hear_verdict(m);
    for (int r = 0; r < m->n; r++)
        if (!is_dead[r])
            members_tell(m, r, DO_GONE);
    struct death d = hear_the_end(m);
    assert_true(death_is_nodes(&d));
    assert_int_equal(d.of, 0);
    members_end(m);
}

/* Those that wait have done so from the start. */
static void finish(struct members *m, const int *rank)
{
    for (int r = 0; r < m->n; r++)
        if (!is_dead[r] && rank[r] != WAITS)
            members_tell(m, r, DO_FINISH);
    for (int r = 0; r < m->n; r++)
        if (!is_dead[r]) {
            struct heard h;
            while (members_hears(m, r, 20, &h))
                ;
        }
    members_end(m);
}

/* The root's line, which may come behind its generation. */
static void hear_news(struct members *m, int root, const char *want)
{
    struct heard h;
    while (!strstr(news, want))
        hear(m, root, &h);
}

static void a_spare_takes_the_place_of_a_lost_node(void **state)
{
    static const int rank[] = {0, 1, WAITS, WAITS, 4, 5, 2, 3};
    struct members m = {.restarts = 2, .spares = 1};
    (void)state;
    start(&m, 4, 2);
    kill_node(&m, 1);
    go_on(&m, 1, 6, rank);
    hear_news(&m, 0, "restart 1 of 2: 127.0.0.4 takes the place of 127.0.0.2: 3 nodes, 6 ranks");
    finish(&m, rank);
}

/* What the program of a guard that was killed has started runs on until the whole node ends. */
static void a_guards_end_is_its_nodes(void **state)
{
    static const int rank[] = {0, 1, WAITS, WAITS, 4, 5, 2, 3};
    struct members m = {.restarts = 2, .spares = 1};
    (void)state;
    start(&m, 4, 2);
    members_kill(&m, 3);
    is_dead[2] = is_dead[3] = true; /* the leader goes, too */
    go_on(&m, 1, 6, rank);
    finish(&m, rank);
}

static void so_it_does_of_the_roots(void **state)
{
    static const int rank[] = {WAITS, WAITS, 2, 3, 4, 5, 0, 1};
    struct members m = {.restarts = 2, .spares = 1};
    struct heard h;
    (void)state;
    start(&m, 4, 2);
    kill_node(&m, 0);
    go_on(&m, 1, 6, rank);
    hear_news(&m, 2, "restart 1 of 2");
    members_tell(&m, 6, DO_CARD); /* rank 0's, which is not the root's now */
    for (int r = 2; r < 8; r++) {
        do
            hear(&m, r, &h);
        while (!h.card[0]);
        assert_string_equal(h.card, "card");
    }
    finish(&m, rank);
}

static void without_a_spare_the_world_shrinks_down_to_min_nodes(void **state)
{
    static const int first[] = {WAITS, 0, 1, 2}, second[] = {WAITS, 0, WAITS, 1};
    struct members m = {.restarts = 5, .min_nodes = 2};
    (void)state;
    start(&m, 4, 1);
    kill_node(&m, 0);
    go_on(&m, 1, 3, first);
    kill_node(&m, 2);
    go_on(&m, 2, 2, second);
    kill_node(&m, 3);
    end(&m);
    assert_string_equal(news, "no restart: 1 of 4 nodes are left, and it takes 2 (spares, min_nodes): the step ends");
}

/* Of 40 nodes those from 33 on are below node 1. */
static void where_all_wait_is_said_of_those_that_are_left(void **state)
{
    static const char *const answers[] = {"cA", "cA", "cB", "cA"};
    static const int rank[] = {0, 1, 2, WAITS};
    struct members m = {.restarts = 5, .min_nodes = 2, .idle_s = 2, .answers = answers};
    struct heard h = {.is_warned = false};
    (void)state;
    start(&m, 4, 1);
    kill_node(&m, 3);
    go_on(&m, 1, 3, rank);
    for (int r = 2; r >= 0; r--)
        members_tell(&m, r, DO_WAIT);
    while (!strstr(news, "all ranks wait"))
        hear(&m, 0, &h);
    assert_non_null(strstr(news, "not in the same collective: rank 2 (n3) in B, the 2 others in A"));
    members_end(&m);
}

static void those_below_a_lost_node_join_another(void **state)
{
    int rank[40];
    struct members m = {.restarts = 5, .spares = 2};
    (void)state;
    start(&m, 40, 1);
    for (int i = 0; i < 40; i++)
        rank[i] = i < 38 ? i : WAITS;
    kill_node(&m, 1);
    rank[38] = 1;
    rank[1] = WAITS;
    go_on(&m, 1, 38, rank);
    kill_node(&m, 0);
    rank[39] = 0;
    rank[0] = WAITS;
    go_on(&m, 2, 38, rank);
    finish(&m, rank);
}

/* A program dies, a node joins it, and then the spare that was to take its place: each has a line, and who never came
 * takes nobody's place. */
static void what_joins_a_restart_is_said(void **state)
{
    static const int rank[] = {0, WAITS, 2, WAITS, 1};
    struct members m = {.restarts = 3, .spares = 2};
    (void)state;
    start(&m, 5, 1);
    members_tell(&m, 2, DO_DIE);
    hear_verdict(&m);
    kill_node(&m, 1);
    hear_news(&m, 0, "warning: node 127.0.0.2 (rank 1) is lost, too, before restart 1 of 3");
    kill_node(&m, 3);
    hear_news(&m, 0, "warning: node 127.0.0.4, a spare, has gone: 0 left");
    begin_next(&m, 1, 3, rank);
    hear_news(&m, 0, "restart 1 of 3: 127.0.0.5 takes the place of 127.0.0.2: 3 nodes, 3 ranks");
    finish(&m, rank);
}

/* The root and the next one at once, while programs are about to be started again. */
static void losses_meet(void **state)
{
    static const int rank[] = {WAITS, WAITS, 2, 0, 1};
    struct members m = {.restarts = 2, .spares = 2};
    (void)state;
    start(&m, 5, 1);
    members_tell(&m, 2, DO_DIE);
    hear_verdict(&m);
    kill_node(&m, 0);
    kill_node(&m, 1);
    go_on(&m, 2, 3, rank);
    hear_news(&m, 2, "restart 1 of 2"); /* the one that was about to follow has not begun, and is not counted */
    members_tell(&m, 3, DO_DIE);
    go_on(&m, 3, 3, rank);
    finish(&m, rank);
}

/* What its loss costs is a line. */
static void a_spares_end_ends_nothing(void **state)
{
    struct members m = {.restarts = 5, .spares = 1};
    struct heard h;
    (void)state;
    start(&m, 3, 1);
    kill_node(&m, 2);
    do
        hear(&m, 0, &h);
    while (!h.is_warned);
    assert_string_equal(news, "warning: node 127.0.0.3, a spare, has gone: 0 left");
    assert_false(members_hears(&m, 1, 0.3, &h));
    kill_node(&m, 1);
    end(&m);
}

/* Of each of those that end at once there is a line. */
static void spares_end_together(void **state)
{
    struct members m = {.restarts = 5, .spares = 2};
    struct heard h;
    int n_left = 2;
    (void)state;
    start(&m, 4, 1);
    kill_node(&m, 2);
    kill_node(&m, 3);
    while (n_left > 0) {
        hear(&m, 0, &h);
        n_left -= h.is_warned && strstr(news, "a spare, has gone: 1 left");
        n_left -= h.is_warned && strstr(news, "a spare, has gone: 0 left");
    }
    kill_node(&m, 1);
    end(&m);
}

/* Nor does it hide a failure that comes with it. */
static void a_spare_and_a_rank_end_together(void **state)
{
    static const int rank[] = {0, 1, 2, WAITS};
    struct members m = {.restarts = 5, .spares = 1};
    (void)state;
    start(&m, 4, 1);
    kill_node(&m, 3);
    siginfo_t info;
    waitid(P_PID, (id_t)m.of[3].pid, &info, WEXITED | WNOWAIT); /* the root may know of it, then */
    members_tell(&m, 1, DO_FAIL_1);
    go_on(&m, 1, 3, rank);
    finish(&m, rank);
}

/* The node may be broken; if the rank dies elsewhere, too, it is not that. */
static void a_rank_that_dies_again_and_again_is_moved_once(void **state)
{
    static const int before[] = {0, 1, WAITS, WAITS}, after[] = {0, WAITS, 1, WAITS};
    struct members m = {.restarts = 100, .spares = 2};
    (void)state;
    start(&m, 4, 1);
    for (int generation = 1; generation < 2 * GUARDS_LOOP_N; generation++) {
        members_tell(&m, generation <= GUARDS_LOOP_N ? 1 : 2, DO_DIE_AS_1);
        go_on(&m, generation, 2, generation < GUARDS_LOOP_N ? before : after);
    }
    members_tell(&m, 2, DO_DIE_AS_1);
    hear_the_end(&m);
    members_end(&m);
}

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
    start(&m, 3, 1);
    stop_node(&m, 0);
    go_on(&m, 1, 2, rank);
    kill(m.of[0].pid, SIGCONT);
    do {
        hear(&m, 0, &h);
        if (h.verdict.next) /* it has not missed all of them yet */
            members_tell(&m, 0, DO_GONE);
    } while (h.verdict.kind == DEATH_NONE || h.verdict.next);
    assert_string_equal(news, CUT_OFF("n1", "1 of 3"));
    assert_false(has_told[0]); /* of those that are well */
    assert_true(h.are_few);    /* so it ends no step */
    is_dead[0] = true;
    assert_true(has_told[1]);
    finish(&m, rank);
}

/* A spare is the first that the root does not hear, and then all others: too few are left, as far as it knows. */
static void nor_does_one_end_for_want_of_nodes(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    start(&m, 4, 1);
    stop_node(&m, 3);
    hear_news(&m, 0, "a spare, has gone");
    stop_node(&m, 1);
    stop_node(&m, 2);
    do
        hear(&m, 0, &h);
    while (!h.verdict.next);
    assert_int_equal(h.verdict.of, 0);
    members_tell(&m, 0, DO_GONE);
    do
        hear(&m, 0, &h);
    while (!h.is_last);
    assert_true(h.are_few);
    assert_string_equal(news, CUT_OFF("n1", "1 of 4"));
    assert_false(has_told[0]);
    members_end(&m);
}

/* Of the root's loss, too, whose place it takes: the others do not come. */
static void nor_does_it_blame_the_root(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    start(&m, 3, 1);
    stop_node(&m, 0);
    stop_node(&m, 2);
    do
        hear(&m, 1, &h);
    while (!h.verdict.next);
    members_tell(&m, 1, DO_GONE);
    hear_the_end(&m);
    assert_string_equal(news, CUT_OFF("n2", "1 of 3"));
    assert_false(has_told[1]);
    members_end(&m);
}

/* Where no generation may follow, either: it does not say that the step ends. */
static void nor_does_one_without_another_restart(void **state)
{
    static const int rank[] = {0, 1, WAITS};
    struct members m = {.restarts = 1, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    start(&m, 3, 1);
    members_tell(&m, 1, DO_DIE);
    go_on(&m, 1, 2, rank);
    has_told[0] = false;
    stop_node(&m, 1);
    stop_node(&m, 2);
    do
        hear(&m, 0, &h);
    while (!h.is_last || !h.are_few);
    hear_news(&m, 0, CUT_OFF("n1", "1 of 3"));
    assert_false(has_told[0]);
    members_end(&m);
}

/* The part's root may go before who is below has left: that is a root then. */
static void nor_does_who_is_left_of_it_end_the_step(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    start(&m, 5, 1);
    for (int i = 2; i < 5; i++)
        stop_node(&m, i);
    hear_verdict(&m);
    members_tell(&m, 0, DO_GONE);
    members_tell(&m, 1, DO_GONE);
    hear_the_end(&m);
    kill_node(&m, 0);
    do
        hear(&m, 1, &h);
    while (!h.are_few);
    members_end(&m);
}

/* Who has ended before, of most nodes below another one, is not missed. */
static void a_part_whose_nodes_have_ended_is_not_one_of_few(void **state)
{
    struct members m = {.restarts = 1, .min_nodes = 1};
    (void)state;
    start(&m, 70, 1);
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
    start(&m, 4, 1);
    members_tell(&m, 3, DO_DIE);
    go_on(&m, 1, 4, rank);
    for (int i = 2; i < 4; i++)
        assert_int_equal(kill(m.of[i].pid, SIGSTOP), 0);
    kill_node(&m, 0);
    do
        hear(&m, 1, &h);
    while (h.verdict.kind == DEATH_NONE || h.verdict.next);
    assert_true(h.are_few && !h.is_last);
    for (int i = 2; i < 4; i++)
        assert_int_equal(kill(m.of[i].pid, SIGCONT), 0);
    do
        hear(&m, 1, &h);
    while (!h.is_last);
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
    start(&m, 4, 1);
    stop_node(&m, 1);
    hear_verdict(&m);
    uint64_t known = clock_ns();
    kill(m.of[1].pid, SIGCONT);
    hear(&m, 1, &h);
    assert_int_equal(h.verdict.kind, DEATH_SILENT);
    assert_int_equal(h.verdict.rank, 1);
    assert_int_equal(h.verdict.next, 1);
    begin_next(&m, 1, 3, rank);
    assert_true(clock_ns() - known > (uint64_t)((GUARDS_LOST_WAIT_S - 1) * NS_PER_S)); /* which some knew first */
    assert_true(GUARDS_LOST_WAIT_S - 1 > GUARDS_LOST_KILL_S);
    is_dead[1] = true;
    finish(&m, rank);
}

/* Of 40 nodes those from 33 on are below node 1, who finds it. */
static void so_does_one_further_below(void **state)
{
    int rank[40];
    struct members m = {.restarts = 5, .spares = 1, .silent_s = 3};
    struct heard h;
    (void)state;
    start(&m, 40, 1);
    for (int i = 0; i < 40; i++)
        rank[i] = i == 39 ? 34 : i == 34 ? WAITS : i;
    stop_node(&m, 34);
    do
        hear(&m, 0, &h);
    while (!h.verdict.next);
    uint64_t known = clock_ns();
    for (int r = 1; r < 40; r++)
        do
            if (!is_dead[r])
                hear(&m, r, &h);
        while (!is_dead[r] && !h.verdict.next);
    begin_next(&m, 1, 39, rank);
    assert_true(clock_ns() - known > (uint64_t)((GUARDS_LOST_WAIT_S - 1) * NS_PER_S));
    finish(&m, rank);
}

/* Those from 1 to 5 answer nobody. */
static void many_of_the_first_nodes_are_lost(void **state)
{
    int rank[13];
    struct members m = {.restarts = 5, .spares = 6, .silent_s = 3};
    (void)state;
    start(&m, 13, 1);
    for (int i = 0; i < 13; i++)
        rank[i] = i == 6 ? 6 : i > 6 ? i - 7 : WAITS;
    for (int i = 0; i < 6; i++)
        stop_node(&m, i);
    go_on(&m, 1, 7, rank);
    for (int i = 0; i < 6; i++)
        members_kill(&m, i);
    finish(&m, rank);
}

/* Slurm does not end the step for that. */
static void a_task_that_never_comes_ends_the_step(void **state)
{
    struct members m = {.restarts = 5, .spares = 1, .join_s = 3};
    (void)state;
    memset(is_dead, 0, sizeof is_dead);
    members_set_up(&m, 3, 2);
    for (int r = 0; r < 6; r++)
        if (r != 3)
            members_start(&m, r);
    is_dead[3] = true;
    struct death d = hear_the_end(&m);
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
    memset(is_dead, 0, sizeof is_dead);
    is_dead[0] = is_dead[1] = true;
    members_set_up(&m, 3, 2);
    for (int r = 2; r < 6; r++)
        members_start(&m, r);
    do
        hear(&m, 2, &h); /* by the first of those that are there */
    while (!h.is_ours);
    assert_int_equal(h.verdict.kind, DEATH_ABSENT);
    assert_int_equal(h.verdict.rank, 0);
    assert_int_equal(h.verdict.next, 1);
    begin_next(&m, 1, 4, rank);
    members_start(&m, 0);
    members_start(&m, 1);
    do
        hear(&m, 0, &h);
    while (h.verdict.kind == DEATH_NONE);
    assert_int_equal(h.verdict.kind, DEATH_MISSING);
    assert_true(h.are_few);
    finish(&m, rank);
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
    cmocka_unit_test(a_task_that_never_comes_ends_the_step),
    cmocka_unit_test(a_spare_takes_the_place_of_a_node_that_never_comes),
};

UNIT_MAIN(tests)
