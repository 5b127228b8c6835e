#include "config.h" /* pipe2, environ */
#include "spank/guard/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

void guard_child_init(struct guard_child *c)
{
    *c = (struct guard_child){.in = -1};
}

void guard_child_begin(struct guard_child *c, char **env, void work(const void *arg, int out), const void *arg,
                       double within_s)
{
    int fd[2] = {-1, -1};
    pid_t self = getpid(), pid = pipe2(fd, O_CLOEXEC | O_NONBLOCK) == 0 ? fork() : -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self)
            _exit(1);
        if (env)
            environ = env;
        work(arg, fd[1]);
        _exit(0);
    }
    if (pid < 0) {
        io_close(fd[0]);
        io_close(fd[1]);
        return;
    }
    close(fd[1]);
    *c = (struct guard_child){.pid = pid, .in = fd[0], .until = deadline_in(within_s)};
}

void guard_child_kill(const struct guard_child *c)
{
    siginfo_t end;
    if (waitid(P_PID, (id_t)c->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0) /* a child still */
        kill(c->pid, SIGKILL);
}

bool guard_child_hear(struct guard_child *c, void *ret, size_t size, bool *ret_is_late)
{
    ssize_t n = read(c->in, ret, size);
    *ret_is_late = n != 0 && deadline_left_ns(c->until) == 0;
    if (*ret_is_late)
        guard_child_kill(c);
    if (n == 0 || *ret_is_late) {
        close(c->in);
        guard_child_init(c);
    }
    return n == (ssize_t)size;
}
