/* What a node's leader takes from other leaders and from its guard, all of which are this test. */
#include "t/unit/unit.h"

#include <poll.h>
#include <sys/socket.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/comm/watch_impl.h"
#include "t/lib/ranks.h"

enum { SIZE = 3 };

struct rig {
    struct world *world;
    struct watch_board *board;
    watch_t *watch;
    int other[SIZE]; /* the test's ends: [0] the guard's, then each leader's */
};

static struct watch_board *board_create(void)
{
    size_t n = (watch_board_bytes(SIZE, 1) + 63) / 64 * 64;
    struct watch_board *b = aligned_alloc(64, n);
    assert_non_null(b);
    return memset(b, 0, n);
}

static struct rig rig_open(void)
{
    const struct job j = {.size = SIZE, .node_of = (const int[]){0, 1, 2}};
    struct rig r = {.world = job_world(&j, 0), .board = board_create()};
    struct watch_peer peers[2];
    ddp_error_t e;
    int pair[SIZE][2];
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair[i]), 0);
        r.other[i] = pair[i][1];
        if (i > 0)
            peers[i - 1] = (struct watch_peer){.rank = i, .fd = pair[i][0], .pidfd = -1};
    }
    r.watch = watch_create(&(struct watch_config){.world = r.world, .board = r.board, .remote = peers, .n_remote = 2,
                                                  .notice_fd = pair[0][0]}, &e);
    assert_non_null(r.watch);
    return r;
}

static void rig_close(struct rig *r)
{
    watch_destroy(r->watch);
    for (int i = 0; i < SIZE; i++)
        close(r->other[i]);
    free(r->board);
    world_destroy(r->world);
}

static void say(struct rig *r, int from, struct watch_frame f)
{
    f.magic = f.magic ? f.magic : FRAME_MAGIC;
    assert_int_equal(send(r->other[from], &f, sizeof f, MSG_NOSIGNAL), sizeof f);
}

/* The last thing that the leader of node 2 says, and all that was said before: the watch has heard it. */
static void say_last(struct rig *r)
{
    uint64_t until = deadline_in(20);
    say(r, 2, (struct watch_frame){.type = FRAME_LEFT, .rank = 2});
    while (!watch_has_left(r->watch, 2) && deadline_left_ns(until) > 0) {
        poll(&(struct pollfd){.fd = watch_event_fd(r->watch), .events = POLLIN}, 1, deadline_left_ms(until));
        watch_event_clear(r->watch);
    }
    assert_true(watch_has_left(r->watch, 2));
}

static void ranks_that_there_are_not_are_passed_over(void **state)
{
    static const struct watch_frame wrong[] = {
        {.rank = SIZE, .suspect = 2}, {.rank = -1, .suspect = 2}, {.rank = 1, .suspect = SIZE},
        {.rank = 1, .suspect = WATCH_ANYONE - 1}, {.magic = FRAME_MAGIC + 1, .rank = 1, .suspect = 0},
    };
    (void)state;
    struct rig r = rig_open();
    say(&r, 2, (struct watch_frame){.type = FRAME_WAITS, .rank = 1, .suspect = 2});
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct watch_frame f = wrong[i];
        f.type = FRAME_WAITS;
        say(&r, 2, f);
    }
    say_last(&r);
    assert_true(r.board->waits_for[0] == 0 && r.board->waits_for[1] == 2 + 1 && r.board->waits_for[2] == 0);
    assert_int_equal(board_text(r.board, r.world, 0)[0], 0); /* which lies behind those */
    assert_int_equal(r.board->census, 1); /* so that this node's ranks publish for whom they wait */
    assert_false(watch_is_broken(r.watch));
    rig_close(&r);
}

static void a_cause_of_another_node_has_a_text_of_its_own(void **state)
{
    (void)state;
    struct rig r = rig_open();
    struct watch_board *theirs = board_create();
    struct watch_frame f = {.type = FRAME_CAUSE, .text = "the disk is full"};
    ddp_error_t e = {0};
    board_raise(theirs, r.world, (struct cause){.kind = WATCH_ABORT, .rank = 2}, NULL);
    f.cause = theirs->cause;
    say(&r, 2, f);
    say_last(&r);
    watch_error(r.watch, &e);
    assert_string_equal(e.text, "rank 2 (n2) aborted: the disk is full");
    assert_int_equal(cause_unpack(r.board->cause).slot, 1); /* [0] may be written to by this node's rank meanwhile */
    free(theirs);
    rig_close(&r);
}

static void a_leader_that_ends_has_died_or_left(void **state)
{
    (void)state;
    for (int has_left = 0; has_left < 2; has_left++) {
        struct rig r = rig_open();
        ddp_error_t e = {0};
        if (has_left)
            say(&r, 1, (struct watch_frame){.type = FRAME_LEFT, .rank = 1});
        shutdown(r.other[1], SHUT_RDWR);
        say_last(&r);
        assert_int_equal(watch_is_broken(r.watch), !has_left);
        if (!has_left) {
            watch_error(r.watch, &e);
            assert_string_equal(e.text, "rank 1 (n1) died");
        }
        rig_close(&r);
    }
}

static void a_guard_may_speak_of_others_and_end(void **state)
{
    unsigned char body[] = "____others have died";
    (void)state;
    struct rig r = rig_open();
    bytes_put32(body, SIZE);
    frame_send(r.other[0], DOOR_DEATH, body, sizeof body - 1);
    shutdown(r.other[0], SHUT_RDWR);
    bool is_closed = false;
    for (uint64_t until = deadline_in(20); deadline_left_ns(until) > 0 && !is_closed; poll(NULL, 0, 2)) {
        pthread_mutex_lock(&r.watch->lock);
        is_closed = r.watch->notice.fd == -1; /* and not closed once more at the end */
        pthread_mutex_unlock(&r.watch->lock);
    }
    assert_true(is_closed);
    assert_false(watch_is_broken(r.watch));
    rig_close(&r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranks_that_there_are_not_are_passed_over),
    cmocka_unit_test(a_cause_of_another_node_has_a_text_of_its_own),
    cmocka_unit_test(a_leader_that_ends_has_died_or_left),
    cmocka_unit_test(a_guard_may_speak_of_others_and_end),
};
UNIT_MAIN(tests)
