/* What a task is given: variables, threads, ports, warnings. */
#include "t/unit/spank/making.h"

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
    assert_var(&v, "MASTER_PORT", "21703");
    assert_var(&v, "OMP_NUM_THREADS", "4");
    assert_non_null(lookup("DDP_VERSION", &v));
    assert_null(lookup("DDP_TIMEOUT", &v));
    assert_null(lookup("DDP_REQUEUE", &v));
    assert_int_equal(env.n_warnings, 0);
    v = plain_step();
    make(&v, "port=1234,timeout=9,interface=ib0,omp=3,requeue=auto");
    assert_var(&v, "MASTER_PORT", "1234");
    assert_var(&v, "JAX_COORDINATOR_PORT", "1234");
    assert_var(&v, "DDP_TIMEOUT", "9");
    assert_var(&v, "DDP_INTERFACE", "ib0");
    assert_var(&v, "DDP_REQUEUE", "auto");
    assert_var(&v, "OMP_NUM_THREADS", "3");
    v = plain_step();
    put(&v, "SLURM_DDP_DRAW", "2"); /* srun's */
    make(&v, "on");
    assert_var(&v, "MASTER_PORT", "21735");
    assert_var(&v, "JAX_COORDINATOR_PORT", "21735");
    v = plain_step();
    put(&v, "MASTER_PORT", "4321");
    assert_int_equal(make(&v, "on").master_port, 0);
    assert_var(&v, "JAX_COORDINATOR_PORT", "4321");
    v = plain_step();
    put(&v, "JAX_COORDINATOR_PORT", "5555");
    assert_int_equal(make(&v, "on").master_port, 21703);
    assert_var(&v, "JAX_COORDINATOR_PORT", "5555");
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
    static const char *const ours[] = {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK",
                                       "MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_PORT", "OMP_NUM_THREADS",
                                       "DDP_TIMEOUT", "DDP_VERSION"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (lookup(ours[i], &v))
            fail_msg("%s=%s is still there", ours[i], lookup(ours[i], &v));
    assert_var(&v, "WORLD_SIZE", "8");
    assert_var(&v, "OWN", "1");
    environment_forget(NULL, lookup, &v, drop_var);
}

static void what_is_listed_is_found_whatever_it_holds(void **state)
{
    (void)state;
    static const char *const values[] = {"%", ",", "%2C", "%25", "%%2C,%25,", "a%2cb"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct vars v = {0};
        struct environment env = {.n_vars = 2, .var = {{.name = "NCCL_IB_HCA"}, {.name = "RANK", .value = "1"}}};
        snprintf(env.var[0].value, sizeof env.var[0].value, "%s", values[i]);
        put(&v, "NCCL_IB_HCA", values[i]);
        put(&v, "RANK", "1");
        environment_list(&env);
        environment_forget(env.set, lookup, &v, drop_var);
        if (lookup("NCCL_IB_HCA", &v) || lookup("RANK", &v))
            fail_msg("\"%s\" is still there of \"%s\"", values[i], env.set);
    }
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
    put(&v, "SLURM_STEP_NUM_TASKS", "2");
    put(&v, "SLURM_PROCID", "0");
    put(&v, "SLURM_NODEID", "0");
    put(&v, "SLURMD_NODENAME", "n1");
    put(&v, "SLURM_STEP_TASKS_PER_NODE", "1(x2)");
    put(&v, "CUDA_VISIBLE_DEVICES", "0,1");
    put(&v, "SLURM_CPUS_PER_TASK", "8");
    put(&v, "SLURM_STEP_RESV_PORTS", "12000-12001");
    struct environment env = make(&v, "on,resv_ports");
    assert_int_equal(env.n_warnings, 2);
    assert_non_null(strstr(env.warning[0], "give srun itself -c 8; where it has that, --overcommit or --cpu-bind"));
    assert_non_null(strstr(env.warning[1], "srun --ntasks-per-node=2"));
    assert_var(&v, "MASTER_PORT", "12000");
    assert_null(lookup("OMP_NUM_THREADS", &v));
}

