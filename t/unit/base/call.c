/* Calls in a thread of their own, that return in time and that do not. */
#include "t/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/base/resolve.h"

#define PATIENCE_S 30.0

struct job {
    int doubled;
    bool is_blocked; /* signals */
    sem_t *go, *dropped;
};

static void doubles(void *arg)
{
    struct job *j = arg;
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    j->is_blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
    while (j->go && sem_wait(j->go) < 0)
        ;
    j->doubled *= 2;
}

static void dropped(void *arg)
{
    struct job *j = arg;
    if (j->doubled == 42)
        sem_post(j->dropped);
}

static struct job *job_create(sem_t *go, sem_t *drop)
{
    struct job *j = malloc(sizeof *j);
    assert_non_null(j);
    *j = (struct job){.doubled = 21, .go = go, .dropped = drop};
    return j;
}

static void a_call_that_returns_is_the_callers(void **state)
{
    (void)state;
    sigset_t before, after;
    struct job *j = job_create(NULL, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(call_within(doubles, dropped, j, deadline_in(PATIENCE_S), NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(j->doubled, 42);
    assert_true(j->is_blocked);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    free(j);
}

static void a_call_that_does_not_is_left(void **state)
{
    (void)state;
    sem_t go, drop;
    struct timespec until;
    assert_int_equal(sem_init(&go, 0, 0), 0);
    assert_int_equal(sem_init(&drop, 0, 0), 0);
    assert_int_equal(call_within(doubles, dropped, job_create(&go, &drop), deadline_in(0.05), NULL), 1);
    sem_post(&go); /* it returns after all: what it left is freed */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)PATIENCE_S;
    assert_int_equal(sem_timedwait(&drop, &until), 0);
}

static void hosts_are_looked_up(void **state)
{
    (void)state;
    struct addrinfo *found;
    ddp_error_t e;
    static const char *const good[] = {"127.0.0.1", "::1", "localhost"};
    size_t n_good = 2; /* and the third where the machine has such a name */
    if (getaddrinfo(good[2], NULL, NULL, &found) == 0) {
        freeaddrinfo(found);
        n_good = 3;
    }
    for (size_t i = 0; i < n_good; i++) {
        double s = i < 2 ? 0 : PATIENCE_S; /* a number takes no time */
        if (resolve_host(good[i], "80", SOCK_STREAM, deadline_in(s), &found, &e) < 0)
            fail_msg("%s", e.text);
        assert_int_equal(found->ai_socktype, SOCK_STREAM);
        freeaddrinfo(found);
    }
    char name[300];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(resolve_host(name, "80", SOCK_STREAM, deadline_in(PATIENCE_S), &found, &e), -1);
    assert_error_has(e, "host aaa");
    assert_int_equal(resolve_host("127.0.0.1", "http", SOCK_STREAM, deadline_in(PATIENCE_S), &found, &e), -1);
}

/* As with a limit that is too low, under which sanitizers could not run. */
static bool has_no_thread;
int __real_thread_start(pthread_t *ret, void *(*f)(void *), void *arg);
int __wrap_thread_start(pthread_t *ret, void *(*f)(void *), void *arg);
int __wrap_thread_start(pthread_t *ret, void *(*f)(void *), void *arg)
{
    if (has_no_thread)
        return errno = EAGAIN;
    return __real_thread_start(ret, f, arg);
}

static void a_call_without_a_thread_names_the_limits(void **state)
{
    (void)state;
    struct job j = {.doubled = 1};
    ddp_error_t e;
    has_no_thread = true;
    int rc = call_within(doubles, dropped, &j, deadline_in(PATIENCE_S), &e);
    has_no_thread = false;
    assert_int_equal(rc, -1);
    assert_error_has(e, "thread for a call with a deadline (ulimit -u, ulimit -v): Resource temporarily unavailable");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_call_without_a_thread_names_the_limits),
    cmocka_unit_test(a_call_that_returns_is_the_callers),
    cmocka_unit_test(a_call_that_does_not_is_left),
    cmocka_unit_test(hosts_are_looked_up),
};
UNIT_MAIN(tests)
