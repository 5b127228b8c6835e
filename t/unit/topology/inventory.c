#include "t/unit/unit.h"

#include <errno.h>
#include <hwloc.h>
#include <unistd.h>
#include <sys/stat.h>

#include "t/lib/folder.h"
#include "topology/inventory.h"

static struct inventory inv; /* large */

static const char *data_path(const char *name)
{
    static char path[1024];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%.900s/t/data/inventory/%s", top ? top : ".", name);
    return path;
}

static void load(const char *name, bool with_io)
{
    ddp_error_t e = {0};
    if (inventory_load(data_path(name), with_io, &inv, &e) < 0)
        fail_msg("%s", e.text);
}

static void assert_cpus(struct cpus set, const char *expected)
{
    char text[256];
    assert_string_equal(cpus_format(&set, text, sizeof text), expected);
}

static const char *bus_of(const struct inventory_pci *p)
{
    static char text[INVENTORY_BUS_TEXT];
    return inventory_bus(p, text);
}

/* Two packages of four cores with two threads; two cores share an L3. */
static void cores_caches_and_packages_are_numbered(void **state)
{
    (void)state;
    load("server.xml", false);
    assert_string_equal(inv.origin, "server.xml");
    assert_string_equal(inv.cpu_model, "Made-up CPU 9000");
    assert_false(inv.has_io);
    assert_int_equal(inv.n_gpus + inv.n_nics, 0);
    assert_int_equal(inv.n_packages, 2);
    assert_int_equal(inv.n_caches, 4);
    assert_int_equal(inv.n_cores, 8);
    assert_cpus(inv.all, "0-15");
    assert_cpus(inv.allowed, "0-15");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(inv.core[i].package, i / 4);
        assert_int_equal(inv.core[i].numa, i / 4);
        assert_int_equal(inv.core[i].cache, i / 2);
        assert_int_equal(inv.core[i].n_cpus, 2);
        assert_int_equal(inv.core[i].cpu[0], i);
        assert_int_equal(inv.core[i].cpu[1], i + 8);
    }
    assert_cpus(inventory_core_cpus(&inv, 3), "3,11");
    assert_cpus(inventory_numa_cpus(&inv, 1), "4-7,12-15");
    struct cpus set = {{0}};
    assert_int_equal(inventory_count_cores(&inv, &set), 0);
    assert_int_equal(cpus_parse("3,11,12,100", &set, NULL), 0);
    assert_int_equal(inventory_count_cores(&inv, &set), 2);
}

/* Package 0 has HBM after its DRAM, package 1 the memory of a GPU before it: neither is where memory of its cores comes
 * from. */
static void memory_of_other_kinds_is_left_out(void **state)
{
    (void)state;
    load("server.xml", false);
    assert_int_equal(inv.n_numas, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(inv.numa[i].os_index, i == 0 ? 0 : 3);
        assert_int_equal(inv.numa[i].package, i);
        assert_true(inv.numa[i].memory_bytes == UINT64_C(64) << 30);
    }
}

/* By class and vendor: neither the BMC's VGA (1a03) nor the NVSwitch (class 0680) nor an unnamed NIC. */
static void gpus_are_found_and_named(void **state)
{
    (void)state;
    static const struct {
        const char *bus, *name, *uuid;
        enum inventory_vendor vendor;
        int package;
    } expected[] = {
        {"0000:12:00.0", "NVIDIA Test GPU", "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd", VENDOR_NVIDIA, 0},
        {"0000:21:00.0", "NVIDIA Test GPU", "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd", VENDOR_NVIDIA, 0},
        {"0001:01:00.0", "AMD Instinct MI250X", "", VENDOR_AMD, 1},
        {"0001:06:00.0", "NVIDIA GPU ffff", "", VENDOR_NVIDIA, 1},
    };
    load("server.xml", true);
    assert_true(inv.has_io);
    assert_int_equal(inv.n_gpus, 4);
    for (size_t i = 0; i < inv.n_gpus; i++) {
        assert_string_equal(bus_of(&inv.gpu[i].pci), expected[i].bus);
        assert_string_equal(inv.gpu[i].name, expected[i].name);
        assert_string_equal(inv.gpu[i].uuid, expected[i].uuid);
        assert_int_equal(inv.gpu[i].vendor, expected[i].vendor);
        assert_int_equal(inv.gpu[i].pci.package, expected[i].package);
        assert_int_equal(inv.gpu[i].pci.numa, expected[i].package);
        assert_cpus(inv.gpu[i].pci.local, expected[i].package ? "4-7,12-15" : "0-3,8-11");
    }
}

