#include "config.h" /* memfd_create */
#include "runtime/stack/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/io.h"

#define LINE_MAX_BYTES 256

static void add_line(int to, pid_t pid, const char *thread)
{
    char path[64], line[LINE_MAX_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/syscall", (int)pid, thread);
    int at = snprintf(line, sizeof line, "%.20s ", thread), fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line + at, sizeof line - (size_t)at);
    io_close(fd);
    if (n > 0)
        (void)!write(to, line, (size_t)(at + n));
}

int threads_list(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    int to = d ? memfd_create("threads", MFD_CLOEXEC) : -1;
    for (struct dirent *e; to >= 0 && (e = readdir(d));)
        if (e->d_name[0] != '.')
            add_line(to, pid, e->d_name);
    if (d)
        closedir(d);
    if (to >= 0)
        lseek(to, 0, SEEK_SET);
    return to;
}
