/* What control groups leave to a process, read from copies of their files. */
#include "t/unit/unit.h"

#include "runtime/base/cgroup.h"
#include "t/lib/folder.h"

#define GIB (1ull << 30)
#define V2 "sys/fs/cgroup"
#define V1 "sys/fs/cgroup/memory"

static void without_a_limit_there_is_no_end(void **state)
{
    (void)state;
    assert_true(cgroup_memory_left(test_folder) == UINT64_MAX); /* nothing there */
    folder_put("proc/self/cgroup", "0::/job\n");
    folder_put(V2 "/job/memory.max", "max\n");
    folder_put(V2 "/job/memory.current", "4096\n");
    assert_true(cgroup_memory_left(test_folder) == UINT64_MAX);
}

static void what_is_used_is_not_left(void **state)
{
    (void)state;
    folder_put("proc/self/cgroup", "0::/job/step\n");
    folder_put(V2 "/job/step/memory.max", "1073741824\n");
    assert_true(cgroup_memory_left(test_folder) == GIB); /* the use cannot be read */
    folder_put(V2 "/job/step/memory.current", "1000\n");
    assert_true(cgroup_memory_left(test_folder) == GIB - 1000);
    folder_put(V2 "/job/step/memory.stat",
        "anon 600\nfile 400\nworkingset_inactive_file 7\ninactive_file 300\nactive_file 9\n");
    assert_true(cgroup_memory_left(test_folder) == GIB - 700);
    folder_put(V2 "/job/step/memory.stat", "anon 600\ninactive_file_x 300\ninactive_file\n");
    assert_true(cgroup_memory_left(test_folder) == GIB - 1000);
    folder_put(V2 "/job/step/memory.stat", "inactive_file 5000\n"); /* the two files are not read at one moment */
    assert_true(cgroup_memory_left(test_folder) == GIB);
    folder_put(V2 "/job/step/memory.stat", "");
    folder_put(V2 "/job/step/memory.current", "1073741825\n");
    assert_true(cgroup_memory_left(test_folder) == 0);
    assert_true(cgroup_memory_limit(test_folder) == GIB);
}

/* Of its own group, as the kernel counts them in either version; other groups' are others' business. */
static void kills_are_counted(void **state)
{
    (void)state;
    folder_put("proc/self/cgroup", "0::/job/step\n");
    assert_true(cgroup_memory_kills(test_folder) == 0);
    folder_put(V2 "/job/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\n");
    assert_true(cgroup_memory_kills(test_folder) == 0);
    folder_put(V2 "/job/step/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n");
    assert_true(cgroup_memory_kills(test_folder) == 2);
    folder_put("proc/self/cgroup", "5:cpu:/x\n3:memory:/job/step\n");
    folder_put(V1 "/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_true(cgroup_memory_kills(test_folder) == 1);
}

/* The group above allows more and has less left: its other children use it. */
static void the_tightest_group_above_counts(void **state)
{
    (void)state;
    folder_put("proc/self/cgroup", "0::/job/step\n");
    folder_put(V2 "/job/step/memory.max", "1073741824\n");
    folder_put(V2 "/job/step/memory.current", "1024\n");
    folder_put(V2 "/job/memory.max", "4294967296\n");
    folder_put(V2 "/job/memory.current", "4294960000\n");
    folder_put(V2 "/job/memory.stat", "inactive_file 1000\n");
    assert_true(cgroup_memory_left(test_folder) == 7296 + 1000);
    assert_true(cgroup_memory_limit(test_folder) == GIB);
}

static void version_one_counts_the_groups_below(void **state)
{
    (void)state;
    folder_put("proc/self/cgroup", "9:cpuset:/x\n3:cpu,memory:/job\n0::/\n");
    folder_put(V1 "/job/memory.limit_in_bytes", "1073741824\n");
    folder_put(V1 "/job/memory.usage_in_bytes", "5000\n");
    folder_put(V1 "/job/memory.stat", "inactive_file 10\ntotal_cache 3000\ntotal_inactive_file 2000\n");
    folder_put(V1 "/memory.limit_in_bytes", "9223372036854771712\n");
    folder_put(V1 "/memory.usage_in_bytes", "77777777\n");
    assert_true(cgroup_memory_left(test_folder) == GIB - 3000);
}

static void the_smallest_memory_limit_counts(void **state)
{
    (void)state;
    assert_true(cgroup_memory_limit(test_folder) == UINT64_MAX); /* nothing there */
    folder_put("proc/self/cgroup", "0::/slurm/job_1/step_0\n");
    folder_put(V2 "/slurm/job_1/step_0/memory.max", "max\n");
    assert_true(cgroup_memory_limit(test_folder) == UINT64_MAX);
    folder_put(V2 "/slurm/job_1/memory.max", "1073741824\n"); /* a group above counts */
    assert_true(cgroup_memory_limit(test_folder) == GIB);
    folder_put(V2 "/slurm/job_1/step_0/memory.max", "4096\n");
    assert_true(cgroup_memory_limit(test_folder) == 4096);
    folder_put(V2 "/slurm/job_1/step_0/memory.max", "rubbish\n");
    assert_true(cgroup_memory_limit(test_folder) == GIB);
    folder_put("proc/self/cgroup", "9:cpuset:/x\n3:cpu,memory:/job\n1:name=systemd:/y\n");
    folder_put(V1 "/job/memory.limit_in_bytes", "9223372036854771712\n");
    folder_put(V1 "/memory.limit_in_bytes", "2048\n");
    assert_true(cgroup_memory_limit(test_folder) == 2048);
    folder_put("proc/self/cgroup", "3:memory_x:/job\nrubbish\n::\n");
    assert_true(cgroup_memory_limit(test_folder) == UINT64_MAX);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(without_a_limit_there_is_no_end, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(what_is_used_is_not_left, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(kills_are_counted, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(the_tightest_group_above_counts, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(version_one_counts_the_groups_below, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(the_smallest_memory_limit_counts, folder_make, folder_remove),
};
UNIT_MAIN(tests)
