/* The roll call before an exit code is the verdict, and what is judged or told only after it: guards made by hand, with
 * neighbours of whom they have only the word. */
#include "config.h"
#include "t/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guards/impl.h"

#define EXIT(code) ((code) << 8)

/* A guard with one below; the other ends of its connections. */
struct trio {
    guards_t g;
    struct link above, below;
};

static struct link *connect_to(guards_t *g, struct link *end, bool is_remote)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    *end = (struct link){.fd = pair[1]};
    return link_add(g, pair[0], is_remote, LINK_IS_IN);
}

static void trio_open(struct trio *t, bool has_above, bool is_remote)
{
    memset(t, 0, sizeof *t);
    t->g.epoll = epoll_create1(EPOLL_CLOEXEC);
    t->g.f.silent_s = 3;
    t->g.f.size = t->g.f.n_nodes = 3;
    t->g.looked_at = clock_ns();
    t->g.is_alone = !has_above;
    t->g.above = has_above ? connect_to(&t->g, &t->above, false) : NULL;
    t->g.below = connect_to(&t->g, &t->below, is_remote);
}

static void trio_close(struct trio *t)
{
    if (t->g.above) {
        link_drop(&t->g, t->g.above, false);
        close(t->above.fd);
    }
    while (t->g.below)
        link_drop(&t->g, t->g.below, false);
    io_close(t->below.fd);
    close(t->g.epoll);
}

static void a_roll_call_waits_for_all_that_are_there(void **state)
{
    (void)state;
    static guards_t g;
    struct link asks = {.fd = -1, .state = LINK_ASKS}, over = {.fd = -1, .state = LINK_IS_IN, .is_over = true};
    struct link in = {.fd = -1, .state = LINK_IS_IN, .next = &over};
    over.next = &asks;
    g = (guards_t){.is_alone = true, .below = &in};
    assert_false(roll_goes_on(&g) || guards_is_called(&g));
    for (int times = 1; times < 3; times++) {
        roll_call(&g);
        assert_true(roll_goes_on(&g) && guards_is_called(&g));
        in.rolled = times;
        assert_true(roll_goes_on(&g));
        guards_answer(&g);
        assert_false(roll_goes_on(&g) || guards_is_called(&g));
    }
    roll_call(&g);
    guards_answer(&g);
    assert_true(roll_goes_on(&g));
    g.roll.until = clock_ns();
    assert_false(roll_goes_on(&g));
}

static int next_kind(int fd)
{
    static struct frame in;
    int kind = -1;
    size_t n;
    return frame_next(&in, fd, &kind, &n) == 1 ? kind : -1;
}

static void a_leader_answers_when_those_below_have(void **state)
{
    (void)state;
    static struct trio t;
    const struct death call = {.how = 7};
    trio_open(&t, true, false);
    for (int root = 0; root < 2; root++) { /* another root may call by the same number */
        link_send(&t.above, TOLD_ROLL, &call);
        guards_step(&t.g);
        assert_int_equal(next_kind(t.below.fd), TOLD_ROLL);
        assert_true(guards_is_called(&t.g));
        guards_answer(&t.g);
        assert_int_equal(next_kind(t.above.fd), root ? -1 : TOLD_HERE);
        link_send(&t.below, TOLD_ROLLED, &call);
        for (int times = 0; times < 2; times++) /* once */
            guards_step(&t.g);
        assert_int_equal(next_kind(t.above.fd), TOLD_ROLLED);
        assert_int_equal(next_kind(t.above.fd), -1);
    }
    trio_close(&t);
}

static void only_what_may_follow_calls_the_roll(void **state)
{
    static const struct {
        enum death_kind kind;
        int how;
        bool calls;
    } cases[] = {{DEATH_ENDED, 1 << 8, true}, {DEATH_TOLD, 1 << 8, true}, {DEATH_ENDED, SIGKILL, false},
                 {DEATH_SILENT, 3, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static guards_t g;
        g = (guards_t){.is_alone = true};
        guards_report(&g, &(struct death){.kind = cases[i].kind, .how = cases[i].how});
        assert_int_equal(guards_is_called(&g), cases[i].calls);
        assert_true(g.settle_at);
    }
}

/* Whose end is counted as a death only later than its connection has gone. */
static void a_loss_that_is_not_told_yet_holds_the_roll_up(void **state)
{
    (void)state;
    static guards_t g;
    g = (guards_t){.is_alone = true};
    roll_call(&g);
    guards_answer(&g);
    assert_false(roll_goes_on(&g));
    g.lost_at = deadline_in(0.2);
    assert_true(roll_goes_on(&g));
}

static void who_comes_late_is_called_too(void **state)
{
    static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static guards_t *g[2];
    uint64_t until = deadline_in(20);
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct guards_facts f = {.rank = i, .size = 2, .local_rank = i, .local_size = 2, .n_nodes = 1, .silent_s = 3,
                                 .join_s = GUARDS_JOIN_S, .name = "n0"};
        snprintf(f.token, sizeof f.token, "%s", token);
        g[i] = guards_open(&f);
        assert_non_null(g[i]);
        if (i == 0) /* before the other is there */
            guards_report(g[0], &(struct death){.kind = DEATH_ENDED, .how = EXIT(1), .node = "n0"});
    }
    while (!guards_is_called(g[1]) && guards_verdict(g[1], NULL) == NULL && deadline_left_ns(until) > 0) {
        for (int i = 0; i < 2; i++)
            guards_step(g[i]);
        poll(NULL, 0, 1);
    }
    assert_true(guards_is_called(g[1]));
}

