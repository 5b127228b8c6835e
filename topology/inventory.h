/* inventory.h - the parts of a machine that matter for placing ranks, in plain tables without pointers, so that one
 * process can read what another has written. All functions are pure except inventory_load and its like, inventory_store
 * and inventory_read_driver.
 *
 * Numbers: a core, NUMA node, package, cache, GPU or NIC is named by its place in its table here, and the tables are in
 * hwloc's logical order (cores, nodes, packages, caches: neighbours are near each other) or by PCI address (GPUs,
 * NICs). A CPU is a hardware thread, by the number that Linux gives it. -1 is "none" or "not known" throughout. */
#ifndef DDP_TOPOLOGY_INVENTORY_H
#define DDP_TOPOLOGY_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "topology/cpus.h"

enum {
    INVENTORY_CORES_MAX = 4096,
    INVENTORY_THREADS_MAX = 8, /* hardware threads of a core */
    INVENTORY_NUMAS_MAX = 256,
    INVENTORY_GPUS_MAX = 64,
    INVENTORY_NICS_MAX = 64,
    INVENTORY_PATH_MAX = 12, /* bridges above a PCI device */
    INVENTORY_BUS_TEXT = 16  /* "0000:1b:00.0", with room */
};

struct inventory_core {
    int16_t package, numa, cache; /* cache: the last level that more than one core shares, else the core's own */
    uint16_t n_cpus;
    uint16_t cpu[INVENTORY_THREADS_MAX]; /* ascending */
};

/* Only nodes that have cores: memory of a GPU that shows as a node is left out. */
struct inventory_numa {
    int16_t os_index, package; /* package -1: it spans several */
    uint64_t memory_bytes;
};

/* Where a PCI device sits. */
struct inventory_pci {
    uint32_t domain;
    uint8_t bus, device, function, depth;
    uint16_t vendor_id, device_id;
    uint16_t path[INVENTORY_PATH_MAX]; /* [depth] bridges above it, outermost first: path[0] is the host bridge. Numbers
                                          are equal where the bridge is the same. depth 0: not known */
    int16_t package, numa;             /* that hold all of its local CPUs, else -1 */
    struct cpus local;                 /* CPUs that are nearest to it; all CPUs if its locality is not known */
};

enum inventory_vendor { VENDOR_NVIDIA, VENDOR_AMD };

struct inventory_gpu {
    struct inventory_pci pci;
    enum inventory_vendor vendor;
    char name[64];   /* "NVIDIA H100 80GB HBM3"; where nobody knows it, "NVIDIA GPU 2330" (the device id) */
    char uuid[48];   /* "GPU-..."; "": not known */
};

enum inventory_nic_kind { NIC_ETHERNET, NIC_ROCE, NIC_INFINIBAND, NIC_SLINGSHOT };

struct inventory_nic {
    struct inventory_pci pci;
    enum inventory_nic_kind kind;
    bool is_active;     /* has a link. If that is not known: true with a name below, false without one (no driver) */
    char verbs[32];     /* "mlx5_0", "hfi1_0", "cxi0"; "": none */
    char interface[32]; /* "ib0", "eth0", "hsn0"; "": none */
};

struct inventory {
    char origin[64];    /* host name, or the XML file's name without its folder */
    char cpu_model[64]; /* "": not known */
    bool has_io;        /* GPUs and NICs were looked for */
    size_t n_packages, n_numas, n_caches, n_cores, n_gpus, n_nics; /* n_cores, n_numas and n_packages at least 1 */
    struct cpus all, allowed; /* allowed: what the machine (or its record) lets this process use, within all */
    struct inventory_core core[INVENTORY_CORES_MAX];
    struct inventory_numa numa[INVENTORY_NUMAS_MAX];
    struct inventory_gpu gpu[INVENTORY_GPUS_MAX];
    struct inventory_nic nic[INVENTORY_NICS_MAX];
    uint32_t link_mbps[INVENTORY_GPUS_MAX][INVENTORY_GPUS_MAX]; /* NVLink or xGMI, MB/s each way; 0: none known */
};

