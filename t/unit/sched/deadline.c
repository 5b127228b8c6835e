/* The job's end, against a scontrol of our own in PATH. */
#include "t/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/sched/command.h"
#include "runtime/sched/deadline.h"

static char folder[64], path[8192];

/* A line of Slurm 22.05, with the parts that matter; the job's name tries to be one of them. */
static const char line[] =
    "JobId=12555 JobName=a JobState=FAILED UserId=nobody(65534) GroupId=nogroup(65534) MCS_label=N/A "
    "Priority=4294901759 "
    "JobState=%s Reason=%s Dependency=(null) Requeue=1 Restarts=%d BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 "
    "TimeLimit=00:10:00 TimeMin=N/A StartTime=1795293314 EndTime=%s Deadline=N/A AllocNode:Sid=localhost:26624 "
    "ReqNodeList=(null) ExcNodeList=%s NodeList=n[1-2] BatchHost=n1 Command=/home/EndTime=7 \n";

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ddp-deadline.XXXXXX");
    const char *old = getenv("PATH");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s:%s", folder, old ? old : "/usr/bin:/bin");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char file[128];
    static const char *const names[] = {"scontrol", "asked", "pid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        unlink(file);
    }
    return rmdir(folder);
}

/* scontrol becomes a shell script; what it is called with is appended to `asked`. */
static void install(const char *script)
{
    char file[128];
    snprintf(file, sizeof file, "%s/scontrol", folder);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho \"$*\" >>%s/asked\n%s\n", folder, script);
    fclose(f);
    assert_int_equal(chmod(file, 0755), 0);
    setenv("PATH", path, 1);
}

static void in_job(const char *job)
{
    static const char *const others[] = {"SLURM_JOB_END_TIME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                                         "SLURM_RESTART_COUNT"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
    if (job)
        setenv("SLURM_JOB_ID", job, 1);
    else
        unsetenv("SLURM_JOB_ID");
}

static struct slurm_job parse(const char *state, const char *reason, int n_restarts, int own)
{
    char text[2048];
    struct slurm_job job;
    snprintf(text, sizeof text, line, state, reason, n_restarts, "1795293914", "n[3-4]");
    assert_int_equal(slurm_parse(text, own, &job, NULL), 0);
    return job;
}

static void what_scontrol_says_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *state, *reason;
        int n_restarts, own;
        enum slurm_state want;
    } cases[] = {
        {"RUNNING", "None", 0, 0, SLURM_RUNNING},       {"RUNNING", "None", 3, 3, SLURM_RUNNING},
        {"SUSPENDED", "None", 0, 0, SLURM_RUNNING},     {"COMPLETING", "None", 0, 0, SLURM_ENDING}, /* scancel */
        {"COMPLETING", "None", 1, 0, SLURM_REQUEUED},   {"COMPLETING", "None", 1, 1, SLURM_ENDING},
        {"PENDING", "BeginTime", 1, 0, SLURM_REQUEUED}, {"COMPLETING", "TimeLimit", 2, 2, SLURM_TIMED_OUT},
        {"TIMEOUT", "TimeLimit", 0, 0, SLURM_TIMED_OUT}, {"COMPLETING", "TimeLimit", 2, 1, SLURM_REQUEUED},
        {"CANCELLED", "None", 0, 0, SLURM_ENDING},      {"FAILED", "NonZeroExitCode", 0, 0, SLURM_ENDING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_job job = parse(cases[i].state, cases[i].reason, cases[i].n_restarts, cases[i].own);
        if (job.state != cases[i].want)
            fail_msg("%s %s %d: %d", cases[i].state, cases[i].reason, cases[i].n_restarts, (int)job.state);
        assert_true(job.is_batch && job.may_requeue);
        assert_int_equal(job.end_s, 1795293914);
        assert_string_equal(job.excluded, "n[3-4]");
    }
    struct slurm_job job;
    ddp_error_t e;
    char text[2048];
    snprintf(text, sizeof text, line, "RUNNING", "None", 0, "Unknown", "(null)");
    assert_int_equal(slurm_parse(text, 0, &job, NULL), 0);
    assert_int_equal(job.end_s, 0);
    assert_string_equal(job.excluded, "");
    assert_int_equal(job.suspended_s, 0);
    snprintf(text, sizeof text, "JobState=RUNNING StartTime=1000 SuspendTime=None SecsPreSuspend=0");
    assert_int_equal(slurm_parse(text, 0, &job, NULL), 0);
    assert_int_equal(job.suspended_s, 0);
    snprintf(text, sizeof text, "JobState=RUNNING StartTime=1000 SuspendTime=1080 SecsPreSuspend=10");
    assert_int_equal(slurm_parse(text, 0, &job, NULL), 0);
    assert_int_equal(job.suspended_s, 70);
    assert_int_equal(slurm_parse("JobState=RUNNING NoBatchFlag=1 BatchFlag=0 Requeue=0", 0, &job, NULL), 0);
    assert_int_equal(job.suspended_s, 0);
    assert_false(job.is_batch || job.may_requeue);
    assert_int_equal(slurm_parse("slurm_load_jobs error", 0, &job, &e), -1);
    assert_error_has(e, "slurm_load_jobs error");
}

