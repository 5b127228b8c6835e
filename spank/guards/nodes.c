/* nodes.c - in a step that may go on without some of its nodes: which of them are in the tree, by what leaders
 * tell those above, and which have left, by what the root tells all. A node that is moved from one connection to
 * another is in between not there; the root waits for it a while. */
#include "spank/guards/guards.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

#define ABSENT_S 7.0 /* from being the root: all try the same nodes, in about the same order and at the same time */
#define NOT_COME_WAIT_S 15.0 /* until the ranks of nodes that have not come start elsewhere: they may look for us yet */

int nodes_open(guards_t *g)
{
    struct nodes *n = &g->nodes;
    if (!g->f.is_elastic)
        return 0;
    if (g->f.local_rank == 0)
        n->of = calloc((size_t)g->f.n_nodes, sizeof *n->of);
    n->is_changed = true;
    return (g->f.local_rank == 0 && !n->of) || seats_open(&n->seats, g->f.n_nodes, g->f.spares) < 0 ? -1 : 0;
}

static bool is_there(const guards_t *g, int node)
{
    return node == g->f.node || g->nodes.of[node].via;
}

static bool is_known(const guards_t *g, int node)
{
    return g->nodes.of && node >= 0 && node < g->f.n_nodes;
}

/* ---- the tree ---- */

void nodes_are_at(guards_t *g, const struct link *via, int node, enum node_place place)
{
    struct node *n = is_known(g, node) ? &g->nodes.of[node] : NULL;
    bool is_there_now = place == NODE_IS_THERE;
    if (!n || (!is_there_now && n->via && n->via != via)) /* it has come back by another way before */
        return;
    n->via = is_there_now ? via : NULL;
    n->has_come |= is_there_now;
    n->has_ended = place == NODE_HAS_ENDED || (n->has_ended && !is_there_now);
    if (is_there_now)
        n->is_lost = n->is_certain = n->is_overdue = false;
    g->nodes.is_changed = true;
}

void nodes_drop(guards_t *g, const struct link *via)
{
    for (int i = 0; g->nodes.of && i < g->f.n_nodes; i++)
        if (g->nodes.of[i].via == via)
            nodes_are_at(g, via, i, via->is_over ? NODE_HAS_ENDED : NODE_IS_AWAY);
}

static enum node_place place_of(const guards_t *g, int node)
{
    return is_there(g, node) ? NODE_IS_THERE : g->nodes.of[node].has_ended ? NODE_HAS_ENDED : NODE_IS_AWAY;
}

/* Of a lost node's programs. */
static void wait_for_end(guards_t *g, bool is_certain)
{
    double s = !is_certain ? GUARDS_LOST_WAIT_S : g->f.local_size > 1 ? GUARDS_ENDED_WAIT_S : 0;
    uint64_t at = deadline_in(s);
    if (s > 0 && at > g->nodes.free_at)
        g->nodes.free_at = at;
}

void nodes_lose(guards_t *g, int node, bool is_certain)
{
    if (!is_known(g, node) || is_there(g, node))
        return;
    if (!g->nodes.of[node].is_lost)
        wait_for_end(g, is_certain);
    g->nodes.of[node].is_lost = true;
    g->nodes.of[node].is_certain |= is_certain;
}

void nodes_tell_above(guards_t *g)
{
    struct nodes *n = &g->nodes;
    if (!n->of || !n->is_changed || !g->above)
        return;
    n->is_changed = false;
    for (int i = 0; i < g->f.n_nodes; i++)
        if (n->of[i].told != place_of(g, i)) {
            n->of[i].told = place_of(g, i);
            link_send(g->above, TOLD_NODE, &(struct death){.at = i, .how = n->of[i].told});
        }
}

void nodes_tell_again(guards_t *g)
{
    for (int i = 0; g->nodes.of && i < g->f.n_nodes; i++)
        g->nodes.of[i].told = NODE_IS_AWAY;
    g->nodes.is_changed = true;
}

/* ---- who has left ---- */

static void send_left(const guards_t *g, const struct link *l, int i)
{
    int node = g->nodes.left[i];
    bool is_certain = is_known(g, node) && g->nodes.of[node].is_certain;
    link_send(l, TOLD_LEFT, &(struct death){.at = node, .how = i, .is_certain = is_certain});
}

void nodes_tell_left(const guards_t *g, const struct link *l)
{
    for (int i = 0; i < g->nodes.n_left; i++)
        send_left(g, l, i);
}

static void add_left(guards_t *g, int node)
{
    struct nodes *n = &g->nodes;
    if (is_known(g, node))
        n->of[node].has_left = true;
    n->left[n->n_left++] = node;
    for (const struct link *l = g->below; l; l = l->next)
        send_left(g, l, n->n_left - 1);
}

