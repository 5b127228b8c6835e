/* Strangers at the door: what a listening rank and a calling rank do about them. */
#include "config.h" /* pipe2 */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "runtime/comm/tcp.h"
#include "t/lib/clock.h"

/* Attempts to connect that fail so, each after so many seconds of a clock that goes ahead. */
static struct {
    int n, error, s;
    uint64_t deadline; /* of the last one */
} lost = {.error = EHOSTUNREACH};

int __real_io_connect(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline);
int __wrap_io_connect(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline);
int __wrap_io_connect(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline)
{
    lost.deadline = deadline;
    if (lost.n == 0)
        return __real_io_connect(fd, to, len, deadline);
    lost.n--;
    clock_ahead_s += lost.s;
    errno = lost.error;
    return -1;
}

static struct world *two_nodes(int rank)
{
    static const char *const keys[] = {"n0", "n1"};
    return world_from_keys(rank, 2, keys, keys);
}

struct door {
    struct handshake meet;
    struct tcp_address address;
    struct world *listener, *caller;
};

static void door_open(struct door *d)
{
    ddp_error_t e;
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    assert_int_equal(handshake_tokens(&d->meet, &e), 0);
    assert_int_equal(tcp_listen(&d->meet, NULL, &d->address, &e), 0);
    assert_string_equal(d->address.host, "127.0.0.1");
    d->listener = two_nodes(0);
    d->caller = two_nodes(1);
}

static void door_close(struct door *d)
{
    io_close(d->meet.fd);
    world_destroy(d->listener);
    world_destroy(d->caller);
}

static int knock(struct door *d)
{
    ddp_error_t e;
    int fd = tcp_connect(&d->address, "rank 0", deadline_in(10), &e);
    if (fd < 0)
        fail_msg("%s", e.text);
    return fd;
}

static int greet(struct door *d, struct handshake m, enum handshake_kind kind, int to)
{
    int fd = knock(d);
    assert_int_equal(handshake_call(fd, &m, d->caller, to, kind, deadline_in(10), NULL), 0);
    return fd;
}

static bool is_closed(int fd)
{
    char c;
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000);
    return recv(fd, &c, 1, MSG_DONTWAIT) <= 0;
}

