#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "topology/inventory.h"
#include "topology/load_impl.h"
#include "topology/sysfs.h"

#define BRIDGES_MAX 64 /* looked at above a device */

struct loader {
    hwloc_topology_t t;
    struct inventory *inv;
    ddp_error_t *errp;
    hwloc_obj_t gpu[INVENTORY_GPUS_MAX], nic[INVENTORY_NICS_MAX]; /* as in inv's tables */
};

static void copy_text(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%s", text ? text : "");
}

/* The CPUs of the set that the tables have: a restricted record's sets may name others. */
static struct cpus known_cpus(const struct inventory *inv, hwloc_const_cpuset_t from)
{
    struct cpus set = {{0}};
    for (int i = from ? hwloc_bitmap_first(from) : -1; i >= 0 && i < CPUS_MAX; i = hwloc_bitmap_next(from, i))
        cpus_add(&set, (unsigned)i);
    cpus_and(&set, &inv->all);
    return set;
}

/* ---- cores ---- */

/* Numbers for the objects that cores lie in. In logical order the cores of one object follow one another. */
struct numbering {
    hwloc_obj_t last;
    int n;
};

static int16_t number_of(struct numbering *numbers, hwloc_obj_t obj)
{
    if (numbers->n == 0 || obj != numbers->last)
        numbers->n++;
    numbers->last = obj;
    return (int16_t)(numbers->n - 1);
}

/* The outermost cache that more than this core uses, else the core itself. */
static hwloc_obj_t shared_cache(hwloc_obj_t core)
{
    hwloc_obj_t found = core;
    for (hwloc_obj_t o = core->parent; o; o = o->parent)
        if (hwloc_obj_type_is_dcache(o->type) && !hwloc_bitmap_isequal(o->cpuset, core->cpuset))
            found = o;
    return found;
}

/* The memory of a core: of the nodes that serve it ordinary memory comes before that of another kind (of a GPU, HBM,
 * persistent), then the node that serves the fewest CPUs, then the first: Linux numbers nodes with CPUs first. */
static hwloc_obj_t memory_of(hwloc_topology_t t, hwloc_obj_t core)
{
    hwloc_obj_t best = NULL, node = NULL;
    int best_rank = 0;
    while ((node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node))) {
        if (!hwloc_bitmap_isset(core->nodeset, node->os_index) || !hwloc_bitmap_isincluded(core->cpuset, node->cpuset))
            continue;
        bool is_plain = !node->subtype || !strcmp(node->subtype, "DRAM");
        int rank = hwloc_bitmap_weight(node->cpuset) + (is_plain ? 0 : 2 * CPUS_MAX);
        if (!best || rank < best_rank || (rank == best_rank && node->os_index < best->os_index)) {
            best = node;
            best_rank = rank;
        }
    }
    return best;
}

static int add_cores(struct loader *l)
{
    struct inventory *inv = l->inv;
    struct numbering packages = {0}, caches = {0};
    hwloc_obj_t pu = NULL, last = NULL;
    while ((pu = hwloc_get_next_obj_by_type(l->t, HWLOC_OBJ_PU, pu))) {
        /* Some virtual machines report no cores: then each hardware thread counts as one. */
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(l->t, HWLOC_OBJ_CORE, pu);
        bool is_new = !core || core != last;
        if (add_cpu(inv, pu->os_index, is_new, l->errp) < 0)
            return -1;
        last = core;
        if (!is_new)
            continue;
        struct inventory_core *c = &inv->core[inv->n_cores - 1];
        core = core ? core : pu;
        hwloc_obj_t memory = memory_of(l->t, core);
        c->package = number_of(&packages, hwloc_get_ancestor_obj_by_type(l->t, HWLOC_OBJ_PACKAGE, core));
        c->cache = number_of(&caches, shared_cache(core));
        c->numa = (int16_t)(memory ? (int)memory->logical_index : -1);
    }
    if (inv->n_cores == 0)
        return error_set(l->errp, DDP_E_DATA, ENODEV, "%s has no cores", inv->origin);
    inv->n_packages = (size_t)packages.n;
    inv->n_caches = (size_t)caches.n;
    return 0;
}

