#include "t/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/sched/stop.h"

enum { ALL = (1 << STOP_N_SIGNALS) - 1 };

static void (*action(int signum))(int)
{
    struct sigaction sa;
    assert_int_equal(sigaction(signum, NULL, &sa), 0);
    return sa.sa_handler;
}

static void reset(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

static void own_handler(int signum)
{
    (void)signum;
}

static void the_list_is_parsed_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned set;
    } good[] = {{"TERM", 1 << STOP_TERM},
                {"INT,USR1", 1 << STOP_INT | 1 << STOP_USR1},
                {"TERM,USR1,USR2,INT", ALL},
                {"USR2,USR2", 1 << STOP_USR2},
                {"none", 0}};
    static const char *const bad[] = {"", ",", "TERM,", ",TERM", "TERM,,INT", "HUP", "SIGTERM", "term", "TER", "TERMS",
                                      "TERM INT", "none,TERM", "TERM,none", "15"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        unsigned set = 99;
        assert_int_equal(stop_parse(good[i].text, &set, NULL), 0);
        assert_int_equal(set, good[i].set);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned set = 99;
        ddp_error_t e;
        assert_int_equal(stop_parse(bad[i], &set, &e), -1);
        assert_int_equal(set, 99);
        assert_error_has(e, "TERM, USR1, USR2, INT");
    }
}

static void the_first_signal_counts(void **state)
{
    (void)state;
    struct stop s = {0};
    assert_int_equal(stop_wanted(&s), -1);
    stop_catch(&s, ALL);
    assert_int_equal(stop_wanted(&s), -1);
    raise(SIGUSR2);
    assert_int_equal(stop_wanted(&s), STOP_USR2);
    raise(SIGTERM); /* survives it, */
    raise(SIGTERM); /* again and again */
    raise(SIGUSR2);
    raise(SIGINT);
    assert_int_equal(stop_wanted(&s), STOP_USR2);
    stop_release(&s);
    assert_ptr_equal(action(SIGTERM), SIG_IGN); /* this process is on its way out */
    assert_ptr_equal(action(SIGUSR1), SIG_IGN);
    assert_ptr_equal(action(SIGINT), SIG_DFL);
    reset();
    stop_catch(&s, ALL); /* and anew */
    assert_int_equal(stop_wanted(&s), -1);
    stop_release(&s);
    assert_ptr_equal(action(SIGTERM), SIG_DFL);
    stop_release(&s);
}

static void the_programs_own_stays(void **state)
{
    (void)state;
    struct stop s = {0};
    signal(SIGUSR1, own_handler);
    signal(SIGINT, SIG_IGN);
    stop_catch(&s, ALL & ~(1u << STOP_USR2));
    assert_ptr_equal(action(SIGUSR1), own_handler);
    assert_ptr_equal(action(SIGINT), SIG_IGN);
    assert_ptr_equal(action(SIGUSR2), SIG_DFL); /* not asked for */
    raise(SIGUSR1);
    assert_int_equal(stop_wanted(&s), -1);
    signal(SIGTERM, own_handler); /* taken by the program later */
    stop_release(&s);
    assert_ptr_equal(action(SIGTERM), own_handler);
    assert_ptr_equal(action(SIGUSR1), own_handler);
    assert_ptr_equal(action(SIGINT), SIG_IGN);
    reset();
}

static void a_second_interrupt_ends_the_process(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct stop s = {0};
        stop_catch(&s, ALL);
        raise(SIGTERM);
        raise(SIGINT);
        raise(SIGINT);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static void the_wishes_of_all_ranks_give_one_reason(void **state)
{
    (void)state;
    struct stop s = {0};
    double tail[STOP_N], other[STOP_N] = {0};
    stop_fill(&s, false, tail);
    assert_int_equal(stop_agreed(&s, tail), -1);
    assert_int_equal(stop_signal(-1), 0);
    stop_fill(&s, true, tail);
    assert_int_equal(stop_agreed(&s, tail), STOP_DEADLINE);
    assert_int_equal(stop_signal(STOP_DEADLINE), 0);
    s = (struct stop){0};
    stop_catch(&s, ALL);
    raise(SIGUSR1);
    stop_fill(&s, true, tail);
    other[STOP_INT] = 3;
    for (int i = 0; i < STOP_N; i++)
        tail[i] += other[i];
    assert_int_equal(stop_agreed(&s, tail), STOP_USR1);
    assert_int_equal(stop_signal(STOP_USR1), SIGUSR1);
    stop_release(&s);
    reset();
    stop_catch(&s, ALL);
    other[STOP_INT] = 0;
    assert_int_equal(stop_agreed(&s, other), -1);
    stop_release(&s);
    assert_ptr_equal(action(SIGTERM), SIG_DFL);
    stop_catch(&s, ALL);
    other[STOP_INT] = 1; /* another rank's */
    assert_int_equal(stop_agreed(&s, other), STOP_INT);
    stop_release(&s);
    assert_ptr_equal(action(SIGTERM), SIG_IGN);
    assert_ptr_equal(action(SIGINT), SIG_DFL);
    reset();
}

/* A shell starts what goes on in the background with SIGINT ignored, and a signal that is ignored stays so. */
static int set_up(void **state)
{
    (void)state;
    reset();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_parsed_strictly),
        cmocka_unit_test(the_first_signal_counts),
        cmocka_unit_test(the_programs_own_stays),
        cmocka_unit_test(a_second_interrupt_ends_the_process),
        cmocka_unit_test(the_wishes_of_all_ranks_give_one_reason),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
