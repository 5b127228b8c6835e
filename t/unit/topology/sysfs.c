#include "t/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/lib/folder.h"
#include "topology/sysfs.h"

/* A machine's /sys in a folder of its own: two packages of two cores, and the devices that a test adds. */
static struct inventory inv; /* large */

static int set_up(void **state)
{
    memset(&inv, 0, sizeof inv);
    strcpy(inv.origin, "node");
    inv.n_packages = inv.n_numas = 2;
    inv.n_caches = inv.n_cores = 4;
    for (int i = 0; i < 4; i++) {
        inv.core[i] = (struct inventory_core){.package = (int16_t)(i / 2), .numa = (int16_t)(i / 2),
                                              .cache = (int16_t)i, .n_cpus = 1, .cpu = {(uint16_t)i}};
        cpus_add(&inv.all, (unsigned)i);
    }
    return folder_make(state);
}

static void make_folders(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        if (mkdir(path, 0700) < 0)
            assert_int_equal(errno, EEXIST);
    }
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", test_folder, folder, name);
    make_folders(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* parents: "pci0000:00/0000:00:01.0/"; returns the device's folder below root. */
static const char *add(const char *parents, const char *bus, const char *class, const char *ids, const char *cpus)
{
    static char folder[256];
    char path[512], target[512], vendor[16], device[16];
    assert_int_equal(sscanf(ids, "%15[^:]:%15s", vendor, device), 2);
    snprintf(folder, sizeof folder, "devices/%s%s", parents, bus);
    put(folder, "class", class);
    put(folder, "vendor", vendor);
    put(folder, "device", device);
    put(folder, "local_cpulist", cpus);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s", test_folder, bus);
    make_folders(path);
    snprintf(target, sizeof target, "../../../%s", folder);
    assert_int_equal(symlink(target, path), 0);
    return folder;
}

static void read_all(void)
{
    ddp_error_t e = {0};
    if (sysfs_read_devices(&inv, test_folder, &e) < 0)
        fail_msg("%s", e.text);
}

static const char *bus_of(const struct inventory_pci *p)
{
    static char text[INVENTORY_BUS_TEXT];
    return inventory_bus(p, text);
}

static void gpus_are_found_by_class_and_vendor(void **state)
{
    (void)state;
    put(add("pci0001:00/0001:00:01.0/", "0001:01:00.0", "0x038000\n", "0x1002:0x740c\n", "2-3\n"), "unique_id",
        "deadbeef01234567\n");
    add("pci0000:00/0000:00:01.0/", "0000:12:00.0", "0x030200\n", "0x10de:0x2330\n", "0-1\n");
    add("pci0000:00/", "0000:00:02.0", "0x030000\n", "0x1a03:0x2000\n", "0-3\n"); /* the BMC's VGA */
    add("pci0000:00/", "0000:00:03.0", "0x068000\n", "0x10de:0x22a3\n", "0-3\n"); /* an NVSwitch */
    put(add("pci0000:00/0000:00:01.0/", "0000:12:00.4", "0x030200\n", "0x10de:0x2330\n", "0-1\n"), "physfn", "");
    read_all();
    assert_int_equal(inv.n_gpus, 2);
    assert_int_equal(inv.n_nics, 0);
    assert_string_equal(bus_of(&inv.gpu[0].pci), "0000:12:00.0");
    assert_string_equal(inv.gpu[0].name, "NVIDIA H100 SXM5 80GB");
    assert_int_equal(inv.gpu[0].pci.vendor_id, 0x10de);
    assert_int_equal(inv.gpu[0].pci.device_id, 0x2330);
    assert_int_equal(inv.gpu[0].pci.package, 0);
    assert_int_equal(inv.gpu[0].pci.numa, 0);
    assert_string_equal(inv.gpu[1].name, "AMD Instinct MI250X");
    assert_string_equal(inv.gpu[1].uuid, "GPU-deadbeef01234567");
    assert_int_equal(inv.gpu[1].vendor, VENDOR_AMD);
    assert_int_equal(inv.gpu[1].pci.package, 1);
}

static void links_tell_the_bridges(void **state)
{
    (void)state;
    static const char gpu[] = "0x030200\n", ids[] = "0x10de:0x2330\n";
    add("pci0000:00/0000:00:01.0/0000:10:00.0/", "0000:12:00.0", gpu, ids, "0-1\n");
    add("pci0000:00/0000:00:01.0/0000:10:01.0/", "0000:13:00.0", gpu, ids, "0-1\n");
    add("pci0000:00/0000:00:02.0/", "0000:20:00.0", gpu, ids, "0-1\n");
    add("pci0000:40/0000:40:01.0/", "0000:41:00.0", gpu, ids, "0-1\n");
    add("LNXSYSTM:00/VMBUS:01/guid/pci0002:00/", "0002:00:00.0", gpu, ids, "2-3\n");
    read_all();
    assert_int_equal(inv.n_gpus, 5);
    static const enum inventory_distance expected[] = {DISTANCE_SAME_SWITCH, DISTANCE_SAME_SWITCH, DISTANCE_SAME_ROOT,
                                                       DISTANCE_SAME_PACKAGE, DISTANCE_ACROSS};
    for (int i = 0; i < 5; i++)
        assert_int_equal(inventory_distance(&inv.gpu[0].pci, &inv.gpu[i].pci), expected[i]);
    assert_int_equal(inv.gpu[0].pci.depth, 3);
    assert_int_equal(inv.gpu[4].pci.depth, 1);
    assert_int_equal(inv.gpu[0].pci.path[0], 0);
    assert_int_equal(inv.gpu[3].pci.path[1], 6); /* every bridge has a number of its own */
}

static void localities_may_say_nothing(void **state)
{
    (void)state;
    static const char *const lists[] = {"\n", "0-3\n", "1-2\n", "9\n", "0,x\n", "0-1,8\n"};
    static const int package[] = {-1, -1, -1, -1, -1, 0};
    char text[64], bus[32];
    for (int i = 0; i < 6; i++) {
        snprintf(bus, sizeof bus, "0000:0%d:00.0", i);
        add("pci0000:00/", bus, "0x030200\n", "0x10de:0x2330\n", lists[i]);
    }
    read_all();
    for (int i = 0; i < 6; i++) {
        assert_int_equal(inv.gpu[i].pci.package, package[i]);
        assert_string_equal(cpus_format(&inv.gpu[i].pci.local, text, sizeof text),
                            i == 2 ? "1-2" : i == 5 ? "0-1" : "0-3");
    }
}

static void put_port(const char *folder, const char *port, const char *state, const char *link_layer)
{
    char path[300];
    snprintf(path, sizeof path, "%s/infiniband/%s", folder, port);
    put(path, "state", state);
    put(path, "link_layer", link_layer);
}

static void nics_are_told_apart(void **state)
{
    (void)state;
    const char *f = add("pci0000:00/", "0000:01:00.0", "0x020700\n", "0x15b3:0x1021\n", "0-1\n");
    put(f, "net/ib0/x", "");
    put(f, "net/ib0.8001/x", "");
    put_port(f, "mlx5_0/ports/1", "4: ACTIVE\n", "InfiniBand\n");
    f = add("pci0000:00/", "0000:02:00.0", "0x020000\n", "0x15b3:0x1021\n", "0-1\n");
    put(f, "net/ens2f0/x", "");
    put_port(f, "rocep20s0/ports/1", "1: DOWN\n", "Ethernet\n");
    f = add("pci0000:00/", "0000:03:00.0", "0x028000\n", "0x15b3:0x1003\n", "0-1\n");
    put_port(f, "mlx4_0/ports/1", "1: DOWN\n", "Ethernet\n");
    put_port(f, "mlx4_0/ports/2", "4: ACTIVE\n", "InfiniBand\n");
    f = add("pci0000:00/", "0000:04:00.0", "0x020000\n", "0x17db:0x0501\n", "0-1\n");
    put(f, "net/hsn0/x", "");
    put(f, "cxi/cxi0/x", "");
    add("pci0000:00/", "0000:05:00.0", "0x020000\n", "0x8086:0x1521\n", "0-1\n"); /* no driver has it */
    put(add("pci0000:00/", "0000:06:00.0", "0x020000\n", "0x1af4:0x1041\n", "0-3\n"), "virtio2/net/eth0/x", "");
    put(add("pci0000:00/", "0000:07:00.0", "0x020000\n", "0x8086:0x1521\n", "0-1\n"), "net/eth1/x", "");
    put("class/net/eth0", "operstate", "unknown\n");
    put("class/net/eth1", "operstate", "down\n");
    put("class/net/hsn0", "operstate", "up\n");
    static const struct {
        const char *kind, *verbs, *interface;
        bool is_active;
    } expected[] = {{"InfiniBand", "mlx5_0", "ib0", true}, {"RoCE", "rocep20s0", "ens2f0", false},
                    {"InfiniBand", "mlx4_0", "", true},    {"Slingshot", "cxi0", "hsn0", true},
                    {"Ethernet", "", "", false},           {"Ethernet", "", "eth0", true},
                    {"Ethernet", "", "eth1", false}};
    read_all();
    assert_int_equal(inv.n_nics, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(inventory_nic_kind_name(inv.nic[i].kind), expected[i].kind);
        assert_string_equal(inv.nic[i].verbs, expected[i].verbs);
        assert_string_equal(inv.nic[i].interface, expected[i].interface);
        assert_int_equal(inv.nic[i].is_active, expected[i].is_active);
    }
}

static void virtual_functions_do_not_crowd_out_nics(void **state)
{
    (void)state;
    char bus[32];
    for (int i = 0; i < INVENTORY_NICS_MAX + 8; i++) {
        snprintf(bus, sizeof bus, "0000:%02x:%02x.%x", i / 64, i / 8 % 8, i % 8);
        const char *f = add("pci0000:00/", bus, "0x020000\n", "0x15b3:0x101e\n", "0-1\n");
        if (i >= INVENTORY_NICS_MAX)
            put(f, "net/eth0/x", "");
    }
    read_all();
    assert_int_equal(inv.n_nics, INVENTORY_NICS_MAX);
    int n_named = 0;
    for (size_t i = 0; i < inv.n_nics; i++)
        n_named += inv.nic[i].interface[0] != 0;
    assert_int_equal(n_named, 8);
}

static void nics_do_not_crowd_out_gpus(void **state)
{
    (void)state;
    char bus[32];
    for (int i = 0; i < 8 + 2048; i++) {
        bool is_gpu = i < 8; /* first: tmpfs lists the newest first */
        snprintf(bus, sizeof bus, "0000:%02x:%02x.%x", i / 256, i / 8 % 32, i % 8);
        add("pci0000:00/", bus, is_gpu ? "0x030200\n" : "0x020000\n",
            is_gpu ? "0x10de:0x2330\n" : "0x15b3:0x101e\n", "0-1\n");
    }
    read_all();
    assert_int_equal(inv.n_gpus, 8);
    assert_int_equal(inv.n_nics, INVENTORY_NICS_MAX);
}

static void too_many_gpus_are_refused(void **state)
{
    (void)state;
    char bus[32];
    ddp_error_t e = {0};
    for (int i = 0; i <= INVENTORY_GPUS_MAX; i++) {
        snprintf(bus, sizeof bus, "0000:%02x:00.0", i);
        add("pci0000:00/", bus, "0x030200\n", "0x10de:0x2330\n", "0-1\n");
    }
    assert_int_equal(sysfs_read_devices(&inv, test_folder, &e), -1);
    assert_error_has(e, "node has more than 64 GPUs");
}

static void nothing_there_is_no_device(void **state)
{
    (void)state;
    read_all();
    assert_int_equal(inv.n_gpus + inv.n_nics, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, folder_remove)
static const struct CMUnitTest tests[] = {
    CASE(gpus_are_found_by_class_and_vendor), CASE(links_tell_the_bridges),
    CASE(localities_may_say_nothing),         CASE(nics_are_told_apart),
    CASE(virtual_functions_do_not_crowd_out_nics), CASE(nics_do_not_crowd_out_gpus),
    CASE(too_many_gpus_are_refused),          CASE(nothing_there_is_no_device),
};
UNIT_MAIN(tests)
