/* Frames over a socket: whole, in pieces, too long, the connection's end. */
#include "config.h" /* pipe2 */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/frame.h"

static int pair[2];

static int set_up(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
    (void)state;
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static void expect(struct frame *f, int kind, const char *body)
{
    int got;
    size_t n;
    assert_int_equal(frame_next(f, pair[1], &got, &n), 1);
    assert_int_equal(got, kind);
    assert_int_equal(n, strlen(body));
    assert_memory_equal(f->bytes + FRAME_HEAD, body, n);
}

static void frames_come_as_they_were_sent(void **state)
{
    struct frame f = {0};
    int kind;
    size_t n;
    (void)state;
    assert_int_equal(frame_next(&f, pair[1], &kind, &n), 0);
    frame_send(pair[0], 1, "one", 3);
    frame_send(pair[0], 2, NULL, 0);
    frame_send(pair[0], 3, "three", 5);
    expect(&f, 1, "one");
    expect(&f, 2, "");
    expect(&f, 3, "three");
    assert_int_equal(frame_next(&f, pair[1], &kind, &n), 0);
    shutdown(pair[0], SHUT_WR);
    assert_int_equal(frame_next(&f, pair[1], &kind, &n), -1);
}

static void a_frame_may_come_byte_by_byte(void **state)
{
    struct frame f = {0};
    unsigned char m[FRAME_HEAD + 3] = {0};
    int kind;
    size_t n;
    (void)state;
    bytes_put32(m, 7);
    bytes_put32(m + 4, 3);
    memcpy(m + FRAME_HEAD, "abc", 3);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i + 1 < sizeof m; i++) {
            assert_int_equal(send(pair[0], m + i, 1, 0), 1);
            assert_int_equal(frame_next(&f, pair[1], &kind, &n), 0);
        }
        assert_int_equal(send(pair[0], m + sizeof m - 1, 1, 0), 1);
        expect(&f, 7, "abc");
    }
}

static void what_is_no_frame_ends_the_connection(void **state)
{
    struct frame f = {0};
    unsigned char m[FRAME_HEAD];
    int kind;
    size_t n;
    (void)state;
    bytes_put32(m, 1);
    bytes_put32(m + 4, FRAME_BODY_MAX + 1);
    assert_int_equal(send(pair[0], m, sizeof m, 0), sizeof m);
    assert_int_equal(frame_next(&f, pair[1], &kind, &n), -1);
}

/* Who does not read loses frames, but never gets half of one. */
static void a_full_socket_is_not_waited_for(void **state)
{
    static char body[FRAME_BODY_MAX];
    struct frame f = {0};
    int kind, rc, n_got = 0;
    size_t n;
    (void)state;
    memset(body, 'x', sizeof body);
    for (int i = 0; i < 10000; i++)
        frame_send(pair[0], i, body, sizeof body);
    while ((rc = frame_next(&f, pair[1], &kind, &n)) > 0) {
        assert_int_equal(n, sizeof body);
        assert_memory_equal(f.bytes + FRAME_HEAD, body, n);
        n_got++;
    }
    assert_true(n_got > 0 && n_got < 10000);
}

/* The file at the other end of a pipe says whose descriptor it is. */
static void a_descriptor_comes_with_its_frame(void **state)
{
    struct frame f = {.takes_fd = true}, plain = {0};
    int line[2], kind;
    size_t n;
    char c = 0;
    (void)state;
    assert_int_equal(pipe(line), 0);
    frame_send(pair[0], 1, "none", 4);
    frame_send_fd(pair[0], 2, "some", 4, line[1]);
    frame_send_fd(pair[0], 3, NULL, 0, line[1]);
    close(line[1]);
    expect(&f, 1, "none");
    assert_int_equal(frame_take_fd(&f), -1);
    expect(&f, 2, "some");
    int fd = frame_take_fd(&f);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(line[0], &c, 1), 1);
    assert_int_equal(c, 'x');
    close(fd);
    assert_int_equal(frame_next(&plain, pair[1], &kind, &n), 1); /* who does not want it holds none */
    assert_int_equal(read(line[0], &c, 1), 0);
    close(line[0]);
}

/* Else who sends many takes all descriptors that there are. */
static void a_descriptor_that_nobody_took_is_closed_for_the_next(void **state)
{
    struct frame f = {.takes_fd = true};
    int first[2], second[2];
    char c;
    (void)state;
    assert_int_equal(pipe2(first, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(second, O_CLOEXEC | O_NONBLOCK), 0);
    frame_send_fd(pair[0], 1, "one", 3, first[1]);
    frame_send_fd(pair[0], 2, "two", 3, second[1]);
    close(first[1]);
    close(second[1]);
    expect(&f, 1, "one");
    assert_int_equal(read(first[0], &c, 1), -1);
    expect(&f, 2, "two");
    assert_int_equal(read(first[0], &c, 1), 0);
    assert_int_equal(read(second[0], &c, 1), -1);
    close(frame_take_fd(&f));
    assert_int_equal(read(second[0], &c, 1), 0);
    close(first[0]);
    close(second[0]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(frames_come_as_they_were_sent, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_frame_may_come_byte_by_byte, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_is_no_frame_ends_the_connection, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_descriptor_comes_with_its_frame, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_descriptor_that_nobody_took_is_closed_for_the_next, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_full_socket_is_not_waited_for, set_up, tear_down),
};

UNIT_MAIN(tests)
