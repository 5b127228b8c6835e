/* machine.c - the machine as a drawing in plain text, and the table. */
#include <stdlib.h>

#include "topology/show/impl.h"

enum { STRIP_COLUMNS = 84 /* of a line of cores */ };

struct drawing {
    const struct show *s;
    const struct inventory *inv;
    struct show_owner *owner;
    struct show_unit *unit;
    size_t n_units;
    struct text t;
};

static char core_sign(const struct show_owner *o)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (!o->n)
        return o->is_in_step ? '.' : '-';
    return o->n > 1 ? '#' : o->first < (int)sizeof digits - 1 ? digits[o->first] : '*';
}

/* The CPUs of a package's cores that belong to no NUMA node. */
static struct cpus cpus_without_node(const struct inventory *inv, int package)
{
    struct cpus set = {{0}};
    for (size_t c = 0; c < inv->n_cores; c++)
        if (inv->core[c].numa < 0 && inv->core[c].package == package) {
            struct cpus core = inventory_core_cpus(inv, c);
            cpus_or(&set, &core);
        }
    return set;
}

/* One sign for each core that has some of these CPUs, a space between caches; a new line after STRIP_COLUMNS. */
static void add_strip(struct drawing *d, const struct cpus *cpus, const char *indent)
{
    size_t column = 0;
    int cache = -2;
    for (size_t c = 0; c < d->inv->n_cores; c++) {
        if (!inventory_core_touches(d->inv, c, cpus))
            continue;
        bool is_new = d->inv->core[c].cache != cache;
        if (column >= STRIP_COLUMNS || (column + 16 > STRIP_COLUMNS && is_new)) {
            text_add(&d->t, "\n");
            column = 0;
        }
        if (column == 0)
            text_add(&d->t, indent);
        else if (is_new)
            text_add(&d->t, " ");
        text_printf(&d->t, "%c", core_sign(&d->owner[c]));
        column += 1 + (column && is_new);
        cache = d->inv->core[c].cache;
    }
    text_add(&d->t, "\n");
}

/* The ranks for which is(place, i) holds: "<- ranks 0 and 4". */
static void add_users(struct drawing *d, bool (*is)(const struct place *p, int i), int i)
{
    int n = d->s->request->n_ranks, n_users = 0;
    bool *is_in = calloc((size_t)n, sizeof *is_in);
    for (int r = 0; is_in && r < n; r++)
        n_users += is_in[r] = is(&d->s->place[r], i);
    if (n_users) {
        text_add(&d->t, "  <- ");
        show_add_ranks(&d->t, is_in, n);
    }
    d->t.is_lost |= !is_in;
    free(is_in);
}

static bool uses_gpu(const struct place *p, int gpu)
{
    return p->gpu == gpu;
}

static bool uses_nic(const struct place *p, int nic)
{
    return p->nic == nic;
}

/* From `column` on, where the line has got to. */
static void add_gpu(struct drawing *d, int gpu, size_t column)
{
    char bus[INVENTORY_BUS_TEXT];
    text_printf(&d->t, "GPU %-5d %-13s ", gpu, inventory_bus(&d->inv->gpu[gpu].pci, bus));
    text_name(&d->t, d->inv->gpu[gpu].name, 0);
    text_pad(&d->t, column + 50);
    add_users(d, uses_gpu, gpu);
    text_trim(&d->t);
    text_add(&d->t, "\n");
}

static void add_nic(struct drawing *d, int nic, size_t column)
{
    const struct inventory_nic *x = &d->inv->nic[nic];
    const char *name = inventory_nic_name(x);
    char bus[INVENTORY_BUS_TEXT];
    text_name(&d->t, name, 0);
    text_pad(&d->t, column + 9);
    text_printf(&d->t, " %-13s %s", inventory_bus(&x->pci, bus), inventory_nic_kind_name(x->kind));
    if (x->interface[0] && name != x->interface) {
        text_add(&d->t, ", ");
        text_name(&d->t, x->interface, 0);
    }
    text_add(&d->t, x->is_active ? "" : ", no link");
    text_pad(&d->t, column + 50);
    add_users(d, uses_nic, nic);
    text_trim(&d->t);
    text_add(&d->t, "\n");
}

