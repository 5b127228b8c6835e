/* The guard beside a program: how it ends, what it passes on, what it leaves alone. The task is a child of this test,
 * as it is one of slurmstepd's. (t/t1012 has Slurm's.) */
#include "config.h"
#include "t/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guard.h"
#include "spank/guard_process.h"

/* What a program does, with the writing end of a pipe to the test; what it returns is its exit code. */
typedef int program_f(int out, void *arg);

static const struct guards_facts alone = {.rank = 3, .local_size = 1, .n_nodes = 1, .name = "n2",
                                          .ends_step = true, .join_s = GUARDS_JOIN_S};

/* With restarts: one rank, which is its own root. */
static const struct guards_facts again = {
    .rank = 0, .size = 1, .local_size = 1, .n_nodes = 1, .name = "n1", .ends_step = true, .restarts = 2,
    .join_s = GUARDS_JOIN_S, .stuck_s = GUARDS_STUCK_S, .idle_s = GUARDS_IDLE_S,
    .token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
static const struct guards_facts *facts = &alone;
static int generation; /* of a program */

struct task {
    pid_t pid; /* of the task, which becomes the guard */
    int in;    /* what the program writes */
};

static bool ignores_children, ignores_hangup; /* the task does, before it has a guard */

static struct task start(program_f *program, void *arg)
{
    int pipe_fd[2];
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    struct task t = {.pid = fork(), .in = pipe_fd[0]};
    if (t.pid == 0) {
        ddp_error_t e;
        struct seat seat;
        close(pipe_fd[0]);
        setpgid(0, 0); /* as slurmstepd's tasks */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ignores_children)
            signal(SIGCHLD, SIG_IGN);
        if (ignores_hangup)
            signal(SIGHUP, SIG_IGN);
        if ((generation = guard_start(facts, &seat, &e)) < 0)
            _exit(99);
        _exit(program(pipe_fd[1], arg));
    }
    close(pipe_fd[1]);
    return t;
}

static void read_all(struct task t, void *buf, size_t n)
{
    ddp_error_t e = {0};
    if (io_recv_all(t.in, buf, n, deadline_in(20), "the program", &e) < 0)
        fail_msg("%s", e.text);
}

static int end(struct task t)
{
    int status;
    close(t.in);
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    return status;
}

static pid_t child_of(pid_t pid)
{
    char path[64];
    int child = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &child) != 1)
        child = -1;
    if (f)
        fclose(f);
    assert_true(child > 0);
    return child;
}

static void wait_state(pid_t pid, char want)
{
    char path[64], got = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (uint64_t until = deadline_in(20); got != want;) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%*d (%*[^)]) %c", &got) != 1)
            got = 0;
        if (f)
            fclose(f);
        assert_true(deadline_left_ns(until) > 0);
    }
}

/* The guard's end is its program's: nothing of it holds the pipe. */
static void wait_closed(struct task t)
{
    struct pollfd p = {.fd = t.in, .events = POLLIN};
    char c;
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(read(t.in, &c, 1), 0);
}

static int exits(int out, void *arg)
{
    (void)out;
    return *(int *)arg;
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
        int code = codes[i], status = end(start(exits, &code));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), code);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int signo = signals[i], status = end(start(dies, &signo));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signo);
    }
}

/* The guard has guards only when the program has ended. */
static bool is_slow;
guards_t *__real_guards_open(const struct guards_facts *f);
guards_t *__wrap_guards_open(const struct guards_facts *f);

guards_t *__wrap_guards_open(const struct guards_facts *f)
{
    siginfo_t info;
    if (is_slow)
        waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    is_slow = false;
    return __real_guards_open(f);
}

static void an_end_before_the_guard_looks_is_seen(void **state)
{
    int code = 75, status; /* no failure, whose timer would wake the guard */
    (void)state;
    is_slow = true;
    struct task t = start(exits, &code);
    is_slow = false;
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, t.pid, 0), .events = POLLIN};
    bool has_ended = poll(&p, 1, 20000) == 1;
    close(p.fd);
    kill(t.pid, SIGKILL);
    status = end(t);
    assert_true(has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 75);
}

