#include "t/unit/ckpt/history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/ckpt/commit.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/outfile.h"

struct history history = {.left = -1, .taken_at = -1};

/* ---- the system calls, counted ---- */

static void note(const char *what, const char *path)
{
    if (history.taken_at >= 0 && history.taken_at-- == 0)
        history.take_over();
    const char *name = strrchr(path, '/');
    size_t n = strlen(history.calls);
    snprintf(history.calls + n, sizeof history.calls - n, "%s %s\n", what, name ? name + 1 : path);
}

static void note_fd(const char *what, int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    note(what, path);
}

static bool fails(void)
{
    if (history.left < 0 || history.left-- > 0)
        return false;
    if (!history.fails_with)
        _exit(HISTORY_DIED);
    errno = history.fails_with;
    return true;
}

/* As the last call. */
static bool is_unsynced(void)
{
    size_t n = strlen(history.calls), n_line = history.unsynced ? strlen(history.unsynced) : SIZE_MAX;
    return n >= n_line && !strcmp(history.calls + n - n_line, history.unsynced);
}

/* The linker brings the calls of runtime/ckpt here (-Wl,--wrap). */
#define WRAP(type, name, parameters, arguments, noted)                                                                 \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        noted;                                                                                                         \
        return fails() ? (type)-1 : __real_##name arguments;                                                           \
    }
WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), note("mkdir", path))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), note("rename", from))
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), note(flags ? "rmdir" : "unlink", path))
WRAP(int, fsync, (int fd), (fd), note_fd("fsync", fd); if (is_unsynced()) return (errno = history.sync_error, -1))
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n),
     if (history.is_full) return (errno = ENOSPC, -1))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), note_fd("write", fd))
int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    note("exchange", from);
    if (!history.cannot_exchange)
        return fails() ? -1 : __real_renameat2(a, from, b, to, flags);
    errno = EINVAL;
    return -1;
}
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : __real_open(path, flags, mode);
}
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, mode_t mode);
int __wrap_openat(int at, const char *path, int flags, mode_t mode)
{
    if (strstr(path, "step-"))
        note("open", path);
    return fails() ? -1 : __real_openat(at, path, flags, mode);
}
DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
    return fails() ? NULL : __real_fdopendir(fd);
}

/* ---- the folder ---- */

int history_open(void **state)
{
    int rc = folder_make(state);
    snprintf(history.dir, sizeof history.dir, "%s/root", test_folder);
    return rc;
}

