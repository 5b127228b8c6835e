/* svg.c - the machine as a picture. Boxes first, then lines, then what must stay readable above them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology/show/draw.h"
#include "topology/show/legend.h"

#define MARGIN 24.0

struct picture {
    const struct show *s;
    const struct inventory *inv;
    struct layout *l;
    struct show_owner *owner;
    struct show_rows *rows;
    struct text t;
};

static void draw_package(struct picture *p, int package)
{
    struct box b = *layout_package(p->l, package);
    char text[32];
    if (b.h <= 0)
        return;
    snprintf(text, sizeof text, package < 0 ? "beside no package" : "package %d", package);
    draw_box(&p->t, b, 8, "#f4f5f7", "#6b7480", "stroke-width=\"1.5\"");
    draw_text(&p->t, b.x + 12, b.y + 20, 14, "start", "#222222", true, text, 0);
}

static void draw_node(struct picture *p, size_t node)
{
    const struct inventory_numa *numa = node < p->inv->n_numas ? &p->inv->numa[node] : NULL;
    struct box b = p->l->node[node];
    struct text memory = {0};
    char name[32] = "no NUMA node";
    if (b.h <= 0)
        return;
    if (numa)
        snprintf(name, sizeof name, "NUMA node %d", numa->os_index);
    if (numa && numa->memory_bytes)
        show_add_bytes(&memory, numa->memory_bytes);
    char *text = text_take(&memory);
    p->t.is_lost |= !text;
    draw_box(&p->t, b, 6, "#ffffff", "#9aa3ad", "");
    draw_text(&p->t, b.x + 10, b.y + 20, 12, "start", "#222222", true, name, 0);
    draw_text(&p->t, b.x + b.w - 10, b.y + 20, 12, "end", "#555555", false, text ? text : "", 0);
    free(text);
}

/* Is unit u the first of several below an outer switch? */
static bool is_outer(const struct layout *l, size_t u)
{
    return l->unit[u].is_nested && (u == 0 || l->unit[u - 1].outer != l->unit[u].outer);
}

static void name_switch(struct picture *p, struct box b)
{
    draw_text(&p->t, b.x + 8, b.y + 14, 10.5, "start", "#6b6138", false, "switch", 0);
}

static void draw_grounds(struct picture *p)
{
    for (int i = 0; i < (int)p->inv->n_packages; i++)
        draw_package(p, i);
    draw_package(p, -1);
    for (size_t i = 0; i < p->inv->n_numas + p->inv->n_packages; i++)
        draw_node(p, i);
    for (size_t g = 0; g < p->l->n_groups; g++)
        if (p->l->group[g].is_shared)
            draw_box(&p->t, p->l->group[g].box, 4, "#e9edf2", "#c3cad2", "");
    for (size_t u = 0; u < p->l->n_units; u++) {
        if (is_outer(p->l, u))
            draw_box(&p->t, p->l->outer_box[u], 5, "#f3efe0", "#b5a97a", "");
        if (p->l->unit[u].is_switch)
            draw_box(&p->t, p->l->unit_box[u], 5, "#f9f7ef", "#b5a97a", "");
    }
}

static bool owns(const struct show *s, int rank, size_t core)
{
    return inventory_core_touches(s->inventory, core, &s->place[rank].cpus);
}

/* Where a line to the rank's devices starts: below its cores beside the GPU, else below those of the node where it has
 * most. False: it has none. */
static bool find_start(const struct picture *p, int rank, double *x, double *y)
{
    int n_in[LAYOUT_NODES_MAX] = {0}, best = -1, gpu = p->s->place[rank].gpu;
    double sum[LAYOUT_NODES_MAX] = {0};
    for (size_t c = 0; c < p->inv->n_cores; c++) {
        int node = layout_node(p->inv, c);
        if (!owns(p->s, rank, c))
            continue;
        n_in[node]++;
        sum[node] += p->l->core[c].x + LAYOUT_CORE / 2;
        best = best < 0 || n_in[node] > n_in[best] ? node : best;
    }
    int beside = gpu >= 0 ? p->inv->gpu[gpu].pci.numa : -1;
    best = beside >= 0 && n_in[beside] ? beside : best;
    if (best < 0)
        return false;
    *x = sum[best] / n_in[best];
    *y = p->l->grid_bottom[best];
    return true;
}

