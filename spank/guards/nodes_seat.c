/* nodes_seat.c - who has which place in a generation: nodes that have left give way, and the user is told who moved. */
#include "spank/guards/guards.h"

#include <stdlib.h>

#include "runtime/base/num.h"
#include "spank/guards/impl.h"
#include "spank/step/moves.h"

/* A node whose place another has taken; -1: nobody. */
struct change {
    int who, by;
};

/* Behind n others, of the same restart. Who has come by one of these, and goes, was never there. */
static int add_change(struct change *c, int n, int who, int by)
{
    for (int i = 0; i < n; i++)
        if (c[i].by == who) {
            c[i].by = by;
            return n;
        }
    c[n] = (struct change){who, by};
    return n + 1;
}

static void say_moves(guards_t *g, const struct change *c, int n_moves)
{
    char text[MOVES_TEXT_MAX];
    int n_nodes = g->nodes.seats.n, n = n_nodes * g->f.local_size;
    struct move *move = calloc((size_t)n_moves, sizeof *move); /* NULL: nobody is told */
    for (int i = 0; move && i < n_moves; i++) {
        nodes_name(g, c[i].who, move[i].who);
        if (c[i].by >= 0)
            nodes_name(g, c[i].by, move[i].by);
    }
    if (move)
        news_add(g, "restart %d of %d: %s: %d node%s, %d rank%s", g->n_restarts, g->f.restarts,
                 moves_text(move, (size_t)n_moves, text), n_nodes, PLURAL(n_nodes), n, PLURAL(n));
    free(move);
}

bool nodes_is_spare(const guards_t *g, int node)
{
    return g->f.is_elastic && seats_of(&g->nodes.seats, node) < 0;
}

void nodes_seat(guards_t *g)
{
    struct nodes *n = &g->nodes;
    struct change change[LEFT_MAX];
    int n_changes = 0;
    if (!g->f.is_elastic)
        return;
    seats_begin(&n->seats, g->f.spares);
    for (int i = 0; i < n->n_left; i++) {
        bool has_seat = seats_of(&n->seats, n->left[i]) >= 0;
        int taker = seats_leave(&n->seats, n->left[i]);
        if (n->of)
            n->of[n->left[i]].is_out = true;
        if (has_seat && i >= n->n_seated)
            n_changes = add_change(change, n_changes, n->left[i], taker);
    }
    n->n_seated = n->n_left;
    if (n_changes && !g->above && g->f.local_rank == 0)
        say_moves(g, change, n_changes);
}

bool guards_seat(const struct guards_facts *f, const guards_t *g, struct seat *ret)
{
    struct seats first = {0}, *s = &first;
    *ret = (struct seat){.rank = f->rank, .size = f->size, .node = f->node, .n_nodes = f->n_nodes,
                         .restart = g ? g->n_restarts : 0};
    if (!f->is_elastic)
        return true;
    if (g)
        *s = g->nodes.seats;
    else if (seats_open(s, f->n_nodes, f->spares) < 0)
        return false;
    ret->first = s->node[0];
    ret->node = seats_of(s, f->node);
    ret->n_nodes = s->n;
    ret->size = s->n * f->local_size;
    ret->rank = ret->node * f->local_size + f->local_rank;
    int port[GUARDS_PORTS], rc = f->find(f, s->node[0], ret->master, port);
    if (!g)
        seats_close(s);
    return rc == 0 && ret->node >= 0;
}