void history_write(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", history.dir, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

void history_make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", history.dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

void history_make_checkpoint(const char *name, bool is_whole)
{
    history_make_folder(name);
    history_write(name, "a", name);
    history_write(name, "b", name);
    if (is_whole)
        history_write(name, "manifest.json", name);
}

void history_make(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", history.dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(history.dir, 0755), 0);
    history_make_checkpoint("step-00000010", true);
    history_make_checkpoint("step-00000020", true);
    history_make_checkpoint("step-00000025", false);
    history_make_checkpoint(".saving-fedcba9876543210-step-00000030", false);
    history_make_folder("step-7"); /* not ours */
    if (history.has_same)
        history_make_checkpoint("step-00000030", true);
    history.calls[0] = 0;
}

static bool has(const char *folder, const char *name)
{
    char path[512], text[64] = "";
    snprintf(path, sizeof path, "%s/%s/%s", history.dir, folder, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    assert_true(fread(text, 1, sizeof text - 1, f) <= sizeof text);
    fclose(f);
    return !strcmp(text, folder);
}

bool history_has(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", history.dir, name);
    return access(path, F_OK) == 0;
}

bool history_is_checkpoint(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", history.dir, name);
    if (!folder_has_manifest(AT_FDCWD, path))
        return false;
    if (!has(name, "a") || !has(name, "b") || !has(name, "manifest.json"))
        fail_msg("%s has a manifest and is not whole, after %s", name, history.calls);
    return true;
}

/* ---- what commit.h has ---- */

/* In the folder, which is opened for it. */
#define IN_FOLDER(e, call)                                                                                             \
    struct savedir at;                                                                                                 \
    if (savedir_open(&at, history.dir, NULL, e) < 0)                                                                   \
        return -1;                                                                                                     \
    int rc = call;                                                                                                     \
    savedir_close(&at);                                                                                                \
    return rc

int history_clean(const char *token, ddp_error_t *e)
{
    IN_FOLDER(e, commit_clean(&at, token, UINT64_MAX, e));
}

static int history_recover(ddp_error_t *e)
{
    IN_FOLDER(e, (commit_recover(&at), 0));
}

int history_leave(const char *token)
{
    IN_FOLDER(NULL, (commit_leave(&at, token), 0));
}

int history_abandon(ddp_error_t *e)
{
    IN_FOLDER(e, commit_abandon(&at, TOKEN, 30, &(struct files){0}, e));
}

int history_make_saving(uint64_t step, struct savedir *ret, ddp_error_t *e)
{
    IN_FOLDER(e, commit_folder(&at, TOKEN, step, ret, e));
}

int history_commit(uint64_t step, const char *text, ddp_error_t *e)
{
    IN_FOLDER(e, commit(&at, TOKEN, step, text, strlen(text), e));
}

int history_retain(uint64_t newest, int keep, ddp_error_t *e)
{
    static uint64_t all[] = {10, 20, 30, 40, 100000000};
    const struct folder_steps seen = {.step = all, .n = sizeof all / sizeof *all};
    IN_FOLDER(e, commit_retain(&at, TOKEN, newest, &seen, keep, NULL, e));
}

int history_forget(uint64_t step, ddp_error_t *e)
{
    struct folder_steps steps = {.step = &step, .n = 1, .room = 1};
    IN_FOLDER(e, commit_forget(&at, TOKEN, &steps, e));
}

int history_save(ddp_error_t *e)
{
    struct savedir folder;
    static const char text[] = "step-00000030";
    int rc = 0;
    if (history_clean(TOKEN, e) < 0 || history_make_saving(30, &folder, e) < 0)
        return -1;
    for (int i = 0; i < 2 && rc == 0; i++) {
        struct outfile out;
        rc = outfile_open(&out, &folder, i ? "b" : "a", strlen(text), e);
        if (rc == 0 && (rc = outfile_write(&out, text, strlen(text), 0, e)) < 0)
            outfile_drop(&out);
        else if (rc == 0)
            rc = outfile_close(&out, e);
    }
    savedir_close(&folder);
    if (rc < 0)
        return -1;
    history.is_uncommitted = history_commit(30, text, e) < 0;
    return history.is_uncommitted ? -1 : history_retain(30, 2, e);
}

/* ---- what it promises ---- */

bool history_check(void)
{
    bool is_new = history_is_checkpoint("step-00000030");
    if (!history_is_checkpoint("step-00000020"))
        fail_msg("step 20 has gone, after %s", history.calls);
    if (!history_is_checkpoint("step-00000010") && !is_new)
        fail_msg("step 10 has gone before step 30 came, after %s", history.calls);
    history.n_gaps += history.has_same && history.cannot_exchange && !is_new;
    if (history.has_same && !history.cannot_exchange && !is_new)
        fail_msg("step 30 has gone before another came, after %s", history.calls);
    assert_true(history_has("step-7"));
    return is_new;
}

void history_check_next(bool had_new)
{
    ddp_error_t e = {0};
    assert_int_equal(history_recover(&e), 0);
    bool is_there = history_check();
    assert_true(is_there || !(had_new || history.has_same));
    assert_int_equal(history_clean(OTHER, &e), 0);
    assert_int_equal(history_check(), is_there);
    assert_false(history_has(".saving-" TOKEN "-step-00000030"));
    assert_false(history_has(".saving-fedcba9876543210-step-00000030"));
    assert_false(history_has("step-00000025"));
    if (!is_there)
        assert_false(history_has("step-00000030"));
    assert_int_equal(history_save(&e), 0);
    assert_true(history_check());
    assert_false(history_has("step-00000010"));
}
