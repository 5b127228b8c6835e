/* Exchanges with peers that this test is. Its clock goes on only where the exchange sleeps, and so do the peers. */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/base/clock.h"
#include "runtime/comm/tcp_impl.h"
#include "runtime/comm/watch_board.h"
#include "t/lib/clock.h"
#include "t/lib/ranks.h"

enum { NODES = 3, NUMBER = 7, CALL = 70, STEP_MS = 600 /* of a deadline of a second */ };

struct rig {
    struct world *world;
    struct watch_board *board;
    watch_t *watch;
    struct tcp *tcp;
    int peer[NODES]; /* this test's ends */
};

static struct {
    struct rig *rig;
    void (*sleep)(struct rig *r, int n); /* what the peers do in the exchange's n-th sleep */
    int n_slept;
    uint64_t ns;
} play;

/* How long it may sleep. It does not; the watch's thread, whose clock goes on, does. */
int __real_deadline_left_ms(uint64_t when);
int __wrap_deadline_left_ms(uint64_t when);
int __wrap_deadline_left_ms(uint64_t when)
{
    if (!clock_stands_at)
        return __real_deadline_left_ms(when);
    if (play.n_slept == 100)
        fail_msg("it sleeps for ever");
    play.ns += STEP_MS * NS_PER_MS;
    play.sleep(play.rig, ++play.n_slept);
    return 0;
}

static uint64_t no_call(void *ctx, uint64_t number)
{
    (void)ctx;
    (void)number;
    return 0;
}

static struct rig rig_open(void)
{
    const struct job j = {.size = NODES, .node_of = (const int[]){0, 1, 2}};
    size_t n = (watch_board_bytes(NODES, 1) + 63) / 64 * 64;
    struct rig r = {job_world(&j, 0), aligned_alloc(64, n), NULL, calloc(1, sizeof *r.tcp), {-1, -1, -1}};
    ddp_error_t e;
    assert_true(r.world && r.board && r.tcp);
    memset(r.board, 0, n);
    r.board->census = 1; /* waits are published */
    r.watch = watch_create(&(struct watch_config){.world = r.world, .board = r.board, .notice_fd = -1}, &e);
    assert_non_null(r.watch);
    *r.tcp = (struct tcp){.world = r.world, .n_nodes = NODES, .timeout_s = 1, .handler = {.call = no_call}};
    r.tcp->conns = calloc(NODES, sizeof *r.tcp->conns);
    assert_non_null(r.tcp->conns);
    for (int k = 0; k < NODES; k++) {
        struct tcp_conn *c = &r.tcp->conns[k];
        int pair[2] = {-1, -1};
        if (k > 0)
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        *c = (struct tcp_conn){.rank = k, .fd = pair[0], .out_end = &c->out};
        r.peer[k] = pair[1];
    }
    tcp_begin(r.tcp, NUMBER, CALL);
    return r;
}

static void rig_close(struct rig *r)
{
    tcp_destroy(r->tcp);
    watch_destroy(r->watch);
    for (int k = 1; k < NODES; k++)
        close(r->peer[k]);
    free(r->board);
    world_destroy(r->world);
}

static int exchange(struct rig *r, void (*sleep)(struct rig *r, int n), ddp_error_t *errp)
{
    play.rig = r;
    play.sleep = sleep;
    play.n_slept = 0;
    clock_stands_at = &play.ns;
    int rc = tcp_exchange(r->tcp, r->watch, WATCH_IN_BARRIER, errp);
    clock_stands_at = NULL;
    return rc;
}

static const struct tcp_header right = {.call = CALL, .number = NUMBER, .kind = TCP_EXCHANGE, .n_bytes = 8};

static void say(struct rig *r, int k, const void *data, size_t n)
{
    assert_int_equal(send(r->peer[k], data, n, MSG_NOSIGNAL), n);
}

static void say_message(struct rig *r, int k, struct tcp_header h, const char *data)
{
    say(r, k, &h, sizeof h);
    say(r, k, data, h.n_bytes);
}

static void never(struct rig *r, int n)
{
    (void)r;
    fail_msg("it sleeps %d times, and has all", n);
}

static void nothing(struct rig *r, int n)
{
    (void)r;
    (void)n;
}

