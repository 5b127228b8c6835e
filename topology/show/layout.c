#include "topology/show/layout.h"

#include <stdlib.h>

#define PITCH (LAYOUT_CORE + 3)
#define GROUP_PAD 4.0
#define GROUP_GAP 6.0
#define PAD 10.0
#define HEAD 30.0    /* the line of text at a box's top */
#define CHANNEL 34.0 /* between a node's cores and its devices: lines run there */
#define GPU_HEIGHT 54.0
#define NIC_HEIGHT 38.0
#define DEVICE_GAP 8.0
#define BETWEEN 20.0 /* between a unit's GPUs and its NICs */
#define UNIT_HEAD 20.0
#define CAP 1440.0 /* of a package's content: what fits beside each other */

/* Boxes beside each other, then below. */
struct flow {
    double x0, y0, cap, gap, x, y, row, w;
};

static struct flow flow_at(double x, double y, double cap, double gap)
{
    return (struct flow){.x0 = x, .y0 = y, .cap = cap, .gap = gap, .x = x, .y = y};
}

static void flow_put(struct flow *f, struct box *b)
{
    if (f->x > f->x0 && f->x + b->w > f->x0 + f->cap) {
        f->x = f->x0;
        f->y += f->row + f->gap;
        f->row = 0;
    }
    b->x = f->x;
    b->y = f->y;
    f->x += b->w + f->gap;
    f->row = b->h > f->row ? b->h : f->row;
    f->w = b->x + b->w - f->x0 > f->w ? b->x + b->w - f->x0 : f->w;
}