/* A bar for each switch above it. */
static void add_unit(struct drawing *d, const struct show_unit *u, size_t column)
{
    for (int i = 0; i < u->n_gpus + u->n_nics; i++) {
        text_pad(&d->t, column + 8);
        text_add(&d->t, u->is_nested && u->is_switch ? "||" : u->is_nested || u->is_switch ? "|" : "");
        text_pad(&d->t, column + 11);
        if (i < u->n_gpus)
            add_gpu(d, u->gpu[i], column + 11);
        else
            add_nic(d, u->nic[i - u->n_gpus], column + 11);
    }
}

static void add_units(struct drawing *d, int package, int numa, size_t column)
{
    int outer = -1;
    for (const struct show_unit *u = d->unit; u < d->unit + d->n_units; u++) {
        if (u->package != package || u->numa != numa)
            continue;
        bool is_first = u->outer != outer;
        text_pad(&d->t, is_first ? column : column + 8);
        text_add(&d->t, !is_first ? "|\n" : u->is_switch || u->is_nested ? "switch" : "");
        add_unit(d, u, column);
        outer = u->outer;
    }
}

static void add_cores(struct drawing *d, const struct cpus *cpus)
{
    text_printf(&d->t, "%zu cores  CPUs ", inventory_count_cores(d->inv, cpus));
    text_cpus_short(&d->t, cpus);
    text_add(&d->t, "\n");
    add_strip(d, cpus, "    cores      ");
}

static void add_numa(struct drawing *d, int numa)
{
    const struct inventory_numa *node = &d->inv->numa[numa];
    struct cpus cpus = inventory_numa_cpus(d->inv, (size_t)numa);
    text_printf(&d->t, "  NUMA node %d  ", node->os_index);
    if (node->memory_bytes) {
        show_add_bytes(&d->t, node->memory_bytes);
        text_add(&d->t, "  ");
    }
    add_cores(d, &cpus);
    add_units(d, node->package, numa, 4);
}

static void add_nodeless(struct drawing *d, int package)
{
    struct cpus cpus = cpus_without_node(d->inv, package);
    if (cpus_count(&cpus) == 0)
        return;
    text_add(&d->t, "  no NUMA node  ");
    add_cores(d, &cpus);
}

static void add_packages(struct drawing *d)
{
    for (int p = -1; p < (int)d->inv->n_packages; p++) {
        bool any = p >= 0;
        for (size_t n = 0; n < d->inv->n_numas; n++)
            any |= d->inv->numa[n].package == p;
        if (any)
            text_printf(&d->t, p < 0 ? "\nacross packages\n" : "\npackage %d\n", p);
        for (size_t n = 0; n < d->inv->n_numas; n++)
            if (d->inv->numa[n].package == p)
                add_numa(d, (int)n);
        if (p < 0)
            continue;
        add_nodeless(d, p);
        add_units(d, p, -1, 4);
    }
    bool any = false;
    for (size_t i = 0; i < d->n_units; i++)
        any |= d->unit[i].package < 0 && d->unit[i].numa < 0;
    if (any)
        text_add(&d->t, "\nbeside no package, or not told\n");
    add_units(d, -1, -1, 4);
}

static void add_head(struct drawing *d)
{
    text_name(&d->t, d->inv->origin, 0);
    text_add(&d->t, ": ");
    show_add_machine(&d->t, d->inv);
    text_add(&d->t, "\n");
    if (d->s->about) {
        text_name(&d->t, d->s->about, 0);
        text_add(&d->t, "\n");
    }
}

static void add_key(struct drawing *d)
{
    static const char *const meanings[] = {"# several ranks", "* a rank from 62 on", ". no rank", "- not of this step"};
    bool is_there[4] = {false};
    for (size_t c = 0; c < d->inv->n_cores; c++)
        for (int i = 0; i < 4; i++)
            is_there[i] |= core_sign(&d->owner[c]) == meanings[i][0];
    text_add(&d->t, "\ncores: a sign each, the number of its rank (10 = a)");
    for (int i = 0; i < 4; i++)
        if (is_there[i])
            text_printf(&d->t, ", %s", meanings[i]);
    text_add(&d->t, "; a space between caches\n\n");
}

char *show_text(const struct show *s)
{
    struct drawing d = {.s = s, .inv = s->inventory, .owner = show_owners(s)};
    d.unit = show_units(s->inventory, &d.n_units);
    char *table = show_table(s);
    d.t.is_lost = !d.owner || !d.unit || !table;
    if (!d.t.is_lost) {
        add_head(&d);
        add_packages(&d);
        show_add_links(&d.t, d.inv);
        add_key(&d);
        text_add(&d.t, table);
    }
    free(d.owner);
    free(d.unit);
    free(table);
    return text_take(&d.t);
}
