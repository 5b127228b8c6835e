/* Whose the folder of checkpoints is when another job saves there, and what goes from it. */
#include "t/unit/ckpt/history.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/ckpt/folder.h"

static uint64_t others; /* step of a checkpoint that the other job then commits; 0: none */
static bool has_others;

static void take_over(void)
{
    char name[32];
    assert_int_equal(history_clean(OTHER, NULL), 0);
    folder_name(others, name);
    has_others = others && !history_has(name);
    if (has_others)
        history_make_checkpoint(name, true);
}

static void test_taken_over(void **state)
{
    struct savedir folder;
    ddp_error_t e = {0};
    int n = 0, n_refused = 0;
    (void)state;
    for (bool is_taken = true; is_taken; n++) {
        history_make();
        history.taken_at = n;
        bool is_refused = history_save(&e) < 0;
        is_taken = history.taken_at < 0;
        history.taken_at = -1;
        bool is_new = history_check();
        assert_true(is_refused || is_new);
        n_refused += is_refused;
        if (is_refused && strstr(e.text, "rename .writer"))
            fail_msg("before call %d: %s", n, e.text);
        history_leave(TOKEN);
        assert_int_equal(history_has(".writer"), is_taken);
    }
    print_message("# taken over before each of %d calls: %d times refused\n", n - 1, n_refused);
    assert_true(n_refused >= 10);

    history_make();
    assert_int_equal(history_save(&e), 0);
    take_over();
    assert_int_equal(history_make_saving(40, &folder, &e), 0);
    savedir_close(&folder);
    assert_int_equal(history_commit(40, "x", &e), -1);
    assert_error_has(e, "another job has begun to save there");
    assert_false(history_has("step-00000040"));
    assert_true(history_check());
    history_leave(OTHER);
    assert_false(history_has(".writer"));

    history_make_checkpoint("step-00000050", true); /* the other's: it must not be removed as one beyond step 40 */
    assert_int_equal(history_commit(40, "x", &e), -1);
    assert_error_has(e, "another job has begun to save there, and left, or somebody has removed .writer: run");
    assert_false(history_has("step-00000040"));
    assert_true(history_is_checkpoint("step-00000050"));
}

/* This job stands still before a call, until the other one has come as far and has committed. */
static void test_other_has_committed(void **state)
{
    (void)state;
    others = 30;
    for (int k = 0; k < 3; k++) {
        bool is_taken = true;
        history.has_same = k > 0;
        history.cannot_exchange = k == 2;
        for (int n = 0; is_taken; n++) {
            history_make();
            history.taken_at = n;
            has_others = false;
            history_save(NULL);
            is_taken = history.taken_at < 0;
            history.taken_at = -1;
            if (!history_check() || (has_others && !history_is_checkpoint("step-00000030")))
                fail_msg("the other job's checkpoint has gone; it came before call %d of\n%s", n, history.calls);
        }
    }
    others = 0;
    history.has_same = history.cannot_exchange = false;
}

/* Whose dir is, who may remove what fills it, is told by a file. */
static void test_full_of_what_was_left(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    history.is_full = true;
    assert_int_equal(history_clean(TOKEN, &e), -1);
    assert_error_has(e, strerror(ENOSPC));
    assert_false(history_has(".writer"));
    history.is_full = false;
    assert_int_equal(history_clean(OTHER, NULL), 0);
    history_make_checkpoint(".saving-" OTHER "-step-00000030", false);
    history.is_full = true;
    assert_int_equal(history_clean(TOKEN, &e), 0);
    history.is_full = false;
    assert_int_equal(e.code, 0);
    assert_false(history_has(".saving-" OTHER "-step-00000030") || history_has(".writer-" TOKEN));
    assert_int_equal(history_save(NULL), 0);
    assert_true(history_is_checkpoint("step-00000030"));
}

/* A broken checkpoint beyond the one that was resumed from goes when the next is committed, also one of its own
 * step. */
static void test_replaces_broken(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    history_make_checkpoint("step-00000030", true);
    history_write("step-00000030", "a", "broken");
    history_make_checkpoint("step-00000040", true);
    assert_int_equal(history_save(&e), 0);
    assert_true(history_check());
    assert_false(history_has("step-00000040"));
    assert_false(history_has("step-00000010"));
}

static void test_retain(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    history_make_checkpoint("step-100000000", true);
    assert_int_equal(history_clean(TOKEN, &e) | history_retain(100000000, 1, &e), 0);
    assert_true(history_has("step-100000000") && history_has("step-7"));
    assert_false(history_has("step-00000020") || history_has("step-00000010"));
}

/* Resumed from step 10, since 20 is broken: that is no checkpoint to keep in the place of a whole one. */
static void test_forget(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    assert_int_equal(history_clean(TOKEN, &e), 0);
    history_make_checkpoint("step-00000030", true);
    assert_int_equal(history_forget(20, &e) | history_retain(30, 2, &e), 0);
    assert_true(history_has("step-00000030") && history_has("step-00000010"));
    assert_false(history_has("step-00000020"));
}

/* What cannot be removed does not keep the folder from being this job's, nor the rest from going. */
static void test_litter_that_stays(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    history_make_folder("step-00000005");
    history_make_folder("step-00000005/folder");
    assert_int_equal(history_clean(TOKEN, &e), 0);
    assert_error_has(e, "step-00000005");
    assert_int_equal(history_retain(20, 2, &e), 0);
    assert_int_equal(e.code, 0); /* it is no checkpoint */
    history_make_folder("step-00000030");
    history_make_folder("step-00000030/folder");
    assert_int_equal(history_save(&e), -1);
    assert_error_has(e, "step-00000030, which is no checkpoint, has in it what no checkpoint has");
    assert_true(history_has("step-00000030/folder"));
    assert_false(history_has("step-00000025") || history_has(".saving-fedcba9876543210-step-00000030"));
}

static void set_age(const char *name, time_t ago)
{
    char path[512];
    const struct timespec at[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
    snprintf(path, sizeof path, "%s/%s", history.dir, name);
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static void make_probe(const char *name, time_t ago)
{
    history_write("", name, "");
    set_age(name, ago);
}

/* Another job's ranks, which start just now, look for it. */
static void test_probes(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    history_make();
    make_probe(".saving-" OTHER "-probe", 1);
    make_probe(".saving-bbbbbbbbbbbbbbbb-probe", 3600);
    history_make_folder(".saving-cccccccccccccccc-step-00000040");
    history_make_folder(".saving-dddddddddddddddd-probe"); /* a folder: somebody else's */
    set_age(".saving-dddddddddddddddd-probe", 3600);
    assert_int_equal(history_clean(TOKEN, &e), 0);
    assert_int_equal(e.code, 0);
    assert_true(history_has(".saving-" OTHER "-probe"));
    assert_false(history_has(".saving-bbbbbbbbbbbbbbbb-probe") || history_has(".saving-dddddddddddddddd-probe"));
    assert_false(history_has(".saving-cccccccccccccccc-step-00000040"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_other_has_committed),
        cmocka_unit_test(test_full_of_what_was_left),
        cmocka_unit_test(test_replaces_broken),
        cmocka_unit_test(test_retain),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_litter_that_stays),
        cmocka_unit_test(test_probes),
    };
    history.take_over = take_over;
    return cmocka_run_group_tests(tests, history_open, folder_remove);
}
