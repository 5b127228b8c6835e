/* units.c - which devices hang together. */
#include <stdlib.h>

#include "topology/show/impl.h"

enum { DEVICES_MAX = INVENTORY_GPUS_MAX + INVENTORY_NICS_MAX };

/* The devices of an inventory as one list, GPUs first. */
struct devices_all {
    const struct inventory *inv;
    int n;
    const struct inventory_pci *pci[DEVICES_MAX];
    int inner[DEVICES_MAX]; /* bridges down to the innermost switch that it shares with another card; 0: none */
};

static bool is_same_card(const struct inventory_pci *a, const struct inventory_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* The outermost bridge is the root, which makes no switch. */
static int common_switches(const struct inventory_pci *a, const struct inventory_pci *b)
{
    int n = inventory_common_bridges(a, b);
    return n >= 2 ? n : 0;
}

static void list_devices(struct devices_all *d)
{
    for (size_t i = 0; i < d->inv->n_gpus; i++)
        d->pci[d->n++] = &d->inv->gpu[i].pci;
    for (size_t i = 0; i < d->inv->n_nics; i++)
        d->pci[d->n++] = &d->inv->nic[i].pci;
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->n; k++) {
            int n = is_same_card(d->pci[i], d->pci[k]) ? 0 : common_switches(d->pci[i], d->pci[k]);
            d->inner[i] = n > d->inner[i] ? n : d->inner[i];
        }
}

static bool is_same_unit(const struct devices_all *d, int i, int k)
{
    if (is_same_card(d->pci[i], d->pci[k]))
        return true;
    return d->inner[i] && d->inner[i] == d->inner[k] && common_switches(d->pci[i], d->pci[k]) >= d->inner[i];
}

/* Of what is not beside the same place: what holds both. */
static void widen(struct show_unit *u, int package, int numa)
{
    if (u->numa != numa)
        u->numa = -1;
    if (u->package != package)
        u->package = -1;
}

static void start_unit(const struct devices_all *d, struct show_unit *u, int first, int outer)
{
    const struct inventory_pci *pci = d->pci[first];
    *u = (struct show_unit){.package = pci->package, .numa = pci->numa, .outer = (int16_t)outer};
}

static void add_device(const struct devices_all *d, struct show_unit *u, int first, int i)
{
    widen(u, d->pci[i]->package, d->pci[i]->numa);
    u->is_switch |= !is_same_card(d->pci[first], d->pci[i]);
    if (i < (int)d->inv->n_gpus)
        u->gpu[u->n_gpus++] = (int16_t)i;
    else
        u->nic[u->n_nics++] = (int16_t)(i - (int)d->inv->n_gpus);
}

/* The units below the outermost switch of device `first`, from *u on. Returns how many; is_done gets their devices. */
static int add_outer(const struct devices_all *d, struct show_unit *u, int first, bool *is_done)
{
    int n = 0;
    for (int i = first; i < d->n; i++) {
        if (is_done[i] || (i != first && !is_same_unit(d, first, i) && !common_switches(d->pci[first], d->pci[i])))
            continue;
        start_unit(d, &u[n], i, first);
        for (int k = i; k < d->n; k++)
            if (!is_done[k] && is_same_unit(d, i, k)) {
                add_device(d, &u[n], i, k);
                is_done[k] = true;
            }
        n++;
    }
    return n;
}

/* Units of one outer switch stand at one place. */
static void join_units(const struct inventory *inv, struct show_unit *u, int n)
{
    for (int i = 1; i < n; i++)
        widen(&u[0], u[i].package, u[i].numa);
    if (u[0].numa >= 0)
        u[0].package = inv->numa[u[0].numa].package;
    for (int i = 0; i < n; i++) {
        u[i].package = u[0].package;
        u[i].numa = u[0].numa;
        u[i].is_nested = n > 1;
    }
}

struct show_unit *show_units(const struct inventory *inv, size_t *ret_n)
{
    bool is_done[DEVICES_MAX] = {false};
    struct devices_all *d = calloc(1, sizeof *d);
    struct show_unit *units = calloc(inv->n_gpus + inv->n_nics + 1, sizeof *units);
    size_t n = 0;
    if (d && units) {
        d->inv = inv;
        list_devices(d);
        for (int i = 0; i < d->n; i++) {
            if (is_done[i])
                continue;
            int added = add_outer(d, &units[n], i, is_done);
            join_units(inv, &units[n], added);
            n += (size_t)added;
        }
        *ret_n = n;
    } else {
        free(units);
        units = NULL;
    }
    free(d);
    return units;
}