/* The root's word. One that has just become the root begins where it knows of others. */
void nodes_take_left(guards_t *g, const struct death *d)
{
    struct nodes *n = &g->nodes;
    bool is_next = d->how >= 0 && d->how <= n->n_left && d->how < LEFT_MAX && d->at >= 0 && d->at < g->f.n_nodes;
    if (!g->f.is_elastic || !is_next)
        return;
    for (int i = d->how; n->of && i < n->n_left; i++)
        n->of[n->left[i]].has_left = n->of[n->left[i]].is_out = false;
    n->n_left = d->how;
    if (n->of && !is_there(g, d->at)) {
        n->of[d->at].is_certain |= d->is_certain;
        wait_for_end(g, n->of[d->at].is_certain); /* this one may be the root by then */
    }
    add_left(g, d->at);
}

void nodes_leave(guards_t *g, int node)
{
    if (is_known(g, node) && !g->nodes.of[node].has_left && g->nodes.n_left < LEFT_MAX)
        add_left(g, node);
}

bool nodes_have_gone(const guards_t *g)
{
    bool has = false;
    for (int i = 0; g->nodes.of && i < g->nodes.n_left; i++)
        has |= !is_there(g, g->nodes.left[i]);
    return has;
}

static int count_left(const guards_t *g)
{
    return g->f.n_nodes - g->nodes.n_left;
}

void nodes_name(const guards_t *g, int node, char ret[HOSTLIST_NAME_MAX + 1])
{
    int port[GUARDS_PORTS];
    if (g->f.find(&g->f, node, ret, port) < 0)
        snprintf(ret, HOSTLIST_NAME_MAX, "node %d", node);
}

/* ---- whether the step goes on ---- */

/* The part of the step that is here. */
struct part {
    int n_here, n; /* of so many nodes that may run */
    int n_missed;  /* of the others; not those that had left before this generation began */
    bool is_most;
};

/* More than half of the nodes that may run are here, or half and the first of them: another part of the step that
 * cannot reach this one cannot say the same. Those that have ended here count as here; before all have come, nobody
 * runs where this guard knows of nobody. is_sure: those that are late are not here. */
static struct part part_of(const guards_t *g, bool is_sure)
{
    bool has_first = false;
    struct part p = {.n_here = 0};
    for (int i = 0; i < g->f.n_nodes; i++) {
        const struct node *node = &g->nodes.of[i];
        bool is_late = is_sure && node->via && beat_is_late(g, node->via);
        bool here = place_of(g, i) != NODE_IS_AWAY && !is_late;
        if (!here && (node->is_certain || !(g->is_whole || node->has_come)))
            continue;
        has_first |= here && p.n == 0;
        p.n_here += here;
        p.n_missed += !here && !node->is_out;
        p.n++;
    }
    p.is_most = 2 * p.n_here > p.n || (2 * p.n_here == p.n && has_first);
    return p;
}

/* Not by the verdict. */
static void lose_too(guards_t *g, int node)
{
    g->nodes.of[node].is_unsaid |= !g->nodes.of[node].has_left;
    nodes_leave(g, node);
}

bool nodes_spare(guards_t *g, const struct death *d)
{
    if (!is_known(g, d->at) || !death_is_nodes(d) || d->next || seats_of(&g->nodes.seats, d->at) >= 0)
        return false;
    lose_too(g, d->at);
    return part_of(g, false).is_most;
}

/* As the one of number i that has left. */
static void say_loss(guards_t *g, int i)
{
    char who[HOSTLIST_NAME_MAX + 1];
    int n_spares = g->f.spares - (i + 1), seat = seats_of(&g->nodes.seats, g->nodes.left[i]);
    nodes_name(g, g->nodes.left[i], who);
    if (seat < 0)
        news_add(g, "warning: node %.64s, a spare, has %s: %d left", who,
                 g->nodes.of[g->nodes.left[i]].is_overdue ? "not come" : "gone", n_spares > 0 ? n_spares : 0);
    else
        news_add(g, "warning: node %.64s (rank %d) is lost, too, before restart %d of %d", who,
                 seat * g->f.local_size, g->n_restarts + 1, g->f.restarts);
    g->nodes.of[g->nodes.left[i]].is_unsaid = false;
}

void nodes_say_losses(guards_t *g)
{
    for (int i = 0; g->nodes.of && i < g->nodes.n_left; i++)
        if (g->nodes.of[g->nodes.left[i]].is_unsaid && !nodes_may_be_cut_off(g))
            say_loss(g, i);
}

bool nodes_are_few(const guards_t *g)
{
    return g->nodes.of && !part_of(g, false).is_most;
}

bool nodes_are_cut_off(const guards_t *g)
{
    struct part p = g->nodes.of ? part_of(g, false) : (struct part){.is_most = true};
    return !p.is_most && p.n_missed > 0;
}

