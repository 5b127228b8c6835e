#include <errno.h>

#include "runtime/base/begins.h"
#include "topology/load_impl.h"

int too_many(const struct inventory *inv, ddp_error_t *errp, const char *what, int max)
{
    return error_set(errp, DDP_E_DATA, E2BIG, "%s has more than %d %s", inv->origin, max, what);
}

int add_cpu(struct inventory *inv, unsigned cpu, bool is_new_core, ddp_error_t *errp)
{
    if (cpu >= CPUS_MAX)
        return too_many(inv, errp, "CPUs", CPUS_MAX);
    if (cpus_has(&inv->all, cpu))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s has CPU %u twice", inv->origin, cpu);
    if (is_new_core && inv->n_cores == INVENTORY_CORES_MAX)
        return too_many(inv, errp, "cores", INVENTORY_CORES_MAX);
    struct inventory_core *core = &inv->core[is_new_core ? inv->n_cores++ : inv->n_cores - 1];
    if (core->n_cpus == INVENTORY_THREADS_MAX)
        return too_many(inv, errp, "hardware threads in one core", INVENTORY_THREADS_MAX);
    size_t at = core->n_cpus++;
    for (; at > 0 && core->cpu[at - 1] > cpu; at--)
        core->cpu[at] = core->cpu[at - 1];
    core->cpu[at] = (uint16_t)cpu;
    cpus_add(&inv->all, cpu);
    return 0;
}

bool is_nic_class(uint16_t class)
{
    return class >> 8 == 0x02 || class == 0x0c06;
}

bool is_gpu_class(uint16_t class)
{
    return class >> 8 == 0x03 || class >> 8 == 0x12;
}

bool is_gpu_vendor(uint16_t vendor_id)
{
    return vendor_id == PCI_NVIDIA || vendor_id == PCI_AMD;
}

enum inventory_nic_kind nic_kind(const struct inventory_nic *nic, uint16_t class, int is_infiniband)
{
    if (nic->pci.vendor_id == PCI_CRAY || begins(nic->verbs, "cxi") || begins(nic->interface, "hsn"))
        return NIC_SLINGSHOT;
    /* 0x0208 is a fabric's controller: Omni-Path. */
    if (class == 0x0207 || class == 0x0208 || class == 0x0c06 || (nic->verbs[0] && is_infiniband == 1))
        return NIC_INFINIBAND;
    return nic->verbs[0] ? NIC_ROCE : NIC_ETHERNET;
}

void place_pci(const struct inventory *inv, struct inventory_pci *p)
{
    bool is_first = true;
    p->package = p->numa = -1;
    for (size_t i = 0; i < inv->n_cores; i++) {
        const struct inventory_core *c = &inv->core[i];
        if (!inventory_core_touches(inv, i, &p->local))
            continue;
        p->package = is_first || p->package == c->package ? c->package : -1;
        p->numa = is_first || p->numa == c->numa ? c->numa : -1;
        is_first = false;
    }
}

static uint64_t bandwidth(const int *gpu, size_t n, const uint64_t *values, size_t i, size_t j)
{
    uint64_t up = 0, down = 0;
    for (size_t k = 0; k < n; k++)
        if (gpu[k] < 0) {
            up += values[i * n + k];
            down += values[k * n + j];
        }
    return values[i * n + j] + (up < down ? up : down);
}

void link_gpus(struct inventory *inv, const int *gpu, size_t n, const uint64_t *values)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            if (gpu[i] < 0 || gpu[j] < 0 || gpu[i] == gpu[j])
                continue;
            uint64_t mbps = bandwidth(gpu, n, values, i, j);
            uint32_t *link = &inv->link_mbps[gpu[i]][gpu[j]];
            if (mbps > *link)
                *link = mbps > UINT32_MAX ? UINT32_MAX : (uint32_t)mbps;
        }
}
