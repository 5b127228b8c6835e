#include "spank/step/seats.h"

#include <stdlib.h>
#include <string.h>

int seats_open(struct seats *s, int n_nodes, int n_spares)
{
    *s = (struct seats){.node = malloc((size_t)n_nodes * sizeof *s->node)};
    if (!s->node)
        return -1;
    s->n_nodes = n_nodes;
    seats_begin(s, n_spares);
    return 0;
}

void seats_begin(struct seats *s, int n_spares)
{
    s->n = s->n_nodes - n_spares;
    s->n_spares = n_spares;
    for (int i = 0; i < s->n_nodes; i++)
        s->node[i] = i;
}

void seats_close(struct seats *s)
{
    free(s->node);
    *s = (struct seats){0};
}

/* Its place in the list; -1: it has left. */
static int find(const struct seats *s, int node)
{
    for (int i = 0; i < s->n + s->n_spares; i++)
        if (s->node[i] == node)
            return i;
    return -1;
}

static void take_out(struct seats *s, int at)
{
    int n_behind = s->n + s->n_spares - at - 1;
    memmove(s->node + at, s->node + at + 1, (size_t)n_behind * sizeof *s->node);
}

int seats_leave(struct seats *s, int node)
{
    int at = find(s, node), taker = -1;
    if (at < 0)
        return -1;
    if (at < s->n && s->n_spares > 0) {
        taker = s->node[at] = s->node[s->n];
        at = s->n;
    }
    take_out(s, at);
    if (at < s->n)
        s->n--;
    else
        s->n_spares--;
    return taker;
}

int seats_of(const struct seats *s, int node)
{
    int at = find(s, node);
    return at < s->n ? at : -1;
}
