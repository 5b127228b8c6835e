/* machines.h - inventories made up for tests. */
#ifndef DDP_T_MACHINES_H
#define DDP_T_MACHINES_H

#include "topology/placement.h"

/* How CPUs are numbered: thread t of core c of n is c + t n (Linux on x86), or threads of a core follow one another. */
enum machine_numbering { MACHINE_THREADS_LAST, MACHINE_THREADS_TOGETHER };

/* packages x NUMA nodes x caches x cores x threads, all alike, without GPUs and NICs. The caller frees. */
struct inventory *machine_make(int packages, int numas, int caches, int cores, int threads, enum machine_numbering);

/* CPU lists as text: "0-3,8", "all", "none". */
struct cpus machine_cpus(const struct inventory *inv, const char *list);

/* A GPU or NIC whose local CPUs are these, at the end of its table. root, bridge: its host bridge and the bridge
 * below. */
void machine_add_gpu(struct inventory *inv, const char *local, int root, int bridge);
void machine_add_nic(struct inventory *inv, const char *local, enum inventory_nic_kind kind, int root, int bridge);

/* What the contract says of a PCI device's package and numa, from its local CPUs. */
void machine_settle_pci(const struct inventory *inv, struct inventory_pci *pci);

/* --- random ones: the same seed gives the same --- */

struct random_case {
    struct inventory *inv;
    struct placement_rank *rank;
    struct placement_request req;
};

void random_case_make(uint64_t seed, struct random_case *ret);
/* The same on a machine that hwloc itself makes of a description; what it was is in ret->inv->origin. */
void random_case_synthetic(uint64_t seed, struct random_case *ret);
void random_case_free(struct random_case *c);

#endif
