#include "topology/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "topology/load_impl.h"

enum { FOUND_MAX = 1024, FOUND_NICS_MAX = FOUND_MAX - INVENTORY_GPUS_MAX - 1, LINK_MAX = 256 };

/* A PCI device that is a GPU or a NIC. */
struct found {
    uint32_t domain;
    uint8_t bus, device, function;
    bool is_nic;
    uint16_t class;
    char link[LINK_MAX]; /* "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0": the bridges above it */
};

struct scan {
    const char *sys;
    size_t n;
    struct found found[FOUND_MAX]; /* with room for one GPU too many, however many NICs there are */
};

/* The first line of SYS/bus/pci/devices/BUS/NAME, without its end; "" where it cannot be read. */
static const char *read_line(const char *folder, const char *name, char *buf, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(buf, (int)size, f))
        buf[0] = 0;
    if (f)
        fclose(f);
    buf[strcspn(buf, "\n")] = 0;
    return buf;
}

static unsigned read_hex(const char *folder, const char *name)
{
    char text[32];
    return (unsigned)strtoul(read_line(folder, name, text, sizeof text), NULL, 16);
}

static const char *folder_of(const char *sys, const struct found *f, char *buf, size_t size)
{
    snprintf(buf, size, "%.400s/bus/pci/devices/%04x:%02x:%02x.%x", sys, (unsigned)f->domain, f->bus, f->device,
             f->function);
    return buf;
}

/* ---- which devices ---- */

static bool is_wanted(const char *folder, struct found *f)
{
    char path[1024];
    f->class = (uint16_t)(read_hex(folder, "class") >> 8);
    f->is_nic = is_nic_class(f->class);
    if (f->is_nic)
        return true;
    if (!is_gpu_class(f->class) || !is_gpu_vendor((uint16_t)read_hex(folder, "vendor")))
        return false;
    snprintf(path, sizeof path, "%s/physfn", folder);
    return access(path, F_OK) != 0;
}

static void look_at(struct scan *s, const char *name)
{
    unsigned domain, bus, device, function;
    char folder[512], rest;
    if (s->n == FOUND_MAX || sscanf(name, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) != 4)
        return;
    struct found *f = &s->found[s->n];
    *f = (struct found){domain, (uint8_t)bus, (uint8_t)device, (uint8_t)function, .is_nic = false};
    if (!is_wanted(folder_of(s->sys, f, folder, sizeof folder), f) || (f->is_nic && s->n >= FOUND_NICS_MAX))
        return;
    ssize_t len = readlink(folder, f->link, sizeof f->link - 1);
    f->link[len > 0 ? len : 0] = 0;
    s->n++;
}

static int by_address(const void *x, const void *y)
{
    const struct found *a = x, *b = y;
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    return (a->bus << 16 | a->device << 8 | a->function) - (b->bus << 16 | b->device << 8 | b->function);
}

static void scan(struct scan *s)
{
    char path[512];
    snprintf(path, sizeof path, "%.400s/bus/pci/devices", s->sys);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        look_at(s, e->d_name);
    if (d)
        closedir(d);
    qsort(s->found, s->n, sizeof *s->found, by_address);
}

/* ---- too many of them ---- */

static bool has_name(const struct scan *s, const struct found *f)
{
    static const char *const kinds[] = {"net", "infiniband", "cxi"};
    char folder[512], path[640];
    folder_of(s->sys, f, folder, sizeof folder);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, kinds[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* A machine that hands out virtual functions can have hundreds of NICs: those without a name here go first. */
static void drop_nics(struct scan *s)
{
    size_t n_nics = 0, n = 0;
    for (size_t i = 0; i < s->n; i++)
        n_nics += s->found[i].is_nic;
    for (size_t i = 0; i < s->n; i++) {
        bool is_dropped = n_nics > INVENTORY_NICS_MAX && s->found[i].is_nic && !has_name(s, &s->found[i]);
        n_nics -= is_dropped;
        if (!is_dropped)
            s->found[n++] = s->found[i];
    }
    s->n = n;
}

/* ---- where they are ---- */

/* What precedes the device in its link is its bridges: the length up to the end of bridge number i, from 0, outermost
 * first; 0: it has no such. */
static size_t bridge_end(const char *link, size_t i)
{
    const char *p = strstr(link, "/pci");
    for (p = p ? p + 1 : NULL; p; i--) {
        const char *end = strchr(p, '/');
        if (!end || i == 0)
            return end ? (size_t)(end - link) : 0;
        p = end + 1;
    }
    return 0;
}

static bool have_same_bridge(const char *a, const char *b, size_t level)
{
    size_t len = bridge_end(a, level);
    return bridge_end(b, level) == len && !memcmp(a, b, len);
}

/* Numbers for the bridges of found[at]: that of an earlier device where the link up to there is the same, else a new
 * one. */
static void fill_path(struct inventory_pci *p, const struct scan *s, const struct inventory_pci *const *earlier,
                      size_t at, uint16_t *n_bridges)
{
    const char *link = s->found[at].link;
    for (size_t level = 0; level < INVENTORY_PATH_MAX && bridge_end(link, level) > 0; level++) {
        size_t k = 0;
        while (k < at && !(earlier[k] && have_same_bridge(link, s->found[k].link, level)))
            k++;
        p->path[level] = k < at ? earlier[k]->path[level] : (*n_bridges)++;
        p->depth = (uint8_t)(level + 1);
    }
}

static void fill_pci(struct inventory_pci *p, const struct inventory *inv, const struct found *f, const char *folder)
{
    char text[4096];
    *p = (struct inventory_pci){.domain = f->domain, .bus = f->bus, .device = f->device, .function = f->function};
    p->vendor_id = (uint16_t)read_hex(folder, "vendor");
    p->device_id = (uint16_t)read_hex(folder, "device");
    read_line(folder, "local_cpulist", text, sizeof text);
    if (cpus_parse(text, &p->local, NULL) < 0)
        p->local = inv->all;
    cpus_and(&p->local, &inv->all);
    if (cpus_count(&p->local) == 0)
        p->local = inv->all;
    place_pci(inv, p);
}

/* ---- GPUs ---- */

static void fill_gpu(struct inventory_gpu *g, const struct inventory *inv, const struct found *f, const char *folder)
{
    char text[32];
    memset(g, 0, sizeof *g);
    fill_pci(&g->pci, inv, f, folder);
    g->vendor = g->pci.vendor_id == PCI_NVIDIA ? VENDOR_NVIDIA : VENDOR_AMD;
    model_name(&g->pci, NULL, g->name, sizeof g->name);
    /* ROCm's UUID is the driver's number of the card, in 16 digits. */
    if (g->vendor == VENDOR_AMD && *read_line(folder, "unique_id", text, sizeof text))
        snprintf(g->uuid, sizeof g->uuid, "GPU-%.16s", text);
}

/* ---- NICs ---- */

/* The first by name in FOLDER/KIND ("net", "infiniband", "cxi"); ret stays "" where there is none. */
static void first_name(const char *folder, const char *kind, char *ret, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, kind);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && (!ret[0] || strcmp(e->d_name, ret) < 0))
            snprintf(ret, size, "%.*s", (int)size - 1, e->d_name);
    if (d)
        closedir(d);
}

