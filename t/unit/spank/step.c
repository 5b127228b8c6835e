/* What a task reads of its step. */
#include "t/unit/spank/vars.h"

#include "runtime/base/clock.h"
#include "spank/step/step.h"

#define OWN_NODES 2 /* of the task's component; plain_step has no others */

static void tasks_per_node_are_read(void **state)
{
    (void)state;
    static const struct { const char *list; int node, want; } good[] = {
        {"4", 0, 4}, {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1}, {"1,2,3", 1, 2},
        {"1(x16777216)", 9999999, 1},
    };
    static const struct { const char *list; int node; } bad[] = {
        {"", 0}, {"4", 1}, {"2(x3)", 3}, {"x", 0}, {"2(x", 0}, {"2(x3", 0}, {"2(x0)", 0}, {"-1", 0}, {"2;3", 1},
        {"99999999999999999999", 0}, {"2(x99999999999999999999)", 0}, {"1,", 1}, {"(x2)", 0},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int n = -1;
        assert_int_equal(step_tasks_on(good[i].list, good[i].node, &n, NULL), 0);
        assert_int_equal(n, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n = 77;
        ddp_error_t e = {0};
        if (step_tasks_on(bad[i].list, bad[i].node, &n, &e) == 0)
            fail_msg("\"%s\" node %d was accepted", bad[i].list, bad[i].node);
        assert_int_equal(n, 77);
        assert_error_has(e, "tasks per node");
    }
}

static void a_step_is_read(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct step s;
    ddp_error_t e = {0};
    assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), 0);
    assert_true(s.rank == 2 && s.size == 4 && s.local_rank == 0 && s.local_size == 2 && s.node == 1 && s.n_nodes == 2);
    assert_true(s.job == 100 && s.step == 3 && s.restart == 0 && s.cpus_on_node == 8 && s.cpus_per_task == 0);
    assert_string_equal(s.master, "n1");
    put(&v, "SLURM_RESTART_COUNT", "2");
    put(&v, "CUDA_VISIBLE_DEVICES", "0,1,2");
    assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), 0);
    assert_true(s.restart == 2 && s.n_gpus == 3);
}

/* Slurm 22.05 sorts the two lists by node name; node ids follow the components. Recorded from srun -w n3 : -w n1,n2. */
static void a_heterogeneous_step_is_read(void **state)
{
    (void)state;
    static const struct { const char *node, *id, *rank, *local; int own_nodes, want_local_size, in_list; } task[] = {
        {"n3", "0", "0", "0", 1, 1, 2}, {"n1", "1", "2", "1", 2, 2, 1}, {"n2", "2", "3", "0", 2, 1, 0},
    };
    for (size_t i = 0; i < sizeof task / sizeof *task; i++) {
        struct vars v = plain_step();
        struct step s;
        ddp_error_t e = {0};
        put(&v, "SLURM_STEP_NUM_NODES", "3");
        put(&v, "SLURM_STEP_NODELIST", "n[1-3]");
        put(&v, "SLURM_STEP_TASKS_PER_NODE", "2,1(x2)");
        put(&v, "SLURM_HET_SIZE", "2");
        put(&v, "SLURM_JOB_NODELIST_PACK_GROUP_0", "n3");
        put(&v, "SLURM_JOB_NODELIST_PACK_GROUP_1", "n[1-2]");
        put(&v, "SLURMD_NODENAME", task[i].node);
        put(&v, "SLURM_NODEID", task[i].id);
        put(&v, "SLURM_PROCID", task[i].rank);
        put(&v, "SLURM_LOCALID", task[i].local);
        if (step_read(lookup, &v, task[i].own_nodes, &s, &e) < 0)
            fail_msg("%s", e.text);
        assert_int_equal(s.local_size, task[i].want_local_size);
        assert_string_equal(s.master, "n3");
        assert_int_equal(s.in_list, s.node);
        put(&v, "SLURM_JOB_NODELIST_HET_GROUP_0", "n[7-9]"); /* --het-group=1: nothing of component 0 takes part */
        put(&v, "SLURM_JOB_NODELIST_HET_GROUP_1", "n2,n1,n3");
        assert_int_equal(step_read(lookup, &v, task[i].own_nodes, &s, &e), 0);
        assert_string_equal(s.master, "n2");
        assert_int_equal(s.in_list, task[i].in_list);
        assert_int_equal(s.node, atoi(task[i].id));
        put(&v, "SLURM_STEP_NUM_NODES", "4"); /* one of them twice */
        assert_int_equal(step_read(lookup, &v, task[i].own_nodes, &s, &e), 0);
        assert_int_equal(s.in_list, -1);
    }
}

