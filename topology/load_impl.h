/* load_impl.h - what inventory_load is made of. load.c is the only file that includes hwloc.h. */
#ifndef DDP_TOPOLOGY_LOAD_IMPL_H
#define DDP_TOPOLOGY_LOAD_IMPL_H

#include "topology/inventory.h"

/* The model of a GPU by its PCI numbers ("NVIDIA H100 SXM5 80GB"); NULL: not in our short list. */
const char *model_name(uint16_t vendor_id, uint16_t device_id);

/* What Linux says under `sys` ("/sys"). What cannot be read is up, and no virtual function. */
bool sysfs_is_up(const char *sys, const char *interface);
bool sysfs_is_virtual(const char *sys, const struct inventory_pci *pci);

/* Every count, index and set is in its range, every text ends. */
bool inventory_is_sound(const struct inventory *inv);

#endif
