#include "config.h" /* pipe2 */
#include "topology/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "topology/load_impl.h"

#define IMPORT_BYTES (1u << 30)
#define REAP_S 0.5

/* Between the child, which writes it, and the parent. */
struct answer {
    int is_there, rc;
    ddp_error_t error;
    struct inventory inv;
};

/* AddressSanitizer maps terabytes. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_SHADOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SHADOW 1
#endif
#endif

static void limit_memory(void)
{
#ifndef HAS_SHADOW
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    struct rlimit limit;
    if (f && fscanf(f, "%lu", &pages) == 1 && getrlimit(RLIMIT_AS, &limit) == 0) {
        rlim_t wanted = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + IMPORT_BYTES;
        if (wanted < limit.rlim_cur) {
            limit.rlim_cur = wanted;
            setrlimit(RLIMIT_AS, &limit);
        }
    }
    if (f)
        fclose(f);
#endif
}

/* What hwloc or an assertion prints is not for the user: the parent says what became of the file. */
static void become_quiet(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, 1);
        dup2(null, 2);
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void import_and_exit(const char *text, size_t n, import_f *import, struct answer *a)
{
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    become_quiet();
    limit_memory();
    a->rc = import(text, n, &a->inv, &a->error);
    a->is_there = 1;
    _exit(0);
}

/* Until the child's end of the pipe closes: it has ended. */
static bool wait_for_end(int fd, uint64_t deadline)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, deadline_left_ms(deadline));
        if (n > 0)
            return true;
        if (deadline_left_ns(deadline) == 0)
            return false;
    }
}

/* One that a driver holds in the kernel stays for init. */
static void reap(pid_t pid)
{
    uint64_t deadline = deadline_in(REAP_S);
    pid_t rc;
    while ((rc = waitpid(pid, NULL, WNOHANG)) == 0 || (rc < 0 && errno == EINTR)) {
        if (deadline_left_ns(deadline) == 0)
            return;
        poll(NULL, 0, 1);
    }
}

static int run_child(import_f *import, const char *text, size_t n, uint64_t deadline, struct answer *a,
                     ddp_error_t *errp)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return error_errno(errp, "no pipe to a process of its own");
    pid_t pid = fork();
    if (pid == 0)
        import_and_exit(text, n, import, a);
    io_close(fd[1]);
    if (pid < 0) {
        io_close(fd[0]);
        return error_errno(errp, "no process of its own");
    }
    bool has_ended = wait_for_end(fd[0], deadline);
    io_close(fd[0]);
    if (!has_ended)
        kill(pid, SIGKILL);
    reap(pid);
    if (!has_ended)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "hwloc was not done with it in time");
    if (!a->is_there)
        return error_set(errp, DDP_E_DATA, EINVAL, "hwloc does not survive it: it contradicts itself");
    if (a->rc < 0) {
        a->error.text[sizeof a->error.text - 1] = 0;
        return error_set(errp, a->error.domain, a->error.code, "%s", a->error.text);
    }
    return inventory_is_sound(&a->inv) ? 0 : error_set(errp, DDP_E_DATA, EINVAL, "it contradicts itself");
}

int import_apart(import_f *import, const char *text, size_t n, uint64_t deadline, struct inventory *inv,
                 ddp_error_t *errp)
{
    struct answer *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        return error_errno(errp, "no memory for a machine's tables");
    a->inv = *inv;
    int rc = run_child(import, text, n, deadline, a, errp);
    if (rc == 0)
        *inv = a->inv;
    munmap(a, sizeof *a);
    return rc;
}