static void made_up_components_are_not_believed(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct step s;
    ddp_error_t e = {0};
    put(&v, "SLURM_HET_JOB_ID", "99");
    put(&v, "SLURM_HET_SIZE", "128");
    put(&v, "SLURM_JOB_NODELIST_HET_GROUP_0", "n2");
    put(&v, "SLURM_JOB_NODELIST_PACK_GROUP_1", "n2");
    assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), 0);
    assert_string_equal(s.master, "n1");
    assert_int_equal(step_read(lookup, &v, 1, &s, &e), 0); /* as in a step that does have another component */
    assert_string_equal(s.master, "n2");
}

/* Rank 0's node is number 0, the others keep Slurm's order; a name that is none of the step's is not believed. */
static void rank_0_is_where_srun_says(void **state)
{
    (void)state;
    static const struct { const char *told; int node[4]; } cases[] = {
        {"n1", {0, 1, 2, 3}}, {"n3", {1, 2, 0, 3}}, {"n4", {1, 2, 3, 0}}, {"n9", {0, 1, 2, 3}}, {"", {0, 1, 2, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 0; n < 4; n++) {
            struct vars v = plain_step();
            struct step s;
            char name[8], id[8];
            ddp_error_t e = {0};
            snprintf(name, sizeof name, "n%d", n + 1);
            snprintf(id, sizeof id, "%d", n);
            put(&v, "SLURM_STEP_NUM_NODES", "4");
            put(&v, "SLURM_STEP_NODELIST", "n[1-4]");
            put(&v, "SLURM_STEP_TASKS_PER_NODE", "1(x4)");
            put(&v, "SLURM_NODEID", id);
            put(&v, "SLURMD_NODENAME", name);
            put(&v, FIRST_NODE_VARIABLE, cases[i].told);
            if (step_read(lookup, &v, 4, &s, &e) < 0)
                fail_msg("%s", e.text);
            assert_int_equal(s.node, cases[i].node[n]);
            assert_string_equal(s.master, i == 1 ? "n3" : i == 2 ? "n4" : "n1");
        }
}

/* A large step of one component, and lists that a user made up: neither keeps a task from its program. */
static void large_components_cost_no_time(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct step s;
    ddp_error_t e = {0};
    uint64_t start = clock_ns();
    put(&v, "SLURM_STEP_NUM_NODES", "10000");
    put(&v, "SLURM_STEP_NODELIST", "n[1-10000]");
    put(&v, "SLURM_STEP_TASKS_PER_NODE", "2(x10000)");
    put(&v, "SLURM_HET_SIZE", "128");
    put(&v, "SLURM_JOB_NODELIST_HET_GROUP_0", "m[1-200000]");
    put(&v, "SLURM_JOB_NODELIST_HET_GROUP_1", "n[7-10000]");
    if (step_read(lookup, &v, 9000, &s, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(s.master, "n7");
    put(&v, "SLURM_JOB_NODELIST_HET_GROUP_1", "m[1-200000]"); /* too many to look up: the first node of all */
    put(&v, "SLURM_JOB_NODELIST_HET_GROUP_2", "n7");
    assert_int_equal(step_read(lookup, &v, 9000, &s, &e), 0);
    assert_string_equal(s.master, "n1");
    assert_true(clock_ns() - start < 60 * NS_PER_S);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID",
                                        "SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID",
                                        "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURMD_NODENAME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct vars v = plain_step();
        struct step s;
        ddp_error_t e = {0};
        drop(&v, names[i]);
        assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), -1);
        assert_error_has(e, names[i]);
    }
    struct vars v = plain_step();
    struct step s;
    ddp_error_t e = {0};
    put(&v, "SLURM_PROCID", "4");
    assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), -1);
    assert_error_has(e, "SLURM_PROCID to 4");
    v = plain_step();
    put(&v, "SLURMD_NODENAME", "n9");
    assert_int_equal(step_read(lookup, &v, OWN_NODES, &s, &e), -1);
    assert_error_has(e, "n9 is not in the step's node list");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tasks_per_node_are_read),
    cmocka_unit_test(a_step_is_read),
    cmocka_unit_test(a_heterogeneous_step_is_read),
    cmocka_unit_test(made_up_components_are_not_believed),
    cmocka_unit_test(rank_0_is_where_srun_says),
    cmocka_unit_test(large_components_cost_no_time),
    cmocka_unit_test(what_is_missing_is_named),
};
UNIT_MAIN(tests)
