/* What a guard makes of what it has heard: a guard made by hand, with neighbours of whom it has only the word. */
#include "config.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

enum { NODES = 5, SPARES = 2 };

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f, (void)ret_port;
    snprintf(ret_name, HOSTLIST_NAME_MAX + 1, "n%d", node);
    return 0;
}

/* The root of an elastic step, a guard a node. */
static guards_t *elastic(void)
{
    guards_t *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->f = (struct guards_facts){.n_nodes = NODES, .size = NODES, .local_size = 1, .restarts = 3, .min_nodes = 1,
                                 .spares = SPARES, .silent_s = 3, .is_elastic = true, .find = find};
    g->is_alone = g->is_whole = true;
    g->looked_at = clock_ns();
    assert_int_equal(nodes_open(g), 0);
    return g;
}

static void give_back(guards_t *g)
{
    seats_close(&g->nodes.seats);
    free(g->nodes.of);
    free(g);
}

static void a_node_is_away_by_the_word_of_where_it_was_alone(void **state)
{
    (void)state;
    struct link was = {.fd = -1}, is = {.fd = -1};
    guards_t *g = elastic();
    nodes_are_at(g, &was, 1, NODE_IS_THERE);
    nodes_are_at(g, &is, 1, NODE_IS_THERE); /* by another way, before the first one says that it is away */
    nodes_are_at(g, &was, 1, NODE_IS_AWAY);
    assert_ptr_equal(g->nodes.of[1].via, &is);
    nodes_are_at(g, &is, 1, NODE_IS_AWAY);
    assert_null(g->nodes.of[1].via);
    give_back(g);
}

/* Of two halves the one with the first node goes on. */
static void half_of_the_nodes_are_most_with_the_first(void **state)
{
    (void)state;
    struct link via = {.fd = -1};
    for (int own = 0; own < 4; own++)
        for (int other = 0; other < 4; other++) {
            guards_t *g = elastic();
            g->f.node = own;
            g->f.n_nodes = 4;
            nodes_are_at(g, &via, other, NODE_IS_THERE);
            assert_int_equal(nodes_are_few(g), own == other || (own > 0 && other > 0));
            give_back(g);
        }
}

/* A root that was not there before knows of some of those that the old one had named. */
static void a_new_root_begins_where_it_knows_of_others(void **state)
{
    (void)state;
    guards_t *g = elastic();
    nodes_take_left(g, &(struct death){.at = 3, .how = 0});
    nodes_take_left(g, &(struct death){.at = 2, .how = 1});
    nodes_take_left(g, &(struct death){.at = 4, .how = 3}); /* one is missing in between */
    assert_int_equal(g->nodes.n_left, 2);
    nodes_take_left(g, &(struct death){.at = 1, .how = 0});
    assert_int_equal(g->nodes.n_left, 1);
    assert_int_equal(g->nodes.left[0], 1);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(g->nodes.of[i].has_left, i == 1);
    give_back(g);
}

static void who_takes_a_place_is_said_once(void **state)
{
    (void)state;
    guards_t *g = elastic();
    g->n_restarts = 1;
    nodes_leave(g, 1);
    nodes_seat(g);
    assert_string_equal(guards_news(g), "restart 1 of 3: n3 takes the place of n1: 3 nodes, 3 ranks");
    nodes_seat(g);
    assert_null(guards_news(g));
    g->n_restarts = 2;
    nodes_leave(g, 0);
    nodes_seat(g);
    assert_string_equal(guards_news(g), "restart 2 of 3: n4 takes the place of n0: 3 nodes, 3 ranks");
    give_back(g);
}