/* One byte in each sleep, so that the whole takes five deadlines. */
static void say_byte(struct rig *r, int n)
{
    assert_int_equal(r->board->waits_for[0], 1 + 1);
    if (n == 1)
        say(r, 1, &right, sizeof right);
    else
        say(r, 1, &"01234567"[n - 2], 1);
}

static void a_slow_link_is_not_a_dead_one(void **state)
{
    (void)state;
    struct rig r = rig_open();
    char got[9] = "";
    ddp_error_t e = {0};
    assert_int_equal(tcp_recv(r.tcp, 1, got, 8, &e), 0);
    if (exchange(&r, say_byte, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(got, "01234567");
    assert_int_equal(play.n_slept, 9);
    assert_int_equal(r.board->waits_for[0], 0); /* and the wait is over */
    rig_close(&r);
}

/* In each sleep who has been silent for longer; both are, before the first. */
static void say_in_turn(struct rig *r, int n)
{
    int silent = n % 2 ? 1 : 2;
    assert_int_equal(r->board->waits_for[0], silent + 1);
    if (n <= 2)
        say(r, silent, &right, sizeof right);
    else
        say(r, silent, n <= 4 ? "0123" : "4567", 4);
}

static void who_has_been_silent_for_longest_is_waited_for(void **state)
{
    (void)state;
    struct rig r = rig_open();
    char got[NODES][9] = {""};
    ddp_error_t e = {0};
    for (int k = 1; k < NODES; k++)
        assert_int_equal(tcp_recv(r.tcp, k, got[k], 8, &e), 0);
    if (exchange(&r, say_in_turn, &e) < 0)
        fail_msg("%s", e.text);
    for (int k = 1; k < NODES; k++)
        assert_string_equal(got[k], "01234567");
    rig_close(&r);
}

/* A wait of which others have been told has woken it by that once; then it sleeps until its deadline. */
static void look_for_signals(struct rig *r, int n)
{
    struct pollfd p = {.fd = watch_event_fd(r->watch), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), n == 1);
    if (n == 2)
        say_message(r, 1, right, "01234567");
}

static void what_has_woken_it_is_over(void **state)
{
    (void)state;
    struct rig r = rig_open();
    char got[9] = "";
    ddp_error_t e = {0};
    assert_int_equal(tcp_recv(r.tcp, 1, got, 8, &e), 0);
    assert_int_equal(exchange(&r, look_for_signals, &e), 0);
    assert_string_equal(got, "01234567");
    rig_close(&r);
}

static void what_is_of_another_call_is_an_error(void **state)
{
    (void)state;
    struct tcp_header wrong[] = {right, right, right, right, right};
    wrong[0].number--;
    wrong[1].call++;
    wrong[2].chunk++;
    wrong[3].n_bytes--;
    wrong[4].n_bytes++;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rig r = rig_open();
        char got[9] = "";
        ddp_error_t e = {0};
        assert_int_equal(tcp_recv(r.tcp, 1, got, 8, &e), 0);
        say_message(&r, 1, wrong[i], "012345678");
        if (exchange(&r, nothing, &e) == 0 || e.domain != DDP_E_USAGE || !strstr(e.text, "same calls"))
            fail_msg("header %zu: %s", i, e.text);
        rig_close(&r);
    }
}

/* A peer has sent all before this rank has begun: of this exchange, the next one, and the next call. */
static void what_is_early_stays_in_its_connection(void **state)
{
    (void)state;
    struct rig r = rig_open();
    struct tcp_header next = right, later = right;
    struct pollfd polls[NODES];
    char got[3][9] = {""}, sent[] = "76543210";
    ddp_error_t e = {0};
    next.chunk = 1;
    later.number++;
    later.call++;
    say_message(&r, 1, next, "abcdefgh");
    say_message(&r, 1, later, "ABCDEFGH");
    assert_int_equal(tcp_send(r.tcp, 1, sent, 8, &e), 0);
    if (exchange(&r, never, &e) < 0)
        fail_msg("%s", e.text);
    tcp_polls(r.tcp, polls);
    assert_true(polls[1].fd == -1 && polls[2].fd >= 0); /* it would wake all sleeps until then */
    assert_int_equal(tcp_recv(r.tcp, 1, got[0], 8, &e), 0);
    assert_int_equal(exchange(&r, never, &e), 0);
    assert_string_equal(got[0], "abcdefgh");
    tcp_begin(r.tcp, NUMBER + 1, CALL + 1);
    assert_int_equal(tcp_recv(r.tcp, 1, got[1], 8, &e), 0);
    assert_int_equal(exchange(&r, never, &e), 0);
    assert_string_equal(got[1], "ABCDEFGH");
    rig_close(&r);
}