static void nics_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *bus, *kind, *verbs, *interface, *name;
        bool is_active;
    } expected[] = {
        {"0000:13:00.0", "InfiniBand", "mlx5_0", "ib0", "mlx5_0", true},
        {"0000:14:00.0", "RoCE", "rocep20s0", "ens2f0", "rocep20s0", false}, /* its port is down */
        {"0001:02:00.0", "Slingshot", "", "hsn0", "hsn0", true},
        {"0001:04:00.0", "Ethernet", "", "", "?", false},         /* no driver has it */
        {"0001:05:00.0", "InfiniBand", "mlx4_0", "", "mlx4_0", true}, /* class 0280; its second port is up */
    };
    load("server.xml", true);
    assert_int_equal(inv.n_nics, 5);
    for (size_t i = 0; i < inv.n_nics; i++) {
        assert_string_equal(bus_of(&inv.nic[i].pci), expected[i].bus);
        assert_string_equal(inventory_nic_kind_name(inv.nic[i].kind), expected[i].kind);
        assert_string_equal(inv.nic[i].verbs, expected[i].verbs);
        assert_string_equal(inv.nic[i].interface, expected[i].interface);
        assert_string_equal(inventory_nic_name(&inv.nic[i]), expected[i].name);
        assert_int_equal(inv.nic[i].is_active, expected[i].is_active);
    }
}

static void distances_are_classes(void **state)
{
    (void)state;
    load("server.xml", true);
    const struct inventory_pci *gpu0 = &inv.gpu[0].pci, *gpu1 = &inv.gpu[1].pci;
    assert_int_equal(inventory_distance(gpu0, &inv.nic[0].pci), DISTANCE_SAME_SWITCH);
    assert_int_equal(inventory_distance(gpu0, &inv.nic[1].pci), DISTANCE_SAME_ROOT);
    assert_int_equal(inventory_distance(gpu0, gpu1), DISTANCE_SAME_PACKAGE);
    assert_int_equal(inventory_distance(gpu0, &inv.nic[2].pci), DISTANCE_ACROSS);
    assert_int_equal(inventory_distance(gpu0, gpu0), DISTANCE_SAME_SWITCH);
    assert_string_equal(inventory_distance_name(DISTANCE_SAME_SWITCH), "same switch");
    assert_string_equal(inventory_distance_name(DISTANCE_ACROSS), "across");
    struct inventory_pci below_one_port = {.depth = 2, .path = {gpu0->path[0], gpu0->path[1]}};
    assert_int_equal(inventory_distance(gpu0, &below_one_port), DISTANCE_SAME_SWITCH);
    struct inventory_pci nowhere = {.package = -1, .numa = -1};
    assert_int_equal(inventory_distance(&nowhere, &nowhere), DISTANCE_ACROSS);
}

/* The matrix has GPU 0, GPU 1 and a switch: 20000 directly, and what 50000 and 30000 let through it. */
static void links_go_through_switches(void **state)
{
    (void)state;
    load("server.xml", true);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            assert_int_equal(inv.link_mbps[i][j], i + j == 1 ? 50000 : 0);
}