/* Who had computed for long, while the others waited, is named although that ends before the verdict. */
static void what_a_failure_comes_from_is_judged_as_of_then(void **state)
{
    (void)state;
    uint64_t now = clock_ns();
    static guards_t g;
    const struct lull before = {.since = now - 600 * NS_PER_S, .until = now - 2 * NS_PER_S, .rank = 2, .node = "n2"};
    struct {
        uint64_t died_at;
        bool is_named;
    } cases[] = {{now - 3 * NS_PER_S, true}, {now - NS_PER_S, false}, {before.since - NS_PER_S, false},
                 {before.since - NS_PER_S / 100, true}}; /* which was on its way up then */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct death d = {.kind = DEATH_ENDED, .rank = 1, .how = EXIT(1)};
        g = (guards_t){.f.idle_s = 8, .died_at = cases[i].died_at, .lull[LULL_ONE] = before};
        suspect_blame(&g, &d);
        assert_int_equal(!!strstr(d.text, "rank 2 (n2) had computed"), cases[i].is_named);
    }
    for (int until_s = 1; until_s <= 3; until_s += 2) { /* and all that had waited, which nothing is known of */
        struct death d = {.kind = DEATH_ENDED, .rank = 1, .how = EXIT(1)};
        g = (guards_t){.f.idle_s = 8, .died_at = now - 2 * NS_PER_S, .lull[LULL_ALL] = before};
        g.lull[LULL_ALL].until = now - (uint64_t)until_s * NS_PER_S;
        suspect_blame(&g, &d);
        assert_int_equal(!!*d.text, until_s == 1);
    }
}

/* Of who has answered. */
static void who_leaves_during_the_roll_came_after(void **state)
{
    const struct death left = {.kind = DEATH_LEFT, .rank = 2, .node = "n2"};
    (void)state;
    for (int has_answered = 0; has_answered < 2; has_answered++) {
        static struct trio t;
        trio_open(&t, false, true);
        guards_report(&t.g, &(struct death){.kind = DEATH_ENDED, .rank = 0, .how = EXIT(1)});
        if (has_answered)
            link_send(&t.below, TOLD_ROLLED, &(struct death){.how = t.g.roll.number});
        link_send(&t.below, TOLD_SUSPECT, &left);
        guards_step(&t.g);
        assert_int_equal(t.g.suspect.kind, has_answered ? DEATH_NONE : DEATH_LEFT);
        trio_close(&t);
    }
}

/* Two levels up, where srun is told not to wait for it, and after the verdict. */
static void the_root_hears_of_a_node_that_has_gone(void **state)
{
    static struct trio t, root;
    (void)state;
    trio_open(&t, true, true);
    t.g.verdict = (struct death){.kind = DEATH_ENDED, .rank = 1, .how = EXIT(1)};
    close(t.below.fd);
    t.below.fd = -1;
    guards_step(&t.g);
    assert_int_equal(next_kind(t.above.fd), TOLD_LOST);
    trio_close(&t);
    trio_open(&root, false, true);
    assert_false(guards_has_lost(&root.g));
    link_send(&root.below, TOLD_LOST, NULL);
    guards_step(&root.g);
    assert_true(guards_has_lost(&root.g));
    trio_close(&root);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_roll_call_waits_for_all_that_are_there),
    cmocka_unit_test(a_leader_answers_when_those_below_have),
    cmocka_unit_test(only_what_may_follow_calls_the_roll),
    cmocka_unit_test(a_loss_that_is_not_told_yet_holds_the_roll_up),
    cmocka_unit_test(who_comes_late_is_called_too),
    cmocka_unit_test(what_a_failure_comes_from_is_judged_as_of_then),
    cmocka_unit_test(who_leaves_during_the_roll_came_after),
    cmocka_unit_test(the_root_hears_of_a_node_that_has_gone),
};
UNIT_MAIN(tests)