/* Starts of lines, apart where several ranks' cores stand above one another. y 0: none. */
static void spread_starts(struct picture *p, struct box *start)
{
    int n = p->s->request->n_ranks;
    for (int r = 0; r < n; r++)
        if (!find_start(p, r, &start[r].x, &start[r].y))
            start[r].y = 0;
    for (int r = 0; r < n; r++) {
        int before = 0, all = 0;
        for (int i = 0; i < n; i++) {
            bool is_same = start[i].y == start[r].y && fabs(start[i].x - start[r].x) < 2;
            all += is_same;
            before += is_same && i < r;
        }
        start[r].w = all > 1 && all <= 8 ? (before - (all - 1) / 2.0) * 6 : 0;
    }
    for (int r = 0; r < n; r++)
        start[r].x += start[r].w;
}

/* The i-th of n lines that meet at a box. */
static double port(struct box b, int i, int n)
{
    return b.x + b.w * (i + 1) / (n + 1);
}

/* Lines that meet at each device, and how many are drawn. */
struct meetings {
    int n_gpu[INVENTORY_GPUS_MAX], at_gpu[INVENTORY_GPUS_MAX];
    int n_nic[INVENTORY_NICS_MAX], at_nic[INVENTORY_NICS_MAX];
};

/* From the rank's cores to its GPU, from there, or from the cores, to its NIC. */
static void draw_rank_lines(struct picture *p, int rank, struct box at, struct meetings *m)
{
    const struct place *place = &p->s->place[rank];
    struct color c = draw_color(rank);
    double width = p->s->request->n_ranks > 32 ? 0.6 : 1;
    if (place->gpu >= 0) {
        struct box b = p->l->gpu[place->gpu];
        double x = port(b, m->at_gpu[place->gpu]++, m->n_gpu[place->gpu]);
        if (at.y > 0)
            draw_line(&p->t, at.x, at.y, x, b.y, c.fill, 3 * width, "");
        at.x = x;
        at.y = b.y + b.h;
    }
    if (place->nic >= 0 && at.y > 0) {
        struct box b = p->l->nic[place->nic];
        double x = port(b, m->at_nic[place->nic]++, m->n_nic[place->nic]);
        draw_line(&p->t, at.x, at.y, x, b.y, c.fill, 2 * width, "5 3");
    }
}

static void draw_lines(struct picture *p)
{
    struct meetings m = {{0}, {0}, {0}, {0}};
    int n = p->s->request->n_ranks;
    struct box *start = calloc((size_t)n, sizeof *start);
    if (!start) {
        p->t.is_lost = true;
        return;
    }
    spread_starts(p, start);
    for (int r = 0; r < n; r++) {
        if (p->s->place[r].gpu >= 0)
            m.n_gpu[p->s->place[r].gpu]++;
        if (p->s->place[r].nic >= 0)
            m.n_nic[p->s->place[r].nic]++;
    }
    for (int r = 0; r < n; r++)
        draw_rank_lines(p, r, start[r], &m);
    free(start);
}

static void draw_stripes(struct picture *p, size_t core, struct box b)
{
    int n = p->owner[core].n < 4 ? p->owner[core].n : 4, i = 0;
    for (int r = p->owner[core].first; r < p->s->request->n_ranks && i < n; r++)
        if (owns(p->s, r, core)) {
            struct box stripe = {b.x + b.w * i / n, b.y, b.w / n, b.h};
            draw_box(&p->t, stripe, 0, draw_color(r).fill, "none", "");
            i++;
        }
}

static int last_owner(const struct picture *p, size_t core)
{
    int r = p->s->request->n_ranks - 1;
    while (r > p->owner[core].first && !owns(p->s, r, core))
        r--;
    return r;
}

