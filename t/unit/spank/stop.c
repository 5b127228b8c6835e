/* A stop, beside one program or two: the key, what the program gets, and the requeue that is asked of the controller,
 * which is a script of ours. (t/t1016 has Slurm's.) */
#include "config.h"
#include "t/unit/spank/stopping.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "runtime/base/io.h"
#include "spank/keys/stop_key.h"

static void the_key_is_strict(void **state)
{
    static const struct {
        const char *text;
        int signal, before_s;
    } good[] = {{"none", 0, 0}, {"USR1", SIGUSR1, 0}, {"SIGTERM", SIGTERM, 0}, {"USR2@90", SIGUSR2, 90},
                {"INT@1000000", SIGINT, 1000000}};
    static const char *const bad[] = {"", "on", "USR", "SIG", "USR1@", "USR1@0", "USR1@x", "USR1@1000001", "usr1", "10",
                                      "KILL@60", "none@60", "@60"};
    struct stop_key k;
    ddp_error_t e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(stop_key_parse(good[i].text, "--ddp", &k, &e), 0);
        assert_true(k.signal == good[i].signal && k.before_s == good[i].before_s);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = 0;
        assert_int_equal(stop_key_parse(bad[i], "--ddp", &k, &e), -1);
        assert_error_has(e, "as in USR1@120");
    }
    assert_string_equal(stop_key_name(SIGUSR1), "SIGUSR1");
}

/* ---- what the program gets ---- */

static int count(const char *text, char c)
{
    int n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

static void it_comes_once_and_in_slurms_place(void **state)
{
    static const int first[] = {SIGUSR1, SIGTERM};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512] = "";
        struct guards_facts f = facts_of(0);
        struct task t = start(&f, catches);
        assert_int_equal(read_until(t, "r", text, sizeof text), 0);
        text[0] = 0;
        kill(t.pid, first[i]);
        assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
        assert_int_equal(read_until(t, "X", text, sizeof text), 0);
        kill(t.pid, SIGTERM);
        kill(t.pid, SIGUSR1);
        kill(t.pid, SIGWINCH); /* comes after them: of those that wait, the lowest number is first */
        read_until(t, "never", text, sizeof text); /* to the end */
        int status = end(t);
        assert_int_equal(count(text, 'X'), 1);
        assert_int_equal(count(text, 'Y'), 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
        assert_non_null(strstr(text, "ddp: stop: all ranks get SIGUSR1"));
    }
}

/* Dies, and leaves behind what does not mind SIGTERM, for which the next one waits. */
static int dies_slowly(int out)
{
    signal(SIGTERM, SIG_IGN);
    (void)!write(out, task_generation ? "again\n" : "first\n", 6);
    if (fork() == 0)
        for (;;)
            pause();
    raise(SIGKILL);
    return 0;
}