/* The distance of two PCI devices, nearest first. Virtual devices whose place is not known are DISTANCE_ACROSS. */
enum inventory_distance { DISTANCE_SAME_SWITCH, DISTANCE_SAME_ROOT, DISTANCE_SAME_PACKAGE, DISTANCE_ACROSS };

/* Reads this machine (xml NULL and no HWLOC_XMLFILE) or hwloc's record of one, of format 1 or 2. with_io: GPUs and
 * NICs too; links between GPUs are known from a record only, where the hwloc that wrote it had NVML. Takes a
 * millisecond or a few; a record some more, in a child process of its own. Runs no vendor's library: hwloc's plugins
 * stay closed, and the environment is as before afterwards. Not for a process with several threads, since it changes
 * the environment for a moment. *ret is the caller's memory (some 260 KiB, any alignment that malloc gives), of which
 * the tables' used parts are written; untouched on failure. 0, or -1: DDP_E_SYSTEM (hwloc, this machine), DDP_E_DATA
 * (the file is not hwloc's XML, or holds more than the tables), DDP_E_TIMEOUT (hwloc is not done with a record after
 * 10 s; inventory_load_until: by the deadline, clock.h). */
int inventory_load(const char *xml, bool with_io, struct inventory *ret, ddp_error_t *errp);
int inventory_load_until(const char *xml, bool with_io, uint64_t deadline, struct inventory *ret, ddp_error_t *errp);

/* inventory_store, in slurmd: reads this machine's cores in a child process and writes them to the folder's cache
 * (cache.h), for inventory_load_cached, in tasks: as inventory_load of this machine, from the cache where that is to be
 * believed and no HWLOC_ variable of this process asks for something else; `allowed` is slurmd's then. Where
 * inventory_store fails there is no cache. Both: 0 or -1, as inventory_load_until. */
int inventory_store(const char *folder, uint64_t deadline, ddp_error_t *errp);
int inventory_load_cached(const char *folder, bool with_io, uint64_t deadline, struct inventory *ret,
                          ddp_error_t *errp);

/* Reads the names and UUIDs of GPUs from the text files of NVIDIA's driver under `proc` ("/proc/driver/nvidia"); uses
 * no library and opens no device. What is missing stays unknown. inventory_load calls it for this machine. */
void inventory_read_driver(struct inventory *inv, const char *proc);

enum inventory_distance inventory_distance(const struct inventory_pci *a, const struct inventory_pci *b);

/* True if the device has a home (doc/placement.md): some of the machine's CPUs are nearer to it than others. */
bool inventory_has_home(const struct inventory *inv, const struct inventory_pci *pci);

/* The number of bridges above both devices, host bridge included. Switches nest, so more common bridges mean nearer. */
int inventory_common_bridges(const struct inventory_pci *a, const struct inventory_pci *b);

/* "same switch", "same root", "same package", "across" */
const char *inventory_distance_name(enum inventory_distance d);
const char *inventory_nic_kind_name(enum inventory_nic_kind k); /* "Ethernet", "RoCE", "InfiniBand", "Slingshot" */
const char *inventory_nic_name(const struct inventory_nic *nic); /* its verbs name, else its interface, else "?" */

/* "0000:1b:00.0" into buf of INVENTORY_BUS_TEXT bytes. Returns buf. */
const char *inventory_bus(const struct inventory_pci *pci, char *buf);

/* The CPUs of one core, or of a NUMA node's cores. */
struct cpus inventory_core_cpus(const struct inventory *inv, size_t core);
struct cpus inventory_numa_cpus(const struct inventory *inv, size_t numa);

/* Finds the GPU by a device name: "3" (its place in the order of PCI addresses, as Slurm's gres and nvidia-smi count;
 * the driver's minor number may differ), "0000:1b:00.0", "GPU-UUID" or a unique beginning of it, "MIG-GPU-UUID/GI/CI"
 * (the parent). -1: there is no such GPU. */
int inventory_find_gpu(const struct inventory *inv, const char *name);

/* True if one of the core's CPUs is in the set; and the number of cores for which that is true. */
bool inventory_core_touches(const struct inventory *inv, size_t core, const struct cpus *set);
size_t inventory_count_cores(const struct inventory *inv, const struct cpus *set);

#endif