/* Of what is heard before the verdict. */
static void a_loss_is_not_hidden_by_what_follows_from_it(void **state)
{
    static const struct {
        struct death before, then;
        enum death_kind of;
    } cases[] = {
        {{.kind = DEATH_ENDED, .how = SIGKILL}, {.kind = DEATH_GONE}, DEATH_GONE},
        {{.kind = DEATH_GUARD}, {.kind = DEATH_GONE}, DEATH_GONE},
        {{.kind = DEATH_SILENT}, {.kind = DEATH_GONE}, DEATH_SILENT}, /* who found that has left */
        {{.kind = DEATH_GONE}, {.kind = DEATH_ENDED, .how = SIGKILL}, DEATH_GONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static guards_t g;
        g = (guards_t){.f = {.n_nodes = 2, .size = 2, .local_size = 1}, .is_alone = true, .is_whole = true};
        guards_report(&g, &cases[i].before);
        guards_report(&g, &cases[i].then);
        if (g.first.kind != cases[i].of)
            fail_msg("case %zu: kind %d", i, g.first.kind);
    }
}

/* A generation follows the deaths of one rank, but not of one that dies soon, again and again. */
static void a_rank_that_dies_soon_is_not_started_for_ever(void **state)
{
    (void)state;
    for (uint32_t after_s = 0; after_s <= GUARDS_LOOP_S; after_s += GUARDS_LOOP_S) {
        static guards_t g;
        g = (guards_t){.f = {.n_nodes = 1, .size = 2, .local_size = 2, .restarts = 100, .token = "token"},
                       .is_alone = true, .is_whole = true, .moved_rank = -1, .last_rank = -1};
        for (int i = 1; i <= 2 * GUARDS_LOOP_N; i++) {
            struct death d = {.kind = DEATH_ENDED, .rank = 1, .how = 256, .after_s = after_s};
            round_decide(&g, &d);
            assert_int_equal(d.next > 0, after_s > 0 || i < GUARDS_LOOP_N);
        }
    }
}

/* Programs that had ended well start again with those that have not. */
static void a_generation_that_follows_is_not_given_up(void **state)
{
    (void)state;
    for (int next = 0; next < 2; next++) {
        guards_t *g = elastic();
        strcpy(g->f.token, "token");
        for (int i = 1; i < NODES; i++)
            nodes_leave(g, i);
        g->is_finished = true;
        g->verdict = (struct death){.kind = next ? DEATH_GONE : DEATH_NONE, .next = next};
        round_look(g);
        assert_int_equal(g->is_over, !next);
        give_back(g);
    }
}

/* A root that stands still while others join finds on waking that all have been there, and are away. */
static void who_has_come_and_gone_is_not_waited_for(void **state)
{
    (void)state;
    struct link via = {.fd = -1};
    guards_t *g = elastic();
    strcpy(g->f.token, "token");
    strcpy(g->f.name, "n0");
    g->is_whole = false;
    g->is_gone = g->is_ours = true;
    g->join_until = deadline_in(60);
    g->verdict = (struct death){.kind = DEATH_SILENT, .at = 1, .next = 1};
    for (int i = 1; i < NODES; i++) {
        round_look(g);
        assert_false(g->is_whole);
        nodes_are_at(g, &via, i, NODE_IS_THERE);
        nodes_are_at(g, &via, i, NODE_IS_AWAY);
    }
    round_look(g);
    assert_true(g->is_whole && g->nodes.absent_at && g->verdict.next);
    for (int i = 1; i < NODES; i++)
        nodes_lose(g, i, false); /* as they are once that is due */
    round_look(g);
    assert_int_equal(g->verdict.next, 0);
    assert_non_null(strstr(guards_news(g), "node n0 is cut off, or the others are down: it reaches 1 of 5 nodes only"));
    give_back(g);
}

/* Nor does one stay untold that followed from what may have been this root's own loss. */
static void who_never_comes_is_told(void **state)
{
    (void)state;
    struct link via = {.fd = -1};
    guards_t *g = elastic();
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    strcpy(g->f.token, "token");
    g->is_whole = false;
    g->is_gone = g->is_ours = true;
    g->join_until = deadline_in(60);
    g->verdict = (struct death){.kind = DEATH_SILENT, .at = 1, .next = 1};
    for (int i = 1; i < 3; i++) {
        nodes_are_at(g, &via, i, NODE_IS_THERE);
        nodes_are_at(g, &via, i, NODE_IS_AWAY);
    }
    bool is_ours = false;
    guards_step(g);
    assert_int_equal(guards_verdict(g, &is_ours)->kind, DEATH_SILENT);
    assert_false(is_ours);
    g->stuck_at = 1;
    guards_step(g);
    assert_int_equal(guards_verdict(g, &is_ours)->kind, DEATH_MISSING);
    assert_true(is_ours);
    close(g->epoll);
    give_back(g);
}

/* After two minutes, and after one where programs have died before: nodes that have not come count as lost where most
 * have, and not where one has come in part. */
static void nodes_that_never_come_are_lost(void **state)
{
    static const struct {
        int n_come, n_guards; /* the last ones, beside the root */
        bool goes_on, is_few;
    } cases[] = {{4, 3, false, false}, {3, 3, true, false}, {2, 2, true, false}, {2, 1, false, false},
                 {1, 1, false, true}, {0, 0, false, true}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t c = i / 2;
        bool has_died = i % 2;
        guards_t *g = elastic();
        struct link below = {.fd = -1, .n_here = cases[c].n_guards};
        g->below = &below;
        g->epoll = epoll_create1(EPOLL_CLOEXEC);
        strcpy(g->f.token, "token");
        g->f.stuck_s = 60;
        g->is_whole = false;
        g->is_gone = has_died;
        g->verdict = (struct death){.kind = has_died ? DEATH_ENDED : DEATH_NONE, .next = has_died};
        g->join_until = has_died ? deadline_in(60) : 1;
        g->stuck_at = has_died;
        for (int node = NODES - cases[c].n_come; node < NODES; node++)
            nodes_are_at(g, &below, node, NODE_IS_THERE);
        guards_step(g); /* it is decided; */
        guards_step(g); /* it is heard */
        enum death_kind kind = has_died ? g->verdict.kind : g->first.kind;
        enum death_kind want = !cases[c].goes_on ? DEATH_MISSING : has_died ? DEATH_ENDED : DEATH_ABSENT;
        if (kind != want || guards_are_few(g) != cases[c].is_few)
            fail_msg("case %zu: kind %d, few: %d", i, kind, guards_are_few(g));
        assert_int_equal(guards_are_most(g), !cases[c].is_few);
        assert_int_equal(deadline_left_ns(g->nodes.free_at) > 10 * NS_PER_S, cases[c].goes_on); /* those look for us */
        for (int node = 1; node < NODES && cases[c].goes_on; node++)
            assert_int_equal(g->nodes.of[node].is_lost, node < NODES - cases[c].n_come);
        close(g->epoll);
        give_back(g);
    }
}

/* Programs run on. */
static void a_spare_that_never_comes_ends_nothing(void **state)
{
    (void)state;
    guards_t *g = elastic();
    struct link below = {.fd = -1, .n_here = NODES - 2};
    g->below = &below;
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    strcpy(g->f.token, "token");
    g->is_whole = false;
    g->join_until = 1;
    for (int node = 1; node < NODES - 1; node++)
        nodes_are_at(g, &below, node, NODE_IS_THERE);
    guards_step(g);
    guards_step(g);
    assert_string_equal(guards_news(g), "warning: node n4, a spare, has not come: 1 left");
    assert_int_equal(g->first.kind, DEATH_NONE);
    assert_null(guards_verdict(g, NULL));
    close(g->epoll);
    give_back(g);
}

/* Asked to end while they were about to start again. */
static void a_generation_that_is_given_up_is_no_news(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.verdict = {.kind = DEATH_ENDED, .next = 2, .of = 3}, .is_ours = true, .stuck_at = 1};
    round_over(&g);
    assert_true(g.is_over && !g.is_ours && !g.stuck_at);
    assert_int_equal(g.verdict.next, 0);
}

