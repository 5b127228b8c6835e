/* srun has gone: seen by who is connected with it, and only then. srun is a process of its own here. */
#include "config.h" /* prlimit */
#include "t/unit/unit.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guard/impl.h"
#include "spank/net/lifeline.h"
#include "t/lib/clock.h"

static const char right[] = "000102030405060708090a0b0c0d0e0f00";
static char port[8];

static void let_time_pass(int signo)
{
    (void)signo;
    clock_ahead_s += LIFELINE_FEW_S * 2 / 3;
}

/* A process that listens; with `closes` it ends each connection that comes, as a network may. */
static pid_t start(bool closes, const char *token)
{
    int out[2];
    ddp_error_t e;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGUSR1, let_time_pass);
        int n = lifeline_listen((struct port_range){0, 0}, token, &e);
        (void)!write(out[1], &n, sizeof n);
        for (int fd = 3; closes && fd < 20;) { /* the listener is one of these */
            int c = accept(fd, NULL, NULL);
            if (c >= 0) {
                struct pollfd p = {.fd = -1};
                poll(&p, 1, 50);
                close(c);
            } else {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                int is_listening = 0;
                socklen_t size = sizeof is_listening;
                if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 && is_listening)
                    poll(&p, 1, -1);
                else
                    fd++;
            }
        }
        for (;;)
            pause();
    }
    int n;
    assert_int_equal(read(out[0], &n, sizeof n), sizeof n);
    close(out[0]);
    close(out[1]);
    assert_true(n > 0);
    snprintf(port, sizeof port, "%d", n);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A guard keeps its own until it ends. */
static void drop(lifeline_t *l)
{
    if (lifeline_fd(l) >= 0)
        close(lifeline_fd(l));
    free(l);
}

/* Whether srun is found to have gone within so many seconds. */
static bool is_gone(lifeline_t *l, double seconds)
{
    uint64_t until = deadline_in(seconds);
    while (deadline_left_ns(until) > 0) {
        struct pollfd p = {.fd = lifeline_fd(l), .events = lifeline_events(l)};
        int ms = lifeline_wait_ms(l), left = deadline_left_ms(until);
        poll(&p, 1, ms < 0 || ms > left ? left : ms);
        if (lifeline_step(l))
            return true;
    }
    return false;
}

static void its_end_is_seen(void **state)
{
    (void)state;
    pid_t pid = start(false, NULL);
    lifeline_t *l = lifeline_open("127.0.0.1", port);
    assert_non_null(l);
    assert_false(is_gone(l, 0.3));
    assert_int_equal(lifeline_wait_ms(l), -1); /* it sleeps */
    end(pid);
    assert_true(is_gone(l, 20));
    drop(l);
}

/* The connection ends again and again, and srun is there. */
static void a_connection_that_ends_is_not_its_end(void **state)
{
    (void)state;
    pid_t pid = start(true, NULL);
    lifeline_t *l = lifeline_open("127.0.0.1", port);
    assert_non_null(l);
    assert_false(is_gone(l, 2.5 * LIFELINE_AGAIN_S));
    end(pid);
    assert_true(is_gone(l, 20));
    drop(l);
}

static void who_was_never_reached_is_not_missed(void **state)
{
    (void)state;
    pid_t pid = start(false, NULL);
    end(pid);
    lifeline_t *l = lifeline_open("127.0.0.1", port);
    assert_non_null(l);
    assert_false(is_gone(l, 1.5 * LIFELINE_AGAIN_S));
    assert_int_equal(lifeline_fd(l), -1);
    assert_int_equal(lifeline_wait_ms(l), -1);
    drop(l);
    assert_null(lifeline_open("a name", port));
    assert_null(lifeline_open(NULL, port));
}

/* An srun that is this test: it listens at `port`, with room for one connection that it does not accept. */
static int listen_here(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    snprintf(port, sizeof port, "%u", ntohs(a.sin_port));
    return fd;
}

static void a_host_that_does_not_answer_is_given_up(void **state)
{
    (void)state;
    int fd = listen_here();
    lifeline_t *first = lifeline_open("127.0.0.1", port);
    int before = unit_next_descriptor();
    lifeline_t *l = lifeline_open("127.0.0.1", port);
    assert_true(first && l && !is_gone(l, 0.1)); /* its SYN is lost */
    assert_true(lifeline_fd(l) >= 0 && lifeline_wait_ms(l) > 0 && lifeline_wait_ms(l) <= 1000 * LIFELINE_CONNECT_S);
    clock_ahead_s += LIFELINE_CONNECT_S + 1;
    assert_int_equal(lifeline_wait_ms(l), 0);
    assert_false(lifeline_step(l));
    assert_true(lifeline_fd(l) == -1 && lifeline_wait_ms(l) == -1);
    assert_int_equal(unit_next_descriptor(), before);
    drop(l);
    drop(first);
    close(fd);
    l = lifeline_open("255.255.255.255", port); /* to which nobody connects: the call fails at once */
    assert_non_null(l);
    assert_int_equal(lifeline_wait_ms(l), 0);
    assert_false(lifeline_step(l));
    assert_true(lifeline_fd(l) == -1 && lifeline_wait_ms(l) == -1);
    drop(l);
}

