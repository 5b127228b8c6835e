#include "runtime/train/losslog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"

FILE *losslog_open(const char *path, ddp_error_t *errp)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!f) {
        error_errno(errp, "--log-json: %s cannot be written", path);
        io_close(fd);
        return NULL;
    }
    setvbuf(f, NULL, _IOLBF, 0);
    return f;
}

static bool is_file(FILE *f)
{
    struct stat st;
    return fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode);
}

static int cut(FILE *f, const char *path, off_t at, ddp_error_t *errp)
{
    if (ftruncate(fileno(f), at) < 0 || fseeko(f, at, SEEK_SET) < 0)
        return error_errno(errp, "--log-json: %s cannot be cut to %lld bytes", path, (long long)at);
    return 0;
}

int losslog_begin(FILE *f, const char *path, ddp_error_t *errp)
{
    return is_file(f) ? cut(f, path, 0, errp) : 0;
}

int losslog_sync(FILE *f, ddp_error_t *errp)
{
    bool lacks_lines = ferror(f);
    if (fflush(f) < 0 || (is_file(f) && fdatasync(fileno(f)) < 0))
        return error_errno(errp, "--log-json: lines are not on disk");
    return lacks_lines ? error_set(errp, DDP_E_SYSTEM, EIO, "--log-json: lines could not be written: is the disk full?")
                       : 0;
}

/* The step of a whole line; false: it is none. */
static bool step_of(const char *line, size_t n, uint64_t *ret)
{
    static const char begin[] = "{\"step\": ";
    char *end;
    if (n < sizeof begin || strncmp(line, begin, sizeof begin - 1) || strcmp(line + n - 2, "}\n"))
        return false;
    unsigned long long step = strtoull(line + sizeof begin - 1, &end, 10);
    *ret = step;
    return end != line + sizeof begin - 1 && *end == ',';
}

int losslog_resume(FILE *f, const char *path, uint64_t step, uint64_t n_skipped, bool drops_validation,
                   uint64_t *ret_last, uint64_t *ret_n_missing, ddp_error_t *errp)
{
    char *line = NULL;
    size_t size = 0;
    uint64_t last = 0, n_missing = 0, at;
    off_t keep = 0;
    ssize_t n;
    if (!is_file(f)) {
        *ret_last = step;
        *ret_n_missing = 0;
        return 0;
    }
    rewind(f);
    while ((n = getline(&line, &size, f)) > 0 && step_of(line, (size_t)n, &at) && at >= last && at <= step) {
        if (at == step && drops_validation && strstr(line, "\"val_loss\""))
            break;
        if (at == step && at == last && strstr(line, "\"skipped\": true") && n_skipped-- == 0) /* it comes again */
            break;
        n_missing += last && at > last ? at - last - 1 : 0;
        last = at;
        keep += n;
    }
    free(line);
    *ret_last = last;
    *ret_n_missing = n_missing;
    return cut(f, path, keep, errp);
}