static void who_has_not_gone_holds_the_next_generation_up(void **state)
{
    (void)state;
    static guards_t g;
    struct link all = {.rank = 4, .name = "n2", .n_here = 2, .n_gone = 2}, one = {.rank = 2, .name = "n1", .n_here = 2};
    one.n_gone = 1;
    one.next = &all;
    g = (guards_t){.f = {.name = "n0"}, .is_whole = true, .is_gone = true, .below = &one};
    struct death d;
    assert_true(round_stuck(&g, &d));
    assert_int_equal(d.rank, 2);
    assert_string_equal(d.node, "n1");
    g.is_gone = false;
    assert_true(round_stuck(&g, &d));
    assert_string_equal(d.node, "n0");
}

/* To one above that was not there before. Of a generation that has ended it may be over there. */
static void a_card_is_told_above_while_its_generation_runs(void **state)
{
    (void)state;
    int pair[2], kind;
    size_t n;
    static guards_t g;
    static struct frame in;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct link above = {.fd = pair[0]};
    g = (guards_t){.above = &above, .card = "card", .verdict.kind = DEATH_ENDED};
    round_tell_above(&g);
    assert_int_equal(frame_next(&in, pair[1], &kind, &n), 0);
    g.verdict.kind = DEATH_NONE;
    round_tell_above(&g);
    assert_int_equal(frame_next(&in, pair[1], &kind, &n), 1);
    assert_int_equal(kind, TOLD_CARD);
    assert_memory_equal(in.bytes + FRAME_HEAD, "card", n);
    close(pair[0]);
    close(pair[1]);
}