/* No cores, packages or caches; devices below the machine, GPUs out of order. */
static void a_virtual_machine_is_read(void **state)
{
    (void)state;
    load("vm.xml", true);
    assert_int_equal(inv.n_packages, 1);
    assert_int_equal(inv.n_numas, 1);
    assert_int_equal(inv.n_cores, 4);
    assert_int_equal(inv.n_caches, 4);
    assert_int_equal(inv.n_gpus, 2);
    assert_string_equal(bus_of(&inv.gpu[0].pci), "0000:00:04.0");
    assert_string_equal(inv.gpu[0].name, "NVIDIA T4");
    assert_cpus(inv.gpu[0].pci.local, "0-3");
    assert_int_equal(inv.gpu[0].pci.depth, 1);
    assert_int_equal(inventory_distance(&inv.gpu[0].pci, &inv.nic[0].pci), DISTANCE_SAME_ROOT);
}

/* The GPU's own NUMA node has none of the CPUs that are there: its package is nearest. */
static void a_restricted_record_is_read(void **state)
{
    (void)state;
    load("restricted.xml", true);
    assert_int_equal(inv.n_cores, 1);
    assert_int_equal(inv.n_gpus, 1);
    assert_cpus(inv.all, "0");
    assert_cpus(inv.gpu[0].pci.local, "0");
}

static void this_machine_is_read(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    assert_int_equal(inventory_load(NULL, true, &inv, &e), 0);
    assert_true(inv.origin[0] && inv.n_cores > 0 && inv.n_packages > 0 && inv.n_numas > 0);
    assert_true(cpus_count(&inv.allowed) > 0 && cpus_within(&inv.allowed, &inv.all));
    size_t n_cpus = 0;
    for (size_t i = 0; i < inv.n_cores; i++)
        n_cpus += inv.core[i].n_cpus;
    assert_int_equal(n_cpus, cpus_count(&inv.all));
}

/* How many plugins hwloc opens, by its own report, which goes to stderr. */
static int count_plugins(void)
{
    char line[512];
    int n = 0, saved = dup(2);
    FILE *report = tmpfile();
    assert_true(report && saved >= 0 && dup2(fileno(report), 2) >= 0);
    setenv("HWLOC_PLUGINS_VERBOSE", "1", 1);
    int rc = inventory_load(NULL, true, &inv, NULL);
    unsetenv("HWLOC_PLUGINS_VERBOSE");
    dup2(saved, 2);
    close(saved);
    assert_int_equal(rc, 0);
    rewind(report);
    while (fgets(line, sizeof line, report))
        n += strstr(line, "contains expected symbol") != NULL;
    fclose(report);
    return n;
}

/* As on arm64: no component of hwloc's has that name. */
static bool is_x86 = true;
int __real_hwloc_topology_set_components(hwloc_topology_t t, unsigned long flags, const char *name);
int __wrap_hwloc_topology_set_components(hwloc_topology_t t, unsigned long flags, const char *name);

int __wrap_hwloc_topology_set_components(hwloc_topology_t t, unsigned long flags, const char *name)
{
    errno = EINVAL;
    return is_x86 ? __real_hwloc_topology_set_components(t, flags, name) : -1;
}

static void another_processor_than_an_x86_is_read(void **state)
{
    ddp_error_t e = {0};
    is_x86 = false;
    int rc = inventory_load(NULL, true, &inv, &e);
    is_x86 = true;
    (void)state;
    assert_string_equal(e.text, "");
    assert_true(rc == 0 && inv.n_cores > 0);
}

/* hwloc_opencl.so and hwloc_gl.so would open a vendor's library. */
static void no_plugin_is_opened(void **state)
{
    (void)state;
    assert_int_equal(count_plugins(), 0);
    assert_null(getenv("HWLOC_PLUGINS_PATH"));
    assert_null(getenv("HWLOC_HIDE_ERRORS"));
    setenv("HWLOC_PLUGINS_PATH", "/some/where", 1);
    setenv("HWLOC_HIDE_ERRORS", "0", 1);
    assert_int_equal(inventory_load(NULL, true, &inv, NULL), 0);
    assert_string_equal(getenv("HWLOC_PLUGINS_PATH"), "/some/where");
    assert_string_equal(getenv("HWLOC_HIDE_ERRORS"), "0");
    unsetenv("HWLOC_PLUGINS_PATH");
    unsetenv("HWLOC_HIDE_ERRORS");
}

