/* Where each guard listens, and where it finds the one above. */
#include "config.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "spank/guards.h"

static const char *users_port, *option = "on";

static const char *lookup(const char *name, void *arg)
{
    const char *const *list = arg;
    if (!strcmp(name, "SLURM_STEP_NODELIST"))
        return list[0];
    if (!strcmp(name, "MASTER_PORT"))
        return users_port;
    return strcmp(name, GUARDS_VARIABLE) ? NULL : list[1];
}

static const struct keys *small; /* a site's keys with a small range of ports; NULL: the defaults hold */

static struct guards_facts plan(int node, const char *first, int own)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const char *vars[] = {"n[1-70]", secret};
    struct step s = {.rank = node, .node = node, .n_nodes = 70, .local_size = 1, .job = 7};
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
    /* of several components each node is by itself */
    assert_string_equal(plan(33, "n1", 35).above, "");
    assert_int_equal(plan(33, "n1", 35).n_nodes, 1);
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
    small = NULL;
    for (int i = 0; i < GUARDS_PORTS; i++)
        assert_int_equal(f.port[i], 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_node_finds_the_one_above),
    cmocka_unit_test(master_port_is_left_to_the_program),
};

UNIT_MAIN(tests)