/* "0,4", "0-3", or "0.." where others than neighbours share the core. Returns its length. */
static int name_owners(const struct picture *p, size_t core, char *text, size_t size)
{
    int first = p->owner[core].first, n = p->owner[core].n, last = last_owner(p, core);
    if (n == 2)
        return snprintf(text, size, "%d,%d", first, last);
    return n == last - first + 1 ? snprintf(text, size, "%d-%d", first, last) : snprintf(text, size, "%d..", first);
}

/* What the pointer sees: "core 5: CPUs 5,133". */
static void draw_tip(struct picture *p, size_t core)
{
    struct cpus cpus = inventory_core_cpus(p->inv, core);
    text_printf(&p->t, "<g><title>core %zu: CPUs ", core);
    text_cpus(&p->t, &cpus);
    text_add(&p->t, "</title>\n");
}

static void draw_core(struct picture *p, size_t core)
{
    const struct show_owner *o = &p->owner[core];
    struct box b = p->l->core[core];
    char text[24];
    draw_tip(p, core);
    if (!o->n) {
        draw_box(&p->t, b, 2, o->is_in_step ? "#ffffff" : "#d9dde2", "#9aa3ad",
                 o->is_in_step ? "stroke-dasharray=\"2 2\"" : "");
    } else if (o->n == 1) {
        struct color c = draw_color(o->first);
        int n = snprintf(text, sizeof text, "%d", o->first);
        draw_box(&p->t, b, 2, c.fill, "#444444", "stroke-width=\"0.8\"");
        draw_text(&p->t, b.x + b.w / 2, b.y + 14, n <= 2 ? 11 : n == 3 ? 9.5 : 7.5, "middle", c.ink, false, text, 0);
    } else {
        int n = name_owners(p, core, text, sizeof text);
        draw_stripes(p, core, b);
        draw_box(&p->t, b, 2, "none", "#444444", "stroke-width=\"0.8\"");
        draw_box(&p->t, (struct box){b.x + 1, b.y + 5, b.w - 2, 10}, 2, "#ffffff", "none", "fill-opacity=\"0.85\"");
        draw_text(&p->t, b.x + b.w / 2, b.y + 13, n <= 3 ? 9 : n <= 5 ? 7 : 5, "middle", "#000000", false, text, 0);
    }
    text_add(&p->t, "</g>\n");
}

/* The ranks of a device beside its name, `left` from the box's edge: as many as fit, then how many more. */
static void draw_users(struct picture *p, struct box b, const bool *is_in, double left)
{
    int n = 0, shown = 0;
    for (int r = 0; r < p->s->request->n_ranks; r++)
        n += is_in[r];
    double x = b.x + left;
    for (int r = 0; r < p->s->request->n_ranks; r++) {
        if (!is_in[r])
            continue;
        if (x + 26 > b.x + b.w - (shown + 1 < n ? 22 : 0)) {
            char more[16];
            snprintf(more, sizeof more, "+%d", n - shown);
            draw_text(&p->t, b.x + b.w - 5, b.y + 16, 10.5, "end", "#222222", true, more, 0);
            return;
        }
        x += draw_badge(&p->t, x, b.y + 4, r) + 2;
        shown++;
    }
}

static void draw_gpu(struct picture *p, int gpu, bool *is_in)
{
    struct box b = p->l->gpu[gpu];
    char text[32], bus[INVENTORY_BUS_TEXT];
    bool any = false;
    for (int r = 0; r < p->s->request->n_ranks; r++)
        any |= is_in[r] = p->s->place[r].gpu == gpu;
    draw_box(&p->t, b, 4, any ? "#e3f1e3" : "#f0f0f0", any ? "#3c7a3c" : "#a0a0a0", "stroke-width=\"1.4\"");
    int n = snprintf(text, sizeof text, "GPU %d", gpu);
    draw_text(&p->t, b.x + 7, b.y + 16, 12, "start", "#111111", true, text, 0);
    draw_text(&p->t, b.x + 7, b.y + 31, 10.5, "start", "#333333", false, inventory_bus(&p->inv->gpu[gpu].pci, bus), 0);
    draw_text(&p->t, b.x + 7, b.y + 46, 10.5, "start", "#333333", false, p->inv->gpu[gpu].name, 23);
    draw_users(p, b, is_in, 14 + 7.5 * n);
}