static void a_guest_comes_through_a_crowd_of_strangers(void **state)
{
    (void)state;
    enum { N_SILENT = 100 };
    struct door d;
    int silent[N_SILENT], wrong[5];
    ddp_error_t e = {0};
    door_open(&d);
    struct handshake forged = d.meet;
    forged.call[15] ^= 1;
    for (int i = 0; i < N_SILENT; i++)
        silent[i] = knock(&d);
    wrong[0] = knock(&d);
    char garbage[4096];
    memset(garbage, 'x', sizeof garbage);
    assert_int_equal(io_send_all(wrong[0], garbage, sizeof garbage, deadline_in(10), "", NULL), 0);
    wrong[1] = greet(&d, forged, MEET_DATA, 0);
    wrong[2] = greet(&d, d.meet, MEET_DATA, 1);    /* wants another rank */
    wrong[3] = greet(&d, d.meet, MEET_CONTROL, 0); /* for something not expected */
    wrong[4] = knock(&d);
    assert_int_equal(io_send_all(wrong[4], "GET / HTTP/1.0\r\n\r\n", 18, deadline_in(10), "", NULL), 0);
    shutdown(wrong[4], SHUT_WR);
    int guest = greet(&d, d.meet, MEET_DATA, 0), twice = greet(&d, d.meet, MEET_DATA, 0);
    struct handshake_guest g = {.rank = 1, .kind = MEET_DATA};
    if (handshake_accept(&d.meet, d.listener, &g, 1, false, deadline_in(20), &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(handshake_answer(g.fd, &d.meet, "rank 1", -1, &e), 0);
    assert_int_equal(handshake_answered(guest, &d.meet, "rank 0", NULL, deadline_in(10), &e), 0);
    close(d.meet.fd);
    d.meet.fd = -1;
    for (int i = 0; i < 5; i++) {
        assert_true(is_closed(wrong[i]));
        close(wrong[i]);
    }
    for (int i = 0; i < N_SILENT; i++) {
        assert_true(is_closed(silent[i]));
        close(silent[i]);
    }
    assert_true(is_closed(twice));
    close(twice);
    assert_int_equal(io_send_all(guest, "payload", 7, deadline_in(10), "", NULL), 0);
    assert_int_equal(io_recv_all(g.fd, garbage, 7, deadline_in(10), "", NULL), 0);
    close(guest);
    close(g.fd);
    door_close(&d);
}

/* As the guards say, who are the only ones to know. */
static void nobody_waits_for_a_rank_that_died(void **state)
{
    static const unsigned char said[] = "\1\0\0\0rank 1 died"; /* its number, and words (door.h) */
    struct door d;
    struct handshake_guest g = {.rank = 1, .kind = MEET_DATA};
    ddp_error_t e = {0};
    int pair[2];
    (void)state;
    door_open(&d);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    notice_heed(pair[1]);
    frame_send(pair[0], DOOR_DEATH, said, sizeof said - 1);
    assert_int_equal(handshake_accept(&d.meet, d.listener, &g, 1, false, deadline_in(20), &e), -1);
    assert_string_equal(e.text, "rank 1 died");
    frame_send(pair[0], DOOR_DEATH, said, sizeof said - 1);
    int caller = knock(&d); /* and is not answered */
    assert_int_equal(handshake_answered(caller, &d.meet, "rank 0", NULL, deadline_in(20), &e), -1);
    assert_string_equal(e.text, "rank 1 died");
    close(notice_take());
    close(pair[0]);
    close(caller);
    door_close(&d);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct door d;
    ddp_error_t e = {0};
    door_open(&d);
    struct handshake forged = d.meet;
    forged.call[0] ^= 0x80;
    int fd = greet(&d, forged, MEET_DATA, 0);
    struct handshake_guest g = {.rank = 1, .kind = MEET_DATA};
    assert_int_equal(handshake_accept(&d.meet, d.listener, &g, 1, false, deadline_in(0.2), &e), -1);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_error_has(e, "rank 1 (n1)");
    assert_int_equal(handshake_answered(fd, &d.meet, "rank 0 (n0)", NULL, deadline_in(10), &e), -1);
    assert_error_has(e, "rank 0 (n0)"); /* the forger learns nothing but that */
    close(fd);
    door_close(&d);
}

static void who_has_come_is_let_go_where_another_does_not_come(void **state)
{
    (void)state;
    struct door d;
    char c;
    ddp_error_t e = {0};
    struct handshake_guest g[] = {{.rank = 1, .kind = MEET_DATA}, {.rank = 1, .kind = MEET_CONTROL}};
    door_open(&d);
    int fd = greet(&d, d.meet, MEET_DATA, 0);
    assert_int_equal(handshake_accept(&d.meet, d.listener, g, 2, false, deadline_in(0.2), &e), -1);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_true(g[0].fd == -1 && g[1].fd == -1);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000), 1);
    assert_int_equal(recv(fd, &c, 1, MSG_DONTWAIT), 0);
    close(fd);
    door_close(&d);
}

static void an_impostor_that_answers_is_found_out(void **state)
{
    (void)state;
    struct door d;
    ddp_error_t e = {0};
    door_open(&d);
    int fd = greet(&d, d.meet, MEET_DATA, 0), other = accept(d.meet.fd, NULL, NULL);
    struct handshake forged = d.meet;
    forged.answer[3] ^= 4;
    assert_int_equal(handshake_answer(other, &forged, "rank 1", -1, &e), 0);
    assert_int_equal(handshake_answered(fd, &d.meet, "rank 0 (n0)", NULL, deadline_in(10), &e), -1);
    assert_error_has(e, "wrong token");
    close(fd);
    close(other);
    door_close(&d);
}

static void pass(int fd, void *data, size_t n, int what)
{
    struct iovec v = {data, n};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &what, sizeof what);
    assert_int_equal(sendmsg(fd, &m, 0), n);
}

