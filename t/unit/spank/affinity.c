/* A process's CPU mask and memory policy, each test in a process of its own. */
#include "config.h"
#include "t/unit/unit.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/affinity.h"

/* Whether f, in a child, says so. */
static bool in_child(bool (*f)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(f() ? 0 : 1);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static unsigned first_of(const struct cpus *set)
{
    unsigned cpu = 0;
    while (!cpus_has(set, cpu))
        cpu++;
    return cpu;
}

static bool narrow(void)
{
    struct cpus before, want = {{0}}, got;
    if (affinity_get(&before, NULL) < 0)
        return false;
    cpus_add(&want, first_of(&before));
    return affinity_set(&want, &got, NULL) == 0 && cpus_equal(&got, &want) && affinity_get(&got, NULL) == 0 &&
           cpus_equal(&got, &want);
}

/* What the kernel makes of a mask is what counts: of these CPUs most are not there. */
static bool ask_too_much(void)
{
    struct cpus before, want = {{0}}, got;
    if (affinity_get(&before, NULL) < 0)
        return false;
    cpus_add(&want, first_of(&before));
    cpus_add(&want, CPUS_MAX - 1);
    if (affinity_set(&want, &got, NULL) < 0 || cpus_count(&got) != 1 || !cpus_has(&got, first_of(&before)))
        return false;
    memset(&want, 0, sizeof want);
    cpus_add(&want, CPUS_MAX - 1);
    return affinity_set(&want, &got, NULL) == 0 && cpus_count(&got) == 1; /* none of it: as it was */
}

static void masks_are_read_back(void **state)
{
    (void)state;
    assert_true(in_child(narrow));
    assert_true(in_child(ask_too_much));
}

static void cores_are_counted(void **state)
{
    (void)state;
    struct cpus mask, one = {{0}}, none = {{0}};
    assert_int_equal(affinity_get(&mask, NULL), 0);
    cpus_add(&one, first_of(&mask));
    assert_int_equal(affinity_count_cores(&one), 1);
    assert_int_equal(affinity_count_cores(&none), 0);
    size_t n = affinity_count_cores(&mask);
    assert_true(n >= 1 && n <= cpus_count(&mask));
    cpus_add(&mask, CPUS_MAX - 1); /* a CPU that nothing is known of is a core */
    assert_int_equal(affinity_count_cores(&mask), n + 1);
}

static int policy(unsigned long *ret_nodes)
{
    int mode = -1;
    unsigned long nodes[16] = {0};
    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, NULL, 0ul) < 0)
        return -1;
    *ret_nodes = nodes[0];
    return mode;
}

static bool prefer_node_0(void)
{
    unsigned long nodes = 0;
    if (policy(&nodes) != MPOL_DEFAULT)
        return false;
    return affinity_prefer_memory(0) && policy(&nodes) == MPOL_PREFERRED && nodes == 1 &&
           !affinity_prefer_memory(0) && policy(&nodes) == MPOL_PREFERRED; /* once there is a policy, it stays */
}

static bool prefer_nonsense(void)
{
    unsigned long nodes = 0;
    static const int wrong[] = {-1, 1000, 1024, 1 << 30}; /* 1000: none such here */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (affinity_prefer_memory(wrong[i]))
            return false;
    return policy(&nodes) == MPOL_DEFAULT;
}

static void memory_is_preferred_once(void **state)
{
    (void)state;
    unsigned long nodes = 0;
    if (policy(&nodes) < 0) {
        print_message("memory policies are not allowed here\n");
        return;
    }
    assert_true(in_child(prefer_node_0));
    assert_true(in_child(prefer_nonsense));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(masks_are_read_back),
    cmocka_unit_test(cores_are_counted),
    cmocka_unit_test(memory_is_preferred_once),
};
UNIT_MAIN(tests)
