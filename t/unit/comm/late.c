/* When a wait is late, and whose fault that is, by a clock that this test moves. */
#include "t/unit/unit.h"

#include "runtime/base/clock.h"
#include "runtime/comm/watch_board.h"
#include "t/lib/clock.h"
#include "t/lib/ranks.h"

enum { SIZE = 4, TIMEOUT_S = 8 /* and a grace of one */, FREE = -1 };

/* Rank 0 asks so many ms behind its deadline, when ranks 1 and 2 wait for these. */
struct question {
    int ms, waits_for[2];
};

static void ask(const struct question *q, const char *answer)
{
    const struct job j = {.size = SIZE, .node_of = (const int[]){0, 1, 2, 3}};
    const uint64_t deadline = 100 * NS_PER_S;
    uint64_t now = deadline;
    size_t n = (watch_board_bytes(SIZE, 1) + 63) / 64 * 64;
    struct world *world = job_world(&j, 0);
    struct watch_board *b = aligned_alloc(64, n);
    ddp_error_t e = {0};
    assert_true(world && b);
    memset(b, 0, n);
    watch_t *w = watch_create(&(struct watch_config){.world = world, .board = b, .notice_fd = -1}, &e);
    assert_non_null(w);
    clock_stands_at = &now;
    for (bool is_late = false; !is_late; q++) {
        uint32_t bell = b->bell, census = b->census;
        now = deadline + (uint64_t)q->ms * NS_PER_MS;
        for (int r = 0; r < 2; r++)
            b->waits_for[r + 1] = q->waits_for[r] + 1;
        is_late = watch_is_late(w, 1, deadline, TIMEOUT_S, WATCH_IN_BARRIER);
        if (is_late != (q[1].ms == 0))
            fail_msg("%s: %d ms behind the deadline it is %d", answer, q->ms, is_late);
        assert_true(census || b->bell != bell); /* the others are woken, to publish for whom they wait */
        assert_true(watch_alarm(deadline) > clock_ns());
    }
    clock_stands_at = NULL;
    watch_error(w, &e);
    assert_string_equal(e.text, answer);
    watch_destroy(w);
    free(b);
    world_destroy(world);
}

#define NAMES(rank) "rank " rank " did not come before the deadline; rank 0 waited in barrier for 8 s"

static void a_wait_is_late_when_its_culprit_stays_so_for_a_while(void **state)
{
    (void)state;
    ask((struct question[]){{1, {FREE, FREE}}, {990, {FREE, FREE}}, {1001, {FREE, FREE}}, {0}}, NAMES("1 (n1)"));
    ask((struct question[]){{1, {FREE, FREE}}, {900, {2, FREE}}, {1500, {2, FREE}}, {1899, {2, FREE}},
                            {1901, {2, FREE}}, {0}}, NAMES("2 (n2)"));
    ask((struct question[]){{1, {2, FREE}}, {900, {2, 3}}, {1500, {2, FREE}}, {2499, {2, FREE}}, {2500, {2, FREE}},
                            {0}}, NAMES("2 (n2)"));
}

static void a_circle_of_waits_may_dissolve(void **state)
{
    (void)state;
    ask((struct question[]){{1, {0, FREE}}, {1500, {0, FREE}}, {4000, {0, FREE}}, {4001, {0, FREE}}, {0}},
        NAMES("1 (n1)"));
    ask((struct question[]){{1, {0, FREE}}, {3900, {2, FREE}}, {4100, {2, FREE}}, {4901, {2, FREE}}, {0}},
        NAMES("2 (n2)"));
}

/* It may have been suspended, and the others with it. */
static void who_comes_much_later_than_its_deadline_waits_once_more(void **state)
{
    (void)state;
    ask((struct question[]){{1001, {FREE, FREE}}, {2500, {FREE, FREE}}, {9000, {FREE, FREE}}, {9001, {FREE, FREE}},
                            {10000, {FREE, FREE}}, {10001, {FREE, FREE}}, {0}}, NAMES("1 (n1)"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_wait_is_late_when_its_culprit_stays_so_for_a_while),
    cmocka_unit_test(a_circle_of_waits_may_dissolve),
    cmocka_unit_test(who_comes_much_later_than_its_deadline_waits_once_more),
};
UNIT_MAIN(tests)
