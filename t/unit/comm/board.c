/* Whom a late wait is for, through the waits of others; and the first cause, which stays. */
#include "t/unit/unit.h"

#include "pmix/world.h"
#include "runtime/comm/watch_board.h"
#include "t/lib/ranks.h"

enum { SIZE = 6, FREE = -1 };
static const int node_of[SIZE] = {0, 0, 1, 1, 2, 2};

struct desk {
    struct world *world;
    struct watch_board *board;
};

static struct desk desk_open(void)
{
    const struct job j = {.size = SIZE, .node_of = node_of};
    size_t n = (watch_board_bytes(SIZE, 2) + 63) / 64 * 64;
    struct desk d = {job_world(&j, 0), aligned_alloc(64, n)};
    assert_true(d.world && d.board);
    memset(d.board, 0, n);
    return d;
}

static void desk_close(struct desk *d)
{
    free(d->board);
    world_destroy(d->world);
}

static void waits_lead_to_who_does_not_wait(void **state)
{
    (void)state;
    static const struct { int waits_for[SIZE], suspect, culprit; } cases[] = {
        {{1, 2, 3, 4, 5, FREE}, 1, 5}, /* all in a chain, to a rank whose leader waits */
        {{1, 2, 4, FREE, FREE, FREE}, 1, 4},
        {{1, 0, FREE, FREE, FREE, FREE}, 1, -1}, /* a circle */
        {{1, 2, 3, 4, 5, 0}, 1, -1}, /* ... of all */
        {{3, FREE, FREE, FREE, FREE, FREE}, 3, 3}, /* nobody waits for its leader */
        {{3, 2, FREE, FREE, FREE, FREE}, 3, 2}, /* the leader is silent */
        {{3, 2, 4, FREE, FREE, FREE}, 3, 3}, /* the leader waits, and tells so */
        {{WATCH_ANYONE, 0, FREE, 0, 0, 0}, WATCH_ANYONE, 2},
        {{WATCH_ANYONE, 0, 0, 0, 0, 0}, WATCH_ANYONE, -1},
        {{1, WATCH_ANYONE, 0, 0, FREE, 0}, 1, 4},
    };
    struct desk d = desk_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int r = 0; r < SIZE; r++)
            d.board->waits_for[r] = cases[i].waits_for[r] + 1;
        int culprit = board_culprit(d.board, d.world, cases[i].suspect);
        if (culprit != cases[i].culprit)
            fail_msg("case %zu: rank %d", i, culprit);
    }
    desk_close(&d);
}

static void the_first_cause_stays(void **state)
{
    (void)state;
    const struct cause first = {.kind = WATCH_ABORT, .rank = 5, .slot = 1}, second = {.kind = WATCH_ABORT, .slot = 1};
    struct desk d = desk_open();
    assert_true(board_raise(d.board, d.world, first, "the disk is full"));
    assert_false(board_raise(d.board, d.world, second, "another reason"));
    struct cause c = cause_unpack(d.board->cause);
    assert_true(c.kind == WATCH_ABORT && c.rank == 5 && c.slot == 1);
    assert_string_equal(board_text(d.board, d.world, c.slot), "the disk is full");
    desk_close(&d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(waits_lead_to_who_does_not_wait),
    cmocka_unit_test(the_first_cause_stays),
};
UNIT_MAIN(tests)
