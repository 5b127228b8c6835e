/* doc/placement.md, sections 3 to 6, a sentence at a time; t/unit/topology/placement_random.c takes all of it over
 * random machines. */
#include "t/unit/unit.h"

#include "t/unit/topology/placing.h"

/* --- section 3 --- */

static void shares_differ_by_one_core(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 10, 1, MACHINE_THREADS_LAST);
    given(inv, 4, "all");
    expect_cpus("0-1 2-4 5-6 7-9");
    given(inv, 1, "all");
    given_mask(0, "3-5");
    expect_cpus("3-5");
    free(inv);
}

static void extra_cores_go_where_there_are_some(void **state)
{
    (void)state;
    struct inventory *inv = two_gpus();
    given(inv, 2, "0-1,4-6");
    all_see("0 1");
    expect(N_CORES, "2 3"); /* the fifth core is in rank 1's home */
    expect_cpus("0-1 4-6");
    given(inv, 3, "all"); /* rank 2 has GPU 0, like rank 0; 2 each, and 2 more */
    all_see("0 1");
    expect(DEVICE, "0 1 0");
    expect(N_CORES, "3 3 2"); /* home 0: 4 cores for 2 ranks, none to spare; rank 1's has; then in rank order */
    given(inv, 4, "0-1,4-5,7");
    all_see("0 1");
    expect(N_CORES, "1 2 1 1");
    free(inv);
}

static void more_ranks_than_cores_take_seats(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(2, 1, 1, 1, 2, MACHINE_THREADS_LAST);
    given(inv, 5, "all");
    expect_cpus("0,2 0,2 0,2 1,3 1,3");
    expect(REASON, "4 4 4 4 4");
    expect(N_SHARING, "3 3 3 2 2");
    expect(N_CORES, "1 1 1 1 1");
    machine_add_gpu(inv, "0,2", 0, 10);
    machine_add_gpu(inv, "1,3", 1, 11);
    all_see("0 1");
    expect_cpus("0,2 1,3 0,2 1,3 0,2"); /* each beside its GPU */
    expect(REASON, "4 4 4 4 4");
    free(inv);
    inv = machine_make(1, 1, 1, 1, 1, MACHINE_THREADS_LAST);
    given(inv, 3, "all");
    expect_cpus("0 0 0");
    free(inv);
}

/* --- section 4 --- */

static void homes_then_packages_then_the_rest(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 4, "all");
    all_see("3 2 1 0");
    expect_cpus("12-15 8-11 4-7 0-3");
    expect(N_NEAR, "4 4 4 4");
    given(inv, 2, "all"); /* both on package 0, then all of package 1 */
    all_see("0 1");
    expect_cpus("0-3,8-11 4-7,12-15");
    expect(N_NEAR, "4 4");
    given(inv, 1, "all");
    given_devices(0, "2");
    expect_cpus("0-15");
    given(inv, 2, "all"); /* round (b): the free half of each package */
    all_see("0 2");
    expect_cpus("0-7 8-15");
    /* 14 cores: 3 each, 2 more where there are some: ranks 1 and 2; rank 0 misses one in its home. */
    given(inv, 4, "0-1,4-15");
    all_see("0 1 2 3");
    expect_cpus("0-1,15 4-7 8-11 12-14");
    free(inv);
}

static void ranks_of_one_home_get_equal_parts_of_it(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(2, 2, 1, 4, 1, MACHINE_THREADS_LAST);
    machine_add_gpu(inv, "4-7", 0, 10); /* both GPUs of a package at one node, as in a DGX A100 */
    machine_add_gpu(inv, "4-7", 0, 10);
    machine_add_gpu(inv, "12-15", 1, 11);
    machine_add_gpu(inv, "12-15", 1, 11);
    given(inv, 4, "all");
    all_see("0 1 2 3");
    expect_cpus("0-1,4-5 2-3,6-7 8-9,12-13 10-11,14-15");
    expect(N_NEAR, "2 2 2 2");
    expect(NUMA, "1 1 3 3");
    given(inv, 4, "5-7,12-15"); /* odd: by count first, then runs */
    all_see("0 1 2 3");
    expect_cpus("5-6 7 12-13 14-15");
    free(inv);
}

static void ranks_without_a_home_come_last(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 3, "0-5");
    given_devices(1, "0");
    given_devices(2, "x");
    expect_cpus("2-3 0-1 4-5");
    expect(REASON, "3 2 3");
    free(inv);
}

static void a_far_gpu_does_not_claim_to_be_near(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 1, "8-11");
    all_see("0");
    expect(N_NEAR, "0");
    assert_string_equal(placement_why(&req, &places[0]), "none of the CPUs here is beside its GPU");
    all_see("2");
    place();
    assert_string_equal(placement_why(&req, &places[0]), "beside its GPU");
    free(inv);
}

/* --- section 5 --- */

static void memory_is_the_gpus_or_the_cores(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 1, "0-5");
    all_see("1");
    expect(NUMA, "1"); /* a core at the GPU's node */
    all_see("2");
    expect(NUMA, "-1"); /* none there, and cores of two nodes */
    given(inv, 1, "0-3");
    all_see("2");
    expect(NUMA, "0");
    all_see("x");
    expect(NUMA, "0");
    given(inv, 2, "all");
    expect(NUMA, "-1 -1");
    given(inv, 4, "all");
    expect(NUMA, "0 1 2 3");
    machine_add_gpu(inv, "0-7", 0, 16);
    given(inv, 1, "0-1");
    all_see("4");
    expect(NUMA, "0"); /* a GPU of two nodes */
    free(inv);
}

