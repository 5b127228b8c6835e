#include "t/unit/unit.h"

#include "spank/environment.h"
#include "spank/port.h"
#include "spank/step.h"

#define VARS_MAX 40

struct vars {
    int n;
    char name[VARS_MAX][48], value[VARS_MAX][1200];
};

static const char *lookup(const char *name, void *arg)
{
    struct vars *v = arg;
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->name[i], name))
            return v->value[i];
    return NULL;
}

static void put(struct vars *v, const char *name, const char *value)
{
    int i = 0;
    while (i < v->n && strcmp(v->name[i], name))
        i++;
    assert_true(i < VARS_MAX);
    snprintf(v->name[i], sizeof v->name[i], "%s", name);
    snprintf(v->value[i], sizeof v->value[i], "%s", value);
    v->n += i == v->n;
}

static void drop(struct vars *v, const char *name)
{
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->name[i], name))
            v->name[i][0] = 0;
}

/* Rank 2 of 4 on n1,n2 with two tasks each, as Slurm 22.05 describes it. */
static struct vars plain_step(void)
{
    static const char *const pairs[][2] = {
        {"SLURM_NTASKS", "4"},        {"SLURM_PROCID", "2"},          {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "1"},        {"SLURM_STEP_NUM_NODES", "2"},  {"SLURM_STEP_NODELIST", "n[1-2]"},
        {"SLURMD_NODENAME", "n2"},    {"SLURM_JOB_ID", "100"},        {"SLURM_STEP_ID", "3"},
        {"SLURM_CPUS_ON_NODE", "8"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
    };
    struct vars v = {0};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        put(&v, pairs[i][0], pairs[i][1]);
    return v;
}

static void tasks_per_node_are_read(void **state)
{
    (void)state;
    static const struct { const char *list; int node, want; } good[] = {
        {"4", 0, 4}, {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1}, {"1,2,3", 1, 2}, {"1(x16777216)", 9999999, 1},
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
    assert_int_equal(step_read(lookup, &v, &s, &e), 0);
    assert_true(s.rank == 2 && s.size == 4 && s.local_rank == 0 && s.local_size == 2 && s.node == 1 && s.n_nodes == 2);
    assert_true(s.job == 100 && s.step == 3 && s.restart == 0 && s.cpus_on_node == 8 && s.cpus_per_task == 0);
    assert_string_equal(s.master, "n1");
    put(&v, "SLURM_RESTART_COUNT", "2");
    put(&v, "CUDA_VISIBLE_DEVICES", "0,1,2");
    assert_int_equal(step_read(lookup, &v, &s, &e), 0);
    assert_true(s.restart == 2 && s.n_gpus == 3);
}

/* Slurm 22.05 sorts the two lists by node name; node ids follow the components. Recorded from srun -w n3 : -w n1,n2. */
static void a_heterogeneous_step_is_read(void **state)
{
    (void)state;
    static const struct { const char *node, *id, *rank, *local; int want_local_size; } task[] = {
        {"n3", "0", "0", "0", 1}, {"n1", "1", "2", "1", 2}, {"n2", "2", "3", "0", 1},
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
        if (step_read(lookup, &v, &s, &e) < 0)
            fail_msg("%s", e.text);
        assert_int_equal(s.local_size, task[i].want_local_size);
        assert_string_equal(s.master, "n3");
        put(&v, "SLURM_JOB_NODELIST_HET_GROUP_0", "n[7-9]"); /* --het-group=1: nothing of component 0 takes part */
        put(&v, "SLURM_JOB_NODELIST_HET_GROUP_1", "n2,n1,n3");
        assert_int_equal(step_read(lookup, &v, &s, &e), 0);
        assert_string_equal(s.master, "n2");
    }
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES",
                                        "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
                                        "SLURM_STEP_TASKS_PER_NODE", "SLURMD_NODENAME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct vars v = plain_step();
        struct step s;
        ddp_error_t e = {0};
        drop(&v, names[i]);
        assert_int_equal(step_read(lookup, &v, &s, &e), -1);
        assert_error_has(e, names[i]);
    }
    struct vars v = plain_step();
    struct step s;
    ddp_error_t e = {0};
    put(&v, "SLURM_PROCID", "4");
    assert_int_equal(step_read(lookup, &v, &s, &e), -1);
    assert_error_has(e, "SLURM_PROCID to 4");
    v = plain_step();
    put(&v, "SLURMD_NODENAME", "n9");
    assert_int_equal(step_read(lookup, &v, &s, &e), -1);
    assert_error_has(e, "n9 is not in the step's node list");
}

static void ports_do_not_collide(void **state)
{
    (void)state;
    const struct port_range r = {20000, 29999};
    static unsigned char used[65536];
    memset(used, 0, sizeof used);
    for (uint32_t job = 4294967000u; job < 4294967200u; job++)
        for (uint32_t step = 0; step < PORT_STEPS_PER_JOB; step++) {
            int p = port_derive(job, step, 0, r);
            assert_true(port_in(p, r) && !used[p]);
            used[p] = 1;
            assert_true(port_derive(job, step, 1, r) != p && port_in(port_derive(job, step, 1, r), r));
        }
    assert_int_equal(port_derive(10, 3, 0, r), 20163);
    assert_int_equal(port_derive(7, 9, 5, (struct port_range){4000, 4000}), 4000);
    srand(3);
    for (int i = 0; i < 10000; i++) {
        struct port_range q = {1024 + rand() % 1000, 2024 + rand() % 1000};
        assert_true(port_in(port_derive((uint32_t)rand() * 3u, (uint32_t)rand() * 2u, (uint32_t)rand(), q), q));
    }
}

static void other_ports_are_read(void **state)
{
    (void)state;
    int p = 0;
    struct port_range r = {1, 1};
    assert_int_equal(port_first_reserved("12000-12003", &p, NULL), 0);
    assert_int_equal(p, 12000);
    assert_int_equal(port_first_reserved("12001,12005-12007", &p, NULL), 0);
    assert_int_equal(p, 12001);
    static const char *const bad[] = {"", "-1", "x", "70000", "123456789", "0-3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(port_first_reserved(bad[i], &p, NULL), -1);
    assert_int_equal(p, 12001);
    assert_true(port_ephemeral_parse("32768\t60999\n", &r));
    assert_true(r.min == 32768 && r.max == 60999);
    assert_false(port_ephemeral_parse("60999 32768", &r));
    assert_false(port_ephemeral_parse("", &r));
    assert_int_equal(r.min, 32768);
}

/* As a task of ours would see it: the variables of environment_make on top of v's. */
static struct environment make_with(struct vars *v, const char *option, struct environment_cpus cpus)
{
    struct environment env;
    struct options o;
    struct step s;
    ddp_error_t e = {0};
    if (options_resolve(option, lookup, v, NULL, &o, &e) < 0 || step_read(lookup, v, &s, &e) < 0 ||
        environment_make(&s, &o, &cpus, (struct port_range){32768, 60999}, lookup, v, &env, &e) < 0)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < env.n_vars; i++)
        put(v, env.var[i].name, env.var[i].value);
    put(v, "DDP_SET", env.set);
    return env;
}

static struct environment make(struct vars *v, const char *option)
{
    return make_with(v, option, (struct environment_cpus){4, 4, 1});
}

#define assert_var(v, name, want) assert_string_equal(lookup(name, v), want)

static void variables_are_set(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct environment env = make(&v, "on");
    assert_var(&v, "RANK", "2");
    assert_var(&v, "WORLD_SIZE", "4");
    assert_var(&v, "LOCAL_RANK", "0");
    assert_var(&v, "LOCAL_WORLD_SIZE", "2");
    assert_var(&v, "NODE_RANK", "1");
    assert_var(&v, "GROUP_RANK", "1");
    assert_var(&v, "MASTER_ADDR", "n1");
    assert_var(&v, "MASTER_PORT", "21603");
    assert_var(&v, "OMP_NUM_THREADS", "4");
    assert_non_null(lookup("DDP_VERSION", &v));
    assert_null(lookup("DDP_TIMEOUT", &v));
    assert_int_equal(env.n_warnings, 0);
    v = plain_step();
    make(&v, "port=1234,timeout=9,interface=ib0,omp=3");
    assert_var(&v, "MASTER_PORT", "1234");
    assert_var(&v, "DDP_TIMEOUT", "9");
    assert_var(&v, "DDP_INTERFACE", "ib0");
    assert_var(&v, "OMP_NUM_THREADS", "3");
}

static void drop_var(const char *name, void *arg)
{
    drop(arg, name);
}

static void an_enclosing_step_is_not_the_user(void **state)
{
    (void)state;
    struct vars v = plain_step();
    make(&v, "on,port=1234,timeout=9");
    put(&v, "WORLD_SIZE", "8"); /* changed since: now it is the user's */
    put(&v, "OWN", "1");
    environment_forget(lookup("DDP_SET", &v), lookup, &v, drop_var);
    static const char *const ours[] = {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR",
                                       "MASTER_PORT", "OMP_NUM_THREADS", "DDP_TIMEOUT", "DDP_VERSION"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (lookup(ours[i], &v))
            fail_msg("%s=%s is still there", ours[i], lookup(ours[i], &v));
    assert_var(&v, "WORLD_SIZE", "8");
    assert_var(&v, "OWN", "1");
    environment_forget(NULL, lookup, &v, drop_var);
}

static void only_what_is_listed_is_forgotten(void **state)
{
    (void)state;
    struct vars v = {0};
    put(&v, "RANK", "0");
    put(&v, "EMPTY", "");
    environment_forget("XRANK=0,RANK=01,RANK=,RANK,,=,=0,EMPTY,RANK=0=0", lookup, &v, drop_var);
    assert_var(&v, "RANK", "0");
    assert_var(&v, "EMPTY", "");
    char big[1000]; /* longer than any item of ours */
    memset(big, 'x', sizeof big);
    memcpy(big, "RANK=", 5);
    memcpy(big + sizeof big - 8, ",RANK=0", 8);
    environment_forget(big, lookup, &v, drop_var);
    assert_null(lookup("RANK", &v));
}

/* name=value of the user's, on rank 0 of plain_step's step: stays, and warns with `says` (NULL: no warning). */
static void users_value(const char *option, const char *name, const char *value, const char *says)
{
    for (int rank = 0; rank < 4; rank += 2) {
        struct vars v = plain_step();
        if (rank == 0) {
            put(&v, "SLURM_PROCID", "0");
            put(&v, "SLURM_NODEID", "0");
            put(&v, "SLURMD_NODENAME", "n1");
        }
        put(&v, name, value);
        struct environment env = make(&v, option);
        assert_var(&v, name, value);
        assert_int_equal(env.n_warnings, says && rank == 0);
        if (says && rank == 0 && !strstr(env.warning[0], says))
            fail_msg("warning \"%s\" lacks \"%s\"", env.warning[0], says);
    }
}

static void the_users_values_stay(void **state)
{
    (void)state;
    users_value("on", "RANK", "0", "need 4 different ones: unset RANK");
    users_value("on", "LOCAL_RANK", "0", "need 2 different ones");
    users_value("on", "NODE_RANK", "5", "unset NODE_RANK");
    users_value("on", "WORLD_SIZE", "4", NULL);
    users_value("on", "WORLD_SIZE", "5", "your WORLD_SIZE=5 stays, but this step has 4");
    users_value("on", "MASTER_ADDR", "n1", NULL);
    users_value("on", "MASTER_ADDR", "10.0.0.1", "rank 0 runs on n1");
    users_value("on", "MASTER_PORT", "1111", NULL);
    users_value("on,port=2222", "MASTER_PORT", "1111", "this step has 2222");
    users_value("on", "OMP_NUM_THREADS", "2", NULL);
    users_value("on", "OMP_NUM_THREADS", "64", "may use 4 CPUs");
    users_value("omp=3", "OMP_NUM_THREADS", "3", NULL);
    users_value("omp=3", "OMP_NUM_THREADS", "2", "--ddp says omp=3: unset OMP_NUM_THREADS");
    users_value("on", "OMP_NUM_THREADS", "2,64", NULL);
    users_value("on", "DDP_TIMEOUT", "7", NULL);
}

static void rank_0_warns(void **state)
{
    (void)state;
    struct vars v = plain_step();
    put(&v, "SLURM_NTASKS", "2");
    put(&v, "SLURM_PROCID", "0");
    put(&v, "SLURM_NODEID", "0");
    put(&v, "SLURMD_NODENAME", "n1");
    put(&v, "SLURM_STEP_TASKS_PER_NODE", "1(x2)");
    put(&v, "CUDA_VISIBLE_DEVICES", "0,1");
    put(&v, "SLURM_CPUS_PER_TASK", "8");
    put(&v, "SLURM_STEP_RESV_PORTS", "12000-12001");
    struct environment env = make(&v, "on,resv_ports");
    assert_int_equal(env.n_warnings, 2);
    assert_non_null(strstr(env.warning[0], "give srun itself -c 8"));
    assert_non_null(strstr(env.warning[1], "srun --ntasks-per-node=2"));
    assert_var(&v, "MASTER_PORT", "12000");
    assert_var(&v, "OMP_NUM_THREADS", "4");
}

static void reserved_ports_are_taken_where_asked_for(void **state)
{
    (void)state;
    static const struct { const char *option, *asked, *want; } cases[] = {
        {"on", NULL, "21603"},            /* MpiParams: Slurm reserves unasked */
        {"on", "1", "12000"},             /* srun --resv-ports */
        {"on,resv_ports", NULL, "12000"},
        {"on,resv_ports=off", "1", "21603"},
        {"on,resv_ports,port=1234", "1", "1234"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vars v = plain_step();
        put(&v, "SLURM_STEP_RESV_PORTS", "12000-12001");
        if (cases[i].asked)
            put(&v, "SLURM_RESV_PORTS", cases[i].asked);
        make(&v, cases[i].option);
        assert_var(&v, "MASTER_PORT", cases[i].want);
    }
    struct vars v = plain_step();
    put(&v, "SLURM_RESV_PORTS", "0"); /* none asked for, none reserved */
    make(&v, "on");
    assert_var(&v, "MASTER_PORT", "21603");
}

static void threads_follow_the_cpus(void **state)
{
    (void)state;
    static const struct { const char *held, *per_task; struct environment_cpus cpus; const char *want; } cases[] = {
        {"8", NULL, {8, 4, 1}, "4"},   {"8", NULL, {8, 8, 2}, "4"}, {"8", NULL, {1, 1, 5}, "1"}, {"2", NULL, {64, 64, 2}, "1"},
        {"8", "2", {8, 4, 1}, "2"},    {"8", "6", {8, 4, 1}, "6"},  {"8", "9", {8, 4, 1}, "8"},  {"0", NULL, {8, 8, 4}, "2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vars v = plain_step();
        put(&v, "SLURM_CPUS_ON_NODE", cases[i].held);
        if (cases[i].per_task)
            put(&v, "SLURM_CPUS_PER_TASK", cases[i].per_task);
        make_with(&v, "on", cases[i].cpus);
        assert_var(&v, "OMP_NUM_THREADS", cases[i].want);
    }
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct environment env;
    struct options o;
    struct step s;
    ddp_error_t e = {0};
    struct environment_cpus cpus = {4, 4, 1};
    struct port_range ephemeral = {20000, 40000};
    put(&v, "SLURM_PROCID", "0"); /* on n2, as --distribution=arbitrary may have it */
    assert_int_equal(step_read(lookup, &v, &s, &e), 0);
    assert_int_equal(options_resolve("on", lookup, &v, NULL, &o, &e), 0);
    assert_int_equal(environment_make(&s, &o, &cpus, ephemeral, lookup, &v, &env, &e), -1);
    assert_error_has(e, "set MASTER_ADDR=n2");
    put(&v, "MASTER_ADDR", "n2");
    assert_int_equal(environment_make(&s, &o, &cpus, ephemeral, lookup, &v, &env, &e), 0);
    assert_int_equal(env.n_warnings, 1);
    assert_non_null(strstr(env.warning[0], "port_min"));
    assert_int_equal(options_resolve("resv_ports", lookup, &v, NULL, &o, &e), 0);
    assert_int_equal(environment_make(&s, &o, &cpus, ephemeral, lookup, &v, &env, &e), -1);
    assert_error_has(e, "--resv-ports");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tasks_per_node_are_read),
    cmocka_unit_test(a_step_is_read),
    cmocka_unit_test(a_heterogeneous_step_is_read),
    cmocka_unit_test(what_is_missing_is_named),
    cmocka_unit_test(ports_do_not_collide),
    cmocka_unit_test(other_ports_are_read),
    cmocka_unit_test(variables_are_set),
    cmocka_unit_test(an_enclosing_step_is_not_the_user),
    cmocka_unit_test(only_what_is_listed_is_forgotten),
    cmocka_unit_test(the_users_values_stay),
    cmocka_unit_test(rank_0_warns),
    cmocka_unit_test(reserved_ports_are_taken_where_asked_for),
    cmocka_unit_test(threads_follow_the_cpus),
    cmocka_unit_test(what_cannot_work_is_refused),
};
UNIT_MAIN(tests)