/* A virtio device's interface belongs to a device below it. */
static void read_names(struct inventory_nic *n, const char *folder)
{
    char below[1024], virtio[64] = "";
    first_name(folder, "net", n->interface, sizeof n->interface);
    first_name(folder, "infiniband", n->verbs, sizeof n->verbs);
    if (!n->verbs[0])
        first_name(folder, "cxi", n->verbs, sizeof n->verbs);
    if (n->interface[0] || n->pci.vendor_id != PCI_VIRTIO)
        return;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (begins(e->d_name, "virtio"))
            snprintf(virtio, sizeof virtio, "%.40s", e->d_name);
    if (d)
        closedir(d);
    snprintf(below, sizeof below, "%s/%s", folder, virtio);
    if (virtio[0])
        first_name(below, "net", n->interface, sizeof n->interface);
}

/* Whether one of the ports has a link, and whether that is InfiniBand's. */
static void read_ports(const char *folder, const char *verbs, int *ret_state, int *ret_is_infiniband)
{
    for (int port = 1; port <= 8; port++) {
        char name[128], text[32];
        snprintf(name, sizeof name, "infiniband/%s/ports/%d/state", verbs, port);
        if (!*read_line(folder, name, text, sizeof text))
            return;
        if (*ret_state < 1)
            *ret_state = atoi(text) == 4; /* "4: ACTIVE" */
        snprintf(name, sizeof name, "infiniband/%s/ports/%d/link_layer", verbs, port);
        if (*read_line(folder, name, text, sizeof text) && *ret_is_infiniband < 1)
            *ret_is_infiniband = !strcmp(text, "InfiniBand");
    }
}

/* Some drivers only ever say "unknown" (Linux, Documentation/networking/operstates.rst). */
static bool is_up(const char *sys, const char *interface)
{
    char folder[512], state[32];
    snprintf(folder, sizeof folder, "%.400s/class/net/%s", sys, interface);
    read_line(folder, "operstate", state, sizeof state);
    return strcmp(state, "down") != 0 && strcmp(state, "lowerlayerdown") != 0 && strcmp(state, "notpresent") != 0;
}

static void fill_nic(struct inventory_nic *n, const struct inventory *inv, const struct scan *s, const struct found *f,
                     const char *folder)
{
    int state = -1, is_infiniband = -1;
    memset(n, 0, sizeof *n);
    fill_pci(&n->pci, inv, f, folder);
    read_names(n, folder);
    if (n->verbs[0])
        read_ports(folder, n->verbs, &state, &is_infiniband);
    n->kind = nic_kind(n, f->class, is_infiniband);
    if (state < 0 && n->interface[0])
        state = is_up(s->sys, n->interface);
    n->is_active = state != 0 && (n->verbs[0] || n->interface[0]);
}

/* ---- all of them ---- */

static int fill(struct inventory *inv, const struct scan *s, ddp_error_t *errp)
{
    const struct inventory_pci *earlier[FOUND_MAX] = {NULL};
    uint16_t n_bridges = 0;
    inv->n_gpus = inv->n_nics = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct found *f = &s->found[i];
        char folder[512];
        folder_of(s->sys, f, folder, sizeof folder);
        struct inventory_pci *p;
        if (!f->is_nic) {
            if (inv->n_gpus == INVENTORY_GPUS_MAX)
                return too_many(inv, errp, "GPUs", INVENTORY_GPUS_MAX);
            fill_gpu(&inv->gpu[inv->n_gpus], inv, f, folder);
            p = &inv->gpu[inv->n_gpus++].pci;
        } else {
            if (inv->n_nics == INVENTORY_NICS_MAX)
                continue;
            fill_nic(&inv->nic[inv->n_nics], inv, s, f, folder);
            p = &inv->nic[inv->n_nics++].pci;
        }
        fill_path(p, s, earlier, i, &n_bridges);
        earlier[i] = p;
    }
    return 0;
}

int sysfs_read_devices(struct inventory *inv, const char *sys, ddp_error_t *errp)
{
    struct scan *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to look for GPUs");
    s->sys = sys;
    scan(s);
    drop_nics(s);
    int rc = fill(inv, s, errp);
    free(s);
    return rc;
}
