/* What comes after a program's end: that it is seen, a requeue, a restart, none; what it has left behind. The task is
 * a child of this test, as it is one of slurmstepd's. (t/t1014 and t/t1016 have Slurm's.) */
#include "config.h"
#include "t/unit/spank/guard_task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"

/* The guard has guards only when the program has ended. */
static bool is_slow, is_asked_late, is_without;
guards_t *__real_guards_open(const struct guards_facts *f);
guards_t *__wrap_guards_open(const struct guards_facts *f);

/* From outside the task. */
static void be_asked_to_stop(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        _exit(kill(getppid(), SIGUSR1));
    }
    waitpid(pid, NULL, 0);
}

guards_t *__wrap_guards_open(const struct guards_facts *f)
{
    siginfo_t info;
    if (is_slow)
        waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    if (is_asked_late)
        be_asked_to_stop();
    is_slow = is_asked_late = false;
    errno = EMFILE;
    return is_without ? NULL : __real_guards_open(f);
}

static void an_end_before_the_guard_looks_is_seen(void **state)
{
    int code = 75, status; /* no failure, whose timer would wake the guard */
    (void)state;
    is_slow = true;
    struct task t = task_start(task_exits, &code);
    is_slow = false;
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, t.pid, 0), .events = POLLIN};
    bool has_ended = poll(&p, 1, 20000) == 1;
    close(p.fd);
    kill(t.pid, SIGKILL);
    status = task_end(t);
    assert_true(has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 75);
}

/* As libddp's. */
static int boots(int out, void *arg)
{
    char name[DOOR_NAME_MAX];
    ddp_error_t e = {0};
    (void)arg;
    setenv(DOOR_VARIABLE, door_name(task_facts->token, DOOR_OF_RANK, task_facts->rank, name), 1);
    setenv("DDP_BOOT", "guard", 1);
    boot_t *b = boot_open(deadline_in(20), &e);
    (void)!write(out, &e, sizeof e);
    return b ? 0 : 3;
}

/* Else it would wait until its deadline for rank 0's card, which nobody brings. The user hears it, too. */
static void a_program_hears_that_its_guard_is_alone(void **state)
{
    struct guards_facts whole = task_again;
    ddp_error_t e;
    char said[400] = "";
    int err;
    (void)state;
    whole.is_whole = is_without = true;
    task_facts = &whole;
    struct task t = task_start_heard(boots, NULL, &err);
    is_without = false;
    task_read(t, &e, sizeof e);
    int status = task_end(t);
    task_facts = &task_alone;
    (void)!read(err, said, sizeof said - 1);
    close(err);
    assert_non_null(strstr(said, "ddp: warning: rank 0: its guard cannot hear the others (ulimit -n, ulimit -v)"));
    assert_error_has(e, "the guard of rank 0 (n1) cannot hear the others (ulimit -n, ulimit -v): Too many open files");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* All have saved, and no event comes any more that would make it see to the requeue; there is no scontrol here. */
static void what_follows_such_an_end_is_done(void **state)
{
    static char path[] = "PATH=/nowhere", job[] = "SLURM_JOB_ID=12", *environment[] = {path, job, NULL};
    struct guards_facts saves = task_again;
    int code = 75;
    (void)state;
    saves.restarts = 0;
    saves.stop_code = 75;
    saves.saves = saves.requeues = true;
    saves.env = environment;
    task_facts = &saves;
    is_slow = true;
    struct task t = task_start(task_exits, &code);
    is_slow = false;
    task_facts = &task_alone;
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, t.pid, 0), .events = POLLIN};
    bool has_ended = poll(&p, 1, 20000) == 1;
    close(p.fd);
    kill(t.pid, SIGKILL);
    int status = task_end(t);
    assert_true(has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 75);
}

/* In its first generation, and in the second, it leaves a process behind and dies. */
static int is_restarted(int out, void *arg)
{
    char c = (char)task_generation;
    if (task_generation == 2)
        return task_shows_state(out, arg) + 5;
    pid_t left = fork();
    if (left == 0)
        for (;;)
            pause();
    (void)!write(out, &c, 1);
    (void)!write(out, &left, sizeof left);
    raise(SIGKILL);
    return 0;
}

static void a_program_that_dies_is_started_again(void **state)
{
    pid_t left[2];
    char c;
    bool is_same;
    unsigned char fds[256], had[256] = {0};
    sigset_t one;
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    sigprocmask(SIG_BLOCK, &one, NULL);
    for (int fd = 3; fd < 256; fd++)
        had[fd] = fcntl(fd, F_GETFD) >= 0;
    task_facts = &task_again;
    task_ignores_children = true;
    struct task t = task_start(is_restarted, NULL);
    for (int i = 0; i < 2; i++) {
        task_read(t, &c, 1);
        assert_int_equal(c, i);
        task_read(t, &left[i], sizeof left[i]);
    }
    task_read(t, &is_same, 1);
    task_read(t, fds, sizeof fds);
    bool is_left = false;
    for (int i = 0; i < 2; i++)
        is_left |= kill(left[i], SIGKILL) == 0;
    int status = task_end(t);
    assert_false(is_left);
    task_facts = &task_alone;
    task_ignores_children = false;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5); /* there is no third restart */
    assert_true(is_same);
    for (int fd = 3; fd < 256; fd++)
        if (fds[fd])
            assert_true(had[fd]);
}

