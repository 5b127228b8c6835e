/* Parts of a guard by themselves: a program that is stopped, a child that is late, an answer of ddp-waits, what a
 * program's end was, or that it is near; signals. */
#include "config.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "spank/guard/impl.h"
#include "spank/guard/process.h"

static void a_halt_is_told_once_and_so_is_its_end(void **state)
{
    (void)state;
    struct guard_halt h = {0};
    for (int times = 0; times < 2; times++) {
        assert_false(guard_halt_take(&h, SIGSTOP));
        assert_false(guard_halt_step(&h));
        assert_true(guard_halt_wait_ms(&h) >= 0);
        h.at = clock_ns() - 1;
        assert_true(guard_halt_step(&h));
        assert_false(guard_halt_step(&h));
        assert_false(guard_halt_take(&h, SIGTSTP));
        assert_int_equal(guard_halt_wait_ms(&h), -1);
        assert_true(guard_halt_take(&h, 0));
        assert_false(guard_halt_take(&h, 0));
    }
    assert_false(guard_halt_take(&h, SIGSTOP));
    assert_false(guard_halt_take(&h, 0));
    assert_int_equal(guard_halt_wait_ms(&h), -1);
    assert_false(guard_halt_step(&h));
}

/* Both were stopped, with the step: the program has its time from now on. */
static void a_guard_that_stood_still_blames_nobody(void **state)
{
    (void)state;
    struct guard_halt h = {0};
    guard_halt_take(&h, SIGSTOP);
    h.at = clock_ns() - 2 * NS_PER_S;
    assert_false(guard_halt_step(&h));
    assert_true(h.at > clock_ns());
    h.at = clock_ns() - 1;
    assert_true(guard_halt_step(&h));
}

static void stay(const void *arg, int out)
{
    (void)arg, (void)out;
    alarm(60);
    pause();
}

