#include "t/unit/unit.h"

#include <poll.h>
#include <stdatomic.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/comm/idle.h"

#define PATIENCE_S 10.0

/* Each test's own: a thread that never wakes keeps it. */
struct sleeper {
    struct idle idle;
    uint64_t first_ns;
    int looks; /* that a start asks for, */
    int n;     /* and that were taken */
    bool (*is_left)(struct sleeper *s);
    atomic_bool is_over;
};

static bool look(void *arg)
{
    struct sleeper *s = arg;
    s->n++;
    return s->is_left(s);
}

static bool never(struct sleeper *s)
{
    (void)s;
    return false;
}

static bool at_the_fifth(struct sleeper *s)
{
    return s->n == 5;
}

/* A call that comes while a look finds nothing. */
static bool calls(struct sleeper *s)
{
    s->idle.is_called = true; /* the lock is held */
    return false;
}

static void *sleep_once(void *arg)
{
    struct sleeper *s = arg;
    idle_wait(&s->idle, look, s);
    atomic_store(&s->is_over, true);
    return NULL;
}

static void begin(struct sleeper *s, bool (*is_left)(struct sleeper *s))
{
    idle_init(&s->idle);
    s->first_ns = s->idle.ns;
    s->is_left = is_left;
}

static void start_a_work(struct sleeper *s)
{
    idle_wake_soon(&s->idle);
    pthread_mutex_lock(&s->idle.lock);
    s->looks = s->idle.looks > s->looks ? s->idle.looks : s->looks;
    pthread_mutex_unlock(&s->idle.lock);
}

static pthread_t fall_asleep(struct sleeper *s)
{
    pthread_t t;
    assert_int_equal(thread_start(&t, sleep_once, s), 0);
    return t;
}

static bool has_looked_enough(struct sleeper *s)
{
    pthread_mutex_lock(&s->idle.lock);
    bool is_over = s->idle.looks == 0 && !s->idle.is_looking;
    pthread_mutex_unlock(&s->idle.lock);
    return is_over;
}

static bool is_awake(struct sleeper *s)
{
    return atomic_load(&s->is_over);
}

static void wait_until(bool (*is_so)(struct sleeper *s), struct sleeper *s, const char *what)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (!is_so(s)) {
        if (deadline_left_ns(deadline) == 0)
            fail_msg("%s did not come within %g s: %d of %d looks", what, PATIENCE_S, s->n, s->looks);
        poll(NULL, 0, 1);
    }
}

static void wake_up(struct sleeper *s, pthread_t t, const char *what)
{
    wait_until(is_awake, s, what);
    pthread_join(t, NULL);
}

static void a_call_ends_a_sleep_that_has_not_begun(void **state)
{
    static struct sleeper s;
    (void)state;
    begin(&s, never);
    idle_wake(&s.idle);
    wake_up(&s, fall_asleep(&s), "the end of a sleep after a call");
    assert_int_equal(s.n, 0);
    idle_clear(&s.idle);
}

static void looks_end_where_works_are_left(void **state)
{
    static struct sleeper s;
    (void)state;
    begin(&s, at_the_fifth);
    start_a_work(&s);
    wake_up(&s, fall_asleep(&s), "a look that finds a work");
    assert_int_equal(s.n, 5);
    assert_int_equal(s.idle.looks, s.looks - 5);
    assert_true(s.idle.ns == s.first_ns); /* it had doubled */
    idle_clear(&s.idle);
}

static void a_call_during_a_look_is_heard(void **state)
{
    static struct sleeper s;
    (void)state;
    begin(&s, calls);
    start_a_work(&s);
    wake_up(&s, fall_asleep(&s), "the end of a sleep after a call during a look");
    assert_int_equal(s.n, 1);
    assert_true(s.idle.ns == 2 * s.first_ns);
    idle_clear(&s.idle);
}

static void looks_are_few_and_begin_anew_at_a_start(void **state)
{
    static struct sleeper s;
    (void)state;
    begin(&s, never);
    start_a_work(&s);
    pthread_t t = fall_asleep(&s);
    wait_until(has_looked_enough, &s, "the last look");
    start_a_work(&s);
    wait_until(has_looked_enough, &s, "the last look after another start");
    idle_wake(&s.idle);
    wake_up(&s, t, "the end of a sleep");
    assert_int_equal(s.n, 2 * s.looks);
    idle_clear(&s.idle);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_call_ends_a_sleep_that_has_not_begun),
    cmocka_unit_test(looks_end_where_works_are_left),
    cmocka_unit_test(a_call_during_a_look_is_heard),
    cmocka_unit_test(looks_are_few_and_begin_anew_at_a_start),
};
UNIT_MAIN(tests)
