#include "config.h"
#include "t/unit/spank/guard_task.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guard/guard.h"
#include "t/lib/network.h"

const struct guards_facts task_alone = {.rank = 3, .local_size = 1, .n_nodes = 1, .name = "n2",
                                        .ends_step = true, .join_s = GUARDS_JOIN_S};
const struct guards_facts task_again = {
    .rank = 0, .size = 1, .local_size = 1, .n_nodes = 1, .name = "n1", .ends_step = true, .restarts = 2,
    .join_s = GUARDS_JOIN_S, .stuck_s = GUARDS_STUCK_S, .idle_s = GUARDS_IDLE_S,
    .token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
const struct guards_facts *task_facts = &task_alone;
bool task_ignores_children, task_ignores_hangup;
int task_generation, task_restart;

/* ---- on several nodes ---- */

static int ports[TASK_NODES_MAX];

bool task_draw_ports(int n_nodes)
{
    int fd[TASK_NODES_MAX], n_drawn = 0;
    network_enter_own();
    for (int i = 0; i < n_nodes; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET};
        socklen_t n = sizeof a;
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        n_drawn += bind(fd[i], (struct sockaddr *)&a, n) == 0 && getsockname(fd[i], (struct sockaddr *)&a, &n) == 0;
        ports[i] = ntohs(a.sin_port);
    }
    for (int i = 0; i < n_nodes; i++) /* then: they are different ones */
        io_close(fd[i]);
    return n_drawn == n_nodes;
}

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f;
    strcpy(ret_name, "127.0.0.1");
    memset(ret_port, 0, GUARDS_PORTS * sizeof *ret_port);
    ret_port[0] = ports[node];
    return 0;
}

struct guards_facts task_on_node(int node, int n_nodes)
{
    struct guards_facts f = task_again;
    f.rank = f.node = node;
    f.size = f.n_nodes = n_nodes;
    f.is_elastic = true;
    f.silent_s = 3;
    f.find = find;
    f.port[0] = ports[node];
    if (node > 0)
        find(&f, 0, f.above, f.port_above);
    return f;
}

/* ---- a task ---- */

struct task task_start(task_program_f *program, void *arg)
{
    int pipe_fd[2];
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    struct task t = {.pid = fork(), .in = pipe_fd[0]};
    if (t.pid == 0) {
        ddp_error_t e;
        struct seat seat;
        close(pipe_fd[0]);
        fcntl(pipe_fd[1], F_SETFD, 0); /* the program's, as its stdout is */
        setpgid(0, 0); /* as slurmstepd's tasks */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (task_ignores_children)
            signal(SIGCHLD, SIG_IGN);
        if (task_ignores_hangup)
            signal(SIGHUP, SIG_IGN);
        if ((task_generation = guard_start(task_facts, &seat, &e)) < 0)
            _exit(99);
        task_restart = seat.restart;
        _exit(program(pipe_fd[1], arg));
    }
    close(pipe_fd[1]);
    return t;
}

struct task task_start_heard(task_program_f *program, void *arg, int *ret_err)
{
    int err[2], own = dup(STDERR_FILENO);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    dup2(err[1], STDERR_FILENO);
    struct task t = task_start(program, arg);
    dup2(own, STDERR_FILENO);
    close(own);
    close(err[1]);
    *ret_err = err[0];
    return t;
}

void task_read(struct task t, void *buf, size_t n)
{
    ddp_error_t e = {0};
    if (io_recv_all(t.in, buf, n, deadline_in(20), "the program", &e) < 0)
        fail_msg("%s", e.text);
}

int task_end(struct task t)
{
    int status;
    close(t.in);
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    return status;
}

int task_exits(int out, void *arg)
{
    (void)out;
    return *(int *)arg;
}

bool task_takes_orphans(void)
{
    int is_subreaper = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper);
    return is_subreaper;
}

pid_t task_child(struct task t)
{
    char path[64];
    int child = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)t.pid, (int)t.pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &child) != 1)
        child = -1;
    if (f)
        fclose(f);
    assert_true(child > 0);
    return child;
}

void task_wait_state(pid_t pid, char want)
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

sigset_t task_blocks_term(void)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    return term;
}

int task_counts(int out, void *arg)
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

int task_shows_state(int out, void *arg)
{
    sigset_t mask;
    struct sigaction child;
    unsigned char fds[256] = {0};
    (void)arg;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigaction(SIGCHLD, NULL, &child);
    bool is_same = sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 0 &&
                   child.sa_handler == SIG_IGN && !task_takes_orphans();
    for (int fd = 3; fd < 256; fd++)
        fds[fd] = fd != out && fcntl(fd, F_GETFD) == 0; /* exec closes the others */
    (void)!write(out, &is_same, 1);
    (void)!write(out, fds, sizeof fds);
    return 0;
}