/* HWLOC_XMLFILE stands for this machine. */
static void a_record_may_stand_for_this_machine(void **state)
{
    (void)state;
    setenv("HWLOC_XMLFILE", data_path("server.xml"), 1);
    int rc = inventory_load(NULL, true, &inv, NULL);
    assert_int_equal(inv.n_gpus, 4);
    load("vm.xml", true); /* but not for another record */
    unsetenv("HWLOC_XMLFILE");
    assert_int_equal(rc, 0);
    assert_int_equal(inv.n_cores, 4);
}

static void a_device_name_finds_its_gpu(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int gpu;
    } expected[] = {
        {"0", 0}, {"3", 3}, {"4", -1}, {"-1", -1}, {"", -1}, {"0x1", -1}, {"0000:21:00.0", 1}, {"21:00.0", 1},
        {"00000000:21:00.0", 1}, {"0001:06:00.0", 3}, {"0001:06:00.1", -1}, {"0001:06:00.0x", -1}, {"1:2", -1},
        {"0001:06:00", -1}, {"GPU-00000001-aaaa-bbbb-cccc-dddddddddddd", 1}, {"GPU-00000001", 1},
        {"GPU-0000000", -1} /* both */, {"GPU-1", -1}, {"MIG-GPU-00000001-aaaa-bbbb-cccc-dddddddddddd/1/0", 1},
        {"MIG-5", -1}, {"NoDevFiles", -1},
    };
    load("server.xml", true);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (inventory_find_gpu(&inv, expected[i].name) != expected[i].gpu)
            fail_msg("\"%s\" finds %d", expected[i].name, inventory_find_gpu(&inv, expected[i].name));
}

static void write_information(const char *bus, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/gpus", test_folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/gpus/%s", test_folder, bus);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/gpus/%s/information", test_folder, bus);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_driver_knows_more(void **state)
{
    (void)state;
    load("server.xml", true);
    inventory_read_driver(&inv, "/nonexistent");
    write_information("0000:12:00.0", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 10\n"
                                      "GPU UUID: \t GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b\n"
                                      "Video BIOS: \t 96.00.99.00.01\nBus Location: \t 0000:12:00.0\n"
                                      "Device Minor: \t 5\nGPU Excluded:\t No\n");
    write_information("0000:21:00.0", "Model: Unknown\nGPU UUID: GPU-????????\n"
                                      "Device Minor: 1x\n");
    inventory_read_driver(&inv, test_folder);
    assert_string_equal(inv.gpu[0].name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(inv.gpu[0].uuid, "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b");
    assert_string_equal(inv.gpu[1].name, "NVIDIA Test GPU");
    assert_string_equal(inv.gpu[1].uuid, "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd");
}

static void what_is_no_record_is_refused(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    inv.n_cores = 77;
    assert_int_equal(inventory_load(data_path("nothing.xml"), true, &inv, &e), -1);
    assert_int_equal(e.domain, DDP_E_DATA);
    assert_error_has(e, "nothing.xml");
    assert_int_equal(inventory_load("/dev/null", true, &inv, &e), -1);
    assert_int_equal(e.domain, DDP_E_DATA);
    assert_int_equal(inv.n_cores, 77);
}

/* ---- cpus_parse ---- */

static void lists_of_cpus_are_read(void **state)
{
    (void)state;
    static const char *const same[] = {"none", "0", "0-3", "0-3,8", "5,7,9-11,8191"};
    static const char *const other[][2] = {{"8,0-3", "0-3,8"}, {"1,1,0-1", "0-1"}, {"3-3", "3"}, {"007", "7"},
                                           {"0-5:2,9", "0,2,4,9"}, {"1-3:5", "1"}, {"0-3:1", "0-3"}};
    struct cpus set;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(cpus_parse(same[i], &set, NULL), 0);
        assert_cpus(set, same[i]);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_int_equal(cpus_parse(other[i][0], &set, NULL), 0);
        assert_cpus(set, other[i][1]);
    }
}

