/* folder.c - the folder of checkpoints: is it the same on all nodes, can each write there, and how fast. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/io.h"
#include "runtime/cli/check/check.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define ANSWER_S 20.0      /* a file system that has not done it by then hangs; */
#define ANSWER_SHARE 0.667 /* where ranks wait less long for each other: of that time, so that they still hear of it */
#define WRITE_SHARE 0.1    /* of the one or the other, then writing stops, at the next sync */
#define NAME_BYTES 48

/* What a thread does that may be left behind: it owns this then (call.h). */
struct visit {
    char dir[4096], name[NAME_BYTES];
    enum { WRITE, SEE, MAKE, REMOVE } what;
    int mib;
    double answer_s;
    bool is_there;
    struct check_folder found;
};

static void fail(struct visit *v, const char *what)
{
    snprintf(v->found.error, sizeof v->found.error, "%s: %s", what, strerror(errno));
}

static void look_around(struct visit *v, int dir)
{
    struct statvfs fs;
    struct stat st;
    if (fstatvfs(dir, &fs) == 0)
        v->found.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (fstat(dir, &st) == 0 && st.st_mode & S_IWOTH)
        snprintf(v->found.warning, sizeof v->found.warning, "any user can write there (mode %04o)",
                 (unsigned)st.st_mode & 07777);
}

/* Numbers that no file system can leave out. */
static void fill(uint64_t *block)
{
    uint64_t x = clock_ns() | 1;
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *block; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        block[i] = x ^= x << 17;
    }
}

static bool write_block(int fd, uint64_t *block)
{
    fill(block);
    return io_write_all(fd, block, BLOCK_BYTES) == 0;
}

/* Synced after 1, 2, 4 ... MiB, so that what is on its way takes no longer than what was before: a slow server that
 * many nodes write to is slow, and not down. */
static void write_blocks(struct visit *v, int fd)
{
    uint64_t start = clock_ns(), end = deadline_in(WRITE_SHARE * v->answer_s), *block = malloc(BLOCK_BYTES);
    bool is_good = block != NULL;
    int n = 0;
    for (int next = 1; is_good && n < v->mib && deadline_left_ns(end) > 0; next *= 2) {
        for (; is_good && n < v->mib && n < next; n++)
            is_good = write_block(fd, block);
        is_good = is_good && fdatasync(fd) == 0;
    }
    v->found.written_bytes = (uint64_t)n * BLOCK_BYTES;
    if (!is_good)
        fail(v, "a file cannot be written");
    v->found.write_s = (double)(clock_ns() - start) / NS_PER_S;
    free(block);
}

/* The file has no name while it grows: whatever ends this process, nothing is left of it. */
static void write_file(struct visit *v, int dir)
{
    int fd = openat(dir, v->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(v, "no file can be made");
    if (unlinkat(dir, v->name, 0) < 0)
        fail(v, "a file cannot be removed");
    else
        write_blocks(v, fd);
    close(fd);
}

static void visit(void *state)
{
    struct visit *v = state;
    int dir = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    if (dir < 0)
        return fail(v, "it cannot be opened");
    if (v->what == WRITE) {
        look_around(v, dir);
        write_file(v, dir);
    } else if (v->what == MAKE) {
        fd = openat(dir, v->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        v->is_there = fd >= 0;
    } else if (v->what == SEE) {
        struct stat st;
        v->is_there = fstatat(dir, v->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    } else {
        unlinkat(dir, v->name, 0);
    }
    io_close(fd);
    close(dir);
}

static void drop(void *state)
{
    (void)state;
}

/* In a thread with a deadline. *ret is as after it; `error` says where it hangs. */
static void do_visit(struct visit *ret)
{
    ddp_error_t e = {0};
    struct visit *v = malloc(sizeof *v);
    if (!v) {
        fail(ret, "no memory");
        return;
    }
    *v = *ret;
    int rc = call_within(visit, drop, v, deadline_in(ret->answer_s), &e);
    if (rc == 0)
        *ret = *v;
    else if (rc < 0)
        snprintf(ret->found.error, sizeof ret->found.error, "%.*s", CHECK_ERROR_MAX - 1, e.text);
    else
        snprintf(ret->found.error, sizeof ret->found.error, "the file system has not answered for %.2g s: is its "
                 "server down?", ret->answer_s);
    if (rc <= 0)
        free(v);
}

/* Rank 0 makes a file, the first of each other node looks for it, and it goes again: rank 0 removes it, and where rank
 * 0 is no more, the others do. Signals that end a process wait meanwhile. */
static int compare_nodes(ddp_t *d, struct visit *v, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(d);
    sigset_t ends, before;
    int32_t is_made = 0;
    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    if (w->rank == 0) {
        v->what = MAKE;
        do_visit(v);
        is_made = v->is_there;
        v->found = (struct check_folder){0}; /* what is wrong shows again when it is written */
    }
    int rc = ddp_bcast(d, &is_made, 1, DDP_I32, 0, errp);
    if (rc == 0 && is_made && w->local_rank == 0) {
        v->what = SEE;
        do_visit(v);
        v->found = (struct check_folder){.is_other = !v->is_there};
    }
    if (rc == 0)
        rc = ddp_barrier(d, errp);
    if (rc < 0 ? w->local_rank == 0 : w->rank == 0 && is_made) {
        struct check_folder found = v->found;
        v->what = REMOVE;
        do_visit(v);
        v->found = found;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int check_folder(ddp_t *d, const char *dir, int mib, double timeout_s, struct check_folder *ret, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(d);
    struct visit v = {.mib = mib, .answer_s = fmin(ANSWER_S, ANSWER_SHARE * timeout_s)};
    char token[17] = "";
    if (snprintf(v.dir, sizeof v.dir, "%s", dir) >= (int)sizeof v.dir)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "the path of --dir is too long");
    if (w->rank == 0 && io_random_hex(token, 8, errp) < 0)
        return -1;
    if (ddp_bcast(d, token, 4, DDP_I32, 0, errp) < 0)
        return -1;
    snprintf(v.name, sizeof v.name, ".ddp-check-%.16s", token);
    if (w->n_nodes > 1 && compare_nodes(d, &v, errp) < 0)
        return -1;
    if (w->local_rank > 0)
        return 0;
    snprintf(v.name, sizeof v.name, ".ddp-check-%.16s.%d", token, w->rank);
    v.what = WRITE;
    do_visit(&v);
    *ret = v.found;
    ret->is_asked = 1;
    return 0;
}
