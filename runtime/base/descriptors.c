#include "runtime/base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "runtime/base/io.h"

enum { PROGRAMS_OWN = 512 };

bool descriptors_reserve(size_t n)
{
    struct rlimit r;
    int saved = errno, lowest = eventfd(0, EFD_CLOEXEC); /* that is free; -1: none is */
    bool is_raised = false;
    io_close(lowest);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        rlim_t want = (lowest < 0 ? r.rlim_cur : (rlim_t)lowest) + n + PROGRAMS_OWN, was = r.rlim_cur;
        r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
        is_raised = r.rlim_cur > was && setrlimit(RLIMIT_NOFILE, &r) == 0;
    }
    errno = saved;
    return is_raised;
}

int descriptors_check(size_t n)
{
    size_t n_open = 0;
    int *fds = calloc(n + 1, sizeof *fds);
    if (!fds)
        return -1;
    while (n_open < n && (fds[n_open] = n_open ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : eventfd(0, EFD_CLOEXEC)) >= 0)
        n_open++;
    int saved = errno;
    for (size_t i = n_open; i-- > 0;)
        io_close(fds[i]);
    free(fds);
    errno = saved;
    return n_open < n ? -1 : 0;
}