/* slurmstepd's: the program's stdin with its other end, and a log. */
struct stepd {
    int in, other_end, log;
};

static int reads_what_is_left(int out, void *arg)
{
    const struct stepd *s = arg;
    struct pollfd p = {.fd = s->in, .events = POLLIN};
    char got[2] = "";
    ssize_t n = 1;
    if (task_generation == 0)
        return read(s->in, got, 1) == 1 ? 3 : 0;
    for (int i = 0; i < 2 && n == 1; i++)
        n = poll(&p, 1, 20000) == 1 ? read(s->in, &got[i], 1) : -1;
    bool is_whole[] = {got[0] == 'y', n == 0, write(s->log, "l", 1) == 1, fcntl(s->other_end, F_GETFD) == FD_CLOEXEC};
    (void)!write(out, is_whole, sizeof is_whole);
    return 0;
}

static void its_stdin_ends_where_slurmstepd_ends_it(void **state)
{
    int in[2];
    bool is_whole[4];
    struct stat log;
    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    struct stepd s = {.in = dup(in[0]), .other_end = in[1], .log = memfd_create("log", MFD_CLOEXEC)};
    assert_int_equal(write(in[1], "xy", 2), 2);
    task_facts = &task_again;
    struct task t = task_start(reads_what_is_left, &s);
    task_facts = &task_alone;
    close(in[1]);
    task_read(t, is_whole, sizeof is_whole);
    assert_int_equal(task_end(t), 0);
    for (int i = 0; i < 4; i++)
        assert_true(is_whole[i]);
    assert_int_equal(fstat(s.log, &log), 0);
    assert_int_equal(log.st_size, 1);
    close(in[0]);
    close(s.in);
    close(s.log);
}

static int leaves_one_at_once(int out, void *arg)
{
    (void)arg;
    pid_t left = task_generation == 0 ? fork() : -1;
    if (left == 0)
        for (;;)
            pause();
    if (left > 0)
        (void)!write(out, &left, sizeof left);
    return task_generation == 0 ? 3 : 0;
}

static void what_it_left_before_the_guard_looks_is_ended(void **state)
{
    pid_t left;
    (void)state;
    task_facts = &task_again;
    is_slow = true;
    struct task t = task_start(leaves_one_at_once, NULL);
    task_facts = &task_alone;
    is_slow = false;
    task_read(t, &left, sizeof left);
    int status = task_end(t), is_left = kill(left, 0) == 0;
    if (is_left)
        kill(left, SIGKILL);
    assert_false(is_left);
    assert_int_equal(status, 0);
}

/* The end that somebody asked for is the end. */
static int ends_in_time(int out, void *arg)
{
    char c = (char)task_generation;
    (void)!write(out, &c, 1);
    return task_counts(out, arg);
}

