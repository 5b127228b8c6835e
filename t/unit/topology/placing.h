/* placing.h - requests and expectations in short, for the tests that follow doc/placement.md a sentence at a time. One
 * request at a time: given() begins one, expect_...() places and compares. */
#ifndef DDP_T_UNIT_TOPOLOGY_PLACING_H
#define DDP_T_UNIT_TOPOLOGY_PLACING_H

#include "t/lib/machines.h"

enum { PLACING_RANKS = 64 };

extern struct placement_rank ranks[PLACING_RANKS];
extern struct place places[PLACING_RANKS];
extern struct placement_request req;

/* n ranks with this mask (machine_cpus), without GPUs. */
void given(const struct inventory *inv, int n, const char *mask);
void given_mask(int rank, const char *mask);

/* devices: "0 1 2", a place in the inventory each; x: not found there. */
void given_devices(int rank, const char *devices);
void all_see(const char *devices);

void place(void);

/* The CPUs of all ranks: "0-3 4-7". */
void expect_cpus(const char *want);

enum field { DEVICE, GPU, NUMA, NIC, N_CORES, N_NEAR, N_SHARING, N_GPU_SHARING, REASON };

/* One field of all ranks: "0 1 -1". */
void expect(enum field which, const char *want);

/* Two packages of four CPUs, a GPU at each. The caller frees. */
struct inventory *two_gpus(void);

/* Two packages of two NUMA nodes of four CPUs, a GPU at each node. The caller frees. */
struct inventory *four_gpus(void);

#endif
