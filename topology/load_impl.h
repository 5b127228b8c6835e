/* load_impl.h - what the two ways to an inventory share: hwloc (load.c, the only file that includes hwloc.h) and the
 * files of Linux (sysfs.c). Pure. */
#ifndef DDP_TOPOLOGY_LOAD_IMPL_H
#define DDP_TOPOLOGY_LOAD_IMPL_H

#include "topology/inventory.h"

#define PCI_NVIDIA 0x10de
#define PCI_AMD 0x1002
#define PCI_CRAY 0x17db
#define PCI_VIRTIO 0x1af4

/* By PCI class, base class and subclass as in 0x0302. A GPU is one only with its vendor: a BMC's VGA has the class
 * too. */
bool is_nic_class(uint16_t class);
bool is_gpu_class(uint16_t class);
bool is_gpu_vendor(uint16_t vendor_id);

/* The kind of a NIC whose PCI numbers and names are known. is_infiniband: its ports' link layer; -1: not told. */
enum inventory_nic_kind nic_kind(const struct inventory_nic *nic, uint16_t class, int is_infiniband);

/* A GPU's model by its PCI numbers into buf: from our short list ("NVIDIA H100 SXM5 80GB"), else `given` where that is
 * not NULL, else "NVIDIA GPU 2330". */
void model_name(const struct inventory_pci *pci, const char *given, char *buf, size_t size);

/* Sets the package and the NUMA node that hold all of p->local. */
void place_pci(const struct inventory *inv, struct inventory_pci *p);

/* Every count, index and set is in its range, every text ends. */
bool inventory_is_sound(const struct inventory *inv);

#endif