/* All have saved, and no event comes any more that would make it see to the requeue; there is no scontrol here. */
static void what_follows_such_an_end_is_done(void **state)
{
    static char path[] = "PATH=/nowhere", job[] = "SLURM_JOB_ID=12", *environment[] = {path, job, NULL};
    struct guards_facts saves = again;
    int code = 75;
    (void)state;
    saves.restarts = 0;
    saves.stop_code = 75;
    saves.saves = saves.requeues = true;
    saves.env = environment;
    facts = &saves;
    is_slow = true;
    struct task t = start(exits, &code);
    is_slow = false;
    facts = &alone;
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, t.pid, 0), .events = POLLIN};
    bool has_ended = poll(&p, 1, 20000) == 1;
    close(p.fd);
    kill(t.pid, SIGKILL);
    int status = end(t);
    assert_true(has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 75);
}

/* No process is to be had: the task is as it was, and goes on alone. */
static bool has_no_fork;
pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    errno = EAGAIN;
    return has_no_fork ? -1 : __real_fork();
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static bool takes_orphans(void)
{
    int is_subreaper = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper);
    return is_subreaper;
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
    int rc = guard_start(&alone, &seat, &e);
    has_no_fork = false;
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(rc, -1);
    assert_false(takes_orphans());
    assert_error_has(e, "guard: no process beside the program: Resource temporarily unavailable");
    assert_int_equal(count_fds(), n);
    for (int signo = 1; signo < 32; signo++)
        assert_int_equal(sigismember(&after, signo), sigismember(&before, signo));
}

static int counts(int out, void *arg)
{
    sigset_t s;
    int signo, n = 0;
    (void)arg;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigaddset(&s, SIGTERM);
    sigaddset(&s, SIGTSTP);
    sigaddset(&s, SIGWINCH);
    sigaddset(&s, SIGHUP);
    sigprocmask(SIG_BLOCK, &s, NULL);
    (void)!write(out, "r", 1);
    while (sigwait(&s, &signo) == 0 && signo != SIGTERM) {
        char c = (char)signo;
        (void)!write(out, &c, 1);
        n++;
    }
    return n;
}

static void signals_are_passed_on_once(void **state)
{
    static const int sent[] = {SIGUSR1, SIGHUP, SIGTSTP, SIGWINCH, SIGUSR1};
    (void)state;
    ignores_hangup = true; /* as nohup does; it is the program's to decide */
    struct task t = start(counts, NULL);
    ignores_hangup = false;
    char got;
    read_all(t, &got, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kill(t.pid, sent[i]), 0);
        read_all(t, &got, 1);
        assert_int_equal(got, sent[i]);
    }
    kill(t.pid, SIGTERM);
    int status = end(t);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

/* What the program has of the task: signal mask, the dispositions, descriptors. */
static int shows_state(int out, void *arg)
{
    sigset_t mask;
    struct sigaction child;
    unsigned char fds[256] = {0};
    (void)arg;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigaction(SIGCHLD, NULL, &child);
    bool is_same = sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 0 &&
                   child.sa_handler == SIG_IGN && !takes_orphans();
    for (int fd = 3; fd < 256; fd++)
        fds[fd] = fd != out && fcntl(fd, F_GETFD) == 0; /* exec closes the others */
    (void)!write(out, &is_same, 1);
    (void)!write(out, fds, sizeof fds);
    return 0;
}

