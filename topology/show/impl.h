/* impl.h - what the files here share: the table's cells, notes for the user, which ranks have which core, which devices
 * share a PCIe switch. */
#ifndef DDP_TOPOLOGY_SHOW_IMPL_H
#define DDP_TOPOLOGY_SHOW_IMPL_H

#include "topology/show.h"
#include "topology/show/text.h"

/* ---- words.c: names of things ---- */

void show_add_gpu(struct text *t, const struct inventory *inv, int gpu);   /* "GPU 0 (0000:1b:00.0, NVIDIA H100)" */
void show_add_node(struct text *t, const struct inventory *inv, int numa); /* "node 8", as Linux numbers it */
void show_add_bytes(struct text *t, uint64_t n_bytes);                     /* "256 GiB" */

/* "rank 3", "ranks 0-3 and 7": the r in [0, n) with is_in[r]. Returns how many. */
int show_add_ranks(struct text *t, const bool *is_in, int n);

/* "Intel Xeon, 2 packages, 8 NUMA nodes, 128 cores, 256 CPUs, 8 GPUs, 8 NICs", as far as known. */
void show_add_machine(struct text *t, const struct inventory *inv);

/* ---- owners.c: which ranks have which core ---- */

struct show_owner {
    int16_t first, n; /* the first rank that has the core, and how many ranks have it; n 0: none */
    bool is_in_step;
};
struct show_owner *show_owners(const struct show *s); /* [n_cores], the caller frees; NULL: no memory */

/* ---- units.c: which devices share a PCIe switch ---- */

/* A unit: the devices below a common PCIe switch, the innermost one that several cards share; or one card. Units below
 * a common outer switch follow one another and are drawn at one place. */
struct show_unit {
    int16_t package, numa; /* drawn beside this NUMA node; numa -1: beside the package; both -1: beside the machine */
    int16_t outer;         /* the same number for units below one outermost switch */
    bool is_switch;        /* the unit has several cards */
    bool is_nested;        /* other units have the same outer switch */
    int16_t n_gpus, n_nics;
    int16_t gpu[INVENTORY_GPUS_MAX], nic[INVENTORY_NICS_MAX];
};
struct show_unit *show_units(const struct inventory *inv, size_t *ret_n); /* the caller frees; NULL: no memory */

/* ---- links.c: links between GPUs; both add nothing where none is known ---- */

void show_add_links(struct text *t, const struct inventory *inv);  /* a paragraph of lines: GPUs by GPUs */
void show_add_speeds(struct text *t, const struct inventory *inv); /* "links between GPUs, 75 GB/s each way: 0-1" */

/* ---- table.c ---- */

enum show_column { COL_RANK, COL_GPU, COL_CORES, COL_CPUS, COL_MEMORY, COL_NIC, COL_WHY, COL_N };
struct show_row {
    int first, last; /* ranks of this line */
    char *cell[COL_N];
};
struct show_rows {
    size_t n;
    bool is_used[COL_N]; /* false: no row has anything to show in this column */
    struct show_row row[];
};
extern const char *const show_headings[COL_N];
struct show_rows *show_rows(const struct show *s); /* NULL: no memory */
void show_rows_destroy(struct show_rows *rows);

/* ---- notes.c ---- */

/* Adds one line for each thing that the user should look at. */
void show_add_notes(struct text *t, const struct show *s);

#endif