/* A read ends behind bytes with which a descriptor comes, so that the rest is another's. */
static void an_answer_may_come_in_two_parts(void **state)
{
    (void)state;
    struct handshake m;
    ddp_error_t e = {0};
    char answer[128];
    int pair[2], got = -1;
    assert_int_equal(handshake_tokens(&m, &e), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(handshake_answer(pair[0], &m, "rank 1", -1, &e), 0);
    ssize_t n = recv(pair[1], answer, sizeof answer, 0);
    for (ssize_t first = 1; first < n; first++) {
        pass(pair[0], answer, (size_t)first, pair[0]);
        assert_int_equal(send(pair[0], answer + first, (size_t)(n - first), 0), n - first);
        if (handshake_answered(pair[1], &m, "rank 0", &got, deadline_in(20), &e) < 0)
            fail_msg("%d and %d bytes: %s", (int)first, (int)(n - first), e.text);
        assert_true(got >= 0);
        close(got);
    }
    close(pair[0]);
    close(pair[1]);
}

/* Of an answer that is wrong, or where the caller wants none. */
static void a_descriptor_that_nobody_takes_is_closed(void **state)
{
    (void)state;
    struct handshake m;
    ddp_error_t e = {0};
    assert_int_equal(handshake_tokens(&m, &e), 0);
    for (int is_forged = 0; is_forged < 2; is_forged++) {
        struct handshake says = m;
        int pair[2], line[2], got = -2;
        char c;
        says.answer[0] ^= (uint8_t)is_forged;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(pipe2(line, O_CLOEXEC | O_NONBLOCK), 0);
        assert_int_equal(handshake_answer(pair[0], &says, "rank 1", line[1], &e), 0);
        close(line[1]);
        assert_int_equal(handshake_answered(pair[1], &m, "rank 0", is_forged ? &got : NULL, deadline_in(20), &e),
                         -is_forged);
        assert_int_equal(got, -2);
        assert_int_equal(read(line[0], &c, 1), 0);
        close(line[0]);
        close(pair[0]);
        close(pair[1]);
    }
}

struct wiring {
    struct door *door;
    struct tcp *tcp;
    struct watch_peer *control;
    ddp_error_t error;
};

static void *wire(void *arg)
{
    struct wiring *x = arg;
    struct handshake own = {.fd = -1};
    struct tcp_peer peers[] = {{.rank = 0, .address = x->door->address, .meet = x->door->meet}, {.rank = 1}};
    x->tcp = tcp_wire(x->door->caller, &own, peers, 20, deadline_in(10), &x->control, &x->error);
    return NULL;
}

/* As a lobby that is full of strangers closes connections: the first, the second, or both. */
static void meet(bool closes_data, bool closes_control)
{
    struct door d;
    pthread_t thread;
    ddp_error_t e = {0};
    door_open(&d);
    struct wiring x = {.door = &d};
    struct handshake_guest guests[] = {{.rank = 1, .kind = MEET_DATA}, {.rank = 1, .kind = MEET_CONTROL}};
    assert_int_equal(pthread_create(&thread, NULL, wire, &x), 0);
    bool closes[] = {closes_data, closes_control};
    struct handshake_guest *missing = guests + !closes_data;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(poll(&(struct pollfd){.fd = d.meet.fd, .events = POLLIN}, 1, 20000), 1);
        guests[i].fd = accept(d.meet.fd, NULL, NULL);
        if (closes[i])
            close(guests[i].fd);
    }
    int rc = handshake_accept(&d.meet, d.listener, missing, (size_t)closes_data + closes_control, false,
                              deadline_in(5), &e);
    for (int i = 0; rc == 0 && i < 2; i++) /* when all have come */
        rc = handshake_answer(guests[i].fd, &d.meet, "rank 1", -1, &e);
    close(d.meet.fd);
    d.meet.fd = -1;
    pthread_join(thread, NULL);
    if (rc < 0 || !x.tcp)
        fail_msg("%s; %s", e.text, x.error.text);
    tcp_destroy(x.tcp);
    close(x.control[0].fd);
    free(x.control);
    for (int i = 0; i < 2; i++)
        close(guests[i].fd);
    door_close(&d);
}

static void who_was_not_heard_calls_again(void **state)
{
    (void)state;
    meet(true, false);
    meet(false, true);
    meet(true, true);
}

