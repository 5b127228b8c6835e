/* doc/placement.md, sections 1 and 2, a sentence at a time; t/unit/topology/placement_random.c takes all of it over
 * random machines. */
#include "t/unit/unit.h"

#include "t/unit/topology/placing.h"

/* --- section 1 --- */

static void masks_stay_where_they_must(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 8, 1, MACHINE_THREADS_LAST);
    given(inv, 4, "all");
    req.keep = "--cpu-bind was given";
    given_mask(3, "5,7000"); /* also what the inventory does not know */
    expect_cpus("0-7 0-7 0-7 5,7000");
    expect(REASON, "0 0 0 0");
    expect(N_SHARING, "4 4 4 4");
    expect(N_CORES, "8 8 8 1");
    assert_string_equal(placement_why(&req, &places[0]), "--cpu-bind was given");
    free(inv);
}

static void kept_ranks_still_get_gpus_memory_and_nics(void **state)
{
    (void)state;
    struct inventory *inv = two_gpus();
    machine_add_nic(inv, "0-3", NIC_INFINIBAND, 0, 10);
    machine_add_nic(inv, "4-7", NIC_INFINIBAND, 1, 11);
    given(inv, 2, "all");
    given_mask(0, "4-7");
    given_mask(1, "0-3");
    all_see("0 1");
    req.keep = "bind=none";
    expect_cpus("4-7 0-3");
    expect(DEVICE, "1 0"); /* a pool each: its own mask */
    expect(NUMA, "1 0");
    expect(NIC, "1 0");
    expect(N_NEAR, "4 4");
    free(inv);
}

static void a_mask_that_nobody_else_touches_stays(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 8, 2, MACHINE_THREADS_LAST);
    given(inv, 4, "0-1,8-9");
    given_mask(1, "2");
    given_mask(2, "10"); /* the other thread of core 2: another CPU */
    given_mask(3, "4-7,7000");
    expect_cpus("0-1,8-9 2 10 4-7,7000");
    expect(REASON, "1 1 1 1");
    expect(N_SHARING, "1 2 2 1");
    assert_string_equal(placement_why(&req, &places[0]), "CPUs that no other rank has");
    free(inv);
}

static void overlapping_masks_are_shared_out(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 16, 1, MACHINE_THREADS_LAST);
    given(inv, 4, "0-7"); /* pairs of ranks bound alike */
    given_mask(2, "8-15");
    given_mask(3, "8-15");
    expect_cpus("0-3 4-7 8-11 12-15");
    expect(REASON, "3 3 3 3");
    given(inv, 5, "0-3"); /* 0 and 4 overlap through 2; 1 and 3 do, in CPUs between */
    given_mask(1, "8-9");
    given_mask(2, "3-6");
    given_mask(3, "9-11");
    given_mask(4, "6-7");
    expect_cpus("0-1 8-9 2-4 10-11 5-7");
    given(inv, 3, "2,7000"); /* what the inventory does not know joins nobody */
    given_mask(1, "3,7000");
    given_mask(2, "7001");
    expect_cpus("2,7000 3,7000 7001");
    expect(N_CORES, "1 1 0");
    expect(N_SHARING, "1 1 1");
    free(inv);
}

static void one_gpu_with_a_home_makes_one_pool(void **state)
{
    (void)state;
    struct inventory *inv = two_gpus();
    machine_add_gpu(inv, "all", 1, 12);
    given(inv, 2, "4-7"); /* Slurm's masks, the wrong way round */
    given_mask(1, "0-3");
    all_see("0 1");
    expect_cpus("0-3 4-7");
    expect(REASON, "2 2");
    given(inv, 2, "4-7,7000");
    given_mask(1, "0-3");
    given_devices(1, "2"); /* without a home: nothing changes */
    expect_cpus("4-7,7000 0-3");
    given_devices(1, "1");
    expect_cpus("0-3 4-7"); /* also for the rank that sees none */
    expect(REASON, "3 2");
    given(inv, 2, "7000");
    all_see("0 1");
    expect_cpus("7000 7000"); /* no CPU that the inventory knows */
    expect(N_CORES, "0 0");
    free(inv);
}

