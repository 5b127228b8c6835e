/* The guard beside a program: how it ends, what it passes on, what it leaves alone. The task is a child of this test,
 * as it is one of slurmstepd's. (t/t1012 has Slurm's.) */
#include "config.h"
#include "t/unit/spank/guard_task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guard/guard.h"
#include "spank/guard/process.h"

/* The guard's end is its program's: nothing of it holds the pipe. */
static void wait_closed(struct task t)
{
    struct pollfd p = {.fd = t.in, .events = POLLIN};
    char c;
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(read(t.in, &c, 1), 0);
}

static int dies(int out, void *arg)
{
    struct rlimit none = {0, 0};
    (void)out;
    setrlimit(RLIMIT_CORE, &none);
    signal(*(int *)arg, SIG_DFL);
    raise(*(int *)arg);
    return 98;
}

static void it_ends_as_the_program_does(void **state)
{
    static const int codes[] = {0, 1, 3, 75, 255};
    const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGTERM, SIGINT, SIGRTMIN};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        int code = codes[i], status = task_end(task_start(task_exits, &code));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), code);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int signo = signals[i], status = task_end(task_start(dies, &signo));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signo);
    }
}

/* No process is to be had: the task is as it was, and goes on alone. */
static bool has_no_fork;
static int forks_left = -1; /* of this process and those that it forks; negative: as many as it likes */
pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    errno = EAGAIN;
    if (has_no_fork || forks_left == 0)
        return -1;
    forks_left -= forks_left > 0;
    return __real_fork();
}

/* How many processes the kernel has killed for want of memory, and whether the guard has looked before. */
static struct {
    _Atomic uint64_t kills;
    atomic_bool is_known;
} *memory;
uint64_t __wrap_cgroup_memory_kills(const char *root);

