#include "config.h" /* pipe2 */
#include "topology/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "topology/load_impl.h"

#define IMPORT_BYTES (1u << 30)

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

static void import_and_exit(const char *text, size_t n, record_f *import, struct answer *a)
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

static int run_child(const struct record_reader *r, const char *text, size_t n, struct answer *a, ddp_error_t *errp)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return error_errno(errp, "no pipe to a process of its own");
    pid_t pid = fork();
    if (pid == 0)
        import_and_exit(text, n, r->import, a);
    io_close(fd[1]);
    if (pid < 0) {
        io_close(fd[0]);
        return error_errno(errp, "no process of its own");
    }
    bool has_ended = wait_for_end(fd[0], r->deadline);
    io_close(fd[0]);
    if (!has_ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
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

static int import_apart(const struct record_reader *r, const char *text, size_t n, struct inventory *inv,
                        ddp_error_t *errp)
{
    struct answer *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        return error_errno(errp, "no memory for a machine's tables");
    a->inv = *inv;
    int rc = run_child(r, text, n, a, errp);
    if (rc == 0)
        *inv = a->inv;
    munmap(a, sizeof *a);
    return rc;
}

/* What hwloc would refuse without a word of why. */
static int check_format(const char *text, int major_max, const char *what, ddp_error_t *errp)
{
    int major = 0, minor = 0; /* hwloc 1 writes none */
    const char *root = strstr(text, "<topology");
    if (!root)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s is no topology that hwloc wrote: there is no <topology>", what);
    sscanf(root, "<topology version=\"%9d.%9d", &major, &minor);
    if (major > major_max)
        return error_set(errp, DDP_E_DATA, EINVAL,
                         "%s is of hwloc %d.%d's format, and the hwloc here reads %d's: write it with lstopo"
                         " --export-xml-flags v2", what, major, minor, major_max);
    return 0;
}

int record_load_text(const struct record_reader *reader, const char *text, size_t n, const char *what,
                     struct inventory *inv, ddp_error_t *errp)
{
    if (n > RECORD_SIZE_MAX)
        return error_set(errp, DDP_E_DATA, EFBIG, "%s is larger than any machine's record, %d MiB", what,
                         RECORD_SIZE_MAX >> 20);
    if (check_format(text, reader->major_max, what, errp) < 0)
        return -1;
    return import_apart(reader, text, n + 1, inv, errp) < 0 ? error_prefix(errp, "%s", what) : 0;
}

/* Everything up to size bytes of a file or a pipe that somebody writes to; the length, or -1. Never waits past the
 * deadline: in a task nothing could end a wait but Slurm, which would take the node out of service for it. */
static ssize_t read_up_to(int fd, char *buf, size_t size, uint64_t deadline)
{
    size_t n = 0;
    while (n < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t r = read(fd, buf + n, size - n);
        if (r == 0)
            break;
        n += r > 0 ? (size_t)r : 0;
        if (r < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (deadline_left_ns(deadline) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (r < 0)
            (void)!poll(&p, 1, deadline_left_ms(deadline));
    }
    return (ssize_t)n;
}

int record_load(const struct record_reader *reader, const char *path, struct inventory *inv, ddp_error_t *errp)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = -1;
    char *text = fd < 0 ? NULL : malloc(RECORD_SIZE_MAX + 2);
    ssize_t n = text ? read_up_to(fd, text, RECORD_SIZE_MAX + 1, reader->deadline) : -1;
    if (n >= 0)
        text[n] = 0;
    if (fd < 0 || (text && n < 0))
        error_set(errp, DDP_E_DATA, errno, "%s: %s", path, strerror(errno));
    else if (!text)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: no memory to read it", path);
    else
        rc = record_load_text(reader, text, (size_t)n, path, inv, errp);
    io_close(fd);
    free(text);
    return rc;
}