/* Keeps the nodes that are some core's memory, numbered in logical order. */
static int add_numas(struct loader *l)
{
    struct inventory *inv = l->inv;
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(l->t, HWLOC_OBJ_NUMANODE, node))) {
        int os_index = node->os_index <= INT16_MAX ? (int)node->os_index : -1;
        struct inventory_numa numa;
        memset(&numa, 0, sizeof numa); /* what lies between the fields goes into a file, too */
        numa.os_index = (int16_t)os_index;
        numa.package = -1;
        numa.memory_bytes = node->attr->numanode.local_memory;
        int n_cores = 0;
        for (size_t i = 0; i < inv->n_cores; i++) {
            struct inventory_core *c = &inv->core[i];
            if (c->numa != (int)node->logical_index)
                continue;
            numa.package = n_cores++ == 0 || numa.package == c->package ? c->package : -1;
            c->numa = (int16_t)inv->n_numas;
        }
        if (n_cores == 0)
            continue;
        if (inv->n_numas == INVENTORY_NUMAS_MAX)
            return too_many(l->inv, l->errp, "NUMA nodes", INVENTORY_NUMAS_MAX);
        inv->numa[inv->n_numas++] = numa;
    }
    return inv->n_numas > 0 ? 0 : error_set(l->errp, DDP_E_DATA, ENODEV, "%s has no memory", inv->origin);
}

/* ---- devices ---- */

static void fill_path(struct inventory_pci *p, hwloc_obj_t device)
{
    hwloc_obj_t bridge[BRIDGES_MAX];
    size_t n = 0;
    for (hwloc_obj_t o = device->parent; o && o->type == HWLOC_OBJ_BRIDGE && n < BRIDGES_MAX; o = o->parent)
        bridge[n++] = o;
    p->depth = (uint8_t)(n < INVENTORY_PATH_MAX ? n : INVENTORY_PATH_MAX);
    for (size_t i = 0; i < p->depth; i++)
        p->path[i] = (uint16_t)bridge[n - 1 - i]->logical_index;
}

/* The nearest object around it that has CPUs which the tables know; where its own are off, that is a wider one. */
static void fill_locality(struct inventory_pci *p, const struct inventory *inv, hwloc_topology_t t, hwloc_obj_t device)
{
    for (hwloc_obj_t o = hwloc_get_non_io_ancestor_obj(t, device); o; o = o->parent) {
        p->local = known_cpus(inv, o->cpuset);
        if (cpus_count(&p->local) > 0)
            break;
    }
    place_pci(inv, p);
}

static void fill_pci(struct inventory_pci *p, const struct loader *l, hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *a = &device->attr->pcidev;
    *p = (struct inventory_pci){.domain = a->domain, .bus = a->bus, .device = a->dev, .function = a->func,
                                .vendor_id = a->vendor_id, .device_id = a->device_id};
    fill_path(p, device);
    fill_locality(p, l->inv, l->t, device);
}

/* The first OS device of the PCI device that has the info; NULL: none. */
static const char *info_of(hwloc_obj_t device, const char *name)
{
    for (hwloc_obj_t o = device->io_first_child; o; o = o->next_sibling) {
        const char *value = o->type == HWLOC_OBJ_OS_DEVICE ? hwloc_obj_get_info_by_name(o, name) : NULL;
        if (value)
            return value;
    }
    return NULL;
}

static void fill_gpu(struct inventory_gpu *g, const struct loader *l, hwloc_obj_t device)
{
    memset(g, 0, sizeof *g);
    fill_pci(&g->pci, l, device);
    g->vendor = g->pci.vendor_id == PCI_NVIDIA ? VENDOR_NVIDIA : VENDOR_AMD;
    const char *name = info_of(device, "GPUModel");
    copy_text(g->uuid, sizeof g->uuid, info_of(device, g->vendor == VENDOR_NVIDIA ? "NVIDIAUUID" : "AMDUUID"));
    if (name)
        copy_text(g->name, sizeof g->name, name);
    else
        model_name(&g->pci, hwloc_obj_get_info_by_name(device, "PCIDevice"), g->name, sizeof g->name);
}

/* Of several (an IPoIB child beside its parent, a switch's representors) the first by name. */
static void take_first(char *ret, size_t size, const char *name)
{
    if (!ret[0] || strcmp(name, ret) < 0)
        copy_text(ret, size, name);
}

/* Of an InfiniBand port: 1 it has a link, 0 it has none; -1: not told (IB_PORT_ACTIVE is 4). */
static int verbs_state(hwloc_obj_t os_device)
{
    int state = -1;
    for (int port = 1; port <= 8; port++) {
        char name[32];
        snprintf(name, sizeof name, "Port%dState", port);
        const char *value = hwloc_obj_get_info_by_name(os_device, name);
        if (value && state < 1)
            state = !strcmp(value, "4");
    }
    return state;
}