static void a_job_has_its_own_number(void **state)
{
    (void)state;
    char id[SLURM_ID_MAX + 1];
    in_job(NULL);
    assert_false(slurm_job_id(id));
    in_job("0");
    assert_false(slurm_job_id(id));
    in_job("x");
    assert_false(slurm_job_id(id));
    in_job("77");
    assert_true(slurm_job_id(id));
    assert_string_equal(id, "77");
    setenv("SLURM_ARRAY_JOB_ID", "70", 1);
    setenv("SLURM_ARRAY_TASK_ID", "7", 1);
    assert_true(slurm_job_id(id));
    assert_string_equal(id, "70_7");
    assert_int_equal(slurm_restarts(), 0);
    setenv("SLURM_RESTART_COUNT", "4", 1);
    assert_int_equal(slurm_restarts(), 4);
}

static int run(const char *argument, double seconds, char *out, size_t size, ddp_error_t *e)
{
    return command_run((const char *const[]){"scontrol", argument, NULL}, deadline_in(seconds), -1, out, size, e);
}

static void commands_end_when_they_should(void **state)
{
    (void)state;
    char out[64];
    ddp_error_t e;
    install("echo \"$1 $SLURM_TIME_FORMAT\"; head -c 100000 /dev/zero | tr '\\0' x");
    setenv("SLURM_TIME_FORMAT", "relative", 1);
    signal(SIGQUIT, SIG_IGN); /* not for it */
    assert_int_equal(run("a b;c", 30, out, sizeof out, &e), 0);
    out[9] = 0;
    assert_string_equal(out, "a b;c %s\n");
    assert_int_equal(strlen(out + 10), sizeof out - 11); /* as much as fits, and no more */
    install("kill -QUIT $$; exit 0");
    assert_int_equal(run("", 30, out, sizeof out, &e), -1);
    assert_error_has(e, "killed by signal 3");
    signal(SIGQUIT, SIG_DFL);
    install("for s in HUP INT TERM USR1 USR2; do kill -$s $$; done; exit 0"); /* the job ends, while it asks */
    assert_int_equal(run("", 30, out, sizeof out, &e), 0);
    install("echo first; echo 'the last word' >&2; exit 3");
    assert_int_equal(run("", 30, out, sizeof out, &e), -1);
    assert_error_has(e, "scontrol: exit code 3: the last word");
    install("sleep 2 & exit 0"); /* a child of its own keeps the pipe */
    assert_int_equal(run("", 30, out, sizeof out, &e), 0);
    install("trap '' TERM; exec sleep 1000");
    assert_int_equal(run("", 0.2, out, sizeof out, &e), -1);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(run("", 30, out, sizeof out, &e), -1);
    assert_int_equal(e.code, ENOENT);
    unsetenv("SLURM_TIME_FORMAT");
}

static double await_answer(struct deadline *d)
{
    uint64_t until = deadline_in(30);
    struct timespec tick = {.tv_nsec = 1000000};
    double end = deadline_end_s(d);
    while (d->has_thread) {
        assert_true(deadline_left_ns(until) > 0);
        nanosleep(&tick, NULL);
        end = deadline_end_s(d);
    }
    return end;
}

static double await_again(struct deadline *d)
{
    deadline_end_s(d);
    assert_true(d->has_thread);
    return await_answer(d);
}

static double now_s(void)
{
    return (double)clock_ns() / 1e9;
}

