/* environment_renew.c - what changes in a task's variables when its program is started again, or elsewhere. */
#include "spank/environment.h"

#include <stdio.h>
#include <string.h>

#include "spank/guards.h"

#define TRIES 64 /* for each generation */

/* It is one of the first n ports at which a guard of that node may listen (guards_plan.c). */
static bool is_guards(const struct environment *e, int node, int n, int port)
{
    struct port_facts f = e->port;
    f.draw += (uint32_t)node * GUARDS_PORTS;
    for (int i = 0; i < n; i++) {
        f.draw++;
        if (port_derive(&f, e->port_range) == port)
            return true;
    }
    return false;
}

/* Of the draws before the step's: guards listen at those that follow. In a small range they meet; then it is none of
 * those of rank 0's node, or where there is no other, not the first of them. */
static int port_of(const struct environment *e, int generation, int first)
{
    int port = 0;
    for (int n_guards = GUARDS_PORTS; n_guards > 0; n_guards = n_guards > 1 ? 1 : 0) {
        struct port_facts f = e->port;
        int n = 0;
        for (int tries = TRIES * (generation + 1); n < generation && tries > 0; tries--) {
            f.draw--;
            port = port_derive(&f, e->port_range);
            n += !is_guards(e, first, n_guards, port);
        }
        if (n == generation)
            return port;
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

void environment_renew(struct environment *e, int generation, int first)
{
    char count[16], number[16], endpoint[sizeof e->var[0].value] = "";
    const char *old = environment_get(e, "PET_RDZV_ENDPOINT");
    bool has_port = e->is_port_derived && e->master_port;
    snprintf(count, sizeof count, "%d", generation);
    snprintf(number, sizeof number, "%d", has_port ? port_of(e, generation, first) : 0);
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
