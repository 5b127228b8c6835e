#include "t/unit/unit.h"

#include "topology/devices.h"

#define UUID(n) "GPU-0000000" #n "-aaaa-bbbb-cccc-dddddddddddd"

/* Eight GPUs. */
static struct inventory *machine(void)
{
    static struct inventory inv;
    inv.n_gpus = 8;
    for (int i = 0; i < 8; i++) {
        snprintf(inv.gpu[i].uuid, sizeof inv.gpu[i].uuid, "GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd", i);
    }
    return &inv;
}

/* The list as places in the inventory, "7 6", "x" where it is not there. */
static void assert_devices(const char *visible, const char *step_gpus, const char *expected)
{
    struct devices d;
    ddp_error_t e = {0};
    char text[256] = "";
    if (devices_list(machine(), &(struct devices_facts){visible, NULL, step_gpus}, &d, &e) < 0)
        fail_msg("%s", e.text);
    for (int i = 0; i < d.n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, d.gpu[i] < 0 ? "%sx" : "%s%d", i ? " " : "", d.gpu[i]);
    }
    assert_string_equal(text, expected);
}

static void numbers_count_by_pci_address(void **state)
{
    (void)state;
    assert_devices("0,1", NULL, "0 1");
    assert_devices("3", "0,1,2,3", "3");
    assert_devices(NULL, "2,5", "2 5");
    assert_devices("9,0", NULL, "x 0"); /* a device that hwloc did not see is one */
}

static void numbers_are_slurms_where_devices_are_hidden(void **state)
{
    (void)state;
    assert_devices("0,1", "4,5", "4 5");
    assert_devices("4,5", "4,5", "4 5");
    assert_devices("0", "6", "6");
}

static void names_say_it_themselves(void **state)
{
    (void)state;
    assert_devices(UUID(3) "," UUID(1), "0,1", "3 1");
    assert_devices("GPU-00000002", NULL, "2");
    assert_devices("MIG-" UUID(5) "/7/0,MIG-" UUID(5) "/8/0", NULL, "5"); /* CUDA uses no more */
    assert_devices("MIG-11111111-aaaa-bbbb-cccc-dddddddddddd", NULL, "x");
}

static void the_list_ends_as_for_the_driver(void **state)
{
    (void)state;
    assert_devices("0,-1,1", NULL, "0");
    assert_devices("-1", NULL, "");
    assert_devices("NoDevFiles", "0,1", "");
    assert_devices("0,1,0,2", NULL, "0 1");
    assert_devices("0," UUID(3) ",1", NULL, "0");
    assert_devices(UUID(3) ",1", NULL, "3");
    assert_devices("", "0,1", "");
    assert_devices(NULL, NULL, "");
    assert_devices(NULL, "", "");
}

static void the_drivers_own_list_comes_first(void **state)
{
    (void)state;
    static const struct {
        struct devices_facts facts;
        const char *source;
        int n;
    } cases[] = {
        {{NULL, NULL, NULL}, NULL, 0},
        {{"0", "1,2", "3,4,5"}, "CUDA_VISIBLE_DEVICES", 1},
        {{"", "1,2", "3,4,5"}, "ROCR_VISIBLE_DEVICES", 2},
        {{NULL, "1,2", "3,4,5"}, "ROCR_VISIBLE_DEVICES", 2},
        {{"", "", "3,4,5"}, "CUDA_VISIBLE_DEVICES", 0},
        {{NULL, "", "3,4,5"}, "ROCR_VISIBLE_DEVICES", 0},
        {{NULL, NULL, "3,4,5"}, "SLURM_STEP_GPUS", 3},
        {{"NoDevFiles", NULL, "3,4,5"}, "CUDA_VISIBLE_DEVICES", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct devices d;
        const char *source = devices_source(&cases[i].facts);
        assert_true(source && cases[i].source ? !strcmp(source, cases[i].source) : source == cases[i].source);
        assert_int_equal(devices_list(NULL, &cases[i].facts, &d, NULL), 0);
        assert_int_equal(d.n, cases[i].n);
        for (int k = 0; k < d.n; k++)
            assert_int_equal(d.gpu[k], -1);
    }
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    char many[INVENTORY_GPUS_MAX * 4 + 8] = "0", longest[256];
    for (int i = 1; i <= INVENTORY_GPUS_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    memset(longest, 'G', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const bad[][2] = {{",", "empty item"},      {"0,", "empty item"},  {"0,,1", "empty item"},
                                  {many, "more than"}, {longest, "which is no GPU"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int k = 0; k < 2; k++) {
            struct devices d = {.n = 33};
            ddp_error_t e = {0};
            struct devices_facts f = {.cuda = k ? bad[i][0] : "0", .step = k ? NULL : bad[i][0]};
            assert_int_equal(devices_list(machine(), &f, &d, &e), -1);
            assert_int_equal(e.domain, DDP_E_DATA);
            assert_error_has(e, bad[i][1]);
            assert_int_equal(d.n, 33);
        }
    *strrchr(many, ',') = 0;
    struct devices d;
    assert_int_equal(devices_list(machine(), &(struct devices_facts){.cuda = many}, &d, NULL), 0);
    assert_int_equal(d.n, INVENTORY_GPUS_MAX);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_count_by_pci_address),
    cmocka_unit_test(numbers_are_slurms_where_devices_are_hidden),
    cmocka_unit_test(names_say_it_themselves),
    cmocka_unit_test(the_list_ends_as_for_the_driver),
    cmocka_unit_test(the_drivers_own_list_comes_first),
    cmocka_unit_test(bad_lists_are_refused),
};
UNIT_MAIN(tests)
