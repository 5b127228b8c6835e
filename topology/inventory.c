#include "topology/inventory.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/num.h"
#include "topology/load_impl.h"

int inventory_common_bridges(const struct inventory_pci *a, const struct inventory_pci *b)
{
    int common = 0;
    while (common < a->depth && common < b->depth && a->path[common] == b->path[common])
        common++;
    return common;
}

bool inventory_has_home(const struct inventory *inv, const struct inventory_pci *pci)
{
    return cpus_touch(&inv->all, &pci->local) && !cpus_within(&inv->all, &pci->local);
}

enum inventory_distance inventory_distance(const struct inventory_pci *a, const struct inventory_pci *b)
{
    int common = inventory_common_bridges(a, b);
    if (common >= 2)
        return DISTANCE_SAME_SWITCH;
    if (common == 1)
        return DISTANCE_SAME_ROOT;
    return a->package >= 0 && a->package == b->package ? DISTANCE_SAME_PACKAGE : DISTANCE_ACROSS;
}

const char *inventory_distance_name(enum inventory_distance d)
{
    static const char *const names[] = {"same switch", "same root", "same package", "across"};
    return (unsigned)d < sizeof names / sizeof *names ? names[d] : "unknown";
}

const char *inventory_nic_kind_name(enum inventory_nic_kind k)
{
    static const char *const names[] = {"Ethernet", "RoCE", "InfiniBand", "Slingshot"};
    return (unsigned)k < sizeof names / sizeof *names ? names[k] : "unknown";
}

const char *inventory_nic_name(const struct inventory_nic *nic)
{
    return nic->verbs[0] ? nic->verbs : nic->interface[0] ? nic->interface : "?";
}

const char *inventory_bus(const struct inventory_pci *pci, char *buf)
{
    snprintf(buf, INVENTORY_BUS_TEXT, "%04x:%02x:%02x.%x", (unsigned)pci->domain, pci->bus, pci->device & 0x1f,
             pci->function & 7);
    return buf;
}

static void add_core(struct cpus *set, const struct inventory_core *core)
{
    for (size_t i = 0; i < core->n_cpus; i++)
        cpus_add(set, core->cpu[i]);
}

struct cpus inventory_core_cpus(const struct inventory *inv, size_t core)
{
    struct cpus set = {{0}};
    add_core(&set, &inv->core[core]);
    return set;
}

struct cpus inventory_numa_cpus(const struct inventory *inv, size_t numa)
{
    struct cpus set = {{0}};
    for (size_t i = 0; i < inv->n_cores; i++)
        if (inv->core[i].numa == (int)numa)
            add_core(&set, &inv->core[i]);
    return set;
}

bool inventory_core_touches(const struct inventory *inv, size_t core, const struct cpus *set)
{
    const struct inventory_core *c = &inv->core[core];
    for (size_t i = 0; i < c->n_cpus; i++)
        if (cpus_has(set, c->cpu[i]))
            return true;
    return false;
}

size_t inventory_count_cores(const struct inventory *inv, const struct cpus *set)
{
    size_t n = 0;
    for (size_t i = 0; i < inv->n_cores; i++)
        n += inventory_core_touches(inv, i, set);
    return n;
}

static int find_number(const struct inventory *inv, const char *name)
{
    int n;
    return num_int(name, 0, INT16_MAX, &n) == 0 && n < (int)inv->n_gpus ? n : -1;
}

/* Also with an eight-digit domain, as nvidia-smi writes it, or without one. */
static int find_bus(const struct inventory *inv, const char *name)
{
    unsigned domain = 0, bus, device, function;
    char rest;
    if (strspn(name, "0123456789abcdefABCDEF:.") != strlen(name) || strlen(name) > INVENTORY_BUS_TEXT)
        return -1;
    if (strchr(name, ':') == strrchr(name, ':') ? sscanf(name, "%x:%x.%x%c", &bus, &device, &function, &rest) != 3
                                                : sscanf(name, "%x:%x:%x.%x%c", &domain, &bus, &device, &function,
                                                         &rest) != 4)
        return -1;
    for (size_t i = 0; i < inv->n_gpus; i++) {
        const struct inventory_pci *p = &inv->gpu[i].pci;
        if (p->domain == domain && p->bus == bus && p->device == device && p->function == function)
            return (int)i;
    }
    return -1;
}

