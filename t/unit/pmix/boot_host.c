/* A boot server in a thread, and ranks that join it by its card. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot_host.h"
#include "pmix/boot_impl.h"
#include "pmix/boot_wire.h"
#include "runtime/base/clock.h"
#include "runtime/base/secret.h"
#include "t/lib/guardend.h"

enum { SIZE = 3 };
#define PATIENCE_S 30.0

/* The first thing that a child does: it ends on its own where this process has ended or given it up. */
static int receive_card(int fd, char *buf, size_t size, struct boot_join *j)
{
    char card[1024];
    alarm(2 * (unsigned)PATIENCE_S);
    ssize_t n = read(fd, card, sizeof card);
    return n > 0 && card[n - 1] == 0 ? boot_host_addrs(card, buf, size, &j->token, &j->addrs) : -1;
}

static int exchange(boot_t *b)
{
    ddp_error_t e;
    uint64_t deadline = deadline_in(PATIENCE_S);
    int mine = 100 + b->rank, sum = 0;
    if (boot_put(b, "n", &mine, sizeof mine, &e) < 0 || boot_fence(b, deadline, &e) < 0)
        return -1;
    for (int r = 0; r < b->size; r++) {
        void *data;
        size_t n;
        if (boot_get(b, r, "n", &data, &n, deadline, &e) < 0)
            return -1;
        sum += *(int *)data;
        free(data);
    }
    return sum == 303 ? 0 : -1;
}

/* In a process of its own, which reads the card from fd. The exit code. */
static int rank_main(int rank, int fd)
{
    char buf[2048];
    boot_t b = {0};
    struct boot_join j = {.who = "rank 0's boot server", .rank = rank, .size = SIZE};
    ddp_error_t e;
    if (receive_card(fd, buf, sizeof buf, &j) < 0 || boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e) < 0)
        return 1;
    int rc = exchange(&b);
    b.ops->close(&b, NULL);
    return rc < 0;
}

/* Ranks are forked before the host has a thread: a child of a process with threads may find malloc locked for ever. */
static void exchange_by_a_host(void)
{
    ddp_error_t e;
    int card[SIZE][2];
    for (int rank = 0; rank < SIZE; rank++) {
        assert_int_equal(pipe(card[rank]), 0);
        if (fork() == 0)
            _exit(rank_main(rank, card[rank][0]));
    }
    boot_host_t *h = boot_host_create(SIZE, false, &e);
    assert_non_null(h);
    size_t n = strlen(boot_host_card(h)) + 1;
    for (int rank = 0; rank < SIZE; rank++) {
        assert_true(write(card[rank][1], boot_host_card(h), n) == (ssize_t)n);
        close(card[rank][0]);
        close(card[rank][1]);
    }
    uint64_t deadline = deadline_in(PATIENCE_S);
    boot_host_destroy(h, deadline);
    assert_true(deadline_left_ns(deadline) > 0);
    for (int status, i = 0; i < SIZE; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

static void a_host_serves_until_all_have_left(void **state)
{
    (void)state;
    exchange_by_a_host();
}

/* By which the host and each rank find the token. */
static void a_host_serves_ranks_that_have_its_secret(void **state)
{
    (void)state;
    setenv(SECRET_VARIABLE, "0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210", 1);
    exchange_by_a_host();
}

static int forget_secret(void **state)
{
    (void)state;
    return unsetenv(SECRET_VARIABLE);
}

/* Rank 1 of three: joins, says so through out, and fences only after a byte from fd. */
static int rank_late(int fd, int out)
{
    char buf[2048], go;
    boot_t b = {0};
    struct boot_join j = {.who = "rank 0's boot server", .rank = 1, .size = SIZE};
    ddp_error_t e = {0};
    if (receive_card(fd, buf, sizeof buf, &j) < 0 || boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e) < 0 ||
        write(out, "j", 1) != 1 || read(fd, &go, 1) != 1)
        return 1;
    boot_put(&b, "n", &go, 1, &e);
    int rc = boot_fence(&b, deadline_in(PATIENCE_S), &e);
    b.ops->close(&b, NULL);
    if (rc == 0 || !strstr(e.text, "rank 1, rank 2 (not connected): rank 0 gave up waiting"))
        fprintf(stderr, "rank 1 was told: %s\n", e.text);
    return rc == 0 || !strstr(e.text, "rank 1, rank 2 (not connected): rank 0 gave up waiting");
}

/* Rank 0: gives up its fence at once, and leaves. */
static int rank_hasty(int fd)
{
    char buf[2048];
    boot_t b = {0};
    struct boot_join j = {.who = "rank 0's boot server", .rank = 0, .size = SIZE};
    ddp_error_t e;
    if (receive_card(fd, buf, sizeof buf, &j) < 0 || boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e) < 0)
        return 1;
    int rc = boot_fence(&b, deadline_in(0.05), &e);
    b.ops->close(&b, NULL);
    return rc == 0;
}