static void fill_nic(struct inventory_nic *n, const struct loader *l, hwloc_obj_t device)
{
    int state = -1;
    memset(n, 0, sizeof *n);
    fill_pci(&n->pci, l, device);
    for (hwloc_obj_t o = device->io_first_child; o; o = o->next_sibling) {
        if (o->type != HWLOC_OBJ_OS_DEVICE || !o->name)
            continue;
        if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS || begins(o->name, "cxi")) {
            take_first(n->verbs, sizeof n->verbs, o->name);
            state = verbs_state(o) > state ? verbs_state(o) : state;
        } else if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
            take_first(n->interface, sizeof n->interface, o->name);
        }
    }
    /* Its class may not say it, but only InfiniBand has local identifiers. */
    const char *lid = info_of(device, "Port1LID");
    n->kind = nic_kind(n, device->attr->pcidev.class_id, lid ? strtoul(lid, NULL, 0) > 0 : -1);
    n->is_active = state != 0 && (n->verbs[0] || n->interface[0]);
}

static bool has_name(hwloc_obj_t device)
{
    for (hwloc_obj_t o = device->io_first_child; o; o = o->next_sibling)
        if (o->type == HWLOC_OBJ_OS_DEVICE)
            return true;
    return false;
}

static int by_address(const void *x, const void *y)
{
    const struct hwloc_pcidev_attr_s *a = &(*(hwloc_obj_t const *)x)->attr->pcidev;
    const struct hwloc_pcidev_attr_s *b = &(*(hwloc_obj_t const *)y)->attr->pcidev;
    int d[] = {(int)a->domain - (int)b->domain, a->bus - b->bus, a->dev - b->dev, a->func - b->func};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++)
        if (d[i])
            return d[i];
    return 0;
}

static int find_gpus(struct loader *l)
{
    struct inventory *inv = l->inv;
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_pcidev(l->t, o))) {
        if (!is_gpu_class(o->attr->pcidev.class_id) || !is_gpu_vendor(o->attr->pcidev.vendor_id))
            continue;
        if (inv->n_gpus == INVENTORY_GPUS_MAX)
            return too_many(l->inv, l->errp, "GPUs", INVENTORY_GPUS_MAX);
        l->gpu[inv->n_gpus++] = o;
    }
    qsort(l->gpu, inv->n_gpus, sizeof *l->gpu, by_address);
    for (size_t i = 0; i < inv->n_gpus; i++)
        fill_gpu(&inv->gpu[i], l, l->gpu[i]);
    return 0;
}

/* A machine that hands out virtual functions can have hundreds: those with a name here come first, the rest is left
 * out. */
static void find_nics(struct loader *l)
{
    struct inventory *inv = l->inv;
    for (int want_name = 1; want_name >= 0; want_name--) {
        hwloc_obj_t o = NULL;
        while ((o = hwloc_get_next_pcidev(l->t, o)) && inv->n_nics < INVENTORY_NICS_MAX)
            if (is_nic_class(o->attr->pcidev.class_id) && has_name(o) == want_name)
                l->nic[inv->n_nics++] = o;
    }
    qsort(l->nic, inv->n_nics, sizeof *l->nic, by_address);
    for (size_t i = 0; i < inv->n_nics; i++)
        fill_nic(&inv->nic[i], l, l->nic[i]);
}

/* ---- links between GPUs ---- */

/* The GPU that an object of the matrix is or belongs to; -1: another. */
static int gpu_of(const struct loader *l, hwloc_obj_t o)
{
    while (o && o->type != HWLOC_OBJ_PCI_DEVICE)
        o = o->parent;
    for (size_t i = 0; o && i < l->inv->n_gpus; i++)
        if (l->gpu[i] == o)
            return (int)i;
    return -1;
}

static int add_matrix(struct loader *l, const struct hwloc_distances_s *d)
{
    int *gpu = calloc(d->nbobjs, sizeof *gpu);
    if (!gpu)
        return error_set(l->errp, DDP_E_SYSTEM, ENOMEM, "no memory for the links between GPUs");
    for (unsigned i = 0; i < d->nbobjs; i++)
        gpu[i] = gpu_of(l, d->objs[i]);
    link_gpus(l->inv, gpu, d->nbobjs, d->values);
    free(gpu);
    return 0;
}