/* A node whose slots are empty has CPUs and a GPU, and nothing to prefer. */
static void a_node_without_memory_is_none(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    inv->numa[1].memory_bytes = 0;
    given(inv, 4, "all");
    expect(NUMA, "0 -1 2 3");
    all_see("0 1 2 3");
    expect(NUMA, "0 -1 2 3");
    given(inv, 1, "0-5");
    all_see("1");
    expect(NUMA, "-1");
    given(inv, 1, "0-3");
    all_see("1");
    expect(NUMA, "0"); /* where its cores are */
    free(inv);
}

/* --- section 6 --- */

static void the_nearest_nic_of_the_fastest_kind(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    machine_add_nic(inv, "0-3", NIC_ETHERNET, 0, 10);
    given(inv, 2, "all");
    all_see("0 1");
    expect(NIC, "0 0"); /* Ethernet is all there is */
    machine_add_nic(inv, "12-15", NIC_ROCE, 3, 13);
    expect(NIC, "1 1");
    assert_int_equal(places[0].nic_distance, DISTANCE_ACROSS);
    machine_add_nic(inv, "0-3", NIC_INFINIBAND, 0, 10);
    machine_add_nic(inv, "0-3", NIC_SLINGSHOT, 0, 10);
    expect(NIC, "2 3"); /* equally near to rank 1's GPU: the one that rank 0 has not got */
    assert_int_equal(places[0].nic_distance, DISTANCE_SAME_SWITCH);
    assert_int_equal(places[1].nic_distance, DISTANCE_SAME_PACKAGE);
    all_see("0");
    expect(NIC, "2 3"); /* equally near: by turns */
    inv->nic[2].is_active = false;
    expect(NIC, "3 3");
    inv->nic[1].is_active = inv->nic[3].is_active = false;
    expect(NIC, "0 0"); /* Ethernet again */
    inv->nic[0].is_active = false;
    expect(NIC, "-1 -1");
    assert_int_equal(places[0].nic_distance, DISTANCE_ACROSS);
    free(inv);
}

static struct inventory_pci below(const struct inventory *inv, int bus, int depth, int root, int upper, int lower)
{
    struct inventory_pci pci = {.bus = (uint8_t)bus, .depth = (uint8_t)depth, .local = machine_cpus(inv, "0-3"),
                                .path = {(uint16_t)root, (uint16_t)upper, (uint16_t)lower}};
    return pci;
}

/* Two switches below one, as in a DGX-2. */
static void behind_nested_switches_the_inner_one_counts(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    for (int i = 0; i < 4; i++)
        inv->gpu[i].pci = below(inv, i, 3, 0, 10, i < 2 ? 20 : 21);
    for (int i = 0; i < 3; i++) {
        machine_add_nic(inv, "0-3", NIC_INFINIBAND, 0, 10);
        inv->nic[i].pci = below(inv, 10 + i, i < 2 ? 3 : 2, 0, 10, i == 0 ? 20 : 21);
    }
    given(inv, 4, "0-7");
    all_see("0 1 2 3");
    expect(NIC, "0 0 1 1");
    assert_int_equal(places[1].nic_distance, DISTANCE_SAME_SWITCH);
    assert_int_equal(inventory_common_bridges(&inv->gpu[0].pci, &inv->nic[0].pci), 3);
    assert_int_equal(inventory_common_bridges(&inv->gpu[0].pci, &inv->nic[1].pci), 2);
    assert_int_equal(inventory_common_bridges(&inv->gpu[0].pci, &inv->nic[2].pci), 2);
    inv->nic[0].is_active = false;
    expect(NIC, "1 2 1 1"); /* ranks 0 and 1: both as near, by turns */
    inv->nic[2].pci.path[0] = 1;
    assert_int_equal(inventory_common_bridges(&inv->gpu[0].pci, &inv->nic[2].pci), 0);
    inv->nic[2].pci.depth = 0;
    assert_int_equal(inventory_common_bridges(&inv->nic[2].pci, &inv->nic[2].pci), 0);
    free(inv);
}

static void a_nic_without_a_gpu_is_near_the_cpus(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(2, 1, 1, 4, 2, MACHINE_THREADS_LAST);
    machine_add_nic(inv, "all", NIC_INFINIBAND, 0, 10);
    machine_add_nic(inv, "8-11", NIC_INFINIBAND, 0, 10); /* second threads of package 0 */
    machine_add_nic(inv, "4-7", NIC_INFINIBAND, 1, 11);
    given(inv, 2, "all");
    expect(NIC, "1 2");
    assert_int_equal(places[0].nic_distance, DISTANCE_SAME_PACKAGE);
    all_see("x");
    expect(NIC, "1 2");
    given(inv, 2, "0-3"); /* by CPUs: the first threads only */
    expect(NIC, "0 1");
    assert_int_equal(places[0].nic_distance, DISTANCE_ACROSS);
    free(inv);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shares_differ_by_one_core),
    cmocka_unit_test(extra_cores_go_where_there_are_some),
    cmocka_unit_test(more_ranks_than_cores_take_seats),
    cmocka_unit_test(homes_then_packages_then_the_rest),
    cmocka_unit_test(ranks_of_one_home_get_equal_parts_of_it),
    cmocka_unit_test(ranks_without_a_home_come_last),
    cmocka_unit_test(a_far_gpu_does_not_claim_to_be_near),
    cmocka_unit_test(memory_is_the_gpus_or_the_cores),
    cmocka_unit_test(a_node_without_memory_is_none),
    cmocka_unit_test(the_nearest_nic_of_the_fastest_kind),
    cmocka_unit_test(behind_nested_switches_the_inner_one_counts),
    cmocka_unit_test(a_nic_without_a_gpu_is_near_the_cpus),
};
UNIT_MAIN(tests)
