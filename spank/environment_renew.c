/* environment_renew.c - what changes in a task's variables when its program is started again, or elsewhere. */
#include "spank/environment.h"

#include <stdio.h>
#include <string.h>

/* Of the draws before the step's: guards listen at those that follow (guards_plan.c). In a small range they meet; then
 * it is not the first of these, which the guard of rank 0 has. */
static int port_of(const struct environment *e, int generation)
{
    struct port_facts f = e->port, guard = e->port;
    guard.draw++;
    int port = 0, taken = port_derive(&guard, e->port_range);
    if (taken == port_derive(&e->port, e->port_range)) /* all are the same */
        return taken;
    for (int n = 0; n < generation; n += port != taken) {
        f.draw--;
        port = port_derive(&f, e->port_range);
    }
    return port;
}

struct renewed {
    const char *name, *value;
};

/* Where they are set. */
static void renew(struct environment *e, const struct renewed *r, size_t n)
{
    for (size_t i = 0; i < e->n_vars; i++)
        for (size_t j = 0; j < n; j++)
            if (!strcmp(e->var[i].name, r[j].name))
                snprintf(e->var[i].value, sizeof e->var[i].value, "%s", r[j].value);
    environment_list(e);
}

void environment_renew(struct environment *e, int generation)
{
    char count[16], number[16], endpoint[sizeof e->var[0].value] = "";
    const char *old = environment_get(e, "PET_RDZV_ENDPOINT");
    bool has_port = e->is_port_derived && e->master_port;
    snprintf(count, sizeof count, "%d", generation);
    snprintf(number, sizeof number, "%d", has_port ? port_of(e, generation) : 0);
    if (old)
        snprintf(endpoint, sizeof endpoint, "%.*s:%s", (int)(strrchr(old, ':') - old), old, number);
    const struct renewed r[] = {{"DDP_RESTART", count},
                                {"TORCHELASTIC_RESTART_COUNT", count},
                                {"MASTER_PORT", number},
                                {"JAX_COORDINATOR_PORT", number},
                                {"PET_RDZV_ENDPOINT", endpoint}};
    renew(e, r, has_port ? sizeof r / sizeof *r : 2);
}

void environment_seat(struct environment *e, const struct seat *s)
{
    char rank[16], size[16], node[16], nodes[16], endpoint[sizeof e->var[0].value] = "";
    const char *old = environment_get(e, "PET_RDZV_ENDPOINT"), *addr = environment_get(e, "MASTER_ADDR");
    snprintf(rank, sizeof rank, "%d", s->rank);
    snprintf(size, sizeof size, "%d", s->size);
    snprintf(node, sizeof node, "%d", s->node);
    snprintf(nodes, sizeof nodes, "%d", s->n_nodes);
    if (old)
        snprintf(endpoint, sizeof endpoint, "%.*s%s", HOSTLIST_NAME_MAX - 8, addr ? s->master : old,
                 addr ? strrchr(old, ':') : "");
    const struct renewed r[] = {{"RANK", rank},           {"WORLD_SIZE", size},
                                {"NODE_RANK", node},      {"GROUP_RANK", node},
                                {"PET_NODE_RANK", node},  {"PET_NNODES", nodes},
                                {"MASTER_ADDR", s->master}, {"PET_RDZV_ENDPOINT", endpoint}};
    renew(e, r, sizeof r / sizeof *r);
}