static int add_links(struct loader *l)
{
    static const char *const names[] = {"NVLinkBandwidth", "XGMIBandwidth"};
    int rc = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && l->inv->n_gpus > 0; i++) {
        struct hwloc_distances_s *d = NULL;
        unsigned n = 1;
        if (hwloc_distances_get_by_name(l->t, names[i], &n, &d, 0) < 0 || n == 0 || !d)
            continue;
        rc = rc < 0 ? rc : add_matrix(l, d);
        hwloc_distances_release(l->t, d);
    }
    return rc;
}

/* ---- all of it ---- */

static int fill_cores(struct loader *l)
{
    struct inventory *inv = l->inv;
    /* What is numbered in 16 bits on the way. */
    if (hwloc_get_nbobjs_by_type(l->t, HWLOC_OBJ_NUMANODE) > INVENTORY_CORES_MAX)
        return too_many(l->inv, l->errp, "NUMA nodes", INVENTORY_CORES_MAX);
    if (hwloc_get_nbobjs_by_type(l->t, HWLOC_OBJ_BRIDGE) > UINT16_MAX)
        return too_many(l->inv, l->errp, "PCI bridges", UINT16_MAX);
    if (add_cores(l) < 0 || add_numas(l) < 0)
        return -1;
    inv->allowed = known_cpus(inv, hwloc_topology_get_allowed_cpuset(l->t));
    hwloc_obj_t package = hwloc_get_obj_by_type(l->t, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    copy_text(inv->cpu_model, sizeof inv->cpu_model,
              model ? model : hwloc_obj_get_info_by_name(hwloc_get_root_obj(l->t), "CPUModel"));
    return 0;
}

/* From a record's objects. */
static int fill_devices(struct loader *l)
{
    if (find_gpus(l) < 0)
        return -1;
    find_nics(l);
    return add_links(l);
}

int import_devices(struct inventory *inv, ddp_error_t *errp)
{
    if (sysfs_read_devices(inv, "/sys", errp) < 0)
        return -1;
    inventory_read_driver(inv, "/proc/driver/nvidia");
    return 0;
}

/* hwloc shows another machine with HWLOC_FSROOT or HWLOC_SYNTHETIC. */
static int read_devices(struct loader *l)
{
    return hwloc_topology_is_thissystem(l->t) ? import_devices(l->inv, l->errp) : 0;
}

static int configure(hwloc_topology_t t, bool with_io)
{
    static const hwloc_obj_type_t kept[] = {HWLOC_OBJ_CORE, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                            HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};
    static const hwloc_obj_type_t io[] = {HWLOC_OBJ_BRIDGE, HWLOC_OBJ_PCI_DEVICE, HWLOC_OBJ_OS_DEVICE};
    if (hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
        return -1;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (hwloc_topology_set_type_filter(t, kept[i], HWLOC_TYPE_FILTER_KEEP_ALL) < 0)
            return -1;
    for (size_t i = 0; with_io && i < sizeof io / sizeof *io; i++)
        if (hwloc_topology_set_type_filter(t, io[i], HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0)
            return -1;
    /* A NUMA node's or a device's place may be a part of a package for which hwloc has no other object: without groups
     * the node would seem to serve the whole package. */
    if (hwloc_topology_set_type_filter(t, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE) < 0)
        return -1;
    /* It would run on each CPU in turn, and wait for those that the node's other ranks keep busy, to find what Linux's
     * own files say. On other processors hwloc has no such component, and refuses its name. */
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    return hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

static int load(hwloc_topology_t t, const char *xml, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    errno = 0;
    if (configure(t, xml && inv->has_io) < 0)
        return error_errno(errp, "hwloc cannot be told what to look for");
    if ((xml && hwloc_topology_set_xmlbuffer(t, xml, (int)n) < 0) || hwloc_topology_load(t) < 0)
        return xml ? error_set(errp, DDP_E_DATA, EINVAL, "hwloc cannot read it: leave it as lstopo wrote it")
                   : error_errno(errp, "hwloc cannot read this machine's topology");
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return error_errno(errp, "no memory for the machine's inventory");
    *l = (struct loader){.t = t, .inv = inv, .errp = errp};
    int rc = fill_cores(l);
    if (rc == 0 && inv->has_io)
        rc = xml ? fill_devices(l) : read_devices(l);
    free(l);
    return rc;
}

int import_topology(const char *xml, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    hwloc_topology_t t;
    errno = 0;
    if (hwloc_topology_init(&t) < 0)
        return error_errno(errp, "hwloc does not start");
    int rc = load(t, xml, n, inv, errp);
    hwloc_topology_destroy(t);
    return rc;
}

int import_version(void)
{
    return (int)hwloc_get_api_version();
}

int import_major(void)
{
    return import_version() >> 16;
}
