/* The `local` boot: ranks exchange, die, leave and come late. */
#include "t/lib/bootranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmix/boot_wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "t/lib/folder.h"
#include "t/lib/guardend.h"

static const char death[] = "rank 7 (n4) exited with code 3";

/* ---- what the ranks do ---- */

/* Opens, waits for the others once, and then waits for them again; the second wait's result is the report. */
static boot_t *join(struct report *r)
{
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b ? boot_fence(b, deadline_in(PATIENCE_S), &r->e) : -1;
    if (r->rc < 0)
        _exit(1);
    return b;
}

static void one_dies(int rank, int size, struct report *r)
{
    boot_t *b = join(r);
    if (rank == size - 1)
        raise(SIGKILL);
    bootranks_wait(b, PATIENCE_S, r);
    boot_leave(b, NULL);
}

static void one_leaves(int rank, int size, struct report *r)
{
    boot_t *b = join(r);
    if (rank != size - 1)
        bootranks_wait(b, PATIENCE_S, r);
    boot_leave(b, NULL);
}

/* Rank 0 comes to the second fence only after all others have given up, and their guards know for whom they waited. */
static void one_is_late(int rank, int size, struct report *r)
{
    (void)size;
    boot_t *b = join(r);
    int guard = guardend_open();
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (rank == 0 && !r->may_go_on && deadline_left_ns(deadline) > 0)
        poll(NULL, 0, 1);
    bootranks_wait(b, rank == 0 ? PATIENCE_S : 0.05, r);
    if (!guardend_has(guard, 0, r->e.text))
        r->rc = -97;
    if (rank == 1) { /* what was given up stays so */
        ddp_error_t e;
        bool is_timeout = r->e.domain == DDP_E_TIMEOUT; /* else rank 2 gave up first */
        if (boot_fence(b, deadline_in(1), &e) == 0 || (is_timeout && !strstr(e.text, "earlier error")))
            r->rc = -98;
    }
    boot_leave(b, NULL);
}

/* The last rank's guard tells it of a death while it waits for rank 0; the others' guards say nothing. */
static void one_hears_of_a_death(int rank, int size, struct report *r)
{
    unsigned char body[4 + sizeof death];
    boot_t *b = join(r);
    bytes_put32(body, 7);
    memcpy(body + 4, death, sizeof death - 1);
    if (rank == size - 1)
        frame_send(guardend_open(), DOOR_DEATH, body, 4 + sizeof death - 1);
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (rank == 0 && !r->may_go_on && deadline_left_ns(deadline) > 0)
        poll(NULL, 0, 1);
    bootranks_wait(b, PATIENCE_S, r);
    boot_leave(b, NULL);
}

static void exchanges_twice(int rank, int size, struct report *r)
{
    bootranks_exchange(rank, size, r);
    if (r->rc == 0)
        bootranks_exchange(rank, size, r);
}

static void opens_in_vain(int rank, int size, struct report *r)
{
    (void)rank, (void)size;
    boot_t *b = boot_open(deadline_in(0.2), &r->e);
    r->rc = b ? 0 : -1;
    boot_leave(b, NULL);
}

static void breaks_rules(int rank, int size, struct report *r)
{
    (void)rank;
    void *data;
    size_t n;
    char key[BOOT_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    boot_t *b = join(r);
    r->rc = bootranks_put(b, "big", 0, BOOT_VALUE_MAX + 1, &r->e) == 0 || !strstr(r->e.text, "65535") ? 1
          : boot_put(b, "", "x", 1, &r->e) == 0                                             ? 2
          : boot_put(b, key, "x", 1, &r->e) == 0                                            ? 3
          : boot_get(b, size, "k", &data, &n, deadline_in(5), &r->e) == 0                   ? 4
          : boot_get(b, 0, "k", &data, &n, deadline_in(5), &r->e) == 0                      ? 5
          : !strstr(r->e.text, "rank 0 has put nothing under k")                            ? 6
          : boot_fence(b, deadline_in(PATIENCE_S), &r->e) < 0                               ? 7
                                                                                            : 0;
    boot_leave(b, NULL);
}

/* ---- tests ---- */

static void values_reach_every_rank(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        boot_server_t *s = bootranks_serve_unix(sizes[i]);
        bootranks_run(s, sizes[i], bootranks_exchange);
        bootranks_assert_well(sizes[i]);
        boot_server_destroy(s);
    }
    boot_server_t *s = bootranks_serve("tcp:127.0.0.1:0", 3);
    assert_null(strstr(boot_server_addr(s), ":0\0"));
    bootranks_run(s, 3, bootranks_exchange);
    bootranks_assert_well(3);
    boot_server_destroy(s);
    char path[64];
    snprintf(path, sizeof path, "unix:/tmp/ddp-t-%d.sock", (int)getpid());
    s = bootranks_serve(path, 2);
    bootranks_run(s, 2, bootranks_exchange);
    bootranks_assert_well(2);
    boot_server_destroy(s);
    assert_int_equal(access(path + 5, F_OK), -1);
    boot_server_destroy(NULL);
}