static void the_program_finds_all_as_it_was(void **state)
{
    sigset_t one;
    bool is_same;
    unsigned char fds[256], had[256] = {0};
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    sigprocmask(SIG_BLOCK, &one, NULL);
    ignores_children = true;
    for (int fd = 3; fd < 256; fd++)
        had[fd] = fcntl(fd, F_GETFD) >= 0;
    struct task t = start(shows_state, NULL);
    read_all(t, &is_same, 1);
    read_all(t, fds, sizeof fds);
    ignores_children = false;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    end(t);
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
    struct task t = start(leaves_an_orphan, NULL);
    read_all(t, pids, sizeof pids);
    assert_int_equal(pids[1], t.pid);
    snprintf(path, sizeof path, "/proc/%d", (int)pids[0]);
    for (uint64_t until = deadline_in(20); access(path, F_OK) == 0;)
        assert_true(deadline_left_ns(until) > 0);
    kill(t.pid, SIGTERM);
    int status = end(t);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* In its first generation, and in the second, it leaves a process behind and dies. */
static int is_restarted(int out, void *arg)
{
    char c = (char)generation;
    if (generation == 2)
        return shows_state(out, arg) + 5;
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
    facts = &again;
    ignores_children = true;
    struct task t = start(is_restarted, NULL);
    for (int i = 0; i < 2; i++) {
        read_all(t, &c, 1);
        assert_int_equal(c, i);
        read_all(t, &left[i], sizeof left[i]);
    }
    read_all(t, &is_same, 1);
    read_all(t, fds, sizeof fds);
    bool is_left = false;
    for (int i = 0; i < 2; i++)
        is_left |= kill(left[i], SIGKILL) == 0;
    int status = end(t);
    assert_false(is_left);
    facts = &alone;
    ignores_children = false;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5); /* there is no third restart */
    assert_true(is_same);
    for (int fd = 3; fd < 256; fd++)
        if (fds[fd])
            assert_true(had[fd]);
}

static int leaves_one_at_once(int out, void *arg)
{
    (void)arg;
    pid_t left = generation == 0 ? fork() : -1;
    if (left == 0)
        for (;;)
            pause();
    if (left > 0)
        (void)!write(out, &left, sizeof left);
    return generation == 0 ? 3 : 0;
}

static void what_it_left_before_the_guard_looks_is_ended(void **state)
{
    pid_t left;
    (void)state;
    facts = &again;
    is_slow = true;
    struct task t = start(leaves_one_at_once, NULL);
    facts = &alone;
    is_slow = false;
    read_all(t, &left, sizeof left);
    int status = end(t), is_left = kill(left, 0) == 0;
    if (is_left)
        kill(left, SIGKILL);
    assert_false(is_left);
    assert_int_equal(status, 0);
}

/* The end that somebody asked for is the end. */
static int ends_in_time(int out, void *arg)
{
    char c = (char)generation;
    (void)!write(out, &c, 1);
    return counts(out, arg);
}

static void a_step_that_is_asked_to_end_is_not_started_again(void **state)
{
    char c, ready;
    (void)state;
    facts = &again;
    struct task t = start(ends_in_time, NULL);
    read_all(t, &c, 1);
    read_all(t, &ready, 1);
    kill(t.pid, SIGHUP);
    read_all(t, &ready, 1);
    kill(t.pid, SIGTERM);
    int status = end(t);
    facts = &alone;
    assert_int_equal(c, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static int ports[2]; /* of two nodes' guards */

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f;
    strcpy(ret_name, "127.0.0.1");
    memset(ret_port, 0, GUARDS_PORTS * sizeof *ret_port);
    ret_port[0] = ports[node];
    return 0;
}

static struct guards_facts of_node(int node)
{
    struct guards_facts f = again;
    f.rank = f.node = node;
    f.size = f.n_nodes = 2;
    f.is_elastic = true;
    f.min_nodes = 1;
    f.silent_s = 3;
    f.find = find;
    f.port[0] = ports[node];
    if (node == 1)
        find(&f, 0, f.above, f.port_above);
    return f;
}

static void draw_port(int *ret)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, n) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        _exit(98);
    *ret = ntohs(a.sin_port);
    close(fd);
}

/* The second generation is there when both guards know each other. */
static int counts_when_both_are_there(int out, void *arg)
{
    if (generation == 0 && facts->rank == 1)
        return 3;
    for (; generation == 0;)
        pause();
    return counts(out, arg);
}

#define HAS_NO_RIGHT 96

