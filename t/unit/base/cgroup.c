/* What control groups leave to a process, read from copies of their files. */
#include "t/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

#include "runtime/base/cgroup.h"

#define GIB (1ull << 30)
#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
            *p = '/';
        }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ddp-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void without_a_limit_there_is_no_end(void **state)
{
    (void)state;
    assert_true(cgroup_memory_left(root) == UINT64_MAX); /* nothing there */
    put("/proc/self/cgroup", "0::/job\n");
    put(V2 "/job/memory.max", "max\n");
    put(V2 "/job/memory.current", "4096\n");
    assert_true(cgroup_memory_left(root) == UINT64_MAX);
}

static void what_is_used_is_not_left(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/step\n");
    put(V2 "/job/step/memory.max", "1073741824\n");
    assert_true(cgroup_memory_left(root) == GIB); /* the use cannot be read */
    put(V2 "/job/step/memory.current", "1000\n");
    assert_true(cgroup_memory_left(root) == GIB - 1000);
    put(V2 "/job/step/memory.stat",
        "anon 600\nfile 400\nworkingset_inactive_file 7\ninactive_file 300\nactive_file 9\n");
    assert_true(cgroup_memory_left(root) == GIB - 700);
    put(V2 "/job/step/memory.stat", "anon 600\ninactive_file_x 300\ninactive_file\n");
    assert_true(cgroup_memory_left(root) == GIB - 1000);
    put(V2 "/job/step/memory.stat", "inactive_file 5000\n"); /* the two files are not read at one moment */
    assert_true(cgroup_memory_left(root) == GIB);
    put(V2 "/job/step/memory.stat", "");
    put(V2 "/job/step/memory.current", "1073741825\n");
    assert_true(cgroup_memory_left(root) == 0);
    assert_true(cgroup_memory_limit(root) == GIB);
}

/* Of its own group, as the kernel counts them in either version; other groups' are others' business. */
static void kills_are_counted(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/step\n");
    assert_true(cgroup_memory_kills(root) == 0);
    put(V2 "/job/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\n");
    assert_true(cgroup_memory_kills(root) == 0);
    put(V2 "/job/step/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n");
    assert_true(cgroup_memory_kills(root) == 2);
    put("/proc/self/cgroup", "5:cpu:/x\n3:memory:/job/step\n");
    put(V1 "/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_true(cgroup_memory_kills(root) == 1);
}

/* The group above allows more and has less left: its other children use it. */
static void the_tightest_group_above_counts(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/step\n");
    put(V2 "/job/step/memory.max", "1073741824\n");
    put(V2 "/job/step/memory.current", "1024\n");
    put(V2 "/job/memory.max", "4294967296\n");
    put(V2 "/job/memory.current", "4294960000\n");
    put(V2 "/job/memory.stat", "inactive_file 1000\n");
    assert_true(cgroup_memory_left(root) == 7296 + 1000);
    assert_true(cgroup_memory_limit(root) == GIB);
}

static void version_one_counts_the_groups_below(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpuset:/x\n3:cpu,memory:/job\n0::/\n");
    put(V1 "/job/memory.limit_in_bytes", "1073741824\n");
    put(V1 "/job/memory.usage_in_bytes", "5000\n");
    put(V1 "/job/memory.stat", "inactive_file 10\ntotal_cache 3000\ntotal_inactive_file 2000\n");
    put(V1 "/memory.limit_in_bytes", "9223372036854771712\n");
    put(V1 "/memory.usage_in_bytes", "77777777\n");
    assert_true(cgroup_memory_left(root) == GIB - 3000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(without_a_limit_there_is_no_end, make_root, remove_root),
    cmocka_unit_test_setup_teardown(what_is_used_is_not_left, make_root, remove_root),
    cmocka_unit_test_setup_teardown(kills_are_counted, make_root, remove_root),
    cmocka_unit_test_setup_teardown(the_tightest_group_above_counts, make_root, remove_root),
    cmocka_unit_test_setup_teardown(version_one_counts_the_groups_below, make_root, remove_root),
};
UNIT_MAIN(tests)