static void draw_nic(struct picture *p, int nic, bool *is_in)
{
    const struct inventory_nic *x = &p->inv->nic[nic];
    struct box b = p->l->nic[nic];
    struct text below = {0};
    char bus[INVENTORY_BUS_TEXT];
    for (int r = 0; r < p->s->request->n_ranks; r++)
        is_in[r] = p->s->place[r].nic == nic;
    const char *ink = x->is_active ? "#333333" : "#999999", *name = inventory_nic_name(x);
    text_printf(&below, "%s %s", inventory_bus(&x->pci, bus),
                x->is_active ? inventory_nic_kind_name(x->kind) : "no link");
    char *text = text_take(&below);
    p->t.is_lost |= !text;
    draw_box(&p->t, b, 4, x->is_active ? "#e4ecf8" : "#f7f7f7", x->is_active ? "#4a6ea8" : "#c0c0c0", "");
    draw_text(&p->t, b.x + 7, b.y + 16, 12, "start", ink, true, name, 12);
    draw_text(&p->t, b.x + 7, b.y + 31, 10.5, "start", ink, false, text ? text : "", 0);
    free(text);
    size_t n = text_columns(name);
    draw_users(p, b, is_in, 14 + 7.2 * (double)(n > 12 ? 12 : n));
}

static void draw_contents(struct picture *p)
{
    bool *is_in = calloc((size_t)p->s->request->n_ranks, sizeof *is_in);
    p->t.is_lost |= !is_in;
    for (size_t c = 0; c < p->inv->n_cores; c++)
        draw_core(p, c);
    for (size_t u = 0; u < p->l->n_units; u++) {
        if (is_outer(p->l, u))
            name_switch(p, p->l->outer_box[u]);
        if (p->l->unit[u].is_switch)
            name_switch(p, p->l->unit_box[u]);
    }
    for (size_t i = 0; is_in && i < p->inv->n_gpus; i++)
        draw_gpu(p, (int)i, is_in);
    for (size_t i = 0; is_in && i < p->inv->n_nics; i++)
        draw_nic(p, (int)i, is_in);
    free(is_in);
}

/* Head, machine and legend in turn, then the whole with the size that came of it. */
static char *compose(struct picture *p)
{
    struct text head = {0}, foot = {0}, all = {0};
    double w = p->l->w, top = legend_head(&head, p->s, &w) + 8, y = p->l->h + 16;
    y += legend_ranks(&foot, p->s, p->rows, y, &w);
    y += legend_key(&foot, p->s, p->owner, y, &w);
    draw_grounds(p);
    draw_lines(p);
    draw_contents(p);
    double width = w + 2 * MARGIN, height = top + y + 2 * MARGIN;
    text_printf(
        &all,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
        "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, 'Liberation Sans', "
        "sans-serif\">\n<title>",
        width, height, width, height);
    draw_name(&all, p->inv->origin, 0);
    text_add(&all, ": ranks, cores, GPUs and NICs</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    text_printf(&all, "<g transform=\"translate(%.0f %.0f)\">\n", MARGIN, MARGIN);
    text_move(&all, &head);
    text_printf(&all, "</g>\n<g transform=\"translate(%.0f %.0f)\">\n", MARGIN, MARGIN + top);
    text_move(&all, &p->t);
    text_move(&all, &foot);
    text_add(&all, "</g>\n</svg>\n");
    return text_take(&all);
}

char *show_svg(const struct show *s)
{
    struct picture p = {.s = s, .inv = s->inventory, .l = layout_create(s->inventory), .owner = show_owners(s)};
    p.rows = show_rows(s);
    char *text = p.l && p.owner && p.rows ? compose(&p) : NULL;
    layout_destroy(p.l);
    show_rows_destroy(p.rows);
    free(p.owner);
    return text;
}
