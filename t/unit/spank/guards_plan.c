/* Where each guard listens, and where it finds the one above. */
#include "config.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "spank/guards/guards.h"
#include "spank/net/lifeline.h"

static const char *users_port, *option = "on", *uneven; /* the last: what srun says of the layout */
static const struct {
    const char *name, *value;
} of_step[] = {{"SLURM_JOB_ID", "4294967290"}, {"SLURM_STEP_ID", "4294967290"}, {LIFELINE_VARIABLE, "6001"},
               {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
static bool has_srun; /* they are set */

static const char *lookup(const char *name, void *arg)
{
    const char *const *list = arg;
    if (!strcmp(name, "SLURM_STEP_NODELIST"))
        return list[0];
    if (!strcmp(name, "MASTER_PORT"))
        return users_port;
    if (!strcmp(name, UNEVEN_VARIABLE))
        return uneven;
    for (size_t i = 0; i < sizeof of_step / sizeof *of_step; i++)
        if (has_srun && !strcmp(name, of_step[i].name))
            return of_step[i].value;
    return strcmp(name, GUARDS_VARIABLE) ? NULL : list[1];
}

static const struct keys *small; /* a site's keys with a small range of ports; NULL: the defaults hold */

static char secret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct guards_facts plan_in(int node, int in_list, const char *first, int own)
{
    const char *vars[] = {"n[1-70]", secret};
    struct step s = {.rank = node, .node = node, .in_list = in_list, .n_nodes = 70, .size = 70, .local_size = 1,
                     .job = 7};
    struct keys o;
    struct guards_facts f;
    ddp_error_t e = {0};
    strcpy(s.master, first);
    assert_int_equal(keys_resolve(option, lookup, vars, small, &o, &e), 0);
    if (guards_plan(&s, &o, own, lookup, vars, &f, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(f.token, secret);
    return f;
}

static struct guards_facts plan(int node, const char *first, int own)
{
    return plan_in(node, node, first, own);
}

static void every_node_finds_the_one_above(void **state)
{
    (void)state;
    assert_string_equal(plan(0, "n1", 70).above, "");
    assert_string_equal(plan(1, "n1", 70).above, "n1");
    assert_string_equal(plan(32, "n1", 70).above, "n1");
    assert_string_equal(plan(33, "n1", 70).above, "n2");
    assert_string_equal(plan(69, "n1", 70).above, "n3");
    /* rank 0 on n3: nodes are n3, n1, n2, n4 ... */
    assert_string_equal(plan(1, "n3", 70).above, "n3");
    assert_string_equal(plan(33, "n3", 70).above, "n1");
    assert_string_equal(plan(69, "n3", 70).above, "n2");
    /* of several components: by the list, not by Slurm's number */
    struct guards_facts het = plan_in(2, 33, "n3", 35), alone = plan_in(33, -1, "n1", 35);
    assert_string_equal(het.above, "n1");
    assert_int_equal(het.node, 33);
    assert_memory_equal(het.port_above, plan(1, "n3", 70).port, sizeof het.port_above);
    assert_true(het.is_whole);
    /* by a list that has not all nodes each is by itself */
    assert_string_equal(alone.above, "");
    assert_int_equal(alone.n_nodes, 1);
    assert_false(alone.is_whole);
    /* Slurm has not said how many of them there are: one component */
    assert_string_equal(plan(33, "n1", 0).above, "n2");
    assert_int_equal(plan(33, "n1", 0).n_nodes, 70);
    for (int node = 1; node < 70; node++) {
        struct guards_facts f = plan(node, "n1", 70), above = plan((node - 1) / GUARDS_FAN, "n1", 70);
        assert_memory_equal(f.port_above, above.port, sizeof above.port);
    }
}

static bool is_among(int port, const struct guards_facts *f)
{
    bool is = false;
    for (int i = 0; i < GUARDS_PORTS; i++)
        is |= f->port[i] == port;
    return is;
}

/* Whoever knows the step, and sees MASTER_PORT or some guards' ports, lacks the token by which they follow. */
static void ports_follow_from_the_token(void **state)
{
    struct guards_facts f = plan(0, "n1", 70), again = plan(0, "n1", 70);
    (void)state;
    assert_memory_equal(f.port, again.port, sizeof f.port);
    for (int i = 0; i < GUARDS_PORTS; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(f.port[i], f.port[k]);
    secret[0] = '1';
    again = plan(0, "n1", 70);
    secret[0] = '0';
    assert_int_equal(again.ports.program, f.ports.program);
    for (int i = 0; i < GUARDS_PORTS; i++)
        assert_int_not_equal(f.port[i], again.port[i]);
}

/* Whoever chose it. */
static void master_port_is_left_to_the_program(void **state)
{
    struct guards_facts f = plan(0, "n1", 70);
    char text[16];
    int third = f.port[3];
    (void)state;
    assert_true(is_among(third, &f));
    snprintf(text, sizeof text, "%d", third);
    users_port = text;
    f = plan(0, "n1", 70);
    assert_false(is_among(third, &f));
    users_port = NULL;
    snprintf(text, sizeof text, "port=%d", third);
    option = text;
    f = plan(0, "n1", 70);
    assert_false(is_among(third, &f));
    option = "on";
    struct keys o = {.mode = DDP_MODE_UNSET};
    o.key[KEY_PORT_MIN] = (struct knob_value){.is_set = true, .i = 20000};
    o.key[KEY_PORT_MAX] = (struct knob_value){.is_set = true, .i = 20007};
    small = &o;
    f = plan(0, "n1", 70);
    assert_true(!f.is_elastic && f.ends_step && f.heed_s > 0);
    small = NULL;
    for (int i = 0; i < GUARDS_PORTS; i++)
        assert_int_equal(f.port[i], 0);
}

/* Whoever may be the root: rank 0, and each node's first where the root may be lost. */
static void the_step_and_its_srun_are_found(void **state)
{
    (void)state;
    struct guards_facts f = plan(0, "n1", 70);
    assert_string_equal(f.step, "");
    assert_string_equal(f.srun_port, "");
    has_srun = true;
    f = plan(0, "n1", 70);
    assert_string_equal(f.step, "4294967290.4294967290");
    assert_string_equal(f.srun_host, "10.0.0.1");
    assert_string_equal(f.srun_port, "6001");
    assert_string_equal(plan(9, "n1", 70).srun_port, "");
    option = "on,restarts=2,spares=3";
    assert_string_equal(plan(9, "n1", 70).srun_port, "6001");
    option = "on";
    has_srun = false;
}

/* Programs save at a stop, too, but only where guards know of each other; and half a token is none. */
static void programs_save_where_a_stop_or_a_requeue_is_asked_for(void **state)
{
    (void)state;
    const char *vars[] = {"n1", secret};
    struct step s = {.n_nodes = 1, .size = 1, .local_size = 1, .master = "n1"};
    static const char *const options[] = {"on", "on,stop=USR1@60", "on,requeue=auto"};
    for (int k = 0; k < 3; k++)
        for (int has_token = 0; has_token < 2; has_token++) {
            struct keys o;
            struct guards_facts f;
            ddp_error_t e = {0};
            vars[1] = has_token ? secret : secret + 1;
            assert_int_equal(keys_resolve(options[k], lookup, vars, NULL, &o, &e), 0);
            if (guards_plan(&s, &o, 1, lookup, vars, &f, &e) < 0)
                fail_msg("%s", e.text);
            assert_int_equal(f.is_whole, has_token);
            assert_string_equal(f.token, has_token ? secret : "");
            assert_int_equal(f.saves, k > 0 && has_token);
            assert_int_equal(f.requeues, k == 2 && has_token);
        }
}

/* Any guard may have to find any other, and wherever that listens. */
static void with_spares_every_node_finds_all(void **state)
{
    char name[HOSTLIST_NAME_MAX + 1];
    int port[GUARDS_PORTS];
    (void)state;
    option = "on,restarts=2,spares=3";
    struct guards_facts f = plan(9, "n3", 70);
    assert_true(f.is_elastic && f.ends_step && f.heed_s == 0);
    assert_int_equal(f.min_nodes, 67);
    for (int node = 0; node < 70; node++) {
        struct guards_facts other = plan(node, "n3", 70);
        assert_int_equal(f.find(&f, node, name, port), 0);
        assert_memory_equal(port, other.port, sizeof port);
    }
    assert_string_equal((f.find(&f, 0, name, port), name), "n3");
    assert_string_equal((f.find(&f, 1, name, port), name), "n1");
    assert_string_equal((f.find(&f, 69, name, port), name), "n70");
    option = "on";
}

/* by_all: as each task of the step does. */
static void refuses_of(const struct step *s, int own, const char *text, const char *part, bool by_all)
{
    const char *vars[] = {"n[1-4]", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    struct keys o;
    struct guards_facts f;
    ddp_error_t e;
    assert_int_equal(keys_resolve(text, lookup, vars, NULL, &o, &e), 0);
    assert_int_equal(guards_plan(s, &o, own, lookup, vars, &f, &e), -1);
    assert_error_has(e, part);
    assert_int_equal(e.code == GUARDS_REFUSED_BY_ALL, by_all);
}

static void refuses(const struct step *s, const char *text, const char *part, bool by_all)
{
    refuses_of(s, s->n_nodes, text, part, by_all);
}

static void what_spares_are_refused(void **state)
{
    struct step s = {.rank = 2, .size = 8, .node = 1, .in_list = 1, .n_nodes = 4, .local_size = 2, .master = "n1"};
    (void)state;
    refuses(&s, "on,restarts=1,spares=4", "spares=4 of 4 nodes", true);
    refuses(&s, "on,restarts=1,spares=2,min_nodes=3", "min_nodes=3, but", true);
    refuses_of(&s, 1, "on,restarts=1,spares=1", "in one component", true);
    s.in_list = -1;
    refuses(&s, "on,restarts=1", "SLURM_STEP_NODELIST", false);
    s.in_list = 1;
    s.rank = 1; /* cyclic */
    refuses(&s, "on,restarts=1,spares=1", "--distribution=block", false);
    s.rank = 2;
    s.size = 7;
    refuses(&s, "on,restarts=1,min_nodes=1", "--distribution=block", false);
    s.size = 8;
    uneven = "1"; /* elsewhere */
    refuses(&s, "on,restarts=1,min_nodes=1", "--distribution=block", true);
    uneven = NULL;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_node_finds_the_one_above),
    cmocka_unit_test(ports_follow_from_the_token),
    cmocka_unit_test(master_port_is_left_to_the_program),
    cmocka_unit_test(the_step_and_its_srun_are_found),
    cmocka_unit_test(programs_save_where_a_stop_or_a_requeue_is_asked_for),
    cmocka_unit_test(with_spares_every_node_finds_all),
    cmocka_unit_test(what_spares_are_refused),
};

UNIT_MAIN(tests)
