/* What is another for a program that is started again: its port, and what says where it runs. */
#include "t/unit/spank/making.h"

#include "spank/guards/guards.h"

static const char *value_in(const struct environment *env, const char *name)
{
    size_t i = 0;
    while (i < env->n_vars && strcmp(env->var[i].name, name) != 0)
        i++;
    return i < env->n_vars ? env->var[i].value : NULL;
}

/* Which of the ports of the guard of rank 0's node a program that is started again has; -1: none. */
static int renewed_port_is_guards(struct environment *env, int generation, int node)
{
    int guards[GUARDS_PORTS], which = -1;
    environment_renew(env, generation, &(struct seat){.first = node});
    guards_choose_ports(&(struct guards_ports){env->port, env->port_range, env->master_port}, node, guards);
    for (int i = 0; i < GUARDS_PORTS; i++)
        if (guards[i] == atoi(value_in(env, "MASTER_PORT")))
            which = i;
    return which;
}

/* A program that is started again meets at another port, whatever the variable is in which it reads it. */
static void a_restart_has_a_port_of_its_own(void **state)
{
    (void)state;
    char endpoint[64];
    struct vars v = one_task_a_node(NULL);
    put(&v, "SLURM_DDP_DRAW", "7");
    put(&v, GUARDS_VARIABLE, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    struct environment env = make(&v, "on,restarts=3");
    assert_string_equal(value_in(&env, "MASTER_PORT"), "21815");
    environment_renew(&env, 3, &(struct seat){.restart = 2}); /* one was given up before it began */
    const char *port = value_in(&env, "MASTER_PORT");
    assert_string_not_equal(port, "21815");
    assert_string_equal(value_in(&env, "JAX_COORDINATOR_PORT"), port);
    snprintf(endpoint, sizeof endpoint, "n1:%s", port);
    assert_string_equal(value_in(&env, "PET_RDZV_ENDPOINT"), endpoint);
    assert_string_equal(value_in(&env, "DDP_RESTART"), "2");
    for (int node = 0; node < 700; node++) /* not one of the guard's, on whichever node rank 0 is then */
        assert_int_equal(renewed_port_is_guards(&env, 3, node), -1);
    int other = port_derive_other(&env.port, PORT_OF_RESTART, 0, 0, env.port_range);
    env.port.key[0]++;
    assert_int_not_equal(port_derive_other(&env.port, PORT_OF_RESTART, 0, 0, env.port_range), other);
    for (int n = 1; n < 12; n++) { /* in a range of n blocks not the first of the guard's, and another one each time */
        env.port_range = (struct port_range){20000, 20000 + 16 * n - 1};
        env.master_port = port_derive(&env.port, env.port_range);
        int last = env.master_port;
        for (int generation = 1; generation < 20; generation++) {
            assert_int_not_equal(renewed_port_is_guards(&env, generation, 0), 0);
            int now = atoi(value_in(&env, "MASTER_PORT"));
            assert_true(n < 3 || now != last);
            last = now;
        }
    }
    v = one_task_a_node(NULL);
    put(&v, "MASTER_PORT", "4321");
    env = make(&v, "on,restarts=3");
    environment_renew(&env, 1, &(struct seat){.restart = 1});
    assert_string_equal(value_in(&env, "JAX_COORDINATOR_PORT"), "4321");
    assert_string_equal(value_in(&env, "PET_RDZV_ENDPOINT"), "n1:4321");
}

/* A program that runs elsewhere, or with fewer others; what the user set stays. */
static void a_seat_changes_what_says_where_it_is(void **state)
{
    static const struct seat seat = {.rank = 5, .size = 7, .node = 5, .n_nodes = 7, .master = "n4"};
    (void)state;
    char endpoint[64];
    struct vars v = one_task_a_node(NULL);
    struct environment env = make(&v, "on,restarts=3");
    environment_seat(&env, &seat);
    static const char *const want[][2] = {{"RANK", "5"},          {"WORLD_SIZE", "7"},    {"NODE_RANK", "5"},
                                          {"GROUP_RANK", "5"},    {"MASTER_ADDR", "n4"},  {"PET_NNODES", "7"},
                                          {"PET_NODE_RANK", "5"}, {"LOCAL_RANK", "0"},    {"LOCAL_WORLD_SIZE", "1"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(value_in(&env, want[i][0]), want[i][1]);
    snprintf(endpoint, sizeof endpoint, "n4:%s", value_in(&env, "MASTER_PORT"));
    assert_string_equal(value_in(&env, "PET_RDZV_ENDPOINT"), endpoint);
    assert_non_null(strstr(env.set, "WORLD_SIZE=7"));
    v = one_task_a_node(NULL);
    put(&v, "MASTER_ADDR", "mine");
    env = make(&v, "on,restarts=3");
    environment_seat(&env, &seat);
    assert_null(value_in(&env, "MASTER_ADDR"));
    assert_memory_equal(value_in(&env, "PET_RDZV_ENDPOINT"), "mine:", 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_restart_has_a_port_of_its_own),
    cmocka_unit_test(a_seat_changes_what_says_where_it_is),
};
UNIT_MAIN(tests)
