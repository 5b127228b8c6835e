/* fault.c - a library for LD_PRELOAD that counts the system calls which change a folder, and kills the process, or the
 * job, before the Nth, or lets calls fail. Counted are the calls that open for writing, make, write, size, allocate,
 * sync, rename and remove, on anything below the folder, and opening a folder (which is how one is synced).
 *
 * FAULT_DIR    the folder, an absolute path without links; without it nothing is done
 * FAULT_RANK   act on this RANK only [every one]
 * FAULT_FROM   count from the first call on that has this text in its path, ".saving-" [from the start]
 * FAULT_CALL   "NAME PART": count only calls of this name whose path has PART in it, "rename .manifest"
 * FAULT_AT     act at this call, 1 is the first that is counted; 0: never
 * FAULT_DELAY_US  kill so many microseconds after it instead, whatever happens then
 * FAULT_DO     kill: this process; job: its parent (`ddp run`, with which all ranks die) and this process;
 *              hang: the call never returns; ENOSPC, EIO, EACCES, ENOENT: the call fails so and is not made [kill]
 * FAULT_TIMES  so many calls from there on fail; 0: all [1]
 * FAULT_FS     the type that statfs gives for any path, 0x6969: NFS [the file system's own]
 * FAULT_LOG    file that gets a line "RANK N NAME PATH" for each call that is counted, before it is made */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static struct {
    char dir[PATH_BYTES];
    size_t dir_length;
    const char *from, *rank;
    char call_name[16], call_part[64]; /* empty: any */
    long at, times, delay_us;
    int error; /* 0: kill */
    bool is_job, is_hang, is_off;
    int log_fd;
} plan;
static atomic_long n_calls;
static atomic_bool has_begun;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && value[0] ? value : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
    const char *only = setting("FAULT_RANK", NULL), *how = setting("FAULT_DO", "kill");
    const char *log = setting("FAULT_LOG", NULL);
    plan.rank = setting("RANK", "-");
    snprintf(plan.dir, sizeof plan.dir, "%s", setting("FAULT_DIR", ""));
    plan.dir_length = strlen(plan.dir);
    plan.is_off = !plan.dir_length || (only && strcmp(only, plan.rank)) || !strcmp(plan.rank, "-");
    plan.from = setting("FAULT_FROM", NULL);
    has_begun = !plan.from;
    sscanf(setting("FAULT_CALL", ""), "%15s %63s", plan.call_name, plan.call_part);
    plan.at = atol(setting("FAULT_AT", "0"));
    plan.delay_us = atol(setting("FAULT_DELAY_US", "0"));
    plan.times = atol(setting("FAULT_TIMES", "1"));
    plan.is_job = !strcmp(how, "job");
    plan.is_hang = !strcmp(how, "hang");
    plan.error = !strcmp(how, "ENOSPC")   ? ENOSPC
                 : !strcmp(how, "EIO")    ? EIO
                 : !strcmp(how, "EACCES") ? EACCES
                 : !strcmp(how, "ENOENT") ? ENOENT
                                          : 0;
    if (!plan.error && !plan.is_job && !plan.is_hang && strcmp(how, "kill"))
        abort();
    plan.log_fd = -1;
    if (log && !plan.is_off)
        plan.log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void fd_path(int fd, char *ret)
{
    char link[64];
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret, PATH_BYTES - 1);
    ret[n > 0 ? n : 0] = 0;
}

/* Where `name`, relative to dirfd, is; NULL: dirfd itself. */
static void full_path(int dirfd, const char *name, char *ret)
{
    char folder[PATH_BYTES];
    if (name && name[0] == '/') {
        snprintf(ret, PATH_BYTES, "%s", name);
        return;
    }
    fd_path(dirfd, folder);
    if (!name)
        memcpy(ret, folder, PATH_BYTES);
    else if (snprintf(ret, PATH_BYTES, "%.2000s/%.2000s", folder, name) < 0)
        ret[0] = 0;
}

static bool is_inside(const char *path)
{
    return !strncmp(path, plan.dir, plan.dir_length) && (path[plan.dir_length] == '/' || !path[plan.dir_length]);
}

static void note(long n, const char *call, const char *path)
{
    char line[PATH_BYTES];
    int k = snprintf(line, sizeof line, "%s %ld %s %.3000s\n", plan.rank, n, call, path + plan.dir_length);
    if (plan.log_fd >= 0 && k > 0)
        syscall(SYS_write, plan.log_fd, line, (size_t)k);
}

static void end(void)
{
    while (plan.is_hang)
        pause();
    if (plan.is_job)
        kill(getppid(), SIGKILL);
    kill(getpid(), SIGKILL);
}