static void mig_instances_count_as_one_device(void **state)
{
    (void)state;
    for (int n = 1; n < 3; n++) {
        struct vars v = plain_step();
        put(&v, "SLURM_PROCID", "0");
        put(&v, "SLURM_NODEID", "0");
        put(&v, "SLURMD_NODENAME", "n1");
        put(&v, "CUDA_VISIBLE_DEVICES", n == 1 ? "MIG-a" : "MIG-a,MIG-b");
        struct environment env = make(&v, "on");
        assert_int_equal(env.n_warnings, n - 1);
        if (n > 1 && !strstr(env.warning[0], "2 MIG instances, of which CUDA uses the first only: ask for one per"))
            fail_msg("%s", env.warning[0]);
    }
}

static void reserved_ports_are_taken_where_asked_for(void **state)
{
    (void)state;
    static const struct { const char *option, *asked, *want; } cases[] = {
        {"on", NULL, "21703"},            /* MpiParams: Slurm reserves unasked */
        {"on", "1", "12000"},             /* srun --resv-ports */
        {"on", "0", "21703"},             /* those of the step around this one */
        {"on,resv_ports", NULL, "12000"},
        {"on,resv_ports=off", "1", "21703"},
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
    assert_var(&v, "MASTER_PORT", "21703");
}

static void threads_follow_the_cpus(void **state)
{
    (void)state;
    static const struct {
        const char *held, *per_task;
        struct { size_t cpus, cores; int sharing, same; } m;
        const char *want;
    } cases[] = {
        {"8", NULL, {8, 4, 1, 1}, "4"}, {"8", NULL, {8, 8, 2, 2}, "4"}, {"8", NULL, {1, 1, 5, 5}, "1"},
        {"2", NULL, {64, 64, 2, 2}, "1"}, {"8", "2", {8, 4, 1, 1}, "2"}, {"8", "6", {8, 4, 1, 1}, "6"},
        {"8", "9", {8, 4, 1, 1}, "8"}, {"0", NULL, {8, 8, 4, 4}, "2"},
        {"8", "2", {2, 2, 2, 2}, "1"}, {"8", "2", {2, 2, 4, 4}, "1"}, {"8", "3", {3, 2, 2, 1}, "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vars v = plain_step();
        put(&v, "SLURM_CPUS_ON_NODE", cases[i].held);
        if (cases[i].per_task)
            put(&v, "SLURM_CPUS_PER_TASK", cases[i].per_task);
        make_with(&v, "on", (struct environment_place){.n_cpus = cases[i].m.cpus, .n_cores = cases[i].m.cores,
                                                       .n_sharing = cases[i].m.sharing,
                                                       .n_same = cases[i].m.same, .device = -1});
        assert_var(&v, "OMP_NUM_THREADS", cases[i].want);
    }
}

static void threads_are_bound_where_the_user_wants_them_bound(void **state)
{
    (void)state;
    static const struct { const char *bind, *places, *want; } cases[] = {
        {NULL, NULL, NULL},      {"true", NULL, "cores"},     {"close,spread", NULL, "cores"},
        {"false", NULL, NULL},   {"FALSE", NULL, NULL},       {"", NULL, NULL},
        {"spread", "sockets", "sockets"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vars v = plain_step();
        if (cases[i].bind)
            put(&v, "OMP_PROC_BIND", cases[i].bind);
        if (cases[i].places)
            put(&v, "OMP_PLACES", cases[i].places);
        make(&v, "on");
        const char *got = lookup("OMP_PLACES", &v);
        if ((got && cases[i].want) ? strcmp(got, cases[i].want) : got != cases[i].want)
            fail_msg("case %zu: %s", i, got ? got : "unset");
    }
}

static const struct environment_place with_gpus = {.n_cpus = 4, .n_cores = 4, .n_sharing = 1, .n_same = 1, .device = 1,
                                                   .has_nvidia = true, .nccl_socket_ifname = "=eth0,eth1",
                                                   .nccl_ib_hca = "100%,mlx5_0", .gloo_socket_ifname = "eth0"};

static void gpus_are_named(void **state)
{
    (void)state;
    struct vars v = plain_step();
    make(&v, "on");
    static const char *const names[] = {"DDP_DEVICE", "CUDA_DEVICE_ORDER", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",
                                        "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(lookup(names[i], &v));
    put(&v, "CUDA_VISIBLE_DEVICES", "4,5");
    make_with(&v, "on", with_gpus);
    assert_var(&v, "DDP_DEVICE", "1");
    assert_var(&v, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    assert_var(&v, "NCCL_SOCKET_IFNAME", "=eth0,eth1");
    assert_var(&v, "NCCL_IB_HCA", "100%,mlx5_0");
    assert_var(&v, "GLOO_SOCKET_IFNAME", "eth0");
    assert_var(&v, "TP_SOCKET_IFNAME", "eth0");
    assert_var(&v, "CUDA_VISIBLE_DEVICES", "4,5");
    environment_forget(lookup("DDP_SET", &v), lookup, &v, drop_var);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lookup(names[i], &v))
            fail_msg("%s=%s is still there", names[i], lookup(names[i], &v));
    v = plain_step();
    put(&v, "SLURM_PROCID", "0");
    put(&v, "SLURM_NODEID", "0");
    put(&v, "SLURMD_NODENAME", "n1");
    put(&v, "CUDA_VISIBLE_DEVICES", "4,5");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(&v, names[i], "7");
    struct environment env = make_with(&v, "on", with_gpus);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_var(&v, names[i], "7");
    assert_int_equal(env.n_warnings, 1);
    assert_non_null(strstr(env.warning[0], "your DDP_DEVICE=7 stays, but the tasks of this step need 2 different"));
    v = plain_step();
    put(&v, "SLURM_PROCID", "0");
    put(&v, "SLURM_NODEID", "0");
    put(&v, "SLURMD_NODENAME", "n1");
    put(&v, "DDP_DEVICE", "cpu");
    env = make_with(&v, "on", with_gpus);
    assert_var(&v, "DDP_DEVICE", "cpu");
    assert_int_equal(env.n_warnings, 0);
}

static void torchrun_needs_no_options(void **state)
{
    (void)state;
    static const char *const names[] = {"PET_NNODES", "PET_NODE_RANK", "PET_RDZV_ENDPOINT", "PET_NPROC_PER_NODE"};
    struct vars v = plain_step();
    make(&v, "on");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) /* each task is a rank */
        assert_null(lookup(names[i], &v));
    v = one_task_a_node(NULL);
    make(&v, "on");
    assert_var(&v, "PET_NNODES", "2");
    assert_var(&v, "PET_NODE_RANK", "1");
    assert_var(&v, "PET_RDZV_ENDPOINT", "n1:21703");
    assert_null(lookup("PET_NPROC_PER_NODE", &v));
    v = one_task_a_node("0,1,2");
    put(&v, "MASTER_ADDR", "fd00::1");
    make(&v, "on,port=1234");
    assert_var(&v, "PET_NPROC_PER_NODE", "3");
    assert_var(&v, "PET_RDZV_ENDPOINT", "[fd00::1]:1234");
    environment_forget(lookup("DDP_SET", &v), lookup, &v, drop_var);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(lookup(names[i], &v));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(&v, names[i], "7");
    make(&v, "on");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_var(&v, names[i], "7");
}

static void a_stop_tells_when_the_job_ends(void **state)
{
    (void)state;
    struct environment_place guarded = {.n_cpus = 4, .n_cores = 4, .n_sharing = 1, .n_same = 1, .device = -1,
                                        .is_requeued_by_guards = true};
    struct vars v = plain_step();
    put(&v, "SLURM_JOB_END_TIME", "1800000000");
    make(&v, "on");
    assert_null(lookup("DDP_END_TIME", &v));
    make(&v, "stop=none");
    assert_null(lookup("DDP_END_TIME", &v));
    make(&v, "stop=USR1");
    assert_var(&v, "DDP_END_TIME", "1800000000");
    v = plain_step();
    put(&v, "SLURM_JOB_END_TIME", "1800000000");
    put(&v, "SLURM_DDP_END", "1800000060"); /* srun's, which has asked of late */
    make_with(&v, "stop=USR1,requeue=auto", guarded);
    assert_var(&v, "DDP_END_TIME", "1800000060");
    assert_var(&v, "DDP_REQUEUE", "off"); /* once is enough */
}

static void launchers_say_how_many_threads(void **state)
{
    (void)state;
    static const struct {
        const char *option, *gpus;
        enum launcher launcher;
        const char *want;
    } cases[] = {
        {"on", NULL, LAUNCHER_NONE, "4"},    {"on", "0", LAUNCHER_NONE, "4"},
        {"on", "0,1", LAUNCHER_NONE, NULL},  {"on", NULL, LAUNCHER_TORCH, NULL},
        {"omp=3", "0,1", LAUNCHER_TORCH, "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vars v = one_task_a_node(cases[i].gpus);
        make_with(&v, cases[i].option,
                  (struct environment_place){.n_cpus = 4, .n_cores = 4, .n_sharing = 1, .n_same = 1, .device = -1,
                                             .launcher = cases[i].launcher});
        const char *got = lookup("OMP_NUM_THREADS", &v);
        if ((got && cases[i].want) ? strcmp(got, cases[i].want) : got != cases[i].want)
            fail_msg("case %zu: %s", i, got ? got : "unset");
    }
    struct vars v = plain_step();
    put(&v, "CUDA_VISIBLE_DEVICES", "0,1"); /* two tasks here */
    make(&v, "on");
    assert_var(&v, "OMP_NUM_THREADS", "4");
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    struct vars v = plain_step();
    struct environment env;
    struct keys o;
    struct step s;
    ddp_error_t e = {0};
    struct environment_place place = {.n_cpus = 4, .n_cores = 4, .n_sharing = 1, .n_same = 1, .device = -1};
    struct port_ephemeral ephemeral = {{20000, 40000}, "8080"};
    put(&v, "SLURM_PROCID", "0"); /* on n2, as --distribution=arbitrary may have it */
    assert_int_equal(step_read(lookup, &v, 2, &s, &e), 0);
    assert_int_equal(keys_resolve("on", lookup, &v, NULL, &o, &e), 0);
    assert_int_equal(environment_make(&s, &o, &place, &ephemeral, lookup, &v, &env, &e), -1);
    assert_error_has(e, "set MASTER_ADDR=n2");
    put(&v, "MASTER_ADDR", "n2");
    assert_int_equal(environment_make(&s, &o, &place, &ephemeral, lookup, &v, &env, &e), 0);
    assert_int_equal(env.n_warnings, 1);
    assert_non_null(strstr(env.warning[0], "port_min"));
    ephemeral.reserved = "8080,20000-29999\n"; /* set aside, as a site may */
    assert_int_equal(environment_make(&s, &o, &place, &ephemeral, lookup, &v, &env, &e), 0);
    assert_int_equal(env.n_warnings, 0);
    assert_int_equal(keys_resolve("resv_ports", lookup, &v, NULL, &o, &e), 0);
    assert_int_equal(environment_make(&s, &o, &place, &ephemeral, lookup, &v, &env, &e), -1);
    assert_error_has(e, "--resv-ports");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(variables_are_set),
    cmocka_unit_test(an_enclosing_step_is_not_the_user),
    cmocka_unit_test(what_is_listed_is_found_whatever_it_holds),
    cmocka_unit_test(only_what_is_listed_is_forgotten),
    cmocka_unit_test(the_users_values_stay),
    cmocka_unit_test(rank_0_warns),
    cmocka_unit_test(mig_instances_count_as_one_device),
    cmocka_unit_test(reserved_ports_are_taken_where_asked_for),
    cmocka_unit_test(threads_follow_the_cpus),
    cmocka_unit_test(threads_are_bound_where_the_user_wants_them_bound),
    cmocka_unit_test(gpus_are_named),
    cmocka_unit_test(torchrun_needs_no_options),
    cmocka_unit_test(a_stop_tells_when_the_job_ends),
    cmocka_unit_test(launchers_say_how_many_threads),
    cmocka_unit_test(what_cannot_work_is_refused),
};
UNIT_MAIN(tests)