static void a_step_that_is_asked_to_end_is_not_started_again(void **state)
{
    char c, ready;
    (void)state;
    task_facts = &task_again;
    struct task t = task_start(ends_in_time, NULL);
    task_read(t, &c, 1);
    task_read(t, &ready, 1);
    kill(t.pid, SIGHUP);
    task_read(t, &ready, 1);
    kill(t.pid, SIGTERM);
    int status = task_end(t);
    task_facts = &task_alone;
    assert_int_equal(c, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* It has no handler. */
static int sleeps_or_dies(int out, void *arg)
{
    const int *dies = arg;
    if (task_generation == 0)
        (void)!write(out, "r", 1);
    if (task_generation < *dies)
        return 3;
    poll(NULL, 0, task_generation == 2 ? 0 : 20000);
    return 0;
}

static void a_stop_that_finds_no_handler_is_the_end(void **state)
{
    int dies = 0;
    char ready;
    (void)state;
    task_facts = &task_again;
    struct task t = task_start(sleeps_or_dies, &dies);
    task_read(t, &ready, 1);
    kill(t.pid, SIGUSR1);
    int status = task_end(t);
    task_facts = &task_alone;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

static void a_stop_that_finds_no_program_is_the_nexts(void **state)
{
    int dies = 1;
    char ready;
    (void)state;
    task_facts = &task_again;
    is_slow = is_asked_late = true;
    struct task t = task_start(sleeps_or_dies, &dies);
    task_facts = &task_alone;
    is_slow = is_asked_late = false;
    task_read(t, &ready, 1);
    int status = task_end(t);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

static struct guards_facts of_node(int node)
{
    struct guards_facts f = task_on_node(node, 2);
    f.min_nodes = 1;
    return f;
}

/* The second generation is there when both guards know each other. */
static int counts_when_both_are_there(int out, void *arg)
{
    if (task_generation == 0 && task_facts->rank == 1)
        return 3;
    while (task_generation == 0)
        pause();
    return task_counts(out, arg);
}

#define HAS_NO_RIGHT 96

/* As the first process of a machine, which goes down, or of a job's PID namespace on one that does: then the signal
 * comes from outside when the guards are there (outside: a pipe to there; -1: none). What comes of a guard is the exit
 * code. */
static _Noreturn void be_init(int outside)
{
    struct task t[2];
    int status;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(HAS_NO_RIGHT);
    if (!task_draw_ports(2))
        _exit(98);
    for (int i = 0; i < 2; i++) {
        struct guards_facts f = of_node(i);
        task_facts = &f;
        t[i] = task_start(counts_when_both_are_there, NULL);
    }
    for (int i = 0; i < 2; i++) {
        char ready;
        task_read(t[i], &ready, 1);
    }
    if (outside < 0)
        kill(t[1].pid, SIGTERM);
    else
        (void)!write(outside, "r", 1);
    while (waitpid(t[1].pid, &status, 0) < 0)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 97);
}

/* The number that the second of its children has here. */
static pid_t second_child_of(pid_t pid)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%*d %d", &child) != 1)
        child = 0;
    if (f)
        fclose(f);
    return child;
}

static _Noreturn void be_outside(bool is_from_outside)
{
    int fd[2], status;
    char ready;
    if (unshare(CLONE_NEWPID) < 0 || pipe2(fd, O_CLOEXEC) < 0)
        _exit(HAS_NO_RIGHT);
    pid_t init = fork();
    if (init == 0)
        be_init(is_from_outside ? fd[1] : -1);
    close(fd[1]);
    if (is_from_outside) {
        pid_t guard = read(fd[0], &ready, 1) == 1 ? second_child_of(init) : 0;
        kill(guard ? guard : init, guard ? SIGTERM : SIGKILL);
    }
    waitpid(init, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

/* Where others go on without it: not as one that was asked to end. */
static void it_is_lost_with_its_node(void **state)
{
    (void)state;
    unit_needs(geteuid() == 0, "root's rights"); /* it takes a process namespace */
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            be_outside(i == 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == HAS_NO_RIGHT)
            skip();
        assert_int_equal(WEXITSTATUS(status), 1);
    }
}

/* A shell over a program that saves: by SIGTERM to it alone the shell ends, and the other one goes on. */
static int shell(int out, void *arg)
{
    (void)arg;
    sigset_t term = task_blocks_term();
    int signo;
    if (fork() == 0) {
        alarm(20); /* before SIGKILL, if nobody tells it */
        (void)!write(out, "r", 1);
        sigwait(&term, &signo);
        (void)!write(out, "s", 1);
        _exit(0);
    }
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    for (;;)
        pause();
}

/* proctrack/cgroup gives Slurm's SIGTERM to the guard, and to nothing below. */
static void what_a_shell_has_left_hears_of_slurms_end(void **state)
{
    struct guards_facts f[2] = {task_again, task_again};
    char said[400] = "", c;
    int err, code = 3;
    (void)state;
    for (int i = 0; i < 2; i++) {
        f[i].rank = f[i].local_rank = i;
        f[i].size = f[i].local_size = 2;
        f[i].restarts = 0;
    }
    task_facts = &f[0];
    struct task t = task_start_heard(shell, NULL, &err);
    task_read(t, &c, 1);
    task_facts = &f[1];
    struct task fails = task_start(task_exits, &code);
    task_facts = &task_alone;
    assert_true(read(err, said, sizeof said - 1) > 0); /* the verdict */
    assert_non_null(strstr(said, "rank 1 (n1) exited with code 3"));
    kill(t.pid, SIGTERM);
    task_read(t, &c, 1);
    assert_int_equal(c, 's');
    task_end(fails);
    task_end(t);
    close(err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_program_hears_that_its_guard_is_alone),
    cmocka_unit_test(an_end_before_the_guard_looks_is_seen),
    cmocka_unit_test(what_follows_such_an_end_is_done),
    cmocka_unit_test(a_program_that_dies_is_started_again),
    cmocka_unit_test(its_stdin_ends_where_slurmstepd_ends_it),
    cmocka_unit_test(what_it_left_before_the_guard_looks_is_ended),
    cmocka_unit_test(a_step_that_is_asked_to_end_is_not_started_again),
    cmocka_unit_test(a_stop_that_finds_no_handler_is_the_end),
    cmocka_unit_test(a_stop_that_finds_no_program_is_the_nexts),
    cmocka_unit_test(it_is_lost_with_its_node),
    cmocka_unit_test(what_a_shell_has_left_hears_of_slurms_end),
};

UNIT_MAIN(tests)
