/* What ends a task that is not ready for its program in time. */
#include "config.h" /* vfork */

#include "t/unit/unit.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/watchdog.h"

#define SOON_S 0.1
#define LATER_MS 1500 /* when both timers would have come */

static const char said[] = "ddp: n1: too long\n", runs[] = "it runs\n";
static volatile unsigned n_rounds;

static void compute(void)
{
    while (n_rounds < 2)
        n_rounds &= 1;
}

/* Waits as for a file system that does not answer: nothing but SIGKILL ends it. (Under an emulator whose vfork is a
 * fork it does not wait, and may have ended before the child asks to end with it.) */
static void be_held(void)
{
    pid_t parent = getpid();
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            pause();
        _exit(0);
    }
}

static void sleep_on(void)
{
    (void)!write(STDERR_FILENO, runs, sizeof runs - 1);
    poll(NULL, 0, LATER_MS);
}

static void become_a_program(void)
{
    execlp("sh", "sh", "-c", "echo it runs >&2; exec sleep 1.5", (char *)NULL);
    _exit(9);
}

/* A child that does f() under a watchdog, which it stops before where `is_stopped`: its status, and what it said. */
static int end_of(void (*f)(void), bool is_stopped, char *ret, size_t size)
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        struct watchdog w;
        dup2(out[1], STDERR_FILENO);
        close(out[1]);
        if (watchdog_start(&w, SOON_S, said, NULL) < 0)
            _exit(8);
        if (is_stopped)
            watchdog_stop(&w);
        f();
        _exit(0);
    }
    close(out[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t n = read(out[0], ret, size - 1);
    ret[n > 0 ? n : 0] = 0;
    close(out[0]);
    return status;
}

/* The same of one that is ready before SOON_S is over, which a busy machine may let pass before. */
static int end_of_ready(void (*f)(void), bool is_stopped, char *ret, size_t size)
{
    int status = end_of(f, is_stopped, ret, size);
    for (int i = 0; i < 100 && !strcmp(ret, said); i++)
        status = end_of(f, is_stopped, ret, size);
    return status;
}

static void who_computes_for_ever_is_ended_with_a_word(void **state)
{
    (void)state;
    char text[64];
    int status = end_of(compute, false, text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_string_equal(text, said);
}

static void who_hears_no_signal_is_killed(void **state)
{
    (void)state;
    char text[64];
    int status = end_of_ready(be_held, false, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void who_is_ready_goes_on(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(end_of_ready(sleep_on, true, text, sizeof text), 0);
    assert_string_equal(text, runs);
}

static void no_program_inherits_it(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(end_of_ready(become_a_program, false, text, sizeof text), 0);
    assert_string_equal(text, runs);
}

static void ignore(int signal)
{
    (void)signal;
}

static void handler_and_mask_come_back(void **state)
{
    (void)state;
    struct watchdog w;
    struct sigaction action = {.sa_handler = ignore}, now;
    sigset_t blocked, mask;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    assert_int_equal(watchdog_start(&w, 60, said, NULL), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGALRM));
    watchdog_stop(&w);
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &blocked, &mask), 0);
    assert_true(sigismember(&mask, SIGALRM));
    assert_int_equal(sigaction(SIGALRM, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, ignore);
    signal(SIGALRM, SIG_DFL);
}

static void no_timer_is_an_error(void **state)
{
    (void)state;
    struct watchdog w;
    struct rlimit before;
    struct sigaction now;
    ddp_error_t e = {0};
    assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){0, before.rlim_max}), 0);
    assert_int_equal(watchdog_start(&w, 60, said, &e), -1);
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &before), 0);
    assert_error_has(e, "ulimit -i");
    assert_int_equal(sigaction(SIGALRM, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
}

/* Under one limit after the other until both timers are had: also where there is one, and not the other. */
static void start_where_timers_are_few(void)
{
    struct watchdog w;
    struct rlimit r;
    if (getrlimit(RLIMIT_SIGPENDING, &r) < 0)
        _exit(7);
    for (r.rlim_cur = 0; r.rlim_cur <= r.rlim_max; r.rlim_cur++)
        if (setrlimit(RLIMIT_SIGPENDING, &r) == 0 && watchdog_start(&w, SOON_S, said, NULL) == 0)
            break;
    watchdog_stop(&w);
    sleep_on();
}

static void half_a_watchdog_is_none(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(end_of_ready(start_where_timers_are_few, true, text, sizeof text), 0);
    assert_string_equal(text, runs);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_computes_for_ever_is_ended_with_a_word),
    cmocka_unit_test(who_hears_no_signal_is_killed),
    cmocka_unit_test(who_is_ready_goes_on),
    cmocka_unit_test(no_program_inherits_it),
    cmocka_unit_test(handler_and_mask_come_back),
    cmocka_unit_test(no_timer_is_an_error),
    cmocka_unit_test(half_a_watchdog_is_none),
};
UNIT_MAIN(tests)