bool nodes_may_be_cut_off(const guards_t *g)
{
    struct part p = g->nodes.of ? part_of(g, true) : (struct part){.is_most = true};
    return !p.is_most && p.n_missed > 0;
}

void nodes_say_few(guards_t *g)
{
    struct part p = part_of(g, false);
    if (p.n_missed > 0)
        news_add(g, "node %.64s is cut off, or the others are down: it reaches %d of %d nodes only, and ends; they may "
                 "go on without it", g->f.name, p.n_here, p.n);
    else
        news_add(g, "no restart from %.64s: it reaches %d of %d nodes only, and the others may be running", g->f.name,
                 p.n_here, p.n);
}

void nodes_expect(guards_t *g)
{
    g->nodes.rejoin_at = deadline_in(ABSENT_S);
}

bool nodes_are_enough(const guards_t *g)
{
    return !g->nodes.of || (count_left(g) >= g->f.min_nodes && g->nodes.n_left < LEFT_MAX);
}

bool nodes_go_on(guards_t *g)
{
    bool are_few = nodes_are_few(g);
    if (are_few)
        nodes_say_few(g);
    else if (!nodes_are_enough(g))
        news_add(g, "no restart: %d of %d nodes are left, and it takes %d (spares, min_nodes): the step ends",
                 count_left(g), g->f.n_nodes, g->f.min_nodes);
    return !are_few && nodes_are_enough(g);
}

bool nodes_move(guards_t *g, const struct death *d)
{
    bool has_spare = count_left(g) > g->f.n_nodes - g->f.spares;
    int seat = g->nodes.of ? d->rank / g->f.local_size : -1; /* the word may be another rank's */
    if (!has_spare || seat < 0 || seat >= g->nodes.seats.n || d->rank == g->moved_rank)
        return false;
    g->moved_rank = d->rank;
    g->n_in_row = 0;
    nodes_leave(g, g->nodes.seats.node[seat]);
    return true;
}

bool nodes_are_all(guards_t *g)
{
    bool are_all = true;
    for (int i = 0; g->nodes.of && i < g->f.n_nodes; i++) {
        if (is_there(g, i))
            continue;
        if (g->nodes.of[i].is_lost && g->verdict.next)
            lose_too(g, i);
        are_all &= g->nodes.of[i].has_left;
    }
    return are_all;
}

bool nodes_are_whole(guards_t *g, int n_here)
{
    int n = 0;
    bool have_come = true;
    for (int i = 0; g->nodes.of && i < g->f.n_nodes; i++) {
        n += is_there(g, i);
        have_come &= is_there(g, i) || g->nodes.of[i].has_come;
    }
    return n > 0 && n_here == n * g->f.local_size && (have_come || nodes_are_all(g));
}

bool nodes_do_without(guards_t *g, int n_here)
{
    int n = 0;
    for (int i = 0; i < g->f.n_nodes; i++)
        n += is_there(g, i);
    if (n_here != n * g->f.local_size || nodes_are_few(g))
        return false;
    for (int i = 0; i < g->f.n_nodes; i++)
        g->nodes.of[i].is_overdue = !is_there(g, i) && !g->nodes.of[i].has_come;
    g->nodes.absent_at = clock_ns();
    g->nodes.free_at = deadline_in(NOT_COME_WAIT_S);
    return true;
}

void nodes_name_missing(const guards_t *g, char ret[HOSTLIST_NAME_MAX + 1])
{
    int missing = g->f.node;
    for (const struct link *l = g->below; l; l = l->next)
        if (l->is_remote && l->n_here % g->f.local_size)
            missing = l->node;
    for (int i = 0; g->nodes.of && i < g->f.n_nodes; i++)
        if (!is_there(g, i))
            missing = i;
    nodes_name(g, missing, ret);
}

void nodes_wait(guards_t *g)
{
    bool is_due = g->nodes.of && g->is_whole && !g->is_over && (g->verdict.kind == DEATH_NONE || g->verdict.next);
    if (!is_due || nodes_are_all(g))
        g->nodes.absent_at = 0;
    else if (!g->nodes.absent_at)
        g->nodes.absent_at = deadline_in(ABSENT_S);
}

bool nodes_absent(guards_t *g, int node, struct death *ret)
{
    bool is_due = deadline_is_past(g->nodes.absent_at);
    int seat = seats_of(&g->nodes.seats, node);
    if (!is_known(g, node) || is_there(g, node) || g->nodes.of[node].has_left ||
        !(g->nodes.of[node].is_lost || is_due))
        return false;
    nodes_lose(g, node, false);
    *ret = (struct death){.kind = g->nodes.of[node].is_overdue ? DEATH_ABSENT : DEATH_GONE,
                          .rank = (seat < 0 ? node : seat) * g->f.local_size, .at = node,
                          .is_certain = g->nodes.of[node].is_certain};
    nodes_name(g, node, ret->node);
    return true;
}