/* scontrol answers with an end in so many seconds. */
static void install_end(int in_s)
{
    char text[2048], end[32], script[4096];
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + in_s);
    snprintf(text, sizeof text, line, "RUNNING", "None", 0, end, "(null)");
    snprintf(script, sizeof script, "echo '%s'", text);
    install(script);
}

static void outside_a_job_there_is_no_end(void **state)
{
    (void)state;
    struct deadline d = {0};
    deadline_close(&d);
    in_job(NULL);
    install_end(100);
    deadline_open(&d);
    assert_false(d.has_thread);
    deadline_ask(&d);
    assert_false(d.has_thread);
    assert_true(deadline_end_s(&d) == DEADLINE_NONE);
    deadline_close(&d);
}

static void the_environment_is_believed_first(void **state)
{
    (void)state;
    struct deadline d;
    char end[32];
    in_job("5");
    install_end(5000);
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + 1000);
    setenv("SLURM_JOB_END_TIME", end, 1);
    deadline_open(&d);
    assert_false(d.has_thread);
    assert_true(fabs(deadline_end_s(&d) - now_s() - 1000) < 5);
    deadline_ask(&d); /* and was extended since */
    assert_true(fabs(await_answer(&d) - now_s() - 5000) < 5);
    deadline_close(&d);
}

static void an_answer_is_waited_for(void **state)
{
    (void)state;
    struct deadline d = {0};
    assert_false(deadline_await(&d, deadline_in(30)));
    in_job("5");
    install_end(300);
    deadline_open(&d);
    assert_true(deadline_await(&d, deadline_in(30)));
    assert_true(fabs(deadline_end_s(&d) - now_s() - 300) < 5);
    assert_false(deadline_await(&d, deadline_in(30))); /* nothing is asked */
    install("exec sleep 1000");
    deadline_ask(&d);
    assert_false(deadline_await(&d, deadline_in(0.1)));
    assert_true(fabs(deadline_end_s(&d) - now_s() - 300) < 5);
    deadline_close(&d);
}

static void else_the_controller_is_asked(void **state)
{
    (void)state;
    struct deadline d;
    in_job("5");
    install_end(300);
    deadline_open(&d);
    assert_true(fabs(await_answer(&d) - now_s() - 300) < 5);
    assert_string_equal(d.warning, "");
    install("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    deadline_ask(&d);
    assert_true(fabs(await_answer(&d) - now_s() - 300) < 5); /* what was known stays */
    assert_non_null(strstr(d.warning, "Unable to contact"));
    deadline_close(&d);
    deadline_open(&d);
    assert_true(await_answer(&d) == DEADLINE_NONE);
    assert_true(deadline_left_ns(d.again_at) > 0);
    install_end(300);
    d.again_at = 1; /* it is time */
    assert_true(fabs(await_again(&d) - now_s() - 300) < 5);
    assert_string_equal(d.warning, "");
    deadline_close(&d);
    install("printf 'JobState=RUNNING EndTime=Unknown'");
    deadline_open(&d);
    assert_true(await_answer(&d) == DEADLINE_NONE);
    deadline_close(&d);
    setenv("PATH", "/nowhere", 1);
    deadline_open(&d);
    assert_true(await_answer(&d) == DEADLINE_NONE);
    assert_non_null(strstr(d.warning, "no such program"));
    assert_int_equal(d.again_at, 0); /* there is nobody to ask */
    deadline_close(&d);
}

/* A controller that does not answer holds up nothing, not even the end. */
static void silence_holds_up_nothing(void **state)
{
    (void)state;
    struct deadline d;
    in_job("5");
    install("exec sleep 1000");
    uint64_t began = clock_ns();
    deadline_open(&d);
    assert_true(d.has_thread);
    assert_true(deadline_end_s(&d) == DEADLINE_NONE);
    deadline_close(&d);
    assert_true(clock_ns() - began < (uint64_t)(DEADLINE_ASK_S / 2 * 1e9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_scontrol_says_is_understood),
        cmocka_unit_test(a_job_has_its_own_number),
        cmocka_unit_test(commands_end_when_they_should),
        cmocka_unit_test(outside_a_job_there_is_no_end),
        cmocka_unit_test(the_environment_is_believed_first),
        cmocka_unit_test(an_answer_is_waited_for),
        cmocka_unit_test(else_the_controller_is_asked),
        cmocka_unit_test(silence_holds_up_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
