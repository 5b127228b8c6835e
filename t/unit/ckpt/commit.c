/* A commit is a sequence of system calls. The process dies before any one of them, or any one of them fails: what is
 * left is checked each time against what commit.h promises. */
#include "t/unit/ckpt/history.h"

#include <errno.h>
#include <sys/wait.h>

static void test_dies_between_any_two_calls(void **state)
{
    int n_before = 0, n_after = 0, n = 0;
    (void)state;
    for (bool dies = true; dies; n++) {
        history_make();
        pid_t pid = fork();
        if (pid == 0) {
            history.left = n;
            _exit(history_save(NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        dies = WEXITSTATUS(status) == HISTORY_DIED;
        assert_true(dies || WEXITSTATUS(status) == 0);
        bool is_new = history_check();
        n_before += !is_new;
        n_after += is_new;
        history_check_next(is_new);
    }
    print_message("# died before each of %d calls: %d times without the new checkpoint, %d with it\n", n, n_before,
                  n_after);
    assert_true(history.has_same ? n_after >= 30 : n_before >= 20 && n_after >= 5);
}

/* The n-th call fails. Returns whether there was one. */
static bool save_failing(int n, int *n_failed)
{
    ddp_error_t e = {0};
    history_make();
    history.left = n;
    int rc = history_save(&e);
    bool was_there = history.left < 0;
    history.left = -1;
    bool is_new = history_check();
    if (rc < 0) {
        ++*n_failed;
        assert_error_has(e, history.dir);
        assert_error_has(e, strerror(history.fails_with));
        assert_false(is_new && history.is_uncommitted && !history.has_same); /* nobody would remove it */
        assert_int_equal(history_abandon(&e), 0);
        assert_int_equal(history_check(), is_new);
    }
    history_check_next(is_new);
    return was_there;
}

static void test_any_call_fails(void **state)
{
    static const int codes[] = {ENOSPC, EIO, EACCES};
    (void)state;
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        int n = 0, n_failed = 0;
        history.fails_with = codes[c];
        while (save_failing(n, &n_failed))
            n++;
        print_message("# %d calls, each of which failed once: %s\n", n, strerror(codes[c]));
        assert_true(n_failed >= 25);
    }
    history.fails_with = 0;
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
    history_make();
    history.unsynced = folder;
    history.sync_error = error;
    int rc = history_save(&e);
    history.unsynced = NULL;
    if (!strstr(history.calls, folder) || rc == 0 || !history.is_uncommitted)
        fail_msg("committed although this failed: %s", folder);
    assert_error_has(e, "cannot write the folder");
    assert_error_has(e, strerror(error));
    assert_int_equal(history_check(), history.has_same);
    assert_true(history_has("step-00000010"));
    history_check_next(history.has_same);
}

static void test_a_folder_cannot_be_synced(void **state)
{
    (void)state;
    for (int i = 0; i < N_SYNCED; i++) {
        save_unsynced(synced_folders[i], EIO);
        save_unsynced(synced_folders[i], ENOSPC);
    }
    history.has_same = true; /* whose folder has its manifest before its name */
    for (int i = 0; i < N_SYNCED - 1; i++)
        save_unsynced(synced_folders[i], EIO);
    history.has_same = false;
}

/* As some file systems have it that need none. */
static void test_a_folder_need_not_be_synced(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history.sync_error = EINVAL;
    for (int i = 0; i < N_SYNCED; i++) {
        history_make();
        history.unsynced = synced_folders[i];
        if (history_save(&e) < 0)
            fail_msg("%s", e.text);
        assert_true(history_check() && strstr(history.calls, history.unsynced));
    }
    history.unsynced = NULL;
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
    const char *at = history.calls;
    (void)state;
    history_make();
    assert_int_equal(history_save(NULL), 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *found = strstr(at, order[i]);
        if (!found)
            fail_msg("%s comes too early, or not at all: %s", order[i], history.calls);
        at = found + strlen(order[i]);
    }
}

static void test_same_step(void **state)
{
    history.has_same = true;
    test_dies_between_any_two_calls(state);
    test_any_call_fails(state);
    history.cannot_exchange = true;
    history.n_gaps = 0;
    test_dies_between_any_two_calls(state);
    assert_int_equal(history.n_gaps, 1); /* between two renames, until the next job came */
    test_any_call_fails(state);
    assert_int_equal(history.n_gaps, 1);
    history_make();
    assert_int_equal(history_save(NULL), 0);
    history.cannot_exchange = false;
    assert_true(history_check());
    assert_false(history_has(".saving-" TOKEN "-step-00000030"));
    assert_false(history_has(".saving-" TOKEN "-step-00000030-old"));
    history.has_same = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dies_between_any_two_calls),
        cmocka_unit_test(test_any_call_fails),
        cmocka_unit_test(test_a_folder_cannot_be_synced),
        cmocka_unit_test(test_a_folder_need_not_be_synced),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_same_step),
    };
    return cmocka_run_group_tests(tests, history_open, folder_remove);
}