static void a_child_that_is_late_is_killed(void **state)
{
    (void)state;
    struct guard_child c;
    char said;
    bool is_late;
    int status;
    guard_child_init(&c);
    guard_child_begin(&c, NULL, stay, NULL, 60);
    pid_t pid = c.pid;
    assert_true(pid > 0);
    assert_false(guard_child_hear(&c, &said, 1, &is_late));
    assert_false(is_late);
    assert_int_equal(c.pid, pid);
    c.until = clock_ns();
    assert_false(guard_child_hear(&c, &said, 1, &is_late));
    assert_true(is_late);
    assert_int_equal(c.pid, 0);
    assert_int_equal(c.in, -1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A process that is not this one's child, which has the number of one that has been reaped. */
static pid_t start_stranger(int ret_pipe[2])
{
    pid_t pid = 0;
    assert_int_equal(pipe2(ret_pipe, O_CLOEXEC | O_NONBLOCK), 0);
    if (fork() == 0) {
        pid = fork();
        if (pid == 0) {
            alarm(60);
            pause();
            _exit(0);
        }
        (void)!write(ret_pipe[1], &pid, sizeof pid);
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    poll(&(struct pollfd){.fd = ret_pipe[0], .events = POLLIN}, 1, 20000);
    assert_int_equal(read(ret_pipe[0], &pid, sizeof pid), sizeof pid);
    close(ret_pipe[1]);
    return pid;
}

static void who_has_a_reaped_childs_number_is_not_killed(void **state)
{
    (void)state;
    int fd[2];
    bool is_late;
    char said;
    pid_t stranger = start_stranger(fd);
    struct guard_waits w;
    guard_waits_init(&w);
    guard_child_begin(&w.child, NULL, stay, NULL, 60);
    pid_t pid = w.child.pid;
    guard_waits_drop(&w);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    w.child.pid = stranger;
    guard_waits_drop(&w);
    w.child.in = dup(fd[0]);
    w.child.until = clock_ns();
    guard_child_hear(&w.child, &said, 1, &is_late);
    assert_int_equal(poll(&(struct pollfd){.fd = fd[0]}, 1, 300), 0); /* nobody has closed the pipe's other end */
    kill(stranger, SIGKILL);
    wait(NULL);
    close(fd[0]);
}

static void answer(const void *arg, int out)
{
    (void)!write(out, arg, *(const char *)arg ? ANSWER_BYTES : 0);
}

/* What a program says that was told to say that. */
static void hear(const char said[ANSWER_BYTES], char ret[ANSWER_BYTES])
{
    struct guard_waits w;
    uint64_t deadline = deadline_in(20);
    guard_waits_init(&w);
    guard_child_begin(&w.child, NULL, answer, said, 20);
    pid_t pid = w.child.pid;
    assert_true(pid > 0);
    w.is_asked = true;
    while (!guard_waits_hear(&w, ret)) {
        assert_true(deadline_left_ns(deadline) > 0);
        poll(&(struct pollfd){.fd = w.child.in, .events = POLLIN}, 1, 1000);
    }
    assert_false(w.is_asked);
    io_close(w.child.in);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void an_answer_is_a_short_line(void **state)
{
    (void)state;
    char said[ANSWER_BYTES] = "cgloo::allreduce", heard[ANSWER_BYTES];
    hear(said, heard);
    assert_string_equal(heard, "cgloo::allreduce");
    memset(said, '\033', sizeof said); /* of no kind that there is, and without an end */
    hear(said, heard);
    assert_int_equal(heard[0], ANSWER_OTHER);
    assert_int_equal(strnlen(heard, sizeof heard), ANSWER_BYTES - 1);
    assert_null(memchr(heard, '\033', sizeof heard));
    hear((const char[ANSWER_BYTES]){0}, heard);
    assert_string_equal(heard, "o");
}

/* By a signal that scripts send, too, only where one is known to have been sent. */
static void an_end_by_the_stop_is_no_failure(void **state)
{
    static const struct {
        int stop, status, sent;
        bool is_stopped;
        enum death_kind said, is;
    } cases[] = {
        {.stop = SIGUSR1, .status = SIGUSR1, .is = DEATH_STOPPED},
        {.stop = SIGUSR1, .status = SIGUSR1, .said = DEATH_ENDED, .is = DEATH_ENDED}, /* that it ends by */
        {.stop = SIGTERM, .status = SIGTERM, .is = DEATH_ENDED},
        {.stop = SIGTERM, .status = SIGTERM, .is_stopped = true, .is = DEATH_STOPPED},
        {.stop = SIGUSR1, .status = SIGTERM, .is_stopped = true, .is = DEATH_ENDED},
        {.stop = SIGUSR1, .status = SIGUSR2, .sent = SIGUSR2, .is = DEATH_STOPPED},
        {.stop = SIGUSR1, .status = SIGUSR2, .sent = SIGUSR1, .is = DEATH_ENDED},
        {.stop = SIGUSR1, .status = W_EXITCODE(1, 0), .is_stopped = true, .is = DEATH_ENDED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct guard g = {.f.stop.signal = cases[i].stop, .status = cases[i].status, .sent = cases[i].sent,
                          .is_stopped = cases[i].is_stopped, .said.kind = cases[i].said, .began = clock_ns(),
                          .kills = UINT64_MAX};
        if (guard_make_death(&g).kind != cases[i].is)
            fail_msg("case %d", (int)i);
    }
}

static char cause[NOTICE_TEXT_MAX + 1]; /* that the program tells */
const char *__wrap_guard_door_cause(const guard_door_t *d, int *ret_rank);

const char *__wrap_guard_door_cause(const guard_door_t *d, int *ret_rank)
{
    (void)d;
    *ret_rank = 3;
    return cause;
}

static void of_a_long_cause_the_end_stays(void **state)
{
    static const char end[] = ": No space left on device";
    char door;
    (void)state;
    for (int n_path = 1; n_path + sizeof end <= sizeof cause; n_path++) {
        struct guard g = {.status = W_EXITCODE(1, 0), .began = clock_ns(), .kills = UINT64_MAX};
        g.door = (guard_door_t *)&door;
        snprintf(cause, sizeof cause, "%0*d%s", n_path, 0, end);
        struct death d = guard_make_death(&g);
        if (d.kind != DEATH_TOLD || d.rank != 3 || !strstr(d.text, end))
            fail_msg("a path of %d bytes: %s", n_path, d.text);
    }
}

static void *lasts(void *end)
{
    char c;
    (void)!read(*(int *)end, &c, 1);
    return NULL;
}

/* Its name is like a part of what the kernel says of it. */
static void be_odd(int end)
{
    pthread_t other;
    prctl(PR_SET_NAME, "a) R 1 1\n");
    (void)!pthread_create(&other, NULL, lasts, &end);
    syscall(SYS_exit, 0); /* this thread alone */
}

static void who_is_on_its_way_out_is_known(void **state)
{
    (void)state;
    int end[2];
    assert_int_equal(pipe(end), 0);
    pid_t runs = fork();
    if (runs == 0)
        stay(NULL, -1);
    pid_t goes = fork();
    if (goes == 0)
        be_odd(end[0]);
    for (uint64_t until = deadline_in(20); !process_is_ending(goes);)
        assert_true(deadline_left_ns(until) > 0);
    assert_int_equal(waitpid(goes, NULL, WNOHANG), 0);
    assert_false(process_is_ending(runs));
    kill(runs, SIGKILL);
    assert_int_equal(write(end[1], "", 1), 1);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)runs, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_is_ending(runs));
    assert_int_equal(waitpid(runs, NULL, 0), runs);
    assert_int_equal(waitpid(goes, NULL, 0), goes);
    assert_false(process_is_ending(runs));
    close(end[0]);
    close(end[1]);
}

/* It says how that ended when that has: one whose first thread alone has, until the other has, too. */
static void what_a_shell_has_started_is_on_its_way_out(void **state)
{
    (void)state;
    int end[2];
    siginfo_t info;
    assert_int_equal(pipe(end), 0);
    pid_t shell = fork();
    if (shell == 0) {
        if (fork() == 0)
            be_odd(end[0]);
        waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
        stay(NULL, -1);
    }
    for (uint64_t until = deadline_in(20); !process_is_ending(shell);)
        assert_true(deadline_left_ns(until) > 0);
    assert_int_equal(write(end[1], "", 1), 1);
    for (uint64_t until = deadline_in(20); process_is_ending(shell);) /* a zombie that it may never ask for */
        assert_true(deadline_left_ns(until) > 0);
    kill(shell, SIGKILL);
    assert_int_equal(waitpid(shell, NULL, 0), shell);
    close(end[0]);
    close(end[1]);
}

/* ---- signals ---- */

enum { PROGRAM = 1 << 30, SLURM }; /* no process has these numbers */
static int n_passed_on; /* to it */

int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);

int __wrap_kill(pid_t pid, int signo)
{
    n_passed_on += pid == PROGRAM;
    return pid == PROGRAM ? 0 : __real_kill(pid, signo);
}

/* The guard gets that signal of that process. How often its program does. */
static int take(struct guard *g, int signo, pid_t from)
{
    int line[2];
    struct signalfd_siginfo s = {.ssi_signo = (uint32_t)signo, .ssi_pid = (uint32_t)from};
    assert_int_equal(pipe(line), 0);
    assert_int_equal(write(line[1], &s, sizeof s), sizeof s);
    g->program = PROGRAM;
    g->signals = line[0];
    n_passed_on = 0;
    guard_take_signal(g);
    close(line[0]);
    close(line[1]);
    return n_passed_on;
}

/* "kill 0" reaches the guard, too, which is of the program's group. */
static void what_the_program_or_the_guard_sends_does_not_come_to_the_program(void **state)
{
    static const int signals[] = {SIGUSR1, SIGTERM, SIGTSTP, SIGWINCH};
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct guard g = {.f.size = 1};
        assert_int_equal(take(&g, signals[i], PROGRAM), 0);
        assert_int_equal(take(&g, signals[i], getpid()), 0);
        assert_false(g.is_asked);
        assert_int_equal(take(&g, signals[i], SLURM), 1);
    }
}

/* What is left until SIGTERM and SIGKILL is left when the step goes on, but on a node whose ranks start elsewhere. */
static void a_suspension_is_no_time_of_the_program(void **state)
{
    (void)state;
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        const uint64_t term_at = clock_ns() + NS_PER_S, kill_at = term_at + NS_PER_S, away = 100 * NS_PER_S;
        struct guard g = {.f.size = 1, .f.is_elastic = true, .term_at = term_at, .kill_at = kill_at};
        g.said.kind = is_lost ? DEATH_SILENT : DEATH_ENDED;
        assert_int_equal(take(&g, SIGTSTP, SLURM), 1);
        assert_true(g.rests_at > 0 && g.term_at == term_at && g.kill_at == kill_at);
        g.rests_at -= away;
        assert_int_equal(take(&g, SIGCONT, SLURM), 1);
        assert_int_equal(g.rests_at, 0);
        assert_int_equal(g.term_at - term_at, g.kill_at - kill_at);
        assert_true(is_lost ? g.term_at == term_at : g.term_at - term_at >= away);
        g.term_at = 0; /* it has been sent */
        take(&g, SIGTSTP, SLURM);
        take(&g, SIGCONT, SLURM);
        assert_int_equal(g.term_at, 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_halt_is_told_once_and_so_is_its_end),
    cmocka_unit_test(a_guard_that_stood_still_blames_nobody),
    cmocka_unit_test(a_child_that_is_late_is_killed),
    cmocka_unit_test(who_has_a_reaped_childs_number_is_not_killed),
    cmocka_unit_test(an_answer_is_a_short_line),
    cmocka_unit_test(an_end_by_the_stop_is_no_failure),
    cmocka_unit_test(of_a_long_cause_the_end_stays),
    cmocka_unit_test(who_is_on_its_way_out_is_known),
    cmocka_unit_test(what_a_shell_has_started_is_on_its_way_out),
    cmocka_unit_test(what_the_program_or_the_guard_sends_does_not_come_to_the_program),
    cmocka_unit_test(a_suspension_is_no_time_of_the_program),
};
UNIT_MAIN(tests)
