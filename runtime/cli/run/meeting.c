#include "runtime/cli/run/meeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET "boot"
#define PATH_MAX_UNIX (sizeof((struct sockaddr_un *)0)->sun_path - 1)

/* 0, or -1 with errno, or 1: its path is no absolute one or too long. */
static int make_in(struct meeting *m, const char *parent)
{
    int n = snprintf(m->dir, sizeof m->dir, "%s/ddp-XXXXXX", parent);
    if (parent[0] != '/' || n < 0 || (size_t)n + sizeof "/" SOCKET - 1 > PATH_MAX_UNIX || (size_t)n >= sizeof m->dir)
        return 1;
    return mkdtemp(m->dir) ? 0 : -1;
}

int meeting_open(struct meeting *m, ddp_error_t *errp)
{
    const char *tmp = getenv("TMPDIR");
    if ((!tmp || make_in(m, tmp) != 0) && make_in(m, "/tmp") != 0) {
        m->dir[0] = 0;
        return error_errno(errp, "no folder for the ranks to meet in can be made, neither in TMPDIR nor in /tmp");
    }
    snprintf(m->addr, sizeof m->addr, "unix:%s/" SOCKET, m->dir);
    return 0;
}

void meeting_close(const struct meeting *m)
{
    if (!m->dir[0])
        return;
    unlink(m->addr + sizeof "unix:" - 1);
    rmdir(m->dir);
}