static void the_same_ranks_may_come_again(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        boot_server_t *s = bootranks_serve_unix(5);
        bootranks_run(s, 5, exchanges_twice);
        bootranks_assert_well(5);
        boot_server_destroy(s);
    }
}

static void where_the_server_ends_with_them_they_may_not(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(3);
    boot_server_end_with_round(s);
    bootranks_run(s, 3, bootranks_exchange);
    bootranks_assert_well(3);
    while (!boot_server_is_done(s)) /* what they said last */
        assert_int_equal(boot_server_step(s, -1, NULL), 0);
    pid_t pid = bootranks_start(s, 0, 3, &bootranks_report[0], opens_in_vain);
    bootranks_drive(s, &pid, 1);
    assert_int_equal(bootranks_report[0].rc, -1);
    assert_error_has(bootranks_report[0].e, "closes every connection of rank 0");
    boot_server_destroy(s);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(2);
    bootranks_run(s, 2, breaks_rules);
    bootranks_assert_well(2);
    boot_server_destroy(s);
    ddp_error_t e;
    static const char *const bad[] = {"", "unix:", "unix:@", "unix:x", "tcp:", "tcp:1", "tcp::1", "tcp:h:", "tcp:h:x",
                                      "tcp:h:65536", "udp:h:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(boot_server_create(bad[i], bootranks_token, 1, &e));
        assert_error_has(e, "tcp:HOST:PORT");
    }
    assert_null(boot_server_create("unix:@ddp-t", "short", 1, &e));
    assert_null(boot_server_create("unix:@ddp-t", bootranks_token, 0, &e));
}

/* No name server is asked for a number. */
static void an_address_of_ipv6_stands_in_brackets(void **state)
{
    struct in6_addr want;
    struct wire_addr a;
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "fd00::1:2", &want), 1);
    if (wire_addr_parse("tcp:[fd00::1:2]:4711", deadline_in(10), &a, &e) < 0)
        fail_msg("%s", e.text);
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a.sa;
    assert_int_equal(in6->sin6_family, AF_INET6);
    assert_int_equal(ntohs(in6->sin6_port), 4711);
    assert_memory_equal(&in6->sin6_addr, &want, sizeof want);
}

static void the_dead_are_named_at_once(void **state)
{
    (void)state;
    static const struct {
        bootranks_f *f;
        const char *text;
    } cases[] = {{one_dies, "rank 3 died"}, {one_leaves, "rank 3 left"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        boot_server_t *s = bootranks_serve_unix(4);
        bootranks_run(s, 4, cases[i].f);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(bootranks_report[r].rc, -1);
            assert_int_equal(bootranks_report[r].e.domain, DDP_E_PEER);
            assert_error_has(bootranks_report[r].e, cases[i].text);
            assert_true(bootranks_report[r].took_s < PATIENCE_S / 3);
        }
        boot_server_destroy(s);
    }
}

static void a_rank_that_never_came_is_missed(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(2);
    boot_server_rank_gone(s, 1, "exited with code 3");
    pid_t pid = bootranks_start(s, 0, 2, &bootranks_report[0], bootranks_waits);
    bootranks_drive(s, &pid, 1);
    assert_error_has(bootranks_report[0].e, "rank 1 exited with code 3 without");
    boot_server_destroy(s);
}

static void deadlines_name_who_is_late(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(2);
    pid_t pid = bootranks_start(s, 0, 2, &bootranks_report[0], bootranks_waits);
    bootranks_drive(s, &pid, 1);
    assert_int_equal(bootranks_report[0].e.domain, DDP_E_TIMEOUT);
    assert_error_has(bootranks_report[0].e, "rank 1 (not connected)");
    boot_server_destroy(s);
}

static void giving_up_ends_the_exchange(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(3);
    pid_t pid[3];
    for (int r = 0; r < 3; r++)
        pid[r] = bootranks_start(s, r, 3, &bootranks_report[r], one_is_late);
    bootranks_drive(s, pid + 1, 2);
    for (int i = 0; i < 5; i++) /* what the two said last is read before rank 0 speaks again */
        assert_int_equal(boot_server_step(s, 0, NULL), 0);
    bootranks_report[0].may_go_on = 1;
    bootranks_drive(s, pid, 1);
    assert_error_has(bootranks_report[0].e, "rank 0: rank ");
    assert_error_has(bootranks_report[0].e, " gave up waiting");
    for (int r = 0; r < 3; r++)
        assert_int_equal(bootranks_report[r].rc, -1);
    boot_server_destroy(s);
}

static void whose_death_ends_the_exchange_is_passed_on(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(3);
    pid_t pid[3];
    for (int r = 0; r < 3; r++)
        pid[r] = bootranks_start(s, r, 3, &bootranks_report[r], one_hears_of_a_death);
    bootranks_drive(s, pid + 1, 2);
    bootranks_report[0].may_go_on = 1;
    bootranks_drive(s, pid, 1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(bootranks_report[r].rc, -1);
        assert_string_equal(bootranks_report[r].e.text, death);
    }
    boot_server_destroy(s);
}

