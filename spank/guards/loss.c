/* loss.c - connections to other guards that have gone without a farewell: whose death that is, and who is told. */
#include "spank/guards/guards.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

/* The death of a guard, or of a node's. */
static struct death loss_of(const guards_t *g, const struct link *l, enum death_kind of_node, bool is_certain)
{
    struct death d = {.kind = l->is_remote ? of_node : DEATH_GUARD, .rank = l->rank, .how = g->f.silent_s,
                      .at = l->node, .is_certain = is_certain && l->is_remote};
    int seat = g->f.is_elastic ? seats_of(&g->nodes.seats, l->node) : -1;
    if (seat >= 0)
        d.rank = seat * g->f.local_size + l->rank % g->f.local_size;
    snprintf(d.node, sizeof d.node, "%s", l->name);
    if (of_node == DEATH_SILENT) {
        d.how = beat_silent_s(g, l);
        snprintf(d.text, sizeof d.text, "%.200s", g->f.name);
    }
    return d;
}

/* Not that others have gone, but that this node does not hear them. */
static struct death deafness_of(const guards_t *g)
{
    struct death d = {.kind = DEATH_DEAF, .rank = g->f.rank, .how = g->f.silent_s, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    return d;
}

/* A leader that has lost the one above, and looks for another. Its programs would wait for who is lost, or, if it is
 * this node that is, they must not be there when others take their places. */
static void end_meanwhile(guards_t *g)
{
    struct death d = g->lost;
    round_next(g, &d);
    if (g->above || g->verdict.kind != DEATH_NONE)
        return;
    verdict_decide(g, &d, false);
    g->is_meanwhile = true;
}

void loss_count(guards_t *g)
{
    bool is_elsewhere = g->f.is_elastic && g->f.local_rank == 0;
    g->lost_at = 0;
    if (g->is_loss_void && !g->is_lost_above)
        round_ask(g); /* it will not say that it has saved */
    if (g->is_loss_void)
        return;
    if (!g->is_lost_above || (is_elsewhere && g->is_alone))
        verdict_hear(g, &g->lost);
    else if (is_elsewhere)
        end_meanwhile(g);
    else
        verdict_decide(g, &g->lost, g->is_loss_ours);
    verdict_hear_absent(g);
}

/* The connection l has gone. A leader whose above it was goes on elsewhere. */
static void drop(guards_t *g, struct link *l, enum death_kind of_node, bool is_certain)
{
    bool is_above = l == g->above, is_death = l->state == LINK_IS_IN && !l->is_over && l->is_remote;
    int node = l->node;
    nodes_drop(g, l);
    if (!is_above)
        round_take_leave(g, l);
    link_drop(g, l, of_node == DEATH_SILENT);
    if (is_above)
        g->is_dismissed = g->is_over || (g->verdict.kind != DEATH_NONE && !g->verdict.next);
    if (is_death)
        nodes_lose(g, node, is_certain);
    if (is_above && is_death && g->f.is_elastic && !g->is_ending && !g->is_over)
        join_again(g);
}

/* It may hear still, or wake later: then it knows why the others have ended, and its programs end before others have
 * their ranks. */
static void tell_lost(const guards_t *g, const struct link *l)
{
    struct death d = g->lost;
    if (g->f.is_elastic) {
        d = loss_of(g, l, DEATH_SILENT, false);
        round_next(g, &d);
    }
    if (l->state == LINK_IS_IN && !g->is_ending && !g->is_over)
        link_send(l, l == g->above ? TOLD_DEATH : TOLD_VERDICT, &d);
}

void loss_tell_below(guards_t *g)
{
    g->has_lost_below = true;
    if (g->above)
        link_send(g->above, TOLD_LOST, NULL);
}

void loss_take(guards_t *g, struct link *l, enum death_kind of_node, bool is_certain)
{
    bool is_told = g->verdict.kind != DEATH_NONE && g->verdict.next == 0;
    bool is_first = !g->lost_at || (nodes_is_spare(g, g->lost.at) && !nodes_is_spare(g, l->node));
    if (l->state == LINK_IS_IN && !l->is_over && !is_told && is_first) {
        bool is_found = beat_hears_none(g) || g->lost.kind == DEATH_DEAF; /* by the first of them, for all */
        bool is_deaf = of_node == DEATH_SILENT && !g->f.is_elastic && is_found;
        g->lost = is_deaf ? deafness_of(g) : loss_of(g, l, of_node, is_certain);
        g->is_lost_above = l == g->above;
        g->is_loss_ours = l == g->above && g->is_teller;
        g->is_loss_void = g->is_ending;
        g->lost_at = deadline_in(of_node == DEATH_SILENT ? 0 : LOST_S);
    }
    if (of_node == DEATH_SILENT && !l->is_over && !is_told)
        tell_lost(g, l);
    if (g->f.is_elastic && g->f.local_rank == 0 && !l->is_remote && l->state == LINK_IS_IN && !l->is_over && !is_told)
        g->is_broken = !g->is_ending && !g->is_over && guards_has_others(g);
    if (l->is_remote && l != g->above && l->state == LINK_IS_IN && !l->is_over)
        loss_tell_below(g);
    drop(g, l, of_node, is_certain);
}

void loss_take_silent(guards_t *g)
{
    struct link *l;
    while ((l = beat_silent(g)))
        loss_take(g, l, DEATH_SILENT, false);
}
