/* A placement as JSON, on machines made up here. */
#include "t/unit/unit.h"

#include <jansson.h>

#include "t/unit/topology/showing.h"

static json_t *parse_json(void)
{
    char *t = show_json(&m->show);
    json_error_t e;
    json_t *j = json_loads(t, 0, &e);
    if (!j)
        fail_msg("line %d: %s:\n%s", e.line, e.text, t);
    free(t);
    return j;
}

static void json_has_machine_and_ranks(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    json_t *j = parse_json(), *machine = json_object_get(j, "machine"), *ranks = json_object_get(j, "ranks");
    assert_string_equal(json_string_value(json_object_get(machine, "origin")), "made-up");
    assert_true(json_is_null(json_object_get(machine, "cpu_model")));
    assert_int_equal(json_array_size(json_object_get(machine, "cores")), 8);
    json_t *node = json_array_get(json_object_get(machine, "numa_nodes"), 2);
    assert_int_equal(json_integer_value(json_object_get(node, "node")), 16);
    assert_int_equal(json_integer_value(json_object_get(node, "memory_bytes")), INT64_C(64) << 30);
    json_t *gpu = json_array_get(json_object_get(machine, "gpus"), 1);
    assert_string_equal(json_string_value(json_object_get(gpu, "bus")), "0000:9d:00.0");
    assert_string_equal(json_string_value(json_array_get(json_object_get(gpu, "nic_distance"), 1)), "same switch");
    json_t *rank = json_array_get(ranks, 1);
    assert_string_equal(json_string_value(json_object_get(rank, "cpus")), "4-7,12-15");
    assert_int_equal(json_integer_value(json_object_get(rank, "device")), 1);
    assert_int_equal(json_integer_value(json_object_get(rank, "near_cores")), 2);
    assert_string_equal(json_string_value(json_object_get(rank, "reason")), "gpu");
    assert_int_equal(json_array_size(json_object_get(j, "notes")), 1);
    json_decref(j);
}

static void json_says_null_for_none(void **state)
{
    (void)state;
    add_cores(1, 1, 2, 1);
    place(1);
    json_t *j = parse_json(), *rank = json_array_get(json_object_get(j, "ranks"), 0);
    static const char *const keys[] = {"device", "gpu", "nic", "nic_distance"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_is_null(json_object_get(rank, keys[i])))
            fail_msg("%s is not null", keys[i]);
    assert_true(json_is_null(json_object_get(j, "keep")));
    json_decref(j);
}

static void hostile_names_are_still_json(void **state)
{
    (void)state;
    place_hostile();
    json_decref(parse_json());
}

static const struct CMUnitTest tests[] = {
    CASE(json_has_machine_and_ranks),
    CASE(json_says_null_for_none),
    CASE(hostile_names_are_still_json),
};
UNIT_MAIN(tests)
