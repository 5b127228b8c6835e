/* A commit is a sequence of system calls. The process dies before any one of them, or any one of them fails: what is
 * left is checked each time against what commit.h promises. */
#include "t/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/ckpt/commit.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/outfile.h"

#define TOKEN "0123456789abcdef"
#define OTHER "aaaaaaaaaaaaaaaa"
#define DIED 99

/* ---- the system calls, counted ---- */

static int left = -1;  /* calls until the one that does not happen; -1: all do */
static int fails_with; /* 0: the process dies instead */
static char calls[16384];
static int taken_at = -1; /* calls until another job takes the folder over; -1: none does */
static void take_over(void);
static bool is_full; /* the disk, of what a killed job left */
static const char *unsynced; /* a line of calls whose fsync fails; NULL: none */
static int sync_error;       /* so */

static void note(const char *what, const char *path)
{
    if (taken_at >= 0 && taken_at-- == 0)
        take_over();
    const char *name = strrchr(path, '/');
    size_t n = strlen(calls);
    snprintf(calls + n, sizeof calls - n, "%s %s\n", what, name ? name + 1 : path);
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
    if (left < 0 || left-- > 0)
        return false;
    if (!fails_with)
        _exit(DIED);
    errno = fails_with;
    return true;
}

/* As the last call. */
static bool is_unsynced(void)
{
    size_t n = strlen(calls), n_line = unsynced ? strlen(unsynced) : SIZE_MAX;
    return n >= n_line && !strcmp(calls + n - n_line, unsynced);
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
WRAP(int, fsync, (int fd), (fd), note_fd("fsync", fd); if (is_unsynced()) return (errno = sync_error, -1))
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), if (is_full) return (errno = ENOSPC, -1))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), note_fd("write", fd))
static bool cannot_exchange; /* as on NFS */
int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    note("exchange", from);
    if (!cannot_exchange)
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

/* ---- a folder of checkpoints ---- */

static char root[] = "/tmp/ddp-commit.XXXXXX";
static char dir[64];
static bool has_same; /* a checkpoint of step 30 is there already */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", dir, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Its name is all that a file holds. */
static void make_checkpoint(const char *name, bool is_whole)
{
    make_folder(name);
    write_file(name, "a", name);
    write_file(name, "b", name);
    if (is_whole)
        write_file(name, "manifest.json", name);
}

/* Two checkpoints, and what a killed job left. */
static void make_history(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(dir, 0755), 0);
    make_checkpoint("step-00000010", true);
    make_checkpoint("step-00000020", true);
    make_checkpoint("step-00000025", false);
    make_checkpoint(".saving-fedcba9876543210-step-00000030", false);
    make_folder("step-7"); /* not ours */
    if (has_same)
        make_checkpoint("step-00000030", true);
}

/* In the folder, which is opened for it. */
#define IN_FOLDER(e, call)                                                                                             \
    struct savedir at;                                                                                                 \
    if (savedir_open(&at, dir, NULL, e) < 0)                                                                           \
        return -1;                                                                                                     \
    int rc = call;                                                                                                     \
    savedir_close(&at);                                                                                                \
    return rc

static int clean(const char *token, ddp_error_t *e)
{
    IN_FOLDER(e, commit_clean(&at, token, UINT64_MAX, e));
}

static int recover(ddp_error_t *e)
{
    IN_FOLDER(e, (commit_recover(&at), 0));
}

static int leave(const char *token)
{
    IN_FOLDER(NULL, (commit_leave(&at, token), 0));
}

static int abandon(ddp_error_t *e)
{
    IN_FOLDER(e, commit_abandon(&at, TOKEN, 30, &(struct files){0}, e));
}

static int make_saving(uint64_t step, struct savedir *ret, ddp_error_t *e)
{
    IN_FOLDER(e, commit_folder(&at, TOKEN, step, ret, e));
}

static int commit_text(uint64_t step, const char *text, ddp_error_t *e)
{
    IN_FOLDER(e, commit(&at, TOKEN, step, text, strlen(text), e));
}

