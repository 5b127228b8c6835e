/* show_owners.c - who has which core, and which devices hang together. */
#include <stdlib.h>
#include <string.h>

#include "topology/show_impl.h"

static bool touches(const struct inventory_core *core, const struct cpus *set)
{
    for (unsigned i = 0; i < core->n_cpus; i++)
        if (cpus_has(set, core->cpu[i]))
            return true;
    return false;
}

struct show_owner *show_owners(const struct show *s)
{
    const struct inventory *inv = s->inventory;
    struct show_owner *owner = calloc(inv->n_cores, sizeof *owner);
    struct cpus step;
    if (!owner)
        return NULL;
    show_step_cpus(s, &step);
    for (size_t c = 0; c < inv->n_cores; c++) {
        owner[c].is_in_step = touches(&inv->core[c], &step);
        for (int r = 0; r < s->request->n_ranks; r++)
            if (touches(&inv->core[c], &s->place[r].cpus) && !owner[c].n++)
                owner[c].first = (int16_t)r;
    }
    return owner;
}

static bool is_same_card(const struct inventory_pci *a, const struct inventory_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* Of a unit whose devices are not beside the same place: what holds both. */
static void widen(struct show_unit *u, const struct inventory_pci *pci)
{
    if (u->numa != pci->numa)
        u->numa = -1;
    if (u->package != pci->package)
        u->package = -1;
}

static const struct inventory_pci *first_of(const struct inventory *inv, const struct show_unit *u)
{
    return u->n_gpus ? &inv->gpu[u->gpu[0]].pci : &inv->nic[u->nic[0]].pci;
}

/* The unit that the device belongs to: one whose first device has a switch in common with it (which is the same as
 * having the outermost bridge below the host bridge in common), or a new one. */
static struct show_unit *unit_of(const struct inventory *inv, struct show_unit *units, size_t *n,
                                 const struct inventory_pci *pci)
{
    for (struct show_unit *u = units; u < units + *n; u++) {
        const struct inventory_pci *other = first_of(inv, u);
        if (inventory_distance(other, pci) != DISTANCE_SAME_SWITCH)
            continue;
        u->is_switch |= !is_same_card(other, pci);
        widen(u, pci);
        return u;
    }
    struct show_unit *u = &units[(*n)++];
    *u = (struct show_unit){.package = pci->package, .numa = pci->numa};
    return u;
}

struct show_unit *show_units(const struct inventory *inv, size_t *ret_n)
{
    struct show_unit *units = calloc(inv->n_gpus + inv->n_nics + 1, sizeof *units);
    size_t n = 0;
    if (!units)
        return NULL;
    for (size_t i = 0; i < inv->n_gpus; i++) {
        struct show_unit *u = unit_of(inv, units, &n, &inv->gpu[i].pci);
        u->gpu[u->n_gpus++] = (int16_t)i;
    }
    for (size_t i = 0; i < inv->n_nics; i++) {
        struct show_unit *u = unit_of(inv, units, &n, &inv->nic[i].pci);
        u->nic[u->n_nics++] = (int16_t)i;
    }
    for (size_t i = 0; i < n; i++)
        if (units[i].numa >= 0)
            units[i].package = inv->numa[units[i].numa].package;
    *ret_n = n;
    return units;
}