static void what_has_no_room_is_not_said_by_halves(void **state)
{
    (void)state;
    static guards_t g;
    char line[NEWS_MAX];
    memset(line, 'x', sizeof line);
    assert_null(guards_news(&g));
    news_add(&g, "%.*s", NEWS_MAX / 2, line);
    news_add(&g, "%.*s", NEWS_MAX / 2, line);
    assert_int_equal(strlen(guards_news(&g)), NEWS_MAX / 2);
    news_add(&g, "a");
    news_add(&g, "b");
    assert_string_equal(guards_news(&g), "a\nddp: b");
    assert_null(guards_news(&g));
}

/* Whoever hears nobody of several is deaf; of one it cannot be told. */
static void of_several_that_are_silent_none_is_to_blame(void **state)
{
    (void)state;
    static guards_t g;
    uint64_t now = 1000 * NS_PER_S, old = now - 10 * NS_PER_S;
    struct link second = {.is_remote = true, .heard = old}, first = {.is_remote = true, .heard = old};
    g = (guards_t){.f.silent_s = 5, .looked_at = now, .below = &first};
    assert_false(beat_hears_none(&g));
    first.next = &second;
    assert_true(beat_hears_none(&g));
    second.heard = now;
    assert_false(beat_hears_none(&g));
    second.is_over = true;
    assert_false(beat_hears_none(&g));
}

static void a_guard_that_stood_still_has_heard_all(void **state)
{
    (void)state;
    static guards_t g;
    struct link below = {.is_remote = true, .heard = 1}, above = below;
    uint64_t now = clock_ns();
    g = (guards_t){.looked_at = now, .below = &below, .above = &above};
    beat_look(&g);
    assert_int_equal(below.heard, 1);
    g.looked_at = now - 3 * NS_PER_S;
    beat_look(&g);
    assert_true(below.heard >= now && above.heard >= now);
}

static void who_has_gone_tells_nothing_any_more(void **state)
{
    (void)state;
    int pair[2];
    static guards_t g;
    g = (guards_t){.epoll = epoll_create1(EPOLL_CLOEXEC)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct link *l = link_add(&g, pair[0], false, LINK_IS_IN);
    g.below = l;
    g.teller = l;
    link_drop(&g, l, false);
    assert_null(g.below);
    assert_null(g.teller);
    close(pair[1]);
    close(g.epoll);
}

static void nobody_is_free_while_a_loss_may_be_a_death(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.is_finished = true, .is_over = true};
    assert_true(guards_is_free(&g));
    g.lost_at = 1;
    assert_false(guards_is_free(&g));
    g.lost_at = 0;
    g.settle_at = 1;
    assert_false(guards_is_free(&g));
}

/* Two programs, in two calls. */
static void answer(guards_t *g, int round)
{
    struct death d = {.how = 1, .rank = 0, .next = round, .node = "n1", .text = "cA"};
    calls_take(g, &d);
    d = (struct death){.how = 1, .rank = 1, .next = round, .node = "n2", .text = "cB"};
    calls_take(g, &d);
}

static void answers_are_of_one_round_and_of_a_wait_that_goes_on(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.f.idle_s = 10, .activity.how = 2};
    calls_begin(&g);
    calls_look(&g, 9);
    assert_int_equal(g.calls.round, 0);
    calls_look(&g, 10);
    assert_int_equal(g.calls.round, 1);
    answer(&g, 0);
    assert_string_equal(g.calls.said, "");
    answer(&g, 1);
    assert_string_equal(g.calls.said, "rank 0 (n1) in A, rank 1 (n2) in B");
    calls_look(&g, 20);
    assert_int_equal(g.calls.round, 2);
    calls_end(&g);
    answer(&g, 2);
    assert_string_equal(g.calls.said, "");
}

