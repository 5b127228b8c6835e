#include <config.h> /* O_PATH */

#include "runtime/record/prometheus.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/plain.h"
#include "runtime/record/number.h"

void prometheus_open(struct prometheus *p, const char *path)
{
    int here = *path == '/' ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *p = (struct prometheus){.is_open = true, .folder_fd = here < 0 ? AT_FDCWD : here};
    snprintf(p->path, sizeof p->path, "%s", path);
    snprintf(p->temporary, sizeof p->temporary, "%s.tmp", p->path); /* no *.prom */
}

static void drop_text(struct prometheus *p)
{
    if (p->text)
        fclose(p->text);
    free(p->buffer);
    p->text = NULL;
    p->buffer = NULL;
}

void prometheus_close(struct prometheus *p)
{
    drop_text(p);
    if (p->is_open)
        io_close(p->folder_fd);
    *p = (struct prometheus){0};
}

/* ---- the text ---- */

int prometheus_quote(char *ret, size_t size, const char *name, const char *value)
{
    char plain[256];
    snprintf(plain, sizeof plain, "%s", value);
    plain_line(plain); /* no line ends are left */
    size_t n = (size_t)snprintf(ret, size, "%s=\"", name);
    for (const char *c = plain; *c && n + 3 < size; c++) {
        if (*c == '"' || *c == '\\')
            ret[n++] = '\\';
        ret[n++] = *c;
    }
    if (n + 3 >= size) { /* of which one may be left over */
        *ret = 0;
        return -1;
    }
    memcpy(ret + n, "\"", 2);
    return 0;
}

void prometheus_label(struct prometheus *p, const char *name, const char *value)
{
    char quoted[sizeof p->labels];
    size_t n = strlen(p->labels);
    if (!value || !*value || prometheus_quote(quoted, sizeof quoted, name, value) < 0)
        return;
    if (n + 1 + strlen(quoted) < sizeof p->labels)
        snprintf(p->labels + n, sizeof p->labels - n, "%s%s", n ? "," : "", quoted);
}

void prometheus_begin(struct prometheus *p)
{
    drop_text(p);
    p->text = p->is_open ? open_memstream(&p->buffer, &p->n_bytes) : NULL;
}

void prometheus_family(struct prometheus *p, const char *name, const char *type, const char *help)
{
    p->name = name;
    p->type = type;
    p->help = help;
}

void prometheus_sample(struct prometheus *p, const char *labels, double x)
{
    if (!p->text || !isfinite(x))
        return;
    if (p->type)
        fprintf(p->text, "# HELP %s %s\n# TYPE %s %s\n", p->name, p->help, p->name, p->type);
    p->type = NULL;
    bool has_own = labels && *labels;
    fprintf(p->text, "%s{%s%s%s} ", p->name, p->labels, *p->labels && has_own ? "," : "", has_own ? labels : "");
    number_put(p->text, x);
    putc('\n', p->text);
}

/* ---- the file ---- */

#define CURE "name a file in a folder that is there and that you can write to"

static int replace(const struct prometheus *p, ddp_error_t *errp)
{
    struct stat st;
    if (fstatat(p->folder_fd, p->path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
        return error_set(errp, DDP_E_USAGE, EINVAL, "Prometheus file %.160s: it is no regular file: name another",
                         p->path);
    unlinkat(p->folder_fd, p->temporary, 0); /* of a process that was killed */
    int fd = openat(p->folder_fd, p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(errp, "Prometheus file %.160s cannot be written (" CURE ")", p->path);
    int rc = io_write_all(fd, p->buffer, p->n_bytes);
    if (rc == 0)
        rc = close(fd); /* where a full NFS or quota says so */
    else
        io_close(fd);
    if (rc == 0 && renameat(p->folder_fd, p->temporary, p->folder_fd, p->path) == 0)
        return 0;
    error_errno(errp, "Prometheus file %.160s cannot be written (" CURE ")", p->path);
    unlinkat(p->folder_fd, p->temporary, 0);
    return -1;
}

int prometheus_end(struct prometheus *p, ddp_error_t *errp)
{
    if (!p->is_open)
        return 0;
    bool is_whole = p->text && fclose(p->text) == 0;
    p->text = NULL;
    errno = ENOMEM;
    int rc = is_whole ? replace(p, errp) : error_errno(errp, "Prometheus file %.160s", p->path);
    drop_text(p);
    return rc;
}