static void an_empty_mask_is_left_alone(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 3, "none");
    expect_cpus("none none none");
    expect(N_CORES, "0 0 0");
    all_see("0 1 2 3");
    expect_cpus("none none none");
    expect(DEVICE, "0 1 2");
    expect(NUMA, "-1 -1 -1");
    given_mask(1, "0-5"); /* one pool, so that the others have a share of it */
    expect_cpus("0-1 4-5 2-3");
    free(inv);
}

static void cores_stay_whole_within_the_pool(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 4, 2, MACHINE_THREADS_LAST);
    given(inv, 2, "all");
    expect_cpus("0-1,4-5 2-3,6-7");
    given(inv, 2, "0-2,5-7"); /* one thread of cores 0 and 3 */
    expect_cpus("0-1,5 2,6-7");
    given(inv, 2, "0-3,6000");
    expect_cpus("0-1 2-3");
    free(inv);
    inv = machine_make(1, 1, 1, 2, 4, MACHINE_THREADS_TOGETHER);
    given(inv, 2, "all");
    expect_cpus("0-3 4-7");
    free(inv);
}

/* --- section 2 --- */

static void rank_r_has_device_r(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 4, "all");
    all_see("0 1 2 3");
    expect(DEVICE, "0 1 2 3");
    all_see("3 1 0 2"); /* an ordinal is a place in the process's list */
    expect(DEVICE, "0 1 2 3");
    expect(GPU, "3 1 0 2");
    given(inv, 2, "all");
    all_see("0 1 2 3");
    expect(DEVICE, "0 1");
    given(inv, 9, "all");
    all_see("0 1 2 3");
    expect(DEVICE, "0 1 2 3 0 1 2 3 0");
    expect(N_GPU_SHARING, "3 2 2 2 3 2 2 2 3");
    given(inv, 2, "all");
    expect(DEVICE, "-1 -1");
    expect(GPU, "-1 -1");
    expect(N_GPU_SHARING, "0 0");
    free(inv);
}

static void near_gpus_come_before_far_ones(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 2, "12-15");
    all_see("0 1 2 3");
    expect(DEVICE, "2 3"); /* 0 + 1, not 0 + 2 */
    given(inv, 2, "4-11");
    all_see("0 1 2 3");
    expect(DEVICE, "1 2");
    given(inv, 2, "8-15");
    all_see("3 0 2 1"); /* by ordinal: of 0 and 2 rank 1 has the first from 1 on */
    expect(DEVICE, "0 2");
    free(inv);
}

static void no_gpu_idles_while_another_has_two_more(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 5, "0-7");
    all_see("0 1 2 3");
    expect(DEVICE, "0 1 2 3 0");
    given(inv, 6, "8-15");
    all_see("0 1 2 3");
    expect(DEVICE, "0 1 2 3 2 3");
    free(inv);
}

static void gpus_without_a_place_cost_nothing(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    machine_add_gpu(inv, "all", 0, 14);
    machine_add_gpu(inv, "none", 0, 15);
    given(inv, 3, "12-15");
    all_see("0 4 5 x");
    expect(DEVICE, "1 2 3"); /* 0 is across */
    expect(GPU, "4 5 -1");
    given(inv, 1, "12-15");
    all_see("0 4");
    expect(DEVICE, "1");
    expect(REASON, "3");
    expect(N_NEAR, "4"); /* its local CPUs are all */
    all_see("5");
    expect(N_NEAR, "0");
    given(inv, 4, "all");
    all_see("1 1"); /* two parts of one GPU are two devices */
    expect(DEVICE, "0 1 0 1");
    expect(N_GPU_SHARING, "2 2 2 2");
    free(inv);
}

static void ranks_choose_in_their_own_lists(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 4, "all");
    for (int r = 0; r < 4; r++)
        given_devices(r, (const char *[]){"2", "3", "0", "1"}[r]);
    expect(DEVICE, "0 0 0 0");
    expect(GPU, "2 3 0 1");
    expect(N_GPU_SHARING, "1 1 1 1");
    given(inv, 4, "all");
    for (int r = 0; r < 4; r++)
        given_devices(r, r % 2 ? "2 3" : "0 1");
    expect(GPU, "0 3 1 2"); /* from its number on; the second time the one that nobody has */
    given(inv, 2, "8-15");
    given_devices(0, "1 2");
    given_devices(1, "2 1");
    expect(GPU, "2 1"); /* near first; but before that, one that nobody has */
    given(inv, 3, "all");
    given_devices(0, "x 0");
    given_devices(1, "0 x");
    given_devices(2, "x");
    expect(DEVICE, "0 1 0"); /* each is a GPU of its own */
    expect(N_GPU_SHARING, "1 1 1");
    given(inv, 3, "all");
    given_devices(0, "0 1");
    given_devices(2, "0 1");
    expect(DEVICE, "0 -1 1"); /* a rank that sees none has none */
    free(inv);
}