/* Rank 0 gives up, rank 1 hangs, rank 2 never comes: nobody waits long, and rank 1 is told all the same. */
static void a_failed_exchange_ends_soon(void **state)
{
    (void)state;
    int hasty[2], late[2], joined[2], status;
    char byte;
    ddp_error_t e;
    assert_true(pipe(hasty) == 0 && pipe(late) == 0 && pipe(joined) == 0);
    if (fork() == 0)
        _exit(rank_hasty(hasty[0]));
    if (fork() == 0)
        _exit(rank_late(late[0], joined[1]));
    boot_host_t *h = boot_host_create(SIZE, false, &e);
    assert_non_null(h);
    size_t n = strlen(boot_host_card(h)) + 1;
    assert_true(write(late[1], boot_host_card(h), n) == (ssize_t)n);
    assert_true(read(joined[0], &byte, 1) == 1);
    assert_true(write(hasty[1], boot_host_card(h), n) == (ssize_t)n);
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    uint64_t deadline = deadline_in(PATIENCE_S);
    boot_host_destroy(h, deadline);
    assert_true(deadline_left_ns(deadline) > (uint64_t)(PATIENCE_S / 2) * NS_PER_S);
    assert_true(write(late[1], "g", 1) == 1);
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    int fds[] = {hasty[0], hasty[1], late[0], late[1], joined[0], joined[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
}

/* Joins where it can. The exit code: 0 where all ranks' values came, 1 where it was told that descriptors ran out, and
 * has told its guard. */
static int rank_of_many(int rank, int size, int fd)
{
    char buf[2048];
    boot_t b = {0};
    struct boot_join j = {.who = "rank 0's boot server", .rank = rank, .size = size};
    ddp_error_t e = {0};
    int guard = guardend_open();
    if (receive_card(fd, buf, sizeof buf, &j) < 0)
        return 2;
    int rc = boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e);
    if (rc == 0) {
        rc = boot_fence(&b, deadline_in(PATIENCE_S), &e);
        b.ops->close(&b, NULL);
    }
    if (rc < 0 && !strstr(e.text, "rank 0: boot server tcp:127.0.0.1:"))
        fprintf(stderr, "rank %d was told: %s\n", rank, e.text);
    return rc == 0 ? 0 : strstr(e.text, "(ulimit -n)") && guardend_has(guard, 0, e.text) ? 1 : 2;
}

/* In a process of its own: a host of eight ranks that may open so many descriptors more. The exit code is all ranks',
 * where they have one; NO_HOST: there is none, and it says why. */
enum { NO_HOST = 16 };

static int serve_with_few(int n_more, bool is_hard)
{
    enum { MANY = 8 };
    int card[MANY][2], codes = 0, lowest;
    pid_t pid[MANY] = {0};
    for (int rank = 0; rank < MANY; rank++)
        if (pipe(card[rank]) == 0 && (pid[rank] = fork()) == 0)
            _exit(rank_of_many(rank, MANY, card[rank][0]));
    struct rlimit few;
    getrlimit(RLIMIT_NOFILE, &few);
    close(lowest = dup(0));
    few.rlim_cur = (rlim_t)(lowest + n_more);
    few.rlim_max = is_hard ? few.rlim_cur : few.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    ddp_error_t e;
    boot_host_t *h = boot_host_create(MANY, true, &e);
    if (!h) {
        for (int rank = 0; rank < MANY; rank++)
            if (pid[rank] > 0)
                kill(pid[rank], SIGKILL);
        return strstr(e.text, "(ulimit -n)") ? NO_HOST : NO_HOST + 1;
    }
    size_t n = strlen(boot_host_card(h)) + 1;
    for (int rank = 0; rank < MANY; rank++)
        codes |= write(card[rank][1], boot_host_card(h), n) == (ssize_t)n ? 0 : 1 << 2;
    boot_host_destroy(h, deadline_in(PATIENCE_S));
    for (int status; wait(&status) > 0;)
        codes |= 1 << WEXITSTATUS(status);
    return codes - 1;
}

static int served_with_few(int n_more, bool is_hard)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(serve_with_few(n_more, is_hard));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The soft limit is raised; at the hard one all ranks are told, or there is no host. */
static void a_host_with_few_descriptors(void **state)
{
    (void)state;
    assert_int_equal(served_with_few(6, false), 0);
    assert_int_equal(served_with_few(6, true), 1);
    bool is_there = false;
    for (int n_more = 0; n_more < 6; n_more++) {
        int code = served_with_few(n_more, true);
        if (code != 1 && (is_there || code != NO_HOST))
            fail_msg("%d descriptors: %d", n_more, code);
        is_there = code == 1;
    }
}

static void a_host_does_not_wait_beyond_its_deadline(void **state)
{
    (void)state;
    boot_host_t *h = boot_host_create(2, false, NULL);
    assert_non_null(h);
    boot_host_destroy(h, deadline_in(0.1)); /* nobody ever comes */
    boot_host_destroy(NULL, 0);
}

/* Who connects without end keeps neither a rank out nor the host from its deadline. */
static void a_flood_ends_with_the_deadline(void **state)
{
    (void)state;
    enum { FLOODERS = 3 };
    char buf[2048];
    boot_t b = {0};
    struct boot_join j = {.who = "boot server", .rank = 0, .size = 2};
    struct wire_addr a;
    pid_t pid[FLOODERS];
    ddp_error_t e = {0};
    boot_host_t *h = boot_host_create(2, true, NULL);
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &j.token, &j.addrs), 0);
    assert_int_equal(wire_addr_parse(j.addrs, 0, &a, NULL), 0);
    for (int i = 0; i < FLOODERS; i++)
        if ((pid[i] = fork()) == 0) {
            alarm((unsigned)PATIENCE_S);
            for (int fd;; close(fd)) {
                fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                connect(fd, (struct sockaddr *)&a.sa, a.len);
            }
        }
    int rc = boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e);
    if (rc == 0)
        b.ops->close(&b, NULL);
    uint64_t from = clock_ns();
    boot_host_destroy(h, deadline_in(0.2)); /* rank 1 never comes */
    bool is_soon = clock_ns() - from < (uint64_t)(PATIENCE_S / 3) * NS_PER_S;
    for (int i = 0; i < FLOODERS; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    if (rc < 0)
        fail_msg("%s", e.text);
    assert_true(is_soon);
}