static void bad_lists_of_cpus_are_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "empty item"},      {"1,", "empty item"},  {",1", "empty item"},    {"1,,2", "empty item"},
        {"8192", "\"8192\""},    {"3-1", "\"3-1\""},    {"1,x-2", "\"x-2\""},    {"1-", "\"1-\""},
        {"-1", "\"-1\""},        {"1--2", "\"1--2\""},  {"1-2-3", "\"1-2-3\""},  {" 1", "\" 1\""},
        {"0-8192", "\"0-8192\""}, {"none,1", "\"none\""}, {"0x3", "\"0x3\""},
        {"1:2", "\"1:2\""},    {"0-4:0", "\"0-4:0\""}, {"0-4:", "\"0-4:\""}, {"0-4:2:2", "\"0-4:2:2\""},
        {"99999999999999999999999999999999999999", "\"9999"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cpus set = {{42}};
        ddp_error_t e = {0};
        assert_int_equal(cpus_parse(bad[i][0], &set, &e), -1);
        assert_int_equal(e.domain, DDP_E_USAGE);
        assert_error_has(e, bad[i][1]);
        assert_true(set.word[0] == 42);
    }
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    static char text[CPUS_MAX * 6];
    uint64_t seed = 12345;
    for (int round = 0; round < 300; round++) {
        struct cpus set = {{0}}, back;
        unsigned density = 1 + (unsigned)round % 64, span = round % 3 ? 256 : CPUS_MAX;
        for (unsigned i = 0; i < span; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            if ((seed >> 33) % 64 < density)
                cpus_add(&set, i);
        }
        assert_int_equal(cpus_parse(cpus_format(&set, text, sizeof text), &back, NULL), 0);
        assert_true(cpus_equal(&set, &back));
    }
}

static void sets_are_walked(void **state)
{
    (void)state;
    static const char *const cases[] = {"none", "0", "63", "64", "8191", "0,63-65,127,8128-8191", "0-8191"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cpus set, seen = {{0}}, others;
        assert_int_equal(cpus_parse(cases[i], &set, NULL), 0);
        memset(&others, 255, sizeof others);
        for (unsigned cpu = cpus_next(&set, 0); cpu < CPUS_MAX; cpu = cpus_next(&set, cpu + 1)) {
            assert_false(cpus_has(&seen, cpu));
            cpus_add(&seen, cpu);
            others.word[cpu / 64] &= ~(UINT64_C(1) << cpu % 64);
        }
        assert_true(cpus_equal(&seen, &set));
        assert_true(cpus_touch(&set, &seen) == (i > 0));
        assert_false(cpus_touch(&set, &others));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cores_caches_and_packages_are_numbered),
    cmocka_unit_test(memory_of_other_kinds_is_left_out),
    cmocka_unit_test(gpus_are_found_and_named),
    cmocka_unit_test(nics_are_told_apart),
    cmocka_unit_test(distances_are_classes),
    cmocka_unit_test(links_go_through_switches),
    cmocka_unit_test(a_virtual_machine_is_read),
    cmocka_unit_test(a_restricted_record_is_read),
    cmocka_unit_test(this_machine_is_read),
    cmocka_unit_test(another_processor_than_an_x86_is_read),
    cmocka_unit_test(no_plugin_is_opened),
    cmocka_unit_test(a_record_may_stand_for_this_machine),
    cmocka_unit_test(a_device_name_finds_its_gpu),
    cmocka_unit_test_setup_teardown(the_driver_knows_more, folder_make, folder_remove),
    cmocka_unit_test(what_is_no_record_is_refused),
    cmocka_unit_test(lists_of_cpus_are_read),
    cmocka_unit_test(bad_lists_of_cpus_are_named),
    cmocka_unit_test(sets_are_walked),
    cmocka_unit_test(what_is_printed_reads_back),
};
UNIT_MAIN(tests)
