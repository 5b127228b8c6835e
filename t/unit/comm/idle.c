#include "t/unit/unit.h"

#include "runtime/base/thread.h"
#include "runtime/comm/idle.h"

static bool never(void *arg)
{
    ++*(int *)arg;
    return false;
}

static bool at_the_fifth(void *arg)
{
    return ++*(int *)arg == 5;
}

static void a_call_ends_a_sleep_that_has_not_begun(void **state)
{
    (void)state;
    struct idle i;
    int n = 0;
    idle_init(&i);
    idle_wake(&i);
    idle_wait(&i, never, &n);
    assert_int_equal(n, 0);
    idle_clear(&i);
}

static void looks_end_where_works_are_left(void **state)
{
    (void)state;
    struct idle i;
    int n = 0;
    idle_init(&i);
    uint64_t first = i.ns;
    idle_wake_soon(&i);
    int looks = i.looks;
    idle_wait(&i, at_the_fifth, &n);
    assert_int_equal(n, 5);
    assert_int_equal(i.looks, looks - 5);
    assert_true(i.ns == first); /* it had doubled */
    idle_clear(&i);
}

/* A call that comes while a look finds nothing is heard. */
static struct idle in_look;
static bool calls(void *arg)
{
    ++*(int *)arg;
    in_look.is_called = true; /* the lock is held */
    return false;
}

static void a_call_during_a_look_is_heard(void **state)
{
    (void)state;
    int n = 0;
    idle_init(&in_look);
    uint64_t first = in_look.ns;
    idle_wake_soon(&in_look);
    idle_wait(&in_look, calls, &n);
    assert_int_equal(n, 1);
    assert_true(in_look.ns == 2 * first);
    idle_clear(&in_look);
}

static void wait_until_looks_are_over(struct idle *i)
{
    for (bool is_over = false; !is_over;) {
        pthread_mutex_lock(&i->lock);
        is_over = i->looks == 0 && !i->is_looking;
        pthread_mutex_unlock(&i->lock);
    }
}

static void *start_and_call(void *arg)
{
    wait_until_looks_are_over(arg);
    idle_wake_soon(arg);
    wait_until_looks_are_over(arg);
    idle_wake(arg);
    return NULL;
}

static void looks_are_few_and_begin_anew_at_a_start(void **state)
{
    (void)state;
    struct idle i;
    pthread_t t;
    int n = 0;
    idle_init(&i);
    idle_wake_soon(&i);
    int looks = i.looks;
    assert_int_equal(thread_start(&t, start_and_call, &i), 0);
    idle_wait(&i, never, &n);
    pthread_join(t, NULL);
    assert_int_equal(n, 2 * looks);
    idle_clear(&i);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_call_ends_a_sleep_that_has_not_begun),
    cmocka_unit_test(looks_end_where_works_are_left),
    cmocka_unit_test(a_call_during_a_look_is_heard),
    cmocka_unit_test(looks_are_few_and_begin_anew_at_a_start),
};
UNIT_MAIN(tests)
