/* Checkpoints beyond a step: set aside, once and for all, by the job that writes there alone; and another job's, which
 * has got further. */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ckpt/commit.h"
#include "t/lib/folder.h"

#define TOKEN "0123456789abcdef"
#define OTHER "aaaaaaaaaaaaaaaa"

static struct savedir dir;

/* A folder that the file system does not open now. */
static const char *unread = "";
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, mode_t mode);

int __wrap_openat(int at, const char *path, int flags, mode_t mode)
{
    if (strcmp(path, unread) != 0)
        return __real_openat(at, path, flags, mode);
    errno = EIO;
    return -1;
}

static void make(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/manifest.json");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static struct folder_steps list(uint64_t *step, size_t n)
{
    return (struct folder_steps){.step = step, .n = n, .room = n};
}

#define LIST(...) {.step = (uint64_t[]){__VA_ARGS__}, .n = sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)}

static bool is_there(const char *name)
{
    return faccessat(dir.fd, name, F_OK, 0) == 0;
}

static int set_up(void **state)
{
    ddp_error_t e;
    if (folder_make(state) < 0 || savedir_open(&dir, test_folder, NULL, &e) < 0)
        return -1;
    make("step-00000010");
    make("step-00000020");
    make("step-00000030");
    return commit_clean(&dir, TOKEN, 30, &e);
}

static int tear_down(void **state)
{
    savedir_close(&dir);
    return folder_remove(state);
}

static void what_is_on_the_list_is_set_aside(void **state)
{
    struct folder_steps steps = list((uint64_t[]){20, 30, 40}, 3);
    ddp_error_t e = {0};
    (void)state;
    make("suspect-step-00000020"); /* of another time */
    assert_int_equal(commit_suspect(&dir, TOKEN, &steps, &e), 2);
    assert_true(is_there("step-00000010") && !is_there("step-00000020") && !is_there("step-00000030"));
    assert_true(is_there("suspect-step-00000020/manifest.json") && is_there("suspect-step-00000030/manifest.json"));
    assert_int_equal(steps.n, 0);
}

/* Nor does it count as one to keep. */
static void what_cannot_be_set_aside_stays(void **state)
{
    struct folder_steps steps = list((uint64_t[]){20, 30}, 2);
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(fchmod(dir.fd, 02775), 0);
    assert_int_equal(mkdirat(dir.fd, "suspect-step-00000020", 0755), 0);
    assert_int_equal(close(openat(dir.fd, "suspect-step-00000020/notes.txt", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
    assert_int_equal(commit_suspect(&dir, TOKEN, &steps, &e), -1);
    assert_error_has(e, "cannot set step-00000020 aside");
    assert_error_has(e, "suspect-step-00000020 has notes.txt in it");
    assert_true(steps.n == 1 && steps.step[0] == 20);
    assert_true(is_there("step-00000020") && is_there("suspect-step-00000030/manifest.json"));
    make("step-00000040");
    assert_int_equal(commit_retain(&dir, TOKEN, 40, &(struct folder_steps)LIST(10, 20, 30), 2, &steps, &e), 0);
    assert_true(is_there("step-00000010") && is_there("step-00000020") && is_there("step-00000040"));
}

/* It may be whole, unlike one that is gone. */
static void what_cannot_be_looked_at_is_left_on_the_list(void **state)
{
    struct folder_steps steps = list((uint64_t[]){20, 30}, 2);
    ddp_error_t e = {0};
    (void)state;
    unread = "step-00000020";
    int rc = commit_suspect(&dir, TOKEN, &steps, &e);
    unread = "";
    assert_int_equal(rc, -1);
    assert_error_has(e, "cannot set step-00000020 aside");
    assert_true(steps.n == 1 && steps.step[0] == 20 && is_there("suspect-step-00000030"));
    assert_int_equal(commit_suspect(&dir, TOKEN, &steps, &e), 1);
    assert_true(is_there("suspect-step-00000020/manifest.json"));
}

static void another_job_has_taken_the_folder_over(void **state)
{
    struct folder_steps steps = list((uint64_t[]){20, 30}, 2);
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(commit_clean(&dir, OTHER, 30, &e), 0);
    assert_int_equal(commit_suspect(&dir, TOKEN, &steps, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_int_equal(steps.n, 2);
    assert_true(is_there("step-00000020") && is_there("step-00000030"));
}

/* It has saved step 30 since this one looked. */
static void who_is_further_keeps_the_folder(void **state)
{
    struct folder_steps none = {0};
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(mkdirat(dir.fd, ".saving-" TOKEN "-step-00000007", 0755), 0);
    assert_int_equal(commit_clean(&dir, OTHER, 20, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, "has step-00000030, which another job has saved since this one looked");
    assert_true(is_there(".saving-" TOKEN "-step-00000007"));
    assert_int_equal(commit_suspect(&dir, TOKEN, &none, &e), 0); /* it is still the other's */
    assert_int_equal(commit_clean(&dir, OTHER, 30, &e), 0);
    assert_false(is_there(".saving-" TOKEN "-step-00000007"));
}

/* Nor is what came since removed, beyond this job's or before. */
static void only_what_is_known_is_removed(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(commit_retain(&dir, TOKEN, 10, &(struct folder_steps)LIST(10, 20), 1, NULL, &e), 0);
    assert_error_has(e, "step-00000030 was saved by another job since this one looked, and stays");
    assert_true(is_there("step-00000010") && !is_there("step-00000020") && is_there("step-00000030"));
    make("step-00000040");
    assert_int_equal(commit_retain(&dir, TOKEN, 40, &(struct folder_steps)LIST(10), 1, NULL, &e), 0);
    assert_true(!is_there("step-00000010") && is_there("step-00000030") && is_there("step-00000040"));
}

/* A program's own folder in a checkpoint's, which nobody removes: it stays whole, and those behind it go. */
static void what_has_a_folder_in_it_stays(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    assert_int_equal(mkdirat(dir.fd, "step-00000020/eval", 0755), 0);
    assert_int_equal(commit_retain(&dir, TOKEN, 30, &(struct folder_steps)LIST(10, 20, 30), 1, NULL, &e), 0);
    assert_error_has(e, "step-00000020 has a folder eval in it, and stays until you move that away");
    assert_true(!is_there("step-00000010") && is_there("step-00000020/manifest.json") && is_there("step-00000030"));
    assert_int_equal(unlinkat(dir.fd, "step-00000020/eval", AT_REMOVEDIR), 0);
}

static void one_that_cannot_be_removed_leaves_the_others_none_the_better(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    unread = "step-00000020";
    assert_int_equal(commit_retain(&dir, TOKEN, 30, &(struct folder_steps)LIST(10, 20, 30), 1, NULL, &e), -1);
    unread = "";
    assert_error_has(e, "step-00000020");
    assert_true(!is_there("step-00000010") && is_there("step-00000020/manifest.json") && is_there("step-00000030"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(what_is_on_the_list_is_set_aside, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_cannot_be_set_aside_stays, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_cannot_be_looked_at_is_left_on_the_list, set_up, tear_down),
    cmocka_unit_test_setup_teardown(who_is_further_keeps_the_folder, set_up, tear_down),
    cmocka_unit_test_setup_teardown(only_what_is_known_is_removed, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_has_a_folder_in_it_stays, set_up, tear_down),
    cmocka_unit_test_setup_teardown(one_that_cannot_be_removed_leaves_the_others_none_the_better, set_up, tear_down),
    cmocka_unit_test_setup_teardown(another_job_has_taken_the_folder_over, set_up, tear_down),
};

UNIT_MAIN(tests)