/* As the first process of a machine, which goes down. What comes of a guard is the exit code. */
static _Noreturn void be_init(void)
{
    struct task t[2];
    int status;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(HAS_NO_RIGHT);
    draw_port(&ports[0]);
    draw_port(&ports[1]);
    for (int i = 0; i < 2; i++) {
        struct guards_facts f = of_node(i);
        facts = &f;
        t[i] = start(counts_when_both_are_there, NULL);
    }
    for (int i = 0; i < 2; i++) {
        char ready;
        read_all(t[i], &ready, 1);
    }
    kill(t[1].pid, SIGTERM);
    while (waitpid(t[1].pid, &status, 0) < 0)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 97);
}

/* Where others go on without it: not as one that was asked to end. */
static void it_is_lost_with_its_node(void **state)
{
    int status;
    (void)state;
    if (geteuid() != 0)
        skip(); /* it takes a process namespace */
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
            _exit(HAS_NO_RIGHT);
        pid_t init = fork();
        if (init == 0)
            be_init();
        waitpid(init, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == HAS_NO_RIGHT)
        skip();
    assert_int_equal(WEXITSTATUS(status), 1);
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
    struct task t = start(waits, NULL);
    read_all(t, &c, 1);
    kill(t.pid, SIGKILL);
    wait_closed(t);
    end(t);
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
            _exit(guard_start(&alone, &seat, &e) < 0 ? 99 : waits(out[1], NULL));
        }
        close(out[1]);
        for (;;)
            pause();
    }
    close(out[1]);
    struct task t = {.pid = stepd, .in = out[0]};
    read_all(t, &c, 1);
    kill(stepd, SIGKILL);
    wait_closed(t);
    end(t);
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

/* A line says so when it has stood still for a while, and its end is not for ever beyond SIGTERM. */
static void a_program_that_stands_still_is_named(void **state)
{
    static const char want[] = "ddp: warning: rank 3 (n2) has been stopped by signal 19 (";
    char line[sizeof want] = "", c;
    int err[2], own = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    dup2(err[1], STDERR_FILENO);
    struct task t = start(stops_itself, NULL);
    dup2(own, STDERR_FILENO);
    close(own);
    close(err[1]);
    read_all(t, &c, 1);
    pid_t program = child_of(t.pid);
    wait_state(program, 'T');
    kill(program, SIGCONT); /* at once: nobody is told */
    read_all(t, &c, 1);
    wait_state(program, 'T');
    read_all((struct task){.in = err[0]}, line, sizeof want - 1);
    assert_string_equal(line, want);
    process_signal_tree(program, SIGTERM);
    int status = end(t);
    close(err[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
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
    struct task t = start(waits, NULL);
    read_all(t, &c, 1);
    for (uint64_t until = deadline_in(20); descriptors_of(t.pid) != want;)
        assert_true(deadline_left_ns(until) > 0);
    if (want > 0)
        assert_true(private_of(t.pid) < 2048);
    kill(t.pid, SIGTERM);
    end(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_ends_as_the_program_does),
    cmocka_unit_test(an_end_before_the_guard_looks_is_seen),
    cmocka_unit_test(what_follows_such_an_end_is_done),
    cmocka_unit_test(without_a_process_the_task_is_as_it_was),
    cmocka_unit_test(signals_are_passed_on_once),
    cmocka_unit_test(the_program_finds_all_as_it_was),
    cmocka_unit_test(orphans_are_taken_in_and_reaped),
    cmocka_unit_test(a_program_that_dies_is_started_again),
    cmocka_unit_test(what_it_left_before_the_guard_looks_is_ended),
    cmocka_unit_test(a_step_that_is_asked_to_end_is_not_started_again),
    cmocka_unit_test(it_is_lost_with_its_node),
    cmocka_unit_test(what_the_program_has_started_gets_the_signal_too),
    cmocka_unit_test(a_guard_that_is_killed_takes_the_program_along),
    cmocka_unit_test(without_slurmstepd_both_end),
    cmocka_unit_test(a_program_that_stands_still_is_named),
    cmocka_unit_test(it_is_small_and_holds_nothing),
};

UNIT_MAIN(tests)