static void *end_later(void *unused)
{
    usleep((useconds_t)plan.delay_us);
    end();
    return unused;
}

/* Before a call: 0, it is made; else the errno with which it fails. Keeps errno. */
static int before(const char *call, int dirfd, const char *name)
{
    int saved = errno;
    char path[PATH_BYTES];
    if (plan.is_off)
        return 0;
    full_path(dirfd, name, path);
    errno = saved;
    if (!is_inside(path) || (!has_begun && !strstr(path, plan.from)) ||
        (plan.call_name[0] && (strcmp(call, plan.call_name) || !strstr(path, plan.call_part))))
        return 0;
    has_begun = true;
    long n = ++n_calls;
    note(n, call, path);
    errno = saved;
    if (!plan.at || n < plan.at || (plan.times && n >= plan.at + plan.times))
        return 0;
    if (plan.error)
        return plan.error;
    pthread_t thread;
    if (!plan.delay_us)
        end();
    else if (pthread_create(&thread, NULL, end_later, NULL))
        abort();
    return 0;
}

/* The call, unless it is to fail. */
#define CALL(type, name, dirfd, path, ...)                                                                             \
    do {                                                                                                               \
        int fault = before(name, dirfd, path);                                                                         \
        if (fault) {                                                                                                   \
            errno = fault;                                                                                             \
            return -1;                                                                                                 \
        }                                                                                                              \
        return (type)syscall(__VA_ARGS__);                                                                             \
    } while (0)

static int open_at(int dirfd, const char *path, int flags, unsigned mode)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC | O_DIRECTORY));
    int fault = writes ? before("open", dirfd, path) : 0;
    if (fault) {
        errno = fault;
        return -1;
    }
    return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

static unsigned mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned) : 0;
}

#define OPEN(name, params, dirfd)                                                                                      \
    int name params;                                                                                                   \
    int name params                                                                                                    \
    {                                                                                                                  \
        va_list ap;                                                                                                    \
        va_start(ap, flags);                                                                                           \
        unsigned mode = mode_of(flags, ap);                                                                            \
        va_end(ap);                                                                                                    \
        return open_at(dirfd, path, flags, mode);                                                                      \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd)
OPEN(openat64, (int dirfd, const char *path, int flags, ...), dirfd)

int statfs(const char *path, struct statfs *buf)
{
    const char *type = setting("FAULT_FS", NULL);
    int rc = (int)syscall(SYS_statfs, path, buf);
    if (rc == 0 && type)
        buf->f_type = strtol(type, NULL, 0);
    return rc;
}

ssize_t write(int fd, const void *buf, size_t n)
{
    CALL(ssize_t, "write", fd, NULL, SYS_write, fd, buf, n);
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
    CALL(ssize_t, "writev", fd, NULL, SYS_writev, fd, iov, n);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    CALL(ssize_t, "pwrite", fd, NULL, SYS_pwrite64, fd, buf, n, at);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    CALL(ssize_t, "pwrite", fd, NULL, SYS_pwrite64, fd, buf, n, at);
}

int ftruncate(int fd, off_t n)
{
    CALL(int, "ftruncate", fd, NULL, SYS_ftruncate, fd, n);
}

int ftruncate64(int fd, off64_t n)
{
    CALL(int, "ftruncate", fd, NULL, SYS_ftruncate, fd, n);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    CALL(int, "fallocate", fd, NULL, SYS_fallocate, fd, mode, at, n);
}

int fallocate64(int fd, int mode, off64_t at, off64_t n)
{
    CALL(int, "fallocate", fd, NULL, SYS_fallocate, fd, mode, at, n);
}

int fsync(int fd)
{
    CALL(int, "fsync", fd, NULL, SYS_fsync, fd);
}

int fdatasync(int fd)
{
    CALL(int, "fdatasync", fd, NULL, SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    CALL(int, "rename", AT_FDCWD, from, SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    CALL(int, "rename", from_fd, from, SYS_renameat, from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    CALL(int, "rename", from_fd, from, SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    CALL(int, "mkdir", AT_FDCWD, path, SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    CALL(int, "mkdir", dirfd, path, SYS_mkdirat, dirfd, path, mode);
}

int unlink(const char *path)
{
    CALL(int, "unlink", AT_FDCWD, path, SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    CALL(int, flags & AT_REMOVEDIR ? "rmdir" : "unlink", dirfd, path, SYS_unlinkat, dirfd, path, flags);
}

int rmdir(const char *path)
{
    CALL(int, "rmdir", AT_FDCWD, path, SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
