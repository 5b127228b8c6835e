/* A step that Slurm suspends: SIGTSTP, two seconds later SIGSTOP for all, and SIGCONT. */
#include "t/unit/spank/guard_task.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/guard/guard.h"

#define STEP_US 2000000 /* between the two signals; this much time must pass: it is what is tested */

static int stands_still_once(int out, void *arg)
{
    (void)arg;
    (void)!write(out, "r", 1);
    raise(SIGSTOP);
    return 7;
}

/* SIGCONT finds the program to have stood still for more than GUARD_HALT_S, and the guard for less than it would take
 * itself for stopped. */
static void a_short_one_is_not_told(void **state)
{
    char c, line[256] = "";
    int err;
    (void)state;
    struct task t = task_start_heard(stands_still_once, NULL, &err);
    task_read(t, &c, 1);
    task_wait_state(task_child(t), 'T');
    usleep(STEP_US);
    kill(t.pid, SIGSTOP);
    usleep(1300000);
    kill(t.pid, SIGCONT);
    int status = task_end(t);
    assert_true(read(err, line, sizeof line - 1) > 0); /* of its end */
    close(err);
    assert_null(strstr(line, "stopped"));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int fails_beside_one_that_saves_long(int out, void *arg)
{
    (void)arg;
    sigset_t term = task_blocks_term();
    int signo;
    if (task_generation > 0)
        return 0;
    if (fork() > 0)
        return 3;
    alarm(40); /* if nobody tells it */
    sigwait(&term, &signo);
    (void)!write(out, "t", 1);
    for (int i = 0; i < 30; i++) /* not one wait, which would go on while it stands still */
        usleep(100000);
    (void)!write(out, "s", 1);
    return 0;
}

/* SIGCONT comes when SIGKILL would have been due. */
static void it_is_no_time_to_save(void **state)
{
    char c;
    (void)state;
    task_facts = &task_again;
    struct task t = task_start(fails_beside_one_that_saves_long, NULL);
    task_facts = &task_alone;
    task_read(t, &c, 1);
    kill(t.pid, SIGTSTP);
    usleep(STEP_US);
    kill(-t.pid, SIGSTOP);
    usleep(GUARD_AGAIN_KILL_S * 1000000 - 1000000);
    kill(-t.pid, SIGCONT);
    task_read(t, &c, 1);
    assert_int_equal(c, 's');
    int status = task_end(t);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_short_one_is_not_told),
    cmocka_unit_test(it_is_no_time_to_save),
};

UNIT_MAIN(tests)
