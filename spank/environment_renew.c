/* environment_renew.c - what changes in a task's variables when its program is started again, or elsewhere. */
#include "spank/environment.h"

#include <stdio.h>
#include <string.h>

#include "spank/guards/guards.h"

#define TRIES 64 /* for each generation */

static bool is_among(int port, const int *ports, int n)
{
    for (int i = 0; i < n; i++)
        if (ports[i] == port)
            return true;
    return false;
}

/* A generation's MASTER_PORT: another one than the last generation's, and none where the guard of rank 0's node may
 * listen. In a small range only the first of the guard's ports is left out; in the smallest all have the same. */
static int port_of(const struct environment *e, int generation, int first)
{
    static const struct {
        int n_guards;
        bool differs;
    } wish[] = {{GUARDS_PORTS, true}, {1, true}, {1, false}};
    int guards[GUARDS_PORTS];
    guards_choose_ports(&(struct guards_ports){e->port, e->port_range, e->master_port}, first, guards);
    for (size_t w = 0; w < sizeof wish / sizeof *wish; w++) {
        int last = e->master_port, n = 0;
        for (int tries = 0; n < generation && tries < TRIES * (generation + 1); tries++) {
            int port = port_derive_other(&e->port, PORT_OF_RESTART, 0, tries, e->port_range);
            if (is_among(port, guards, wish[w].n_guards) || (wish[w].differs && port == last))
                continue;
            last = port;
            n++;
        }
        if (n == generation)
            return last;
    }
    return e->master_port;
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

void environment_renew(struct environment *e, int generation, const struct seat *s)
{
    char count[16], number[16], endpoint[sizeof e->var[0].value] = "";
    const char *old = environment_get(e, "PET_RDZV_ENDPOINT");
    bool has_port = e->is_port_derived && e->master_port;
    snprintf(count, sizeof count, "%d", s->restart);
    snprintf(number, sizeof number, "%d", has_port ? port_of(e, generation, s->first) : 0);
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
