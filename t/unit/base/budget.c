#include "t/unit/unit.h"

#include <errno.h>

#include "runtime/base/budget.h"
#include "t/lib/folder.h"

static void what_does_not_fit_is_refused_with_both_numbers(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    folder_put("proc/self/cgroup", "0::/job\n");
    folder_put("sys/fs/cgroup/job/memory.max", "10000\n");
    folder_put("sys/fs/cgroup/job/memory.current", "4000\n");
    const struct budget_part parts[] = {{"parameters", 500}, {"optimizer state", 1000}, {"gradients", 500}};
    assert_int_equal(budget_check(test_folder, parts, 3, 3, &e), 0); /* 6000 of 6000 */
    assert_int_equal(budget_check(test_folder, parts, 3, 4, &e), -1);
    assert_int_equal(e.code, ENOMEM);
    assert_error_has(e, "4 ranks on this node want 8000 bytes");
    assert_error_has(e, "optimizer state: 1000 each");
    assert_error_has(e, "allows 10000 and has 6000 left");
    folder_put("sys/fs/cgroup/job/memory.max", "max\n");
    assert_int_equal(budget_check(test_folder, parts, 3, 4, &e), 0); /* nothing is known of the machine */
    folder_put("proc/meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:       4 kB\nSwapFree:  1 kB\n");
    assert_int_equal(budget_check(test_folder, parts, 3, 2, &e), 0); /* 4000 of 5120 */
    assert_int_equal(budget_check(test_folder, parts, 3, 3, &e), -1);
    assert_error_has(e, "3 ranks on this node want 6000 bytes of memory (optimizer state: 1000 each), but it has 5120 "
                        "left: take one with more or start fewer ranks");
    assert_int_equal(budget_check(test_folder, (struct budget_part[]){{"all", 5121}}, 1, 1, &e), -1);
    assert_error_has(e, "1 rank on this node wants 5121 bytes");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused_with_both_numbers, folder_make, folder_remove),
};
UNIT_MAIN(tests)