/* Several addresses: those where nobody listens are passed over. */
static void addresses_are_tried_in_turn(void **state)
{
    (void)state;
    char buf[2048], addrs[4096];
    boot_t b = {0};
    struct boot_join j = {.who = "boot server", .rank = 0, .size = 1, .addrs = addrs};
    const char *found;
    ddp_error_t e;
    boot_host_t *h = boot_host_create(1, false, NULL);
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &j.token, &found), 0);
    snprintf(addrs, sizeof addrs, "nonsense tcp:127.0.0.1:1 %s", found);
    if (boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e) < 0)
        fail_msg("%s", e.text);
    b.ops->close(&b, NULL);
    boot_host_destroy(h, deadline_in(PATIENCE_S));
}

static bool look(struct boot_join *j)
{
    bool is_new = strcmp(j->addrs, j->ctx) != 0;
    j->addrs = j->ctx;
    return is_new;
}

/* The card was that of a program before this one, whose server has gone. */
static void a_rank_looks_where_the_server_is_by_now(void **state)
{
    (void)state;
    char buf[2048];
    const char *found;
    boot_t b = {0};
    ddp_error_t e;
    boot_host_t *h = boot_host_create(1, true, NULL);
    struct boot_join j = {.who = "boot server", .rank = 0, .size = 1, .addrs = "tcp:127.0.0.1:1", .look = look};
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &j.token, &found), 0);
    j.ctx = (void *)found;
    if (boot_local_join(&b, &j, deadline_in(PATIENCE_S), &e) < 0)
        fail_msg("%s", e.text);
    b.ops->close(&b, NULL);
    boot_host_destroy(h, deadline_in(PATIENCE_S));
}

