/* What NCCL is told through the environment: what its user asked for, and nothing else. Algorithms, protocols,
 * channels, adapters and topology are its own business (a setting that helps one machine breaks rings on another). */
#include <config.h> /* setenv */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/impl.h"

static int set(const char *name, const char *value, ddp_error_t *errp)
{
    return setenv(name, value, 0) == 0 ? 0 : error_errno(errp, "set %s", name);
}

/* pattern with every %r as the rank; NCCL itself expands %h, %p and %%. */
static int log_path(const char *pattern, int rank, char *buf, size_t size, ddp_error_t *errp)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n < size; p++) {
        if (p[0] == '%' && p[1] == 'r') {
            n += (size_t)snprintf(buf + n, size - n, "%d", rank);
            p++;
        } else {
            buf[n++] = *p;
            if (p[0] == '%' && p[1] && n < size) /* "%%r" is no rank */
                buf[n++] = *++p;
        }
    }
    if (n >= size)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "NCCL's log: the path %.60s... is too long", pattern);
    buf[n] = 0;
    return 0;
}

/* Where NCCL cannot open its file it logs to stdout, and says nothing of it. What it will call a file with %h or %p in
 * its name is known to itself alone. */
static int try_log(const char *path, ddp_error_t *errp)
{
    if (strchr(path, '%'))
        return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(errp, "NCCL's log %.150s", path);
    close(fd);
    return 0;
}

static int set_log(const char *pattern, const struct world *w, ddp_error_t *errp)
{
    char path[1024];
    if (w->size > 1 && !strstr(pattern, "%r") && !strstr(pattern, "%p"))
        return error_set(errp, DDP_E_USAGE, EINVAL, "NCCL's log %.150s: each rank needs a file of its own: put %%r, "
                         "which becomes the rank, into the name", pattern);
    if (log_path(pattern, w->rank, path, sizeof path, errp) < 0 || set("NCCL_DEBUG", "INFO", errp) < 0)
        return -1;
    if (!getenv("NCCL_DEBUG_FILE") && try_log(path, errp) < 0)
        return -1;
    return set("NCCL_DEBUG_FILE", path, errp);
}

int nccl_environment(const struct nccl_config *cfg, const struct world *w, ddp_error_t *errp)
{
    char id[32];
    const char *blocking = getenv("NCCL_COMM_BLOCKING"); /* goes over the configuration: init.cc, envConfigOverride */
    if (blocking && strtoll(blocking, NULL, 0) == 1) /* as NCCL reads it */
        return error_set(errp, DDP_E_USAGE, EINVAL, "NCCL_COMM_BLOCKING=1 would have NCCL wait where no death of a "
                         "rank can end it: unset it");
    snprintf(id, sizeof id, "ddp-rank-%d", w->rank);
    if (cfg->share_devices && set("NCCL_HOSTID", id, errp) < 0)
        return -1;
    return cfg->log ? set_log(cfg->log, w, errp) : 0;
}
