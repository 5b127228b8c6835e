/* load_impl.h - what inventory_load is made of: hwloc (import.c, the only file that includes hwloc.h), and what it
 * shares with the files of Linux (sysfs.c). */
#ifndef DDP_TOPOLOGY_LOAD_IMPL_H
#define DDP_TOPOLOGY_LOAD_IMPL_H

#include "topology/inventory.h"

/* Fills *inv, whose origin and has_io are set, from a record (xml[n - 1] is a NUL), or from this machine where xml is
 * NULL. 0 or -1, as inventory_load; *inv is partly filled then. */
int import_topology(const char *xml, size_t n, struct inventory *inv, ddp_error_t *errp);
int import_major(void); /* of the format of records that this hwloc reads */

/* The rest is pure. */

/* -1 with DDP_E_DATA: a machine larger than the tables. */
int too_many(const struct inventory *inv, ddp_error_t *errp, const char *what, int max);

/* Adds a CPU to a new core or to the last one. 0, or -1 with DDP_E_DATA: it is there already, or the tables are
 * full. */
int add_cpu(struct inventory *inv, unsigned cpu, bool is_new_core, ddp_error_t *errp);

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

/* Adds a matrix of bandwidths in MB/s, values[n * n], from row to column, of n objects: gpu[i] is the place in inv's
 * table, or -1 where the object is a switch. Two GPUs have what is between them, and through switches what both ends
 * have. */
void link_gpus(struct inventory *inv, const int *gpu, size_t n, const uint64_t *values);

/* Every count, index and set is in its range, every text ends. */
bool inventory_is_sound(const struct inventory *inv);

#endif
