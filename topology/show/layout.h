/* layout.h - where things stand in the picture of a machine. Pure; lengths are SVG's user units. */
#ifndef DDP_TOPOLOGY_SHOW_LAYOUT_H
#define DDP_TOPOLOGY_SHOW_LAYOUT_H

#include "topology/show/impl.h"

#define LAYOUT_CORE 20.0    /* a core's square */
#define LAYOUT_DEVICE 136.0 /* width of a GPU's or NIC's box */

struct box {
    double x, y, w, h;
};

/* A node here is a NUMA node, by its place in the inventory, or behind those a package's cores that belong to none. */
enum { LAYOUT_NODES_MAX = INVENTORY_NUMAS_MAX + INVENTORY_CORES_MAX };

/* Cores side by side that share a cache, or that share none. */
struct layout_group {
    int node, first, n;       /* in the order of `order` */
    bool is_shared, is_alone; /* is_alone: the only one of its node */
    struct box box;
};

struct layout {
    double w, h;
    int *order; /* [n_cores] the cores by node, as the inventory has them within a node */
    struct layout_group *group;
    size_t n_groups, n_units;
    struct show_unit *unit;
    struct box *core, *unit_box;                 /* [n_cores], [n_units] */
    struct box *outer_box;                       /* [n_units] around nested units: the first of them has it */
    struct box node[LAYOUT_NODES_MAX], *package; /* of no height: it has no cores; [n_packages] */
    struct box outside;                          /* around what stands in no package */
    struct box gpu[INVENTORY_GPUS_MAX], nic[INVENTORY_NICS_MAX];
    double grid_bottom[LAYOUT_NODES_MAX]; /* of a node's cores */
};

struct layout *layout_create(const struct inventory *inv); /* NULL: no memory */
void layout_destroy(struct layout *l);                     /* NULL is allowed */

/* The node that the core stands in. */
int layout_node(const struct inventory *inv, size_t core);

/* The box of a package; -1: `outside`. */
struct box *layout_package(struct layout *l, int package);

#endif