/* ---- ranks by hand ---- */

/* A rank that is in. */
static int enter(boot_server_t *s, int rank, int size)
{
    char text[256];
    int fd = bootranks_call(s, rank, size);
    assert_int_equal(bootranks_hear(s, fd, text), WIRE_WELCOME);
    return fd;
}

static void frames_may_come_byte_by_byte(void **state)
{
    (void)state;
    static const char put[] = "\1kvalue", get[] = "\0\0\0\0k";
    unsigned char frames[2 * WIRE_HEAD + sizeof put - 1 + sizeof get - 1];
    char text[256] = "";
    boot_server_t *s = bootranks_serve_unix(1);
    int fd = enter(s, 0, 1);
    wire_head(frames, WIRE_PUT, sizeof put - 1);
    memcpy(frames + WIRE_HEAD, put, sizeof put - 1);
    wire_head(frames + WIRE_HEAD + sizeof put - 1, WIRE_GET, sizeof get - 1);
    memcpy(frames + 2 * WIRE_HEAD + sizeof put - 1, get, sizeof get - 1);
    for (size_t i = 0; i < sizeof frames; i++) {
        assert_int_equal(send(fd, frames + i, 1, MSG_NOSIGNAL), 1);
        assert_int_equal(boot_server_step(s, 0, NULL), 0);
    }
    assert_int_equal(bootranks_hear(s, fd, text), WIRE_VALUE);
    assert_string_equal(text, "value");
    close(fd);
    boot_server_destroy(s);
}

/* The numbers of ranks end before the size. */
static void a_rank_that_there_is_not_is_refused(void **state)
{
    (void)state;
    static const char get[] = "\2\0\0\0k";
    char text[256] = "";
    boot_server_t *s = bootranks_serve_unix(2);
    for (int rank = 2; rank >= -1; rank -= 3) {
        int fd = bootranks_call(s, rank, 2);
        assert_int_equal(bootranks_hear(s, fd, text), WIRE_ERROR);
        assert_non_null(strstr(text + 8, "is not one of 0..1: check DDP_RANK"));
        close(fd);
    }
    int fd = enter(s, 1, 2);
    bootranks_say(fd, WIRE_GET, get, sizeof get - 1);
    assert_int_equal(bootranks_hear(s, fd, text), 0);
    close(fd);
    boot_server_destroy(s);
}

/* Whoever begins to wait once another one has left would wait for ever. */
static void nobody_waits_for_who_has_left(void **state)
{
    (void)state;
    char text[256] = "";
    boot_server_t *s = bootranks_serve_unix(2);
    int stays = enter(s, 0, 2), leaves = enter(s, 1, 2);
    bootranks_say(leaves, WIRE_BYE, NULL, 0);
    assert_int_equal(bootranks_hear(s, leaves, text), 0);
    bootranks_say(stays, WIRE_FENCE, NULL, 0);
    assert_int_equal(bootranks_hear(s, stays, text), WIRE_ERROR);
    assert_string_equal(text + 8, "rank 1 left before the others were done");
    close(stays);
    close(leaves);
    boot_server_destroy(s);
}

/* ---- files ---- */

static void a_path_that_is_anothers_stays(void **state)
{
    (void)state;
    char addr[96], *path = addr + 5;
    ddp_error_t e = {0};
    snprintf(addr, sizeof addr, "unix:%s/boot", test_folder);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    memset(bootranks_token, 'a', sizeof bootranks_token - 1);
    for (int is_server = 0; is_server < 2; is_server++) {
        boot_server_t *s = is_server ? bootranks_serve(addr, 1) : NULL;
        assert_null(boot_server_create(addr, bootranks_token, 1, &e));
        assert_error_has(e, "bind");
        assert_int_equal(access(path, F_OK), 0);
        if (is_server)
            bootranks_run(s, 1, bootranks_exchange);
        else
            unlink(path);
        boot_server_destroy(s);
    }
    bootranks_assert_well(1);
    assert_int_equal(access(path, F_OK), -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_reach_every_rank),
    cmocka_unit_test(the_same_ranks_may_come_again),
    cmocka_unit_test(where_the_server_ends_with_them_they_may_not),
    cmocka_unit_test(wrong_use_is_refused),
    cmocka_unit_test(an_address_of_ipv6_stands_in_brackets),
    cmocka_unit_test(the_dead_are_named_at_once),
    cmocka_unit_test(a_rank_that_never_came_is_missed),
    cmocka_unit_test(deadlines_name_who_is_late),
    cmocka_unit_test(giving_up_ends_the_exchange),
    cmocka_unit_test(whose_death_ends_the_exchange_is_passed_on),
    cmocka_unit_test(frames_may_come_byte_by_byte),
    cmocka_unit_test(a_rank_that_there_is_not_is_refused),
    cmocka_unit_test(nobody_waits_for_who_has_left),
    cmocka_unit_test_setup_teardown(a_path_that_is_anothers_stays, folder_make, folder_remove),
};

int main(void)
{
    return cmocka_run_group_tests(tests, bootranks_open, NULL);
}