static void addresses_are_named_in_errors(void **state)
{
    (void)state;
    struct door d;
    ddp_error_t e = {0};
    door_open(&d);
    char port[16];
    snprintf(port, sizeof port, "port %u", d.address.port);
    close(d.meet.fd);
    d.meet.fd = -1;
    assert_int_equal(tcp_connect(&d.address, "rank 0 (n0)", deadline_in(10), &e), -1);
    assert_error_has(e, "rank 0 (n0)");
    assert_error_has(e, "127.0.0.1");
    assert_error_has(e, port);
    struct handshake m = {.fd = -1};
    struct tcp_address a;
    assert_int_equal(tcp_listen(&m, "no-such-if", &a, &e), -1);
    assert_error_has(e, "no-such-if");
    assert_int_equal(tcp_listen(&m, "lo", &a, &e), 0);
    assert_string_equal(a.host, "127.0.0.1");
    close(m.fd);
    world_destroy(d.listener);
    world_destroy(d.caller);
}

static void a_host_that_is_not_found_is_looked_for_again(void **state)
{
    (void)state;
    struct door d;
    ddp_error_t e = {0};
    door_open(&d);
    for (int i = 0; i < 3; i++) {
        lost.error = (const int[]){EHOSTUNREACH, ENOBUFS, ETIMEDOUT}[i];
        lost.n = 2;
        close(knock(&d));
    }
    lost.error = ECONNREFUSED;
    lost.n = 2;
    assert_int_equal(tcp_connect(&d.address, "rank 0 (n0)", deadline_in(60), &e), -1);
    assert_int_equal(lost.n, 1);
    lost.error = EHOSTUNREACH;
    lost.n = 1000;
    assert_int_equal(tcp_connect(&d.address, "rank 0 (n0)", deadline_in(0.5), &e), -1);
    assert_error_has(e, "No route to host");
    assert_true(lost.n > 0);
    lost.n = 0;
    door_close(&d);
}

/* Four seconds each: ten until the host is taken for gone, and no more than the deadline has. */
static void a_host_is_not_looked_for_for_ever(void **state)
{
    static const struct { int error, deadline_s, n; } cases[] = {
        {EHOSTUNREACH, 60, 3}, {EHOSTUNREACH, 5, 2}, {ETIMEDOUT, 18, 5}, {ETIMEDOUT, 1, 1},
    };
    (void)state;
    struct door d;
    ddp_error_t e = {0};
    door_open(&d);
    int next = dup(0);
    close(next);
    lost.s = 4;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t deadline = deadline_in(cases[i].deadline_s);
        lost.error = cases[i].error;
        lost.n = 1000;
        assert_int_equal(tcp_connect(&d.address, "rank 0 (n0)", deadline, &e), -1);
        assert_int_equal(1000 - lost.n, cases[i].n);
        assert_true(lost.deadline <= deadline);
    }
    assert_int_equal(dup(0), next); /* none is lost */
    close(next);
    lost.n = lost.s = 0;
    door_close(&d);
}

static bool is_paced(int fd)
{
    char name[16] = "";
    socklen_t n = sizeof name - 1;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n), 0);
    return strncmp(name, "bbr", 3) == 0;
}

/* Says something where the system's default is BBR. */
static void neither_side_sends_by_bbrs_timer(void **state)
{
    (void)state;
    struct door d;
    door_open(&d);
    int out = knock(&d);
    poll(&(struct pollfd){.fd = d.meet.fd, .events = POLLIN}, 1, 10000);
    int in = accept(d.meet.fd, NULL, NULL);
    assert_true(in >= 0);
    assert_false(is_paced(out));
    assert_false(is_paced(in));
    close(in);
    close(out);
    door_close(&d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_guest_comes_through_a_crowd_of_strangers),
    cmocka_unit_test(nobody_waits_for_a_rank_that_died),
    cmocka_unit_test(who_does_not_come_is_named),
    cmocka_unit_test(who_has_come_is_let_go_where_another_does_not_come),
    cmocka_unit_test(an_impostor_that_answers_is_found_out),
    cmocka_unit_test(an_answer_may_come_in_two_parts),
    cmocka_unit_test(a_descriptor_that_nobody_takes_is_closed),
    cmocka_unit_test(who_was_not_heard_calls_again),
    cmocka_unit_test(addresses_are_named_in_errors),
    cmocka_unit_test(a_host_that_is_not_found_is_looked_for_again),
    cmocka_unit_test(a_host_is_not_looked_for_for_ever),
    cmocka_unit_test(neither_side_sends_by_bbrs_timer),
};
UNIT_MAIN(tests)
