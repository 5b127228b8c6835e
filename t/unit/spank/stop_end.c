/* A stop before the job's end: when it comes, beside one program, and what is asked of the controller for that, which
 * is a script of ours. */
#include "config.h"
#include "t/unit/spank/stopping.h"

#include <poll.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "spank/guard/stop.h"

static int64_t now_s(void)
{
    return (int64_t)time(NULL);
}

static void it_comes_before_the_end(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 62;
    struct task t = start(&f, catches);
    assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
    assert_true(f.end_s - now_s() >= 59 && f.end_s - now_s() <= 61);
    kill(t.pid, SIGHUP);
    end(t);
}

/* Each of its steps would be stopped while it starts. */
static void a_job_that_is_shorter_than_that_is_not_stopped(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 30;
    struct task t = start(&f, catches);
    assert_int_equal(read_until(t, "nobody is stopped before\n", text, sizeof text), 0);
    assert_non_null(strstr(text, "the job ends in less than the 60 s that stop= asks for"));
    if (text[0] != 'r') /* the program's word, else behind it */
        assert_int_equal(read_until(t, "before\nr", text, sizeof text), 0);
    kill(t.pid, SIGHUP);
    read_until(t, "never", text, sizeof text); /* to the end */
    assert_null(strstr(text, "ddp: stop: "));
    assert_null(strchr(text, 'X'));
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

/* Seconds until the stop; -1: none within `patience_s`. */
static double stops_after(const struct guards_facts *f, double patience_s)
{
    struct guard_stop s;
    const struct guard_record none = {0};
    uint64_t began = clock_ns(), until = deadline_in(patience_s);
    guard_stop_open(&s, f, &none);
    while (deadline_left_ns(until) > 0) {
        struct pollfd p = {.fd = guard_stop_fd(&s), .events = POLLIN};
        int ms = guard_stop_wait_ms(&s), left = deadline_left_ms(until);
        poll(&p, 1, ms < 0 || ms > left ? left : ms);
        if (guard_stop_step(&s))
            return (double)(clock_ns() - began) / 1e9;
    }
    return -1;
}

static void an_end_that_is_not_known_is_asked(void **state)
{
    char asked[256];
    struct guards_facts f = facts_of(60);
    (void)state;
    put_scontrol(JOB, (long long)now_s() + 62);
    double after = stops_after(&f, 20);
    assert_true(after > 0.5 && after < 10);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "-o show job 12\n");
}

static void an_end_that_has_moved_is_asked_again(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 60 + GUARD_STOP_ASK_AHEAD_S + 2; /* time() may still be in the second before */
    put_scontrol(JOB, (long long)now_s() + 63);
    double after = stops_after(&f, 15);
    assert_true(after > 0.5 && after < 15);
    put_scontrol(JOB, (long long)now_s() + 3600);
    f.end_s = now_s() + 60 + GUARD_STOP_ASK_AHEAD_S + 2; /* time() may still be in the second before */
    assert_true(stops_after(&f, 3) < 0);
}

/* When a step goes on that was suspended past all moments: what its guard has come to by the answer. */
static bool stops_when_it_goes_on(const struct guards_facts *f, bool is_asked_before)
{
    struct guard_stop s;
    const struct guard_record none = {0};
    bool is_due = false;
    guard_stop_open(&s, f, &none);
    s.stop_at = s.asked_at = 1;
    s.ask_at = is_asked_before ? 0 : 1;
    assert_false(guard_stop_step(&s));
    assert_true(s.child.pid > 0);
    while (s.child.pid && !is_due) {
        struct pollfd p = {.fd = guard_stop_fd(&s), .events = POLLIN};
        assert_true(guard_stop_wait_ms(&s) > 0); /* it does not spin */
        poll(&p, 1, guard_stop_wait_ms(&s));
        is_due = guard_stop_step(&s);
    }
    return is_due;
}

static void a_suspension_moves_the_end(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 3600;
    for (int is_asked_before = 0; is_asked_before < 2; is_asked_before++) {
        put_scontrol(JOB, (long long)now_s() + 7200);
        assert_false(stops_when_it_goes_on(&f, is_asked_before));
        put_scontrol(JOB, (long long)f.end_s);
        assert_true(stops_when_it_goes_on(&f, is_asked_before));
        put_scontrol("exit 1\n", 0);
        assert_true(stops_when_it_goes_on(&f, is_asked_before));
    }
    put_scontrol("exec sleep 1000\n", 0);
    assert_true(stops_when_it_goes_on(&f, false));
}

static void an_end_that_nobody_knows_stops_nobody(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    put_scontrol("exit 1\n", 0);
    assert_true(stops_after(&f, 1) < 0);
    put_scontrol("echo JobId=12 UserId=u JobState=RUNNING EndTime=Unknown\n", 0);
    assert_true(stops_after(&f, 1) < 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_comes_before_the_end),
    cmocka_unit_test(a_job_that_is_shorter_than_that_is_not_stopped),
    WITH_FOLDER(an_end_that_is_not_known_is_asked),
    WITH_FOLDER(an_end_that_has_moved_is_asked_again),
    WITH_FOLDER(a_suspension_moves_the_end),
    WITH_FOLDER(an_end_that_nobody_knows_stops_nobody),
};

UNIT_MAIN(tests)