static void a_message_may_have_many_pieces(void **state)
{
    enum { PIECES = 300 };
    (void)state;
    struct rig r = rig_open();
    char sent[PIECES], got[PIECES] = "", heard[sizeof right + PIECES];
    struct tcp_header h = right;
    ddp_error_t e = {0};
    h.n_bytes = PIECES;
    for (int i = 0; i < PIECES; i++) {
        sent[i] = (char)(i * 31);
        assert_int_equal(tcp_send(r.tcp, 1, sent + i, 1, &e), 0);
        assert_int_equal(tcp_recv(r.tcp, 1, got + i, 1, &e), 0);
    }
    say_message(&r, 1, h, sent);
    assert_int_equal(exchange(&r, never, &e), 0);
    assert_memory_equal(got, sent, PIECES);
    assert_int_equal(recv(r.peer[1], heard, sizeof heard, 0), sizeof heard);
    assert_memory_equal(heard, &h, sizeof h);
    assert_memory_equal(heard + sizeof h, sent, PIECES);
    rig_close(&r);
}

static void hear_that_it_left(struct rig *r, int n)
{
    if (n == 2)
        *board_left(r->board, r->world, 1) = 1;
}

static void hear_the_cause(struct rig *r, int n)
{
    if (n == 2)
        watch_raise(r->watch, WATCH_DIED, 2, WATCH_STATUS_UNKNOWN, WATCH_IN_BARRIER);
}

/* News of why may come after the end of the connection. */
static void who_is_lost_is_named_as_what_is_heard(void **state)
{
    (void)state;
    static const struct {
        void (*sleep)(struct rig *r, int n);
        int error; /* 0: it closes */
        const char *says;
    } cases[] = {
        {nothing, 0, "rank 1 (n1) died"},
        {nothing, ECONNRESET, "rank 1 (n1) died"},
        {nothing, EPIPE, "rank 1 (n1) died"},
        {nothing, EHOSTUNREACH, "rank 1 (n1) cannot be reached (No route to host)"},
        {hear_that_it_left, 0, "rank 1 (n1) left the job while rank 0 waits in barrier"},
        {hear_the_cause, 0, "rank 2 (n2) died"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r = rig_open();
        struct pollfd polls[NODES];
        char got[8];
        ddp_error_t e = {0};
        assert_int_equal(tcp_recv(r.tcp, 1, got, 8, &e), 0);
        if (cases[i].error == 0)
            shutdown(r.peer[1], SHUT_RDWR);
        r.tcp->conns[1].is_lost = cases[i].error != 0;
        r.tcp->conns[1].lost_errno = cases[i].error;
        assert_int_equal(exchange(&r, cases[i].sleep, &e), -1);
        assert_string_equal(e.text, cases[i].says);
        tcp_polls(r.tcp, polls);
        assert_int_equal(polls[1].fd, -1);
        rig_close(&r);
    }
}

/* In a forked child, which may have files of its own under the same numbers soon. */
static void connections_that_are_disowned_are_not_closed_again(void **state)
{
    (void)state;
    struct rig r = rig_open();
    tcp_disown(r.tcp);
    int own[] = {dup(r.peer[1]), dup(r.peer[2])};
    tcp_destroy(r.tcp);
    r.tcp = NULL;
    for (int i = 0; i < 2; i++) {
        assert_true(fcntl(own[i], F_GETFD) >= 0);
        close(own[i]);
    }
    rig_close(&r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_slow_link_is_not_a_dead_one),
    cmocka_unit_test(who_has_been_silent_for_longest_is_waited_for),
    cmocka_unit_test(what_has_woken_it_is_over),
    cmocka_unit_test(what_is_of_another_call_is_an_error),
    cmocka_unit_test(what_is_early_stays_in_its_connection),
    cmocka_unit_test(a_message_may_have_many_pieces),
    cmocka_unit_test(who_is_lost_is_named_as_what_is_heard),
    cmocka_unit_test(connections_that_are_disowned_are_not_closed_again),
};
UNIT_MAIN(tests)
