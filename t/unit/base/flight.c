/* The flight recorder, read from outside: the last calls, and whom a rank waits for. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/flight.h"

static void a_reader_sees_the_last_calls(void **state)
{
    flight_t *f = flight_open(3, 8);
    struct flight_view v;
    char name[40];
    (void)state;
    assert_non_null(f);
    for (int k = 1; k <= 100; k++) {
        snprintf(name, sizeof name, "call-%d-that-is-long", k);
        flight_call(f, name);
    }
    flight_step(f, 17);
    assert_true(flight_read(getpid(), &v));
    assert_int_equal(v.rank, 3);
    assert_int_equal(v.size, 8);
    assert_int_equal(v.n_calls, 100);
    assert_int_equal(v.n_steps, 17);
    assert_string_equal(v.name[100 % FLIGHT_CALLS], "call-100-that-i");
    assert_string_equal(v.name[37 % FLIGHT_CALLS], "call-37-that-is");
    assert_string_equal(v.name[36 % FLIGHT_CALLS], v.name[100 % FLIGHT_CALLS]);
    assert_int_equal(v.waits_for, FLIGHT_NOBODY);
    assert_true(v.waits_s == 0);
    flight_waits(f, 5);
    assert_true(flight_read(getpid(), &v));
    assert_int_equal(v.waits_for, 5);
    assert_true(v.waits_s >= 0 && v.waits_s < 60);
    flight_close(f);
    assert_false(flight_read(getpid(), &v)); /* gone with the rank */
}

static void what_it_names_steers_no_terminal(void **state)
{
    flight_t *f = flight_open(0, 1);
    struct flight_view v;
    (void)state;
    assert_non_null(f);
    flight_call(f, "\033[2Jall\t");
    assert_true(flight_read(getpid(), &v));
    assert_string_equal(v.name[1], "?[2Jall ");
    flight_close(f);
}

static void without_one_nothing_happens(void **state)
{
    (void)state;
    flight_call(NULL, "all-reduce");
    flight_waits(NULL, 1);
    flight_step(NULL, 1);
    flight_close(NULL);
}

/* The second one has a number below the first one's, which a descriptor that was closed has left. */
static void of_several_the_first_is_seen(void **state)
{
    struct flight_view v;
    (void)state;
    int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
    flight_t *first = flight_open(1, 4);
    close(low);
    flight_t *second = flight_open(0, 2);
    assert_true(low >= 0 && first && second);
    assert_true(flight_read(getpid(), &v));
    assert_int_equal(v.size, 4);
    flight_close(first);
    assert_true(flight_read(getpid(), &v));
    assert_int_equal(v.size, 2);
    flight_close(second);
}

/* Of files: where such a limit is exceeded, the kernel ends the process by a signal. */
static void beyond_a_limit_of_size_there_is_none(void **state)
{
    struct rlimit before, now;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = before;
    now.rlim_cur = 512;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    flight_t *f = flight_open(0, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_null(f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_reader_sees_the_last_calls),
    cmocka_unit_test(what_it_names_steers_no_terminal),
    cmocka_unit_test(of_several_the_first_is_seen),
    cmocka_unit_test(without_one_nothing_happens),
    cmocka_unit_test(beyond_a_limit_of_size_there_is_none),
};

UNIT_MAIN(tests)
