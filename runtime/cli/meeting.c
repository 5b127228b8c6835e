#include "runtime/cli/meeting.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET "boot"
#define PATH_MAX_UNIX (sizeof((struct sockaddr_un *)0)->sun_path - 1)

static bool is_own_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

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
    const char *own = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
    bool is_made = (own && is_own_folder(own) && make_in(m, own) == 0) || (tmp && make_in(m, tmp) == 0) ||
                   make_in(m, "/tmp") == 0;
    if (!is_made) {
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
