#include "t/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

#include "runtime/base/budget.h"

static void put(const char *root, const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void what_does_not_fit_is_refused_with_both_numbers(void **state)
{
    (void)state;
    static const char *const dirs[] = {"proc", "proc/self", "sys", "sys/fs", "sys/fs/cgroup", "sys/fs/cgroup/job"};
    enum { N_DIRS = sizeof dirs / sizeof *dirs };
    char root[] = "/tmp/ddp-budget-XXXXXX", path[128];
    ddp_error_t e = {0};
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < N_DIRS; i++) {
        snprintf(path, sizeof path, "%s/%s", root, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    put(root, "proc/self/cgroup", "0::/job\n");
    put(root, "sys/fs/cgroup/job/memory.max", "10000\n");
    put(root, "sys/fs/cgroup/job/memory.current", "4000\n");
    const struct budget_part parts[] = {{"parameters", 500}, {"optimizer state", 1000}, {"gradients", 500}};
    assert_int_equal(budget_check(root, parts, 3, 3, &e), 0); /* 6000 of 6000 */
    assert_int_equal(budget_check(root, parts, 3, 4, &e), -1);
    assert_int_equal(e.code, ENOMEM);
    assert_error_has(e, "4 ranks on this node want 8000 bytes");
    assert_error_has(e, "optimizer state: 1000 each");
    assert_error_has(e, "allows 10000 and has 6000 left");
    put(root, "sys/fs/cgroup/job/memory.max", "max\n");
    assert_int_equal(budget_check(root, parts, 3, 4, &e), 0); /* nothing is known of the machine */
    put(root, "proc/meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:       4 kB\nSwapFree:  1 kB\n");
    assert_int_equal(budget_check(root, parts, 3, 2, &e), 0); /* 4000 of 5120 */
    assert_int_equal(budget_check(root, parts, 3, 3, &e), -1);
    assert_error_has(e, "3 ranks on this node want 6000 bytes of memory (optimizer state: 1000 each), but it has 5120 "
                        "left: take one with more or start fewer ranks");
    assert_int_equal(budget_check(root, (struct budget_part[]){{"all", 5121}}, 1, 1, &e), -1);
    assert_error_has(e, "1 rank on this node wants 5121 bytes");
    snprintf(path, sizeof path, "rm -r %s", root);
    assert_int_equal(system(path), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_does_not_fit_is_refused_with_both_numbers),
};
UNIT_MAIN(tests)
