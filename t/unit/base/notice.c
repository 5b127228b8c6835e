/* The guard's word: what ends a wait, and what does not. */
#include "t/unit/unit.h"

#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"

static int guard, idle[2]; /* the guard's end; a connection on which nothing comes */

static int set_up(void **state)
{
    int pair[2];
    (void)state;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, idle) < 0)
        return -1;
    guard = pair[0];
    notice_heed(pair[1]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_close(guard);
    close(idle[0]);
    close(idle[1]);
    io_close(notice_take());
    return 0;
}

static void say_death(int rank, const char *text)
{
    unsigned char body[300];
    bytes_put32(body, (uint32_t)rank);
    memcpy(body + 4, text, strlen(text));
    frame_send(guard, DOOR_DEATH, body, 4 + strlen(text));
}

static void a_death_ends_a_wait(void **state)
{
    ddp_error_t e;
    char c;
    (void)state;
    frame_send(guard, DOOR_CARD, "card", 4); /* is none */
    say_death(3, "rank 3 (n2) exited with code 1");
    assert_int_equal(io_recv_all(idle[0], &c, 1, deadline_in(20), "rank 1", &e), -1);
    assert_int_equal(e.domain, DDP_E_PEER);
    assert_string_equal(e.text, "rank 3 (n2) exited with code 1");
}

static void what_is_waited_for_comes_first(void **state)
{
    ddp_error_t e;
    char c = 0;
    (void)state;
    say_death(3, "rank 3 died");
    assert_int_equal(write(idle[1], "x", 1), 1);
    assert_int_equal(io_recv_all(idle[0], &c, 1, deadline_in(20), "rank 1", &e), 0);
    assert_int_equal(c, 'x');
}

static void a_guard_that_goes_ends_no_wait(void **state)
{
    ddp_error_t e;
    char c;
    (void)state;
    close(guard);
    guard = -1;
    assert_int_equal(io_recv_all(idle[0], &c, 1, deadline_in(0.1), "rank 1", &e), -1);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_int_equal(notice_fd(), -1);
}

static void who_takes_it_reads_it(void **state)
{
    struct notice n = {.fd = notice_take()};
    ddp_error_t e;
    char text[NOTICE_TEXT_MAX + 1], c;
    int rank;
    (void)state;
    assert_int_equal(notice_next(&n, &rank, text), 0);
    say_death(7, "rank 7 died");
    assert_int_equal(io_recv_all(idle[0], &c, 1, deadline_in(0.05), "rank 1", &e), -1); /* it is no longer heeded */
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_int_equal(notice_next(&n, &rank, text), 1);
    assert_int_equal(rank, 7);
    assert_string_equal(text, "rank 7 died");
    frame_send(guard, DOOR_DEATH, "x", 1); /* says no rank */
    assert_int_equal(notice_next(&n, &rank, text), 0);
    close(guard);
    guard = -1;
    assert_int_equal(notice_next(&n, &rank, text), -1);
    close(n.fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_death_ends_a_wait, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_is_waited_for_comes_first, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_guard_that_goes_ends_no_wait, set_up, tear_down),
    cmocka_unit_test_setup_teardown(who_takes_it_reads_it, set_up, tear_down),
};

UNIT_MAIN(tests)
