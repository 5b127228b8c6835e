/* srun has gone: seen by who is connected with it, and only then. srun is a process of its own here. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/lifeline.h"

static const char right[] = "000102030405060708090a0b0c0d0e0f00";
static char port[8], folder[] = "/tmp/ddp-lifeline.XXXXXX";

/* A process that listens; with `closes` it ends each connection that comes, as a network may. */
static pid_t start(bool closes, const char *token)
{
    int out[2];
    ddp_error_t e;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
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

/* scancel is a script that writes what it was given into a pipe, which it opens without waiting for us. */
static int make_scancel(void)
{
    char path[64], text[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/said", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    assert_true(fd >= 0);
    snprintf(text, sizeof text, "#!/bin/sh\necho \"$*\" >%s\n", path);
    snprintf(path, sizeof path, "%s/scancel", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fchmod(fileno(f), 0700);
    fclose(f);
    snprintf(text, sizeof text, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", text, 1);
    return fd;
}

static void remove_scancel(int fd)
{
    static const char *const names[] = {"said", "scancel"};
    char path[64];
    close(fd);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
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

/* Whether something is said within so many seconds. */
static bool is_said(int fd, double seconds, char *ret, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, (int)(seconds * 1e3)) <= 0)
        return false;
    ssize_t n = read(fd, ret, size - 1);
    ret[n > 0 ? n : 0] = 0;
    return true;
}

static void srun_cancels_a_step_for_its_last_guard_alone(void **state)
{
    (void)state;
    char said[64] = "";
    lifeline_t *guard, *stranger[40];
    int fd = make_scancel();
    pid_t pid = start(false, right);
    for (size_t i = 0; i < sizeof stranger / sizeof *stranger; i++) {
        stranger[i] = connected();
        if (i % 2)
            lifeline_cancel(stranger[i], "f00102030405060708090a0b0c0d0e0f00", "12.3");
        else
            assert_int_equal(write(lifeline_fd(stranger[i]), said, 7), 7); /* and not a word more */
    }
    guard = connected();
    assert_false(is_said(fd, 0.2, said, sizeof said));
    assert_true(lifeline_cancel(guard, right, "12.3"));
    assert_false(is_said(fd, 3, said, sizeof said)); /* while it is there */
    drop(guard);
    assert_true(is_said(fd, 60, said, sizeof said));
    assert_string_equal(said, "12.3\n");
    for (size_t i = 0; i < sizeof stranger / sizeof *stranger; i++)
        drop(stranger[i]);
    guard = connected(); /* srun is watched still */
    end(pid);
    assert_true(is_gone(guard, 20));
    assert_false(lifeline_cancel(guard, right, "12.3"));
    drop(guard);
    remove_scancel(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(its_end_is_seen),
    cmocka_unit_test(a_connection_that_ends_is_not_its_end),
    cmocka_unit_test(who_was_never_reached_is_not_missed),
    cmocka_unit_test(srun_cancels_a_step_for_its_last_guard_alone),
};

UNIT_MAIN(tests)