/* ... and whose port another user has taken, who welcomes the rank. */
static void a_rank_looks_past_who_has_the_port_by_now(void **state)
{
    (void)state;
    char buf[2048], addr[64];
    const char *found;
    struct wire_addr a;
    boot_t b = {0};
    ddp_error_t e;
    assert_int_equal(wire_addr_parse("tcp:127.0.0.1:0", 0, &a, NULL), 0);
    int fd = wire_socket(&a, NULL);
    assert_int_equal(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
    snprintf(addr, sizeof addr, "tcp:127.0.0.1:%d", ntohs(((struct sockaddr_in *)&a.sa)->sin_port));
    pid_t pid = fork();
    if (pid == 0) {
        alarm((unsigned)PATIENCE_S);
        fcntl(fd, F_SETFL, 0);
        for (int caller; (caller = accept(fd, NULL, NULL)) >= 0;) /* its end is too long for a proof */
            (void)!write(caller, (char[WIRE_HEAD + 99]){100, 0, 0, 0, WIRE_WELCOME}, WIRE_HEAD + 99);
        _exit(1);
    }
    boot_host_t *h = boot_host_create(1, true, NULL);
    struct boot_join j = {.who = "boot server", .rank = 0, .size = 1, .addrs = addr, .look = look};
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &j.token, &found), 0);
    j.ctx = (void *)found;
    int rc = boot_local_join(&b, &j, deadline_in(PATIENCE_S / 2), &e);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    if (rc < 0)
        fail_msg("%s", e.text);
    int exchanged = boot_fence(&b, deadline_in(PATIENCE_S), &e);
    b.ops->close(&b, NULL);
    boot_host_destroy(h, deadline_in(PATIENCE_S));
    assert_int_equal(exchanged, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_host_serves_until_all_have_left),
    cmocka_unit_test_teardown(a_host_serves_ranks_that_have_its_secret, forget_secret),
    cmocka_unit_test(a_failed_exchange_ends_soon),
    cmocka_unit_test(a_host_with_few_descriptors),
    cmocka_unit_test(a_host_does_not_wait_beyond_its_deadline),
    cmocka_unit_test(a_flood_ends_with_the_deadline),
    cmocka_unit_test(addresses_are_tried_in_turn),
    cmocka_unit_test(a_rank_looks_where_the_server_is_by_now),
    cmocka_unit_test(a_rank_looks_past_who_has_the_port_by_now),
};
UNIT_MAIN(tests)