/* A connection that ends, then a host that does not answer, then nobody who listens there. */
static void who_was_reached_is_asked_again_after_a_while(void **state)
{
    (void)state;
    int fd = listen_here();
    lifeline_t *l = lifeline_open("127.0.0.1", port), *other[2];
    struct pollfd p = {.fd = lifeline_fd(l), .events = POLLOUT};
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_false(lifeline_step(l));
    close(accept(fd, NULL, NULL));
    p.events = POLLIN;
    assert_int_equal(poll(&p, 1, 20000), 1);
    for (int i = 0; i < 2; i++) {
        assert_false(lifeline_step(l));
        assert_true(lifeline_fd(l) == -1 && lifeline_wait_ms(l) > 0 && lifeline_wait_ms(l) <= 1000 * LIFELINE_AGAIN_S);
    }
    for (int i = 0; i < 2; i++)
        other[i] = lifeline_open("127.0.0.1", port);
    clock_ahead_s += LIFELINE_AGAIN_S + 1;
    assert_false(lifeline_step(l));
    assert_true(lifeline_fd(l) >= 0);
    clock_ahead_s += LIFELINE_CONNECT_S + 1;
    assert_false(lifeline_step(l));
    assert_true(lifeline_fd(l) == -1 && lifeline_wait_ms(l) > 1000 * LIFELINE_AGAIN_S);
    for (int i = 0; i < 2; i++)
        drop(other[i]);
    close(fd);
    clock_ahead_s += LIFELINE_WAIT_S + 1;
    assert_true(is_gone(l, 20));
    drop(l);
}

/* One polls for srun, sees it gone, and then sleeps: nobody is there to whom to tell it. */
static void a_guard_that_knows_no_others_sleeps_on(void **state)
{
    (void)state;
    pid_t pid = start(false, NULL);
    struct guard g = {.f.srun_host = "127.0.0.1"};
    snprintf(g.f.srun_port, sizeof g.f.srun_port, "%s", port);
    for (bool is_ended = false, is_held = false; guard_srun_poll(&g, true).fd >= 0 || guard_srun_wait_ms(&g) > 0;) {
        struct pollfd p = guard_srun_poll(&g, true);
        poll(&p, 1, guard_srun_wait_ms(&g));
        guard_srun_step(&g);
        is_held = is_held || guard_srun_wait_ms(&g) < 0;
        if (is_held && !is_ended) {
            end(pid);
            is_ended = true;
        }
    }
    assert_int_equal(guard_srun_wait_ms(&g), -1);
    drop(g.srun);
}

/* A guard, connected. */
static lifeline_t *connected(void)
{
    lifeline_t *l = lifeline_open("127.0.0.1", port);
    assert_non_null(l);
    while (lifeline_wait_ms(l) >= 0)
        is_gone(l, 0.01);
    return l;
}

/* Whether the process has ended by SIGTERM within so many seconds. */
static bool has_ended(pid_t pid, double seconds)
{
    uint64_t until = deadline_in(seconds);
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (deadline_left_ns(until) == 0)
            return false;
        poll(NULL, 0, 10);
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    return true;
}

