#include "runtime/base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/plain.h"

int error_vset(ddp_error_t *errp, int domain, int code, const char *fmt, va_list ap)
{
    int saved = errno;
    if (errp) {
        char text[4 * sizeof errp->text]; /* apart, so that an argument may point into *errp */
        vsnprintf(text, sizeof text, fmt, ap);
        plain_line(text);
        plain_fit(errp->text, sizeof errp->text, text);
        errp->domain = domain;
        errp->code = code ? code : EINVAL;
    }
    errno = saved;
    return -1;
}

int error_set(ddp_error_t *errp, int domain, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_vset(errp, domain, code, fmt, ap);
    va_end(ap);
    return -1;
}

/* From the user who makes a file or a folder. /proc tells: to ask the kernel is to change it. */
static bool umask_takes_own(void)
{
    char line[128];
    unsigned mask = 0;
    int saved = errno;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Umask: %o", &mask) != 1)
        ;
    if (f)
        fclose(f);
    errno = saved;
    return mask & 0700;
}

int error_errno(ddp_error_t *errp, const char *fmt, ...)
{
    int saved = errno;
    char what[3 * sizeof errp->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const char *limit = saved == EMFILE                        ? " (ulimit -n)"
                        : saved == EFBIG                       ? " (ulimit -f)"
                        : saved == EACCES && umask_takes_own() ? " (umask)"
                                                               : "";
    return error_set(errp, DDP_E_SYSTEM, saved, "%s: %s%s", what, strerror(saved), limit);
}

int error_prefix(ddp_error_t *errp, const char *fmt, ...)
{
    char what[sizeof errp->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (errp)
        error_set(errp, errp->domain, errp->code, "%s: %s", what, errp->text);
    return -1;
}

const char *error_of_rank(const char *text, int rank)
{
    char own[32];
    size_t n = (size_t)snprintf(own, sizeof own, "rank %d: ", rank);
    return strncmp(text, own, n) == 0 ? text + n : text;
}
