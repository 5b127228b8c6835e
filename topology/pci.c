#include <string.h>

#include "topology/load_impl.h"

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
    if (nic->pci.vendor_id == PCI_CRAY || !strncmp(nic->verbs, "cxi", 3) || !strncmp(nic->interface, "hsn", 3))
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
        bool is_local = false;
        for (size_t k = 0; k < c->n_cpus; k++)
            is_local |= cpus_has(&p->local, c->cpu[k]);
        if (!is_local)
            continue;
        p->package = is_first || p->package == c->package ? c->package : -1;
        p->numa = is_first || p->numa == c->numa ? c->numa : -1;
        is_first = false;
    }
}
