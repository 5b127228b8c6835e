/* owners.c - who has which core. */
#include <stdlib.h>

#include "topology/show/impl.h"

/* CPUs that the step may use. */
static struct cpus step_cpus(const struct show *s)
{
    struct cpus all = {{0}};
    for (int r = 0; r < s->request->n_ranks; r++)
        cpus_or(&all, &s->request->rank[r].mask);
    return all;
}

struct show_owner *show_owners(const struct show *s)
{
    const struct inventory *inv = s->inventory;
    struct show_owner *owner = calloc(inv->n_cores, sizeof *owner);
    struct cpus step = step_cpus(s);
    if (!owner)
        return NULL;
    for (size_t c = 0; c < inv->n_cores; c++) {
        owner[c].is_in_step = inventory_core_touches(inv, c, &step);
        for (int r = 0; r < s->request->n_ranks; r++)
            if (inventory_core_touches(inv, c, &s->place[r].cpus) && !owner[c].n++)
                owner[c].first = (int16_t)r;
    }
    return owner;
}