static double flow_bottom(const struct flow *f)
{
    return f->y + f->row;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static void shift(struct box *b, double dx, double dy)
{
    b->x += dx;
    b->y += dy;
}

static void shift_unit(struct layout *l, size_t u, double dx, double dy)
{
    const struct show_unit *unit = &l->unit[u];
    shift(&l->unit_box[u], dx, dy);
    shift(&l->outer_box[u], dx, dy);
    for (int i = 0; i < unit->n_gpus; i++)
        shift(&l->gpu[unit->gpu[i]], dx, dy);
    for (int i = 0; i < unit->n_nics; i++)
        shift(&l->nic[unit->nic[i]], dx, dy);
}

static void shift_units(struct layout *l, int package, int numa, double dx, double dy)
{
    for (size_t u = 0; u < l->n_units; u++)
        if (l->unit[u].package == package && l->unit[u].numa == numa)
            shift_unit(l, u, dx, dy);
}

static void shift_group(struct layout *l, struct layout_group *g, double dx, double dy)
{
    shift(&g->box, dx, dy);
    for (int i = 0; i < g->n; i++)
        shift(&l->core[l->order[g->first + i]], dx, dy);
}

static void shift_node(struct layout *l, int package, int node, double dx, double dy)
{
    shift(&l->node[node], dx, dy);
    l->grid_bottom[node] += dy;
    for (size_t g = 0; g < l->n_groups; g++)
        if (l->group[g].node == node)
            shift_group(l, &l->group[g], dx, dy);
    shift_units(l, package, node, dx, dy);
}

/* Wider than a few where `w` is there anyway, and rather without a ragged edge. */
static int most_columns(const struct layout_group *g, double w)
{
    int n = g->n <= 8 ? 4 : g->n <= 16 ? 8 : 12, wide = (int)((w - 2 * GROUP_PAD) / PITCH * 0.8);
    n = g->is_alone && wide > n ? wide : n;
    for (int c = n; c <= n + 4; c++)
        if (g->n % c == 0)
            return c;
    return n;
}

/* Column by column, so that a run of cores reaches the grid's lower edge. */
static void place_group(struct layout *l, struct layout_group *g, double w)
{
    int columns = most_columns(g, w), rows = (g->n + columns - 1) / columns;
    columns = (g->n + rows - 1) / rows;
    g->box = (struct box){0, 0, columns * PITCH - 3 + 2 * GROUP_PAD, rows * PITCH - 3 + 2 * GROUP_PAD};
    for (int i = 0; i < g->n; i++) {
        int column = i / rows, row = i % rows;
        l->core[l->order[g->first + i]] =
            (struct box){GROUP_PAD + column * PITCH, GROUP_PAD + row * PITCH, LAYOUT_CORE, LAYOUT_CORE};
    }
}

static void place_unit(struct layout *l, size_t u, double cap)
{
    const struct show_unit *unit = &l->unit[u];
    double pad = unit->is_switch ? 7 : 0, top = unit->is_switch ? UNIT_HEAD : 0;
    struct flow f = flow_at(pad, top, cap - 2 * pad, DEVICE_GAP);
    for (int i = 0; i < unit->n_gpus; i++) {
        l->gpu[unit->gpu[i]] = (struct box){0, 0, LAYOUT_DEVICE, GPU_HEIGHT};
        flow_put(&f, &l->gpu[unit->gpu[i]]);
    }
    double w = f.w, bottom = flow_bottom(&f);
    f = flow_at(pad, unit->n_gpus ? bottom + BETWEEN : top, cap - 2 * pad, DEVICE_GAP);
    for (int i = 0; i < unit->n_nics; i++) {
        l->nic[unit->nic[i]] = (struct box){0, 0, LAYOUT_DEVICE, NIC_HEIGHT};
        flow_put(&f, &l->nic[unit->nic[i]]);
    }
    if (unit->n_nics)
        bottom = flow_bottom(&f);
    l->unit_box[u] = (struct box){0, 0, most(w, f.w) + 2 * pad, bottom + pad};
}

/* Units `first` to `end`, of one outer switch, side by side within one box at 0, 0, which is returned. */
static struct box place_outer(struct layout *l, size_t first, size_t end, double cap)
{
    bool is_nested = l->unit[first].is_nested;
    double pad = is_nested ? 7 : 0, top = is_nested ? UNIT_HEAD : 0;
    struct flow f = flow_at(pad, top, cap - 2 * pad, DEVICE_GAP);
    for (size_t u = first; u < end; u++) {
        place_unit(l, u, cap - 2 * pad);
        struct box at = l->unit_box[u];
        flow_put(&f, &at);
        shift_unit(l, u, at.x, at.y);
    }
    return l->outer_box[first] = (struct box){0, 0, f.w + 2 * pad, flow_bottom(&f) + pad};
}

static bool has_gpus(const struct layout *l, size_t first, size_t end)
{
    for (size_t u = first; u < end; u++)
        if (l->unit[u].n_gpus)
            return true;
    return false;
}

/* Of the devices of one place those with GPUs, or those without, from (PAD, y) on. Returns their lower edge, 0 where
 * there is none, and widens *w. */
static double place_row(struct layout *l, int package, int numa, bool with_gpus, double y, double cap, double *w)
{
    struct flow f = flow_at(PAD, y, cap, DEVICE_GAP);
    bool any = false;
    for (size_t first = 0, end; first < l->n_units; first = end) {
        for (end = first + 1; end < l->n_units && l->unit[end].outer == l->unit[first].outer;)
            end++;
        if (l->unit[first].package != package || l->unit[first].numa != numa || has_gpus(l, first, end) != with_gpus)
            continue;
        struct box at = place_outer(l, first, end, cap);
        flow_put(&f, &at);
        for (size_t u = first; u < end; u++)
            shift_unit(l, u, at.x, at.y);
        any = true;
    }
    *w = most(*w, f.w);
    return any ? flow_bottom(&f) : 0;
}

/* All devices of one place: NICs that share no switch with a GPU stand below, so that lines from GPUs lead down. */
static double place_units(struct layout *l, int package, int numa, double y, double cap, double *w)
{
    double bottom = place_row(l, package, numa, true, y, cap, w);
    double below = place_row(l, package, numa, false, bottom > 0 ? bottom + BETWEEN : y, cap, w);
    return most(bottom, below);
}

/* What the groups of a node may take in width, so that their rows are about equally long. */
static double level_cap(const struct layout *l, int node, double cap)
{
    double widest = 0;
    int n = 0;
    for (size_t g = 0; g < l->n_groups; g++)
        if (l->group[g].node == node) {
            widest = most(widest, l->group[g].box.w + GROUP_GAP);
            n++;
        }
    int in_row = (int)((cap + GROUP_GAP) / widest), rows = in_row > 0 ? (n + in_row - 1) / in_row : n;
    return rows > 1 ? widest * ((n + rows - 1) / rows) : cap;
}

/* The cores of a node from y on; `w`: of its devices. Returns the lower edge, and widens *w. */
static double place_cores(struct layout *l, int node, double y, double cap, double *w)
{
    for (size_t g = 0; g < l->n_groups; g++)
        if (l->group[g].node == node)
            place_group(l, &l->group[g], *w);
    struct flow f = flow_at(PAD, y, level_cap(l, node, cap), GROUP_GAP);
    for (size_t g = 0; g < l->n_groups; g++) {
        if (l->group[g].node != node)
            continue;
        struct box at = l->group[g].box;
        flow_put(&f, &at);
        shift_group(l, &l->group[g], at.x, at.y);
    }
    if (*w > f.w)
        for (size_t g = 0; g < l->n_groups; g++)
            if (l->group[g].node == node)
                shift_group(l, &l->group[g], (*w - f.w) / 2, 0);
    *w = most(*w, f.w);
    return flow_bottom(&f);
}

/* Devices stand beside NUMA nodes only: what the inventory says is beside none stands below the package's nodes. */
static void place_node(struct layout *l, int package, int node, double cap)
{
    double w = 170, devices = place_units(l, package, node, 0, cap, &w);
    double bottom = place_cores(l, node, HEAD, cap, &w);
    shift_units(l, package, node, 0, bottom + CHANNEL);
    l->grid_bottom[node] = bottom;
    l->node[node] = (struct box){0, 0, w + 2 * PAD, bottom + (devices > 0 ? CHANNEL + devices : 0) + PAD};
}

int layout_node(const struct inventory *inv, size_t core)
{
    const struct inventory_core *c = &inv->core[core];
    return c->numa >= 0 ? c->numa : (int)inv->n_numas + c->package;
}

struct box *layout_package(struct layout *l, int package)
{
    return package < 0 ? &l->outside : &l->package[package];
}

/* The package's next node, after `node` (-1: its first); LAYOUT_NODES_MAX: there are no more. */
static int next_node(const struct inventory *inv, const struct layout *l, int package, int node)
{
    int behind = (int)inv->n_numas + package;
    while (++node < (int)inv->n_numas)
        if (inv->numa[node].package == package)
            return node;
    for (size_t g = 0; g < l->n_groups && node <= behind && package >= 0; g++)
        if (l->group[g].node == behind)
            return behind;
    return LAYOUT_NODES_MAX;
}

static void place_package(const struct inventory *inv, struct layout *l, int package)
{
    size_t n = 0;
    for (int i = -1; (i = next_node(inv, l, package, i)) < LAYOUT_NODES_MAX;)
        n++;
    struct flow f = flow_at(PAD, HEAD, CAP, PAD);
    double columns = n > 4 ? 4 : n ? (double)n : 1;
    for (int i = -1; (i = next_node(inv, l, package, i)) < LAYOUT_NODES_MAX;) {
        place_node(l, package, i, (CAP + PAD) / columns - 3 * PAD);
        struct box at = l->node[i];
        flow_put(&f, &at);
        shift_node(l, package, i, at.x, at.y);
    }
    double w = most(f.w, 190), bottom = flow_bottom(&f);
    double devices = place_units(l, package, -1, n ? bottom + CHANNEL : HEAD, CAP, &w);
    bottom = most(bottom, devices);
    if (n || devices > 0)
        *layout_package(l, package) = (struct box){0, 0, w + 2 * PAD, bottom + PAD};
}

static void shift_package(const struct inventory *inv, struct layout *l, int package, double dx, double dy)
{
    shift(layout_package(l, package), dx, dy);
    for (int i = -1; (i = next_node(inv, l, package, i)) < LAYOUT_NODES_MAX;)
        shift_node(l, package, i, dx, dy);
    shift_units(l, package, -1, dx, dy);
}

/* Boxes of one row get the height of the highest. */
static void level(struct box **row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (row[i]->y == row[j]->y)
                row[i]->h = most(row[i]->h, row[j]->h);
}

static void level_all(const struct inventory *inv, struct layout *l)
{
    struct box *row[INVENTORY_NUMAS_MAX + 1];
    for (int p = -1; p < (int)inv->n_packages; p++) {
        size_t n = 0;
        for (int i = -1; (i = next_node(inv, l, p, i)) < LAYOUT_NODES_MAX;)
            row[n++] = &l->node[i];
        level(row, n);
    }
    for (int p = -1; p < (int)inv->n_packages; p++) { /* a package with a row for itself is as wide as the picture */
        struct box *b = layout_package(l, p);
        bool is_alone = b->w > 0.7 * l->w;
        for (int i = -1; i < (int)inv->n_packages; i++) {
            const struct box *other = layout_package(l, i);
            is_alone &= other == b || other->w <= 0 || other->y != b->y;
        }
        if (is_alone)
            b->w = l->w;
    }
}

static void place_all(const struct inventory *inv, struct layout *l)
{
    struct flow f = flow_at(0, 0, CAP + 2 * PAD, 14);
    for (int i = 0; i <= (int)inv->n_packages; i++) {
        int package = i < (int)inv->n_packages ? i : -1;
        place_package(inv, l, package);
        struct box at = *layout_package(l, package);
        if (at.h <= 0)
            continue;
        flow_put(&f, &at);
        shift_package(inv, l, package, at.x, at.y);
    }
    l->w = f.w;
    l->h = flow_bottom(&f);
    level_all(inv, l);
}

/* Groups of one node: cores of one cache, or a run of cores that share none. */
static void group_node(const struct inventory *inv, struct layout *l, int node, const int *n_of_cache, int *n)
{
    int before = -1;
    for (size_t c = 0; c < inv->n_cores; c++) {
        int cache = inv->core[c].cache;
        if (layout_node(inv, c) != node)
            continue;
        bool is_shared = cache >= 0 && n_of_cache[cache] > 1;
        struct layout_group *g = before >= 0 ? &l->group[l->n_groups - 1] : NULL;
        if (!g || g->is_shared != is_shared || (is_shared && inv->core[before].cache != cache)) {
            g = &l->group[l->n_groups++];
            *g = (struct layout_group){.node = node, .first = *n, .is_shared = is_shared};
        }
        g->n++;
        l->order[(*n)++] = (int)c;
        before = (int)c;
    }
}

static bool group(const struct inventory *inv, struct layout *l)
{
    int *n_of_cache = calloc(INVENTORY_CORES_MAX, sizeof *n_of_cache), n = 0;
    if (!n_of_cache)
        return false;
    for (size_t c = 0; c < inv->n_cores; c++)
        if (inv->core[c].cache >= 0)
            n_of_cache[inv->core[c].cache]++;
    for (size_t i = 0; i < inv->n_numas + inv->n_packages; i++)
        group_node(inv, l, (int)i, n_of_cache, &n);
    for (size_t g = 0; g < l->n_groups; g++)
        l->group[g].is_alone = (g == 0 || l->group[g - 1].node != l->group[g].node) &&
                               (g + 1 == l->n_groups || l->group[g + 1].node != l->group[g].node);
    free(n_of_cache);
    return true;
}

struct layout *layout_create(const struct inventory *inv)
{
    struct layout *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->unit = show_units(inv, &l->n_units);
    l->order = calloc(inv->n_cores, sizeof *l->order);
    l->group = calloc(inv->n_cores, sizeof *l->group);
    l->core = calloc(inv->n_cores, sizeof *l->core);
    l->unit_box = calloc(l->n_units + 1, sizeof *l->unit_box);
    l->outer_box = calloc(l->n_units + 1, sizeof *l->outer_box);
    l->package = calloc(inv->n_packages, sizeof *l->package);
    if (!l->unit || !l->order || !l->group || !l->core || !l->unit_box || !l->outer_box || !l->package ||
        !group(inv, l)) {
        layout_destroy(l);
        return NULL;
    }
    place_all(inv, l);
    return l;
}

void layout_destroy(struct layout *l)
{
    if (!l)
        return;
    free(l->unit);
    free(l->order);
    free(l->group);
    free(l->core);
    free(l->unit_box);
    free(l->outer_box);
    free(l->package);
    free(l);
}