/* --- the contract --- */

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ddp_error_t e;
    struct place untouched = {.device = 77}, *many = calloc(PLACEMENT_RANKS_MAX + 1, sizeof *many);
    struct inventory *inv = four_gpus();
    struct placement_rank *crowd = calloc(PLACEMENT_RANKS_MAX + 1, sizeof *crowd);
    static const struct { int n_ranks, n_devices, device; const char *part; } cases[] = {
        {0, 0, 0, "0 ranks"},
        {PLACEMENT_RANKS_MAX + 1, 0, 0, "4097 ranks on one node: 1 to 4096"},
        {1, 1, 4, "rank 0 sees GPU 4: this machine has 4"},
        {1, 1, -2, "rank 0 sees GPU -2"},
        {1, 65, 0, "rank 0 sees 65 GPUs"},
        {1, -1, 0, "rank 0 sees -1 GPUs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct placement_request q = {inv, cases[i].n_ranks, crowd, NULL};
        crowd[0].n_devices = (int16_t)cases[i].n_devices;
        crowd[0].device[0] = (int16_t)cases[i].device;
        many[0] = untouched;
        assert_int_equal(placement_choose(&q, many, &e), -1);
        assert_int_equal(e.domain, DDP_E_USAGE);
        assert_error_has(e, cases[i].part);
        assert_int_equal(many[0].device, 77);
        assert_int_equal(placement_choose(&q, many, NULL), -1);
    }
    free(crowd);
    free(many);
    free(inv);
}

/* The linker brings the library's allocations here (--wrap); those of cmocka's library stay its own. */
static int n_allowed = -1; /* allocations that still succeed; -1: all */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return n_allowed < 0 || n_allowed-- > 0 ? __real_calloc(n, size) : NULL;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return n_allowed < 0 || n_allowed-- > 0 ? __real_malloc(size) : NULL;
}

static void without_memory_nothing_is_said(void **state)
{
    (void)state;
    struct inventory *inv = four_gpus();
    given(inv, 4, "all");
    all_see("0 1 2 3");
    int n = 0, rc = -1;
    for (; rc < 0 && n < 20; n++) {
        ddp_error_t e = {0};
        places[0].device = 77;
        n_allowed = n;
        rc = placement_choose(&req, places, &e);
        n_allowed = -1;
        assert_true(rc == 0 || (e.domain == DDP_E_SYSTEM && places[0].device == 77));
    }
    assert_true(n > 6 && rc == 0 && places[0].device == 0);
    free(inv);
}

static void reasons_are_told(void **state)
{
    (void)state;
    struct inventory *inv = machine_make(1, 1, 1, 2, 1, MACHINE_THREADS_LAST);
    given(inv, 2, "all");
    place();
    assert_string_equal(placement_why(&req, &places[1]), "an equal share of the cores");
    given(inv, 3, "all");
    place();
    assert_string_equal(placement_why(&req, &places[1]), "one core, shared: there are more ranks than cores");
    free(inv);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(masks_stay_where_they_must),
    cmocka_unit_test(kept_ranks_still_get_gpus_memory_and_nics),
    cmocka_unit_test(a_mask_that_nobody_else_touches_stays),
    cmocka_unit_test(overlapping_masks_are_shared_out),
    cmocka_unit_test(one_gpu_with_a_home_makes_one_pool),
    cmocka_unit_test(an_empty_mask_is_left_alone),
    cmocka_unit_test(cores_stay_whole_within_the_pool),
    cmocka_unit_test(rank_r_has_device_r),
    cmocka_unit_test(near_gpus_come_before_far_ones),
    cmocka_unit_test(no_gpu_idles_while_another_has_two_more),
    cmocka_unit_test(gpus_without_a_place_cost_nothing),
    cmocka_unit_test(ranks_choose_in_their_own_lists),
    cmocka_unit_test(what_cannot_be_is_refused),
    cmocka_unit_test(without_memory_nothing_is_said),
    cmocka_unit_test(reasons_are_told),
};
UNIT_MAIN(tests)