static void early_deaths_of_different_ranks_are_no_loop(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.f = {.n_nodes = 1, .size = 8, .local_size = 8, .restarts = 100, .token = "token"},
                   .is_alone = true, .is_whole = true, .moved_rank = -1, .last_rank = -1};
    for (int rank = 1; rank <= 2 * GUARDS_LOOP_N; rank++) {
        struct death d = {.kind = DEATH_ENDED, .rank = rank, .how = 256};
        round_decide(&g, &d);
        assert_true(d.next > 0);
    }
}

/* By the one above, and by another one that it joins later. */
static void a_start_that_is_told_twice_is_one(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.f = {.n_nodes = 1, .restarts = 3}};
    round_start(&g, 1);
    strcpy(g.card, "card");
    for (int generation = 1; generation >= 0; generation--)
        round_start(&g, generation);
    assert_int_equal(g.generation, 1);
    assert_int_equal(g.n_restarts, 1);
    assert_string_equal(g.card, "card");
}

static int broken_by; /* an errno; 0: nothing is */

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
    if (!broken_by)
        return __real_recvmsg(fd, m, flags);
    errno = broken_by;
    return -1;
}

/* The connection to the leader of node 1 ends so. */
static void lose_node_1(guards_t *g, int error)
{
    int pair[2];
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    g->below = link_add(g, pair[0], true, LINK_IS_IN);
    g->below->node = g->below->rank = 1;
    nodes_are_at(g, g->below, 1, NODE_IS_THERE);
    close(pair[1]);
    broken_by = error;
    guards_step(g);
    broken_by = 0;
    close(g->epoll);
}

/* The host, or another one, has ended it; or nothing is heard of the host. */
static void a_node_has_ended_for_certain_where_somebody_says_so(void **state)
{
    (void)state;
    static const struct {
        int error;
        bool is_certain;
    } cases[] = {{0, true}, {ECONNRESET, true}, {ETIMEDOUT, false}, {EHOSTUNREACH, false}, {ENETUNREACH, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        guards_t *g = elastic();
        strcpy(g->f.token, "token");
        lose_node_1(g, cases[i].error);
        assert_null(g->below);
        assert_int_equal(g->lost.kind, DEATH_GONE);
        assert_int_equal(g->lost.is_certain, cases[i].is_certain);
        assert_true(g->nodes.of[1].is_lost);
        assert_int_equal(g->nodes.of[1].is_certain, cases[i].is_certain);
        give_back(g);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_node_is_away_by_the_word_of_where_it_was_alone),
    cmocka_unit_test(half_of_the_nodes_are_most_with_the_first),
    cmocka_unit_test(a_new_root_begins_where_it_knows_of_others),
    cmocka_unit_test(who_takes_a_place_is_said_once),
    cmocka_unit_test(a_loss_is_not_hidden_by_what_follows_from_it),
    cmocka_unit_test(a_rank_that_dies_soon_is_not_started_for_ever),
    cmocka_unit_test(a_generation_that_follows_is_not_given_up),
    cmocka_unit_test(who_has_come_and_gone_is_not_waited_for),
    cmocka_unit_test(who_never_comes_is_told),
    cmocka_unit_test(nodes_that_never_come_are_lost),
    cmocka_unit_test(a_spare_that_never_comes_ends_nothing),
    cmocka_unit_test(a_generation_that_is_given_up_is_no_news),
    cmocka_unit_test(who_has_not_gone_holds_the_next_generation_up),
    cmocka_unit_test(a_card_is_told_above_while_its_generation_runs),
    cmocka_unit_test(what_has_no_room_is_not_said_by_halves),
    cmocka_unit_test(of_several_that_are_silent_none_is_to_blame),
    cmocka_unit_test(a_guard_that_stood_still_has_heard_all),
    cmocka_unit_test(who_has_gone_tells_nothing_any_more),
    cmocka_unit_test(nobody_is_free_while_a_loss_may_be_a_death),
    cmocka_unit_test(answers_are_of_one_round_and_of_a_wait_that_goes_on),
    cmocka_unit_test(early_deaths_of_different_ranks_are_no_loop),
    cmocka_unit_test(a_start_that_is_told_twice_is_one),
    cmocka_unit_test(a_node_has_ended_for_certain_where_somebody_says_so),
};
UNIT_MAIN(tests)
