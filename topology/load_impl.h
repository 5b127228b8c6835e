/* load_impl.h - the parts of inventory_load: reading by hwloc (import.c, the only file that includes hwloc.h), and
 * functions that it shares with sysfs.c. */
#ifndef DDP_TOPOLOGY_LOAD_IMPL_H
#define DDP_TOPOLOGY_LOAD_IMPL_H

#include "topology/inventory.h"

/* Fills *inv, whose origin and has_io are set, from a record (xml[n - 1] is a NUL), or from this machine where xml is
 * NULL. 0 or -1, as inventory_load; *inv is partly filled then. */
int import_topology(const char *xml, size_t n, struct inventory *inv, ddp_error_t *errp);
int import_devices(struct inventory *inv, ddp_error_t *errp); /* this machine's, from Linux's own files */
int import_version(void); /* hwloc's, of its interface */
int import_major(void); /* major version of the record format that this hwloc reads */

/* The rest is pure. */

/* Sets the error for a machine larger than the tables: DDP_E_DATA. Returns -1. */
int too_many(const struct inventory *inv, ddp_error_t *errp, const char *what, int max);

/* Adds a CPU to a new core or to the last one. 0, or -1 with DDP_E_DATA: the CPU is in the tables already, or they are
 * full. */
int add_cpu(struct inventory *inv, unsigned cpu, bool is_new_core, ddp_error_t *errp);

#define PCI_NVIDIA 0x10de
#define PCI_AMD 0x1002
#define PCI_CRAY 0x17db
#define PCI_VIRTIO 0x1af4

/* By PCI class (base class and subclass, as in 0x0302). A device is a GPU only if the vendor is one of a GPU, too,
 * since the VGA of a BMC has the same class. */
bool is_nic_class(uint16_t class);
bool is_gpu_class(uint16_t class);
bool is_gpu_vendor(uint16_t vendor_id);

/* The kind of a NIC whose PCI numbers and names are known. is_infiniband: its ports' link layer; -1: not known. */
enum inventory_nic_kind nic_kind(const struct inventory_nic *nic, uint16_t class, int is_infiniband);

/* A GPU's model by its PCI numbers into buf: from our short list ("NVIDIA H100 SXM5 80GB"), else `given` where that is
 * not NULL, else "NVIDIA GPU 2330". */
void model_name(const struct inventory_pci *pci, const char *given, char *buf, size_t size);

/* Sets the package and the NUMA node that hold all of p->local. */
void place_pci(const struct inventory *inv, struct inventory_pci *p);

/* Adds a matrix of bandwidths in MB/s between n objects, values[n * n], from row to column: gpu[i] is object i's place
 * in inv's table, or -1 if it is a switch. The bandwidth of two GPUs is the direct one plus the bandwidth through
 * switches: the smaller of what the first has to all switches and what these have to the second. */
void link_gpus(struct inventory *inv, const int *gpu, size_t n, const uint64_t *values);

/* Copies the tables' used parts: what lies unused between them is a quarter of a megabyte, which the reader would have
 * to allocate. */
void inventory_copy(struct inventory *to, const struct inventory *from);

/* True if every count, index and set is in its range, every CPU is in one core, and every text has its end. */
bool inventory_is_sound(const struct inventory *inv);

#endif
