#include "topology/cores.h"

#include <errno.h>
#include <stdlib.h>

#include "topology/inventory.h"

static struct cores *from_inventory(const struct inventory *inv)
{
    struct cores *c = calloc(1, sizeof *c);
    if (c)
        c->core = calloc(inv->n_cores, sizeof *c->core);
    if (!c || !c->core) {
        cores_destroy(c);
        return NULL;
    }
    c->n = inv->n_cores;
    for (size_t i = 0; i < c->n; i++)
        c->core[i] = inventory_core_cpus(inv, i);
    return c;
}

struct cores *cores_load(ddp_error_t *errp)
{
    struct cores *c = NULL;
    struct inventory *inv = malloc(sizeof *inv);
    if (inv && inventory_load(NULL, false, inv, errp) < 0) {
        free(inv);
        return NULL;
    }
    if (!inv || !(c = from_inventory(inv)))
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the machine's cores");
    free(inv);
    return c;
}

void cores_destroy(struct cores *c)
{
    int saved = errno;
    if (c)
        free(c->core);
    free(c);
    errno = saved;
}