static int n_descriptors_of(pid_t pid)
{
    char path[32];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Whether it has at most so many descriptors soon. */
static bool comes_down_to(pid_t pid, int n)
{
    for (uint64_t until = deadline_in(20); deadline_left_ns(until) > 0; poll(NULL, 0, 10))
        if (n_descriptors_of(pid) <= n)
            return true;
    return false;
}

static void srun_ends_for_its_last_guard_alone(void **state)
{
    (void)state;
    lifeline_t *stranger[40];
    pid_t pid = start(false, right);
    int n_before = n_descriptors_of(pid);
    for (size_t i = 0; i < sizeof stranger / sizeof *stranger; i++) {
        stranger[i] = connected();
        if (i % 2)
            lifeline_say(stranger[i], "f00102030405060708090a0b0c0d0e0f00", (enum lifeline_word)(i % LIFELINE_WORDS));
        else
            assert_int_equal(write(lifeline_fd(stranger[i]), right, 7), 7); /* and not a byte more */
    }
    lifeline_t *guard = connected();
    assert_false(has_ended(pid, 0.2));
    assert_true(comes_down_to(pid, n_before + 16)); /* more would be other callers than it hears */
    assert_true(lifeline_say(guard, right, LIFELINE_LAST));
    assert_true(comes_down_to(pid, n_before + 1));
    assert_false(has_ended(pid, 3)); /* while the guard is there */
    drop(guard);
    assert_true(has_ended(pid, 60));
    for (size_t i = 0; i < sizeof stranger / sizeof *stranger; i++)
        drop(stranger[i]);
}

static void descriptors_of(pid_t pid, rlim_t n)
{
    struct rlimit limit;
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = n ? n : limit.rlim_max;
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* srun is out of descriptors when the guard comes; and then the guard does not end. */
static void it_hears_late_and_does_not_wait_for_ever(void **state)
{
    (void)state;
    pid_t pid = start(false, right);
    descriptors_of(pid, 3);
    lifeline_t *guard = connected();
    assert_true(lifeline_say(guard, right, LIFELINE_LAST));
    assert_false(has_ended(pid, 1));
    descriptors_of(pid, 0);
    assert_true(has_ended(pid, 60));
    drop(guard);
}

/* Strangers have no more of it than time: whoever comes after them is heard, and srun is watched still. */
static void strangers_end_nothing(void **state)
{
    (void)state;
    pid_t pid = start(false, right);
    int n_before = n_descriptors_of(pid);
    for (int i = 0; i < 100; i++) {
        lifeline_t *l = connected();
        if (i % 2)
            lifeline_say(l, "f00102030405060708090a0b0c0d0e0f00", LIFELINE_LAST);
        drop(l);
    }
    lifeline_t *guard = connected();
    assert_false(has_ended(pid, 3));
    assert_true(comes_down_to(pid, n_before + 1));
    end(pid);
    assert_true(is_gone(guard, 20));
    assert_false(lifeline_say(guard, right, LIFELINE_LAST));
    drop(guard);
}

/* By its end: of what was said over that connection srun has heard all. */
static void say(enum lifeline_word what)
{
    lifeline_t *l = connected();
    assert_true(lifeline_say(l, right, what));
    assert_int_equal(shutdown(lifeline_fd(l), SHUT_WR), 0);
    struct pollfd p = {.fd = lifeline_fd(l), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    drop(l);
}

static void wake_later(pid_t pid)
{
    assert_int_equal(kill(pid, SIGUSR1), 0);
    lifeline_t *l = connected(); /* it looks again */
    assert_int_equal(write(lifeline_fd(l), "1234567 ", 8), 8);
    struct pollfd p = {.fd = lifeline_fd(l), .events = POLLIN};
    poll(&p, 1, 20000);
    drop(l);
}

/* Few that end do not end a step in which others go on: while their root is connected, and as long again. */
static void it_ends_after_few_nodes_unless_most_go_on(void **state)
{
    (void)state;
    lifeline_t *stranger[16];
    pid_t pid = start(false, right);
    int n_before = n_descriptors_of(pid);
    lifeline_t *most = connected();
    assert_true(lifeline_say(most, right, LIFELINE_MOST) && lifeline_say(most, right, LIFELINE_MOST));
    for (int i = 0; i < 16; i++) /* they do not push that one out */
        stranger[i] = connected();
    say(LIFELINE_FEW);
    wake_later(pid);
    wake_later(pid);
    assert_false(has_ended(pid, 3));
    for (int i = 0; i < 16; i++)
        drop(stranger[i]);
    say(LIFELINE_FEW);
    wake_later(pid);
    drop(most);
    assert_true(comes_down_to(pid, n_before));
    wake_later(pid);
    assert_false(has_ended(pid, 3)); /* another may be on its way; */
    most = connected();              /* it is */
    assert_true(lifeline_say(most, right, LIFELINE_MOST));
    wake_later(pid);
    assert_false(has_ended(pid, 3));
    drop(most);
    assert_true(comes_down_to(pid, n_before));
    wake_later(pid);
    wake_later(pid);
    assert_false(has_ended(pid, 3)); /* nobody has said anything since */
    say(LIFELINE_FEW);
    wake_later(pid);
    assert_false(has_ended(pid, 3));
    wake_later(pid);
    assert_true(has_ended(pid, 60));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(its_end_is_seen),
    cmocka_unit_test(a_connection_that_ends_is_not_its_end),
    cmocka_unit_test(who_was_never_reached_is_not_missed),
    cmocka_unit_test(a_host_that_does_not_answer_is_given_up),
    cmocka_unit_test(who_was_reached_is_asked_again_after_a_while),
    cmocka_unit_test(a_guard_that_knows_no_others_sleeps_on),
    cmocka_unit_test(srun_ends_for_its_last_guard_alone),
    cmocka_unit_test(it_hears_late_and_does_not_wait_for_ever),
    cmocka_unit_test(strangers_end_nothing),
    cmocka_unit_test(it_ends_after_few_nodes_unless_most_go_on),
};

UNIT_MAIN(tests)