static int retain(uint64_t newest, int keep, ddp_error_t *e)
{
    static uint64_t all[] = {10, 20, 30, 40, 100000000};
    const struct folder_steps seen = {.step = all, .n = sizeof all / sizeof *all};
    IN_FOLDER(e, commit_retain(&at, TOKEN, newest, &seen, keep, NULL, e));
}

static bool is_uncommitted; /* the last save, by what commit has returned */

/* step-00000030 is written, committed, and the oldest one goes. */
static int save(ddp_error_t *e)
{
    struct savedir folder;
    static const char text[] = "step-00000030";
    int rc = 0;
    if (clean(TOKEN, e) < 0 || make_saving(30, &folder, e) < 0)
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
    is_uncommitted = commit_text(30, text, e) < 0;
    return is_uncommitted ? -1 : retain(30, 2, e);
}

static bool has(const char *folder, const char *name)
{
    char path[512], text[64] = "";
    snprintf(path, sizeof path, "%s/%s/%s", dir, folder, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    assert_true(fread(text, 1, sizeof text - 1, f) <= sizeof text);
    fclose(f);
    return !strcmp(text, folder);
}

static bool exists(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* There, and then whole. */
static bool is_checkpoint(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!folder_has_manifest(AT_FDCWD, path))
        return false;
    if (!has(name, "a") || !has(name, "b") || !has(name, "manifest.json"))
        fail_msg("%s has a manifest and is not whole, after %s", name, calls);
    return true;
}

static int n_gaps; /* how often neither of the two of step 30 had its name */

/* What commit.h promises, whatever happened. Returns whether step 30 is there. */
static bool check_promises(void)
{
    bool is_new = is_checkpoint("step-00000030");
    if (!is_checkpoint("step-00000020"))
        fail_msg("step 20 has gone, after %s", calls);
    if (!is_checkpoint("step-00000010") && !is_new)
        fail_msg("step 10 has gone before step 30 came, after %s", calls);
    n_gaps += has_same && cannot_exchange && !is_new;
    if (has_same && !cannot_exchange && !is_new)
        fail_msg("step 30 has gone before another came, after %s", calls);
    assert_true(exists("step-7"));
    return is_new;
}

/* The next job cleans up, and commits. */
static void check_next(bool had_new)
{
    ddp_error_t e = {0};
    assert_int_equal(recover(&e), 0);
    bool is_there = check_promises();
    assert_true(is_there || !(had_new || has_same));
    assert_int_equal(clean(OTHER, &e), 0);
    assert_int_equal(check_promises(), is_there);
    assert_false(exists(".saving-" TOKEN "-step-00000030"));
    assert_false(exists(".saving-fedcba9876543210-step-00000030"));
    assert_false(exists("step-00000025"));
    if (!is_there)
        assert_false(exists("step-00000030"));
    assert_int_equal(save(&e), 0);
    assert_true(check_promises());
    assert_false(exists("step-00000010"));
}

static void test_dies_between_any_two_calls(void **state)
{
    int n_before = 0, n_after = 0, n = 0;
    (void)state;
    for (bool dies = true; dies; n++) {
        make_history();
        pid_t pid = fork();
        if (pid == 0) {
            left = n;
            _exit(save(NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        dies = WEXITSTATUS(status) == DIED;
        assert_true(dies || WEXITSTATUS(status) == 0);
        bool is_new = check_promises();
        n_before += !is_new;
        n_after += is_new;
        check_next(is_new);
    }
    print_message("# died before each of %d calls: %d times without the new checkpoint, %d with it\n", n, n_before,
                  n_after);
    assert_true(has_same ? n_after >= 30 : n_before >= 20 && n_after >= 5);
}

/* The n-th call fails. Returns whether there was one. */
static bool save_failing(int n, int *n_failed)
{
    ddp_error_t e = {0};
    make_history();
    calls[0] = 0;
    left = n;
    int rc = save(&e);
    bool was_there = left < 0;
    left = -1;
    bool is_new = check_promises();
    if (rc < 0) {
        ++*n_failed;
        assert_error_has(e, dir);
        assert_error_has(e, strerror(fails_with));
        assert_false(is_new && is_uncommitted && !has_same); /* nobody would remove it */
        assert_int_equal(abandon(&e), 0);
        assert_int_equal(check_promises(), is_new);
    }
    check_next(is_new);
    return was_there;
}

static void test_any_call_fails(void **state)
{
    static const int codes[] = {ENOSPC, EIO, EACCES};
    (void)state;
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        int n = 0, n_failed = 0;
        fails_with = codes[c];
        while (save_failing(n, &n_failed))
            n++;
        print_message("# %d calls, each of which failed once: %s\n", n, strerror(codes[c]));
        assert_true(n_failed >= 25);
    }
    fails_with = 0;
}

static const char *const synced_folders[] = {
    "fsync .saving-" TOKEN "-step-00000030\n", /* what is in it, */
    "fsync root\n",                            /* its name, */
    "fsync step-00000030\n",                   /* and its manifest's */
};
enum { N_SYNCED = sizeof synced_folders / sizeof *synced_folders };

/* The save fails, nothing of it stays, and all that was there does. */
static void save_unsynced(const char *folder, int error)
{
    ddp_error_t e = {0};
    make_history();
    calls[0] = 0;
    unsynced = folder;
    sync_error = error;
    int rc = save(&e);
    unsynced = NULL;
    if (!strstr(calls, folder) || rc == 0 || !is_uncommitted)
        fail_msg("committed although this failed: %s", folder);
    assert_error_has(e, "cannot write the folder");
    assert_error_has(e, strerror(error));
    assert_int_equal(check_promises(), has_same);
    assert_true(exists("step-00000010"));
    check_next(has_same);
}

static void test_a_folder_cannot_be_synced(void **state)
{
    (void)state;
    for (int i = 0; i < N_SYNCED; i++) {
        save_unsynced(synced_folders[i], EIO);
        save_unsynced(synced_folders[i], ENOSPC);
    }
    has_same = true; /* whose folder has its manifest before its name */
    for (int i = 0; i < N_SYNCED - 1; i++)
        save_unsynced(synced_folders[i], EIO);
    has_same = false;
}

/* As some file systems have it that need none. */
static void test_a_folder_need_not_be_synced(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    sync_error = EINVAL;
    for (int i = 0; i < N_SYNCED; i++) {
        make_history();
        calls[0] = 0;
        unsynced = synced_folders[i];
        if (save(&e) < 0)
            fail_msg("%s", e.text);
        assert_true(check_promises() && strstr(calls, unsynced));
    }
    unsynced = NULL;
}

/* Everything is on disk before what names it, and what replaces an old one before that goes. */
static void test_order(void **state)
{
    static const char *const order[] = {
        "unlink a\n",       "rmdir ",
        "mkdir .saving-" TOKEN "-step-00000030\n",
        "write a\n",        "fsync a\n",
        "write b\n",        "fsync b\n",
        "fsync .saving-" TOKEN "-step-00000030\n",
        "rename .saving-" TOKEN "-step-00000030\n",
        "fsync root\n",
        "write .manifest\n", "fsync .manifest\n", "rename .manifest\n",
        "fsync step-00000030\n",
        "unlink manifest.json\n", "fsync step-00000010\n", "unlink ", "rmdir step-00000010\n",
    };
    const char *at = calls;
    (void)state;
    make_history();
    calls[0] = 0;
    assert_int_equal(save(NULL), 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *found = strstr(at, order[i]);
        if (!found)
            fail_msg("%s comes too early, or not at all: %s", order[i], calls);
        at = found + strlen(order[i]);
    }
}

/* A broken checkpoint beyond the one that was resumed from goes when the next is committed, also one of its own
 * step. */
static void test_replaces_broken(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    make_checkpoint("step-00000030", true);
    write_file("step-00000030", "a", "broken");
    make_checkpoint("step-00000040", true);
    assert_int_equal(save(&e), 0);
    assert_true(check_promises());
    assert_false(exists("step-00000040"));
    assert_false(exists("step-00000010"));
}

static void test_retain(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    make_checkpoint("step-100000000", true);
    assert_int_equal(clean(TOKEN, &e) | retain(100000000, 1, &e), 0);
    assert_true(exists("step-100000000") && exists("step-7"));
    assert_false(exists("step-00000020") || exists("step-00000010"));
}

static uint64_t others; /* step of a checkpoint that the other job then commits; 0: none */
static bool has_others;

static void take_over(void)
{
    char name[32];
    assert_int_equal(clean(OTHER, NULL), 0);
    folder_name(others, name);
    has_others = others && !exists(name);
    if (has_others)
        make_checkpoint(name, true);
}

static void test_taken_over(void **state)
{
    struct savedir folder;
    ddp_error_t e = {0};
    int n = 0, n_refused = 0;
    (void)state;
    for (bool is_taken = true; is_taken; n++) {
        make_history();
        calls[0] = 0;
        taken_at = n;
        bool is_refused = save(&e) < 0;
        is_taken = taken_at < 0;
        taken_at = -1;
        bool is_new = check_promises();
        assert_true(is_refused || is_new);
        n_refused += is_refused;
        if (is_refused && strstr(e.text, "rename .writer"))
            fail_msg("before call %d: %s", n, e.text);
        leave(TOKEN);
        assert_int_equal(exists(".writer"), is_taken);
    }
    print_message("# taken over before each of %d calls: %d times refused\n", n - 1, n_refused);
    assert_true(n_refused >= 10);

    make_history();
    assert_int_equal(save(&e), 0);
    take_over();
    assert_int_equal(make_saving(40, &folder, &e), 0);
    savedir_close(&folder);
    assert_int_equal(commit_text(40, "x", &e), -1);
    assert_error_has(e, "another job has begun to save there");
    assert_false(exists("step-00000040"));
    assert_true(check_promises());
    leave(OTHER);
    assert_false(exists(".writer"));

    make_checkpoint("step-00000050", true); /* the other's: it must not be removed as one beyond step 40 */
    assert_int_equal(commit_text(40, "x", &e), -1);
    assert_error_has(e, "another job has begun to save there, and left, or somebody has removed .writer: run");
    assert_false(exists("step-00000040"));
    assert_true(is_checkpoint("step-00000050"));
}

/* This job stands still before a call, until the other one has come as far and has committed. */
static void test_other_has_committed(void **state)
{
    (void)state;
    others = 30;
    for (int k = 0; k < 3; k++) {
        bool is_taken = true;
        has_same = k > 0;
        cannot_exchange = k == 2;
        for (int n = 0; is_taken; n++) {
            make_history();
            calls[0] = 0;
            taken_at = n;
            has_others = false;
            save(NULL);
            is_taken = taken_at < 0;
            taken_at = -1;
            if (!check_promises() || (has_others && !is_checkpoint("step-00000030")))
                fail_msg("the other job's checkpoint has gone; it came before call %d of\n%s", n, calls);
        }
    }
    others = 0;
    has_same = cannot_exchange = false;
}

/* Whose dir is, who may remove what fills it, is told by a file. */
static void test_full_of_what_was_left(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    is_full = true;
    assert_int_equal(clean(TOKEN, &e), -1);
    assert_error_has(e, strerror(ENOSPC));
    assert_false(exists(".writer"));
    is_full = false;
    assert_int_equal(clean(OTHER, NULL), 0);
    make_checkpoint(".saving-" OTHER "-step-00000030", false);
    is_full = true;
    assert_int_equal(clean(TOKEN, &e), 0);
    is_full = false;
    assert_int_equal(e.code, 0);
    assert_false(exists(".saving-" OTHER "-step-00000030") || exists(".writer-" TOKEN));
    assert_int_equal(save(NULL), 0);
    assert_true(is_checkpoint("step-00000030"));
}

static void test_same_step(void **state)
{
    has_same = true;
    test_dies_between_any_two_calls(state);
    test_any_call_fails(state);
    cannot_exchange = true;
    n_gaps = 0;
    test_dies_between_any_two_calls(state);
    assert_int_equal(n_gaps, 1); /* between two renames, until the next job came */
    test_any_call_fails(state);
    assert_int_equal(n_gaps, 1);
    make_history();
    assert_int_equal(save(NULL), 0);
    cannot_exchange = false;
    assert_true(check_promises());
    assert_false(exists(".saving-" TOKEN "-step-00000030"));
    assert_false(exists(".saving-" TOKEN "-step-00000030-old"));
    has_same = false;
}

static int forget(uint64_t step, ddp_error_t *e)
{
    struct folder_steps steps = {.step = &step, .n = 1, .room = 1};
    IN_FOLDER(e, commit_forget(&at, TOKEN, &steps, e));
}

/* Resumed from step 10, since 20 is broken: that is no checkpoint to keep in the place of a whole one. */
static void test_forget(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    assert_int_equal(clean(TOKEN, &e), 0);
    make_checkpoint("step-00000030", true);
    assert_int_equal(forget(20, &e) | retain(30, 2, &e), 0);
    assert_true(exists("step-00000030") && exists("step-00000010"));
    assert_false(exists("step-00000020"));
}

/* What cannot be removed does not keep the folder from being this job's, nor the rest from going. */
static void test_litter_that_stays(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    make_folder("step-00000005");
    make_folder("step-00000005/folder");
    assert_int_equal(clean(TOKEN, &e), 0);
    assert_error_has(e, "step-00000005");
    assert_int_equal(retain(20, 2, &e), 0);
    assert_int_equal(e.code, 0); /* it is no checkpoint */
    make_folder("step-00000030");
    make_folder("step-00000030/folder");
    assert_int_equal(save(&e), -1);
    assert_error_has(e, "step-00000030, which is no checkpoint, has in it what no checkpoint has");
    assert_true(exists("step-00000030/folder"));
    assert_false(exists("step-00000025") || exists(".saving-fedcba9876543210-step-00000030"));
}

static void set_age(const char *name, time_t ago)
{
    char path[512];
    const struct timespec at[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static void make_probe(const char *name, time_t ago)
{
    write_file("", name, "");
    set_age(name, ago);
}

/* Another job's ranks, which start just now, look for it. */
static void test_probes(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    make_history();
    make_probe(".saving-" OTHER "-probe", 1);
    make_probe(".saving-bbbbbbbbbbbbbbbb-probe", 3600);
    make_folder(".saving-cccccccccccccccc-step-00000040");
    make_folder(".saving-dddddddddddddddd-probe"); /* a folder: somebody else's */
    set_age(".saving-dddddddddddddddd-probe", 3600);
    assert_int_equal(clean(TOKEN, &e), 0);
    assert_int_equal(e.code, 0);
    assert_true(exists(".saving-" OTHER "-probe"));
    assert_false(exists(".saving-bbbbbbbbbbbbbbbb-probe") || exists(".saving-cccccccccccccccc-step-00000040"));
    assert_false(exists(".saving-dddddddddddddddd-probe"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dies_between_any_two_calls),
        cmocka_unit_test(test_any_call_fails),
        cmocka_unit_test(test_a_folder_cannot_be_synced),
        cmocka_unit_test(test_a_folder_need_not_be_synced),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_replaces_broken),
        cmocka_unit_test(test_retain),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_other_has_committed),
        cmocka_unit_test(test_full_of_what_was_left),
        cmocka_unit_test(test_same_step),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_litter_that_stays),
        cmocka_unit_test(test_probes),
    };
    if (!mkdtemp(root))
        return 1;
    snprintf(dir, sizeof dir, "%s/root", root);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || rc;
}
