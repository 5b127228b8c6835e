#include "config.h" /* memfd_create */
#include "runtime/stack/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/io.h"

#define LINE_MAX_BYTES 512
#define STATUS_MAX_BYTES 4096

/* /proc/PID/task/TID/NAME, as a text. -1: there is no such thread, or it may not be read. */
static int read_text(pid_t pid, long tid, const char *name, char *text, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%ld/%s", (int)pid, tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : io_read_up_to(fd, text, size - 1);
    io_close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? 0 : -1;
}

/* -1: not known. */
static int64_t count_waits(pid_t pid, long tid)
{
    static const char name[] = "\nvoluntary_ctxt_switches:";
    char text[STATUS_MAX_BYTES];
    const char *at = read_text(pid, tid, "status", text, sizeof text) == 0 ? strstr(text, name) : NULL;
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static void add_line(int to, pid_t pid, long tid)
{
    char text[LINE_MAX_BYTES / 2], line[LINE_MAX_BYTES];
    int64_t n_waits = count_waits(pid, tid); /* first */
    if (read_text(pid, tid, "syscall", text, sizeof text) < 0)
        return;
    int n = snprintf(line, sizeof line, "%d %ld %" PRId64 " %s", (int)pid, tid, n_waits, text);
    (void)!write(to, line, (size_t)n);
}

static void add_process(int to, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            add_line(to, pid, strtol(e->d_name, NULL, 10));
    if (d)
        closedir(d);
}

int threads_list(const pid_t *pid, size_t n)
{
    int to = memfd_create("threads", MFD_CLOEXEC);
    for (size_t i = 0; to >= 0 && i < n; i++)
        add_process(to, pid[i]);
    if (to >= 0)
        lseek(to, 0, SEEK_SET);
    return to;
}

/* proc(5), syscall: "running", or the call's number, its arguments where it is one, and then the two. */
bool threads_parse(const char *line, struct thread *ret)
{
    long pid, tid;
    int64_t n_waits;
    int at = 0;
    const char *pc = strrchr(line, ' '), *sp = pc;
    if (sscanf(line, "%ld %ld %" SCNd64 " %n", &pid, &tid, &n_waits, &at) < 3 || at == 0 || pid < 1 || pid > INT_MAX ||
        tid < 1 || tid > INT_MAX)
        return false;
    while (sp > line + at && (sp == pc || *sp != ' '))
        sp--;
    if (!pc || sp <= line + at || !begins(sp, " 0x") || !begins(pc, " 0x"))
        return false;
    *ret = (struct thread){(pid_t)pid, (pid_t)tid, n_waits, strtoull(sp, NULL, 16), strtoull(pc, NULL, 16)};
    return true;
}

bool threads_is_still(const struct thread *t)
{
    return t->n_waits >= 0 && count_waits(t->pid, t->tid) == t->n_waits;
}