uint64_t __wrap_cgroup_memory_kills(const char *root)
{
    (void)root;
    uint64_t kills = memory ? memory->kills : 0;
    if (memory)
        memory->is_known = true;
    return kills;
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void without_a_process_the_task_is_as_it_was(void **state)
{
    ddp_error_t e = {0};
    struct seat seat;
    sigset_t before, after;
    int n = count_fds();
    (void)state;
    sigprocmask(SIG_BLOCK, NULL, &before);
    has_no_fork = true;
    int rc = guard_start(&task_alone, &seat, &e);
    has_no_fork = false;
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(rc, -1);
    assert_false(task_takes_orphans());
    assert_error_has(e, "guard: no process beside the program: Resource temporarily unavailable");
    assert_int_equal(count_fds(), n);
    for (int signo = 1; signo < 32; signo++)
        assert_int_equal(sigismember(&after, signo), sigismember(&before, signo));
}

static void signals_are_passed_on_once(void **state)
{
    static const int sent[] = {SIGUSR1, SIGHUP, SIGTSTP, SIGWINCH, SIGUSR1};
    (void)state;
    task_ignores_hangup = true; /* as nohup does; it is the program's to decide */
    struct task t = task_start(task_counts, NULL);
    task_ignores_hangup = false;
    char got;
    task_read(t, &got, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kill(t.pid, sent[i]), 0);
        task_read(t, &got, 1);
        assert_int_equal(got, sent[i]);
    }
    kill(t.pid, SIGTERM);
    int status = task_end(t);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

/* What the program has of the task: signal mask, the dispositions, descriptors. */
static void the_program_finds_all_as_it_was(void **state)
{
    sigset_t one;
    bool is_same;
    unsigned char fds[256], had[256] = {0};
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    sigprocmask(SIG_BLOCK, &one, NULL);
    task_ignores_children = true;
    for (int fd = 3; fd < 256; fd++)
        had[fd] = fcntl(fd, F_GETFD) >= 0;
    struct task t = task_start(task_shows_state, NULL);
    task_read(t, &is_same, 1);
    task_read(t, fds, sizeof fds);
    task_ignores_children = false;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    task_end(t);
    assert_true(is_same);
    for (int fd = 3; fd < 256; fd++)
        if (fds[fd])
            assert_true(had[fd]);
}

/* A grandchild whose parent has gone: who takes it in, and whether anything is left of it. */
static int leaves_an_orphan(int out, void *arg)
{
    int wait_fd[2];
    (void)arg;
    if (pipe(wait_fd) < 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        if (fork() > 0)
            _exit(0);
        char c;
        (void)!read(wait_fd[0], &c, 1); /* until its parent has been reaped */
        pid_t pids[2] = {getpid(), getppid()};
        (void)!write(out, pids, sizeof pids);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    (void)!write(wait_fd[1], "g", 1);
    pause();
    return 0;
}

static void orphans_are_taken_in_and_reaped(void **state)
{
    pid_t pids[2];
    char path[64];
    (void)state;
    struct task t = task_start(leaves_an_orphan, NULL);
    task_read(t, pids, sizeof pids);
    assert_int_equal(pids[1], t.pid);
    snprintf(path, sizeof path, "/proc/%d", (int)pids[0]);
    for (uint64_t until = deadline_in(20); access(path, F_OK) == 0;)
        assert_true(deadline_left_ns(until) > 0);
    kill(t.pid, SIGTERM);
    int status = task_end(t);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void what_the_program_has_started_gets_the_signal_too(void **state)
{
    int fd[2];
    char c;
    (void)state;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid_t shell = fork();
    if (shell == 0) {
        if (fork() == 0 && fork() >= 0) /* two more, of which one is the other's */
            (void)!write(fd[1], "r", 1);
        for (;;)
            pause();
    }
    close(fd[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(fd[0], &c, 1), 1);
    process_signal_tree(shell, SIGTERM);
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(read(fd[0], &c, 1), 0); /* nobody holds the pipe */
    close(fd[0]);
    waitpid(shell, NULL, 0);
}

static int fails_beside_what_it_has_started(int out, void *arg)
{
    int fd[2];
    char c[2];
    (void)out;
    (void)arg;
    if (pipe(fd) == 0 && fork() == 0) {
        if (fork() > 0)
            setsid();
        alarm(40); /* if nobody ends them */
        (void)!write(fd[1], "r", 1); /* two, of which one is the other's */
        for (;;)
            pause();
    }
    for (int i = 0; i < 2; i++)
        (void)!read(fd[0], c, 1);
    return 3;
}

static void nothing_is_left_of_a_program_that_failed(void **state)
{
    (void)state;
    struct task t = task_start(fails_beside_what_it_has_started, NULL);
    wait_closed(t);
    int status = task_end(t);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static int fails_beside_one_that_saves(int out, void *arg)
{
    (void)arg;
    sigset_t term = task_blocks_term();
    int signo;
    if (fork() > 0)
        return 3;
    alarm(40); /* if nobody tells it */
    sigwait(&term, &signo);
    (void)!write(out, "s", 1);
    return 0;
}

static void what_a_program_that_failed_has_left_may_save(void **state)
{
    char c;
    (void)state;
    struct task t = task_start(fails_beside_one_that_saves, NULL);
    task_read(t, &c, 1);
    int status = task_end(t);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static int waits(int out, void *arg)
{
    (void)arg;
    (void)!write(out, "r", 1);
    for (;;)
        pause();
    return 0;
}

static void a_guard_that_is_killed_takes_the_program_along(void **state)
{
    char c;
    (void)state;
    struct task t = task_start(waits, NULL);
    task_read(t, &c, 1);
    kill(t.pid, SIGKILL);
    wait_closed(t);
    task_end(t);
}

/* The guard's parent, as slurmstepd is, dies. */
static void without_slurmstepd_both_end(void **state)
{
    int out[2];
    char c;
    (void)state;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t stepd = fork();
    if (stepd == 0) {
        if (fork() == 0) {
            ddp_error_t e;
            struct seat seat;
            close(out[0]);
            _exit(guard_start(&task_alone, &seat, &e) < 0 ? 99 : waits(out[1], NULL));
        }
        close(out[1]);
        for (;;)
            pause();
    }
    close(out[1]);
    struct task t = {.pid = stepd, .in = out[0]};
    task_read(t, &c, 1);
    kill(stepd, SIGKILL);
    wait_closed(t);
    task_end(t);
}

static int stops_itself(int out, void *arg)
{
    (void)arg;
    (void)!write(out, "r", 1);
    raise(SIGSTOP);
    (void)!write(out, "g", 1);
    raise(SIGSTOP);
    return 7;
}

/* Nor is there one for the next generation: the task ends, and says why. */
static void without_a_process_no_program_follows(void **state)
{
    static const char want[] = "ddp: rank 0 (n1): no process to start its program again: Resource temporarily ";
    char line[sizeof want] = "", c;
    int code = 3, err;
    (void)state;
    task_facts = &task_again;
    forks_left = 2; /* the task, the first program */
    struct task t = task_start_heard(task_exits, &code, &err);
    forks_left = -1;
    task_facts = &task_alone;
    do
        task_read((struct task){.in = err}, &c, 1); /* that it is started again */
    while (c != '\n');
    task_read((struct task){.in = err}, line, sizeof want - 1);
    assert_string_equal(line, want);
    int status = task_end(t);
    close(err);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* A line says so when it has stood still for a while, and its end is not for ever beyond SIGTERM. */
static void a_program_that_stands_still_is_named(void **state)
{
    static const char want[] = "ddp: warning: rank 3 (n2) has been stopped by signal 19 (";
    char line[sizeof want] = "", c;
    int err;
    (void)state;
    struct task t = task_start_heard(stops_itself, NULL, &err);
    task_read(t, &c, 1);
    pid_t program = task_child(t);
    task_wait_state(program, 'T');
    kill(program, SIGCONT); /* at once: nobody is told */
    task_read(t, &c, 1);
    task_wait_state(program, 'T');
    task_read((struct task){.in = err}, line, sizeof want - 1);
    assert_string_equal(line, want);
    process_signal_tree(program, SIGTERM);
    int status = task_end(t);
    close(err);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static int lacks_memory(int out, void *arg)
{
    (void)out;
    while (!memory->is_known)
        sched_yield();
    memory->kills++;
    return *(int *)arg;
}

/* What was killed before the program began is not its matter. */
static void an_end_for_want_of_memory_is_said(void **state)
{
    static const char *const want[] = {"ddp: rank 3 (n2) was killed: its control group is out of memory",
                                       "ddp: rank 3 (n2) exited with code 1 after ", "ddp: rank 3 (n2) exited with"};
    int code[] = {128 + SIGKILL, 1, 1}, err;
    (void)state;
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t i = 0; i < 3; i++) {
        char line[512] = "";
        memory->is_known = false;
        struct task t = task_start_heard(i < 2 ? lacks_memory : task_exits, &code[i], &err);
        task_end(t);
        assert_true(read(err, line, sizeof line - 1) > 0);
        close(err);
        if (strncmp(line, want[i], strlen(want[i])) || !strstr(line, "out of memory") != (i == 2))
            fail_msg("\"%s\"", line);
    }
    munmap(memory, sizeof *memory);
    memory = NULL;
}

/* What is the guard's own, beside what it shares with the task that it came from. KiB. */
static long private_of(pid_t guard)
{
    char path[64], line[256];
    long private = -1;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)guard);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "Private_Dirty: %ld", &private);
    fclose(f);
    assert_true(private >= 0);
    return private;
}

/* -1: it may not be seen. */
static int descriptors_of(pid_t guard)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)guard);
    DIR *d = opendir(path);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Null, null, stderr, signals, slurmstepd, the others. What it has in memory is not its user's to see. */
static void it_is_small_and_holds_nothing(void **state)
{
    char c;
    int want = geteuid() == 0 ? 6 : -1;
    (void)state;
    struct task t = task_start(waits, NULL);
    task_read(t, &c, 1);
    for (uint64_t until = deadline_in(20); descriptors_of(t.pid) != want;)
        assert_true(deadline_left_ns(until) > 0);
    if (want > 0)
        assert_true(private_of(t.pid) < 2048);
    kill(t.pid, SIGTERM);
    task_end(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_ends_as_the_program_does),
    cmocka_unit_test(without_a_process_the_task_is_as_it_was),
    cmocka_unit_test(signals_are_passed_on_once),
    cmocka_unit_test(the_program_finds_all_as_it_was),
    cmocka_unit_test(orphans_are_taken_in_and_reaped),
    cmocka_unit_test(nothing_is_left_of_a_program_that_failed),
    cmocka_unit_test(what_a_program_that_failed_has_left_may_save),
    cmocka_unit_test(what_the_program_has_started_gets_the_signal_too),
    cmocka_unit_test(a_guard_that_is_killed_takes_the_program_along),
    cmocka_unit_test(without_slurmstepd_both_end),
    cmocka_unit_test(without_a_process_no_program_follows),
    cmocka_unit_test(a_program_that_stands_still_is_named),
    cmocka_unit_test(an_end_for_want_of_memory_is_said),
    cmocka_unit_test(it_is_small_and_holds_nothing),
};

UNIT_MAIN(tests)