/* The one GPU whose UUID begins with the first n characters of name. */
static int find_uuid(const struct inventory *inv, const char *name, size_t n)
{
    int found = -1;
    for (size_t i = 0; i < inv->n_gpus; i++) {
        if (!inv->gpu[i].uuid[0] || strncmp(inv->gpu[i].uuid, name, n) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

int inventory_find_gpu(const struct inventory *inv, const char *name)
{
    if (begins(name, "MIG-GPU-"))
        return find_uuid(inv, name + 4, strcspn(name + 4, "/"));
    if (begins(name, "GPU-"))
        return find_uuid(inv, name, strlen(name));
    return strchr(name, ':') ? find_bus(inv, name) : find_number(inv, name);
}

/* ---- soundness ---- */

static bool is_text(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static bool is_index(int i, size_t n)
{
    return i >= -1 && i < (int)n;
}

static bool is_sound_core(const struct inventory *inv, const struct inventory_core *c)
{
    if (c->package < 0 || !is_index(c->package, inv->n_packages) || !is_index(c->numa, inv->n_numas) || c->cache < 0 ||
        !is_index(c->cache, inv->n_caches) || c->n_cpus < 1 || c->n_cpus > INVENTORY_THREADS_MAX)
        return false;
    return true;
}

/* Each CPU is in one core, and in its place there. */
static bool are_sound_cores(const struct inventory *inv)
{
    struct cpus seen = {{0}};
    for (size_t i = 0; i < inv->n_cores; i++) {
        const struct inventory_core *c = &inv->core[i];
        if (!is_sound_core(inv, c))
            return false;
        for (size_t t = 0; t < c->n_cpus; t++) {
            if (cpus_has(&seen, c->cpu[t]) || (t > 0 && c->cpu[t] < c->cpu[t - 1]))
                return false;
            cpus_add(&seen, c->cpu[t]);
        }
    }
    return cpus_equal(&seen, &inv->all);
}

static bool is_sound_pci(const struct inventory *inv, const struct inventory_pci *p)
{
    return p->depth <= INVENTORY_PATH_MAX && is_index(p->package, inv->n_packages) && is_index(p->numa, inv->n_numas) &&
           cpus_within(&p->local, &inv->all);
}

static bool are_sound_devices(const struct inventory *inv)
{
    for (size_t i = 0; i < inv->n_gpus; i++) {
        const struct inventory_gpu *g = &inv->gpu[i];
        if (!is_sound_pci(inv, &g->pci) || (unsigned)g->vendor > VENDOR_AMD ||
            !is_text(g->name, sizeof g->name) || !is_text(g->uuid, sizeof g->uuid))
            return false;
    }
    for (size_t i = 0; i < inv->n_nics; i++) {
        const struct inventory_nic *n = &inv->nic[i];
        if (!is_sound_pci(inv, &n->pci) || (unsigned)n->kind > NIC_SLINGSHOT || !is_text(n->verbs, sizeof n->verbs) ||
            !is_text(n->interface, sizeof n->interface))
            return false;
    }
    return true;
}

bool inventory_is_sound(const struct inventory *inv)
{
    if (!is_text(inv->origin, sizeof inv->origin) || !is_text(inv->cpu_model, sizeof inv->cpu_model) ||
        inv->n_cores < 1 || inv->n_cores > INVENTORY_CORES_MAX || inv->n_numas < 1 ||
        inv->n_numas > INVENTORY_NUMAS_MAX || inv->n_packages < 1 || inv->n_packages > inv->n_cores ||
        inv->n_caches < 1 || inv->n_caches > inv->n_cores || inv->n_gpus > INVENTORY_GPUS_MAX ||
        inv->n_nics > INVENTORY_NICS_MAX || !cpus_within(&inv->allowed, &inv->all))
        return false;
    if (!are_sound_cores(inv))
        return false;
    for (size_t i = 0; i < inv->n_numas; i++)
        if (!is_index(inv->numa[i].package, inv->n_packages))
            return false;
    return are_sound_devices(inv);
}

void inventory_copy(struct inventory *to, const struct inventory *from)
{
    memcpy(to, from, offsetof(struct inventory, core));
    memcpy(to->core, from->core, from->n_cores * sizeof from->core[0]);
    memcpy(to->numa, from->numa, from->n_numas * sizeof from->numa[0]);
    memcpy(to->gpu, from->gpu, from->n_gpus * sizeof from->gpu[0]);
    memcpy(to->nic, from->nic, from->n_nics * sizeof from->nic[0]);
    memcpy(to->link_mbps, from->link_mbps, from->n_gpus * sizeof from->link_mbps[0]);
}
