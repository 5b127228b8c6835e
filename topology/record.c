#include "topology/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "topology/apart.h"

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
    int rc = import_apart(reader->import, text, n + 1, reader->deadline, inv, errp);
    return rc < 0 ? error_prefix(errp, "%s", what) : 0;
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
