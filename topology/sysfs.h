/* sysfs.h - the GPUs and NICs of this machine, as Linux shows them in files.
 *
 * hwloc could read them too, but it reads every PCI device's configuration space for it, which goes to the hardware,
 * one process at a time: 11 to 14 ms for cores and devices (hwloc_topology_load with I/O), against 1.2 to 1.4 ms for
 * inventory_load, on a machine with six PCI devices. Here only attributes that the kernel has cached are read. */
#ifndef DDP_TOPOLOGY_SYSFS_H
#define DDP_TOPOLOGY_SYSFS_H

#include "topology/inventory.h"

/* Fills the GPUs and NICs of *inv, whose cores, nodes and packages are filled already, from the files under `sys`
 * ("/sys"). A device whose files cannot be read is left out. A GPU that is a virtual function of another GPU in the
 * list is left out; of more than INVENTORY_NICS_MAX NICs, those with a name in this network namespace come first. 0, or
 * -1: DDP_E_DATA (more GPUs than the table holds), DDP_E_SYSTEM (memory). */
int sysfs_read_devices(struct inventory *inv, const char *sys, ddp_error_t *errp);

#endif