/* It is said once, and nobody is started for it; the run has not failed. */
static void one_before_a_restart_is_the_end(void **state)
{
    char text[1024] = "", record[160], how[160];
    char *with_record[] = {path_variable, record, NULL};
    struct guards_facts f = facts_of(0);
    (void)state;
    snprintf(record, sizeof record, "DDP_RECORD=%s/called-off", test_folder);
    snprintf(how, sizeof how, "tail -n 1 %s/called-off | grep -q '\"how\": \"stopped\"'", test_folder);
    f.env = with_record;
    f.restarts = 2;
    struct task t = start(&f, dies_slowly);
    assert_int_equal(read_until(t, ": restart 1 of 2\n", text, sizeof text), 0);
    kill(t.pid, SIGUSR1);
    read_until(t, "never", text, sizeof text); /* to the end */
    int status = end(t);
    const char *said = strstr(text, "to save and end\n");
    assert_non_null(said);
    assert_null(strstr(said + 1, "to save and end\n"));
    assert_non_null(strstr(said, "ddp: no restart: a stop was asked for before it\n"));
    assert_null(strstr(text, "again\n"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(system(how), 0);
}

static void who_does_not_catch_it_has_not_failed(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "r", text, sizeof text), 0);
    kill(t.pid, SIGUSR1);
    assert_int_equal(read_until(t, "the step ends\n", text, sizeof text), 0);
    int status = end(t);
    assert_non_null(strstr(text, "rank 0 (n1) was ended by SIGUSR1, the stop's signal"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

/* ---- two ranks of a node ---- */

/* The second generation is there when both guards know each other. */
static int sleeps_when_both_are_there(int out)
{
    if (task_generation == 0 && task_facts->rank == 1)
        return 3;
    if (task_generation > 0)
        (void)!write(out, "both\n", 5);
    for (;;)
        pause();
    return 0;
}

/* Slurm's SIGTERM is a stop after heed_s; 0: never. One of the two is to be killed, and this process takes in its
 * program. */
static void start_both(struct task t[2], double heed_s, char *text, size_t size)
{
    char token[GUARDS_TOKEN_LEN + 1];
    ddp_error_t e;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* else kill_with_program waits for ever */
    assert_int_equal(io_random_hex(token, GUARDS_TOKEN_LEN / 2, &e), 0);
    for (int i = 0; i < 2; i++) {
        struct guards_facts f = facts_of(0);
        f.rank = f.local_rank = i;
        f.size = f.local_size = 2;
        f.restarts = 1;
        f.silent_s = 3;
        f.heed_s = heed_s;
        strcpy(f.token, token);
        if (heed_s == 0)
            f.saves = false, f.stop.signal = 0;
        t[i] = start(&f, sleeps_when_both_are_there);
    }
    for (int i = 0; i < 2; i++) {
        text[0] = 0;
        assert_int_equal(read_until(t[1 - i], "both\n", text, size), 0);
    }
}

/* It holds its guard's connections: no exec has closed them. */
static void kill_with_program(struct task t)
{
    kill(t.pid, SIGKILL);
    end(t);
    assert_true(waitpid(-1, NULL, 0) > 0);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void names_rank_1_and_stops_nobody(struct task t, char *text, size_t size)
{
    read_until(t, "never", text, size); /* to the end */
    int status = end(t);
    assert_non_null(strstr(text, "rank 1 (n1) was killed together with its guard"));
    assert_null(strstr(text, "ddp: stop: "));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Slurm ends the step because of that, and the guard that is left may look at both at once. */
static void who_was_killed_before_slurms_signal_is_named(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        int status;
        start_both(t, 3600 * i, text, sizeof text);
        kill(t[0].pid, SIGSTOP);
        assert_int_equal(waitpid(t[0].pid, &status, WUNTRACED), t[0].pid);
        kill_with_program(t[1]);
        kill(t[0].pid, SIGTERM);
        kill(t[0].pid, SIGCONT);
        names_rank_1_and_stops_nobody(t[0], text, sizeof text);
    }
}

/* As on other nodes, where the signal may be there before the word that a guard has gone. */
static void slurms_signal_is_no_stop_where_a_loss_is_heard_behind_it(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    start_both(t, 3600, text, sizeof text);
    kill(t[0].pid, SIGTERM);
    kill_with_program(t[1]);
    names_rank_1_and_stops_nobody(t[0], text, sizeof text);
}

static void nor_where_the_step_ends_by_a_death(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    start_both(t, 0.1, text, sizeof text);
    kill_with_program(t[1]);
    assert_int_equal(read_until(t[0], "the step ends\n", text, sizeof text), 0);
    kill(t[0].pid, SIGTERM);
    names_rank_1_and_stops_nobody(t[0], text, sizeof text);
}

/* ---- a requeue ---- */

static void who_has_saved_is_requeued(void **state)
{
    char text[512] = "", asked[256];
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol(JOB, 1);
    for (int is_caught = 0; is_caught < 2; is_caught++) {
        struct task t = start(&f, is_caught ? catches : sleeps);
        text[0] = 0;
        assert_int_equal(read_until(t, "r", text, sizeof text), 0);
        kill(t.pid, SIGUSR1);
        assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
        if (is_caught)
            kill(t.pid, SIGHUP);
        int status = end(t);
        if (is_caught) /* who is asked to end by SIGHUP is not waited for */
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    }
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "-o show job 12\nrequeue 12\n");
}

static int saves(int out)
{
    (void)out;
    return 75;
}

static void a_step_by_hand_is_told_how_to_go_on(void **state)
{
    char text[1024] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol("echo JobId=12 UserId=u BatchFlag=0 JobState=RUNNING\n", 0);
    struct task t = start(&f, saves);
    assert_int_equal(read_until(t, "'a b'\n", text, sizeof text), 0);
    assert_non_null(strstr(text, "an interactive one; to go on: srun --ddp=on,stop=USR1 "));
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

/* By the kernel, where memory is short. */
static void a_requeue_whose_child_is_killed_is_missed(void **state)
{
    char text[1024] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol("kill -9 $PPID\n", 0);
    struct task t = start(&f, saves);
    assert_int_equal(read_until(t, "not requeued: who was to ask for it was killed", text, sizeof text), 0);
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_key_is_strict),
    cmocka_unit_test(it_comes_once_and_in_slurms_place),
    WITH_FOLDER(one_before_a_restart_is_the_end),
    cmocka_unit_test(who_does_not_catch_it_has_not_failed),
    cmocka_unit_test(who_was_killed_before_slurms_signal_is_named),
    cmocka_unit_test(slurms_signal_is_no_stop_where_a_loss_is_heard_behind_it),
    cmocka_unit_test(nor_where_the_step_ends_by_a_death),
    WITH_FOLDER(who_has_saved_is_requeued),
    WITH_FOLDER(a_step_by_hand_is_told_how_to_go_on),
    WITH_FOLDER(a_requeue_whose_child_is_killed_is_missed),
};

UNIT_MAIN(tests)
