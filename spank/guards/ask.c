/* ask.c - what the guard asks of the tree, and tells it of its own program. */
#include "spank/guards/guards.h"

#include <stdio.h>
#include <sys/socket.h>

#include "spank/guards/impl.h"

#define REPORT_S 1.0          /* a death waits no longer for that */
#define REPORT_RESTARTS_S 30.0 /* ... where it need not be the end */

bool guards_is_joined(const guards_t *g)
{
    return g->above || (g->f.local_rank == 0 && !*g->f.above);
}

void guards_finish(guards_t *g, bool has_saved)
{
    g->is_finished = true;
    g->has_saved = has_saved && g->f.saves;
    join_hurry(g);
    round_look(g);
}

void guards_stop(guards_t *g, bool is_ending)
{
    g->is_ending = g->is_ending || is_ending;
    join_hurry(g);
    round_stop(g);
}

bool guards_is_stopping(const guards_t *g)
{
    return g->is_stopping;
}

bool guards_is_alone(const guards_t *g)
{
    return g->is_alone && !g->is_dismissed;
}

bool guards_has_lost(const guards_t *g)
{
    return g->is_alone && (g->f.is_elastic ? nodes_have_gone(g) : g->has_lost_below);
}

bool guards_are_few(const guards_t *g)
{
    return g->is_alone && nodes_are_few(g);
}

bool guards_are_most(const guards_t *g)
{
    return g->is_alone && g->is_whole && g->nodes.of && !nodes_are_few(g);
}

bool guards_await_nodes(const guards_t *g)
{
    bool may_be = g->nodes.rejoin_at || g->is_held;
    return may_be && (nodes_are_few(g) ? g->nodes.rejoin_at > 0 : g->is_held);
}

bool guards_tells_another(const guards_t *g)
{
    return g->is_lost_above && !g->is_loss_ours && !g->f.is_elastic;
}

bool guards_has_others(const guards_t *g)
{
    if (g->above)
        return g->f.n_nodes > 1;
    for (const struct link *l = g->below; l; l = l->next)
        if (l->is_remote && l->state == LINK_IS_IN && !l->is_over)
            return true;
    return false;
}

bool guards_is_broken(const guards_t *g)
{
    return g->is_broken;
}

bool guards_is_last(const guards_t *g)
{
    for (const struct link *l = g->below; l; l = l->next)
        if (!l->is_over)
            return false;
    return true;
}

bool guards_wants_requeue(const guards_t *g)
{
    return g->wants_requeue;
}

void guards_requeued(guards_t *g)
{
    g->wants_requeue = false;
    round_over(g);
}

void guards_gone(guards_t *g)
{
    g->is_gone = true;
    if (g->pending)
        round_start(g, g->pending);
    round_look(g);
}

int guards_generation(const guards_t *g)
{
    return g->generation;
}

int guards_missing(const guards_t *g)
{
    return g->n_missing;
}

/* Rank 0 need not be the root's. */
void guards_tell_card(guards_t *g, const char *card)
{
    snprintf(g->card, sizeof g->card, "%s", card);
    if (g->above)
        link_send_text(g->above, TOLD_CARD, card);
    else
        link_send_text_below(g, TOLD_CARD, card);
}

const char *guards_card(const guards_t *g)
{
    return g->card;
}

double guards_report_s(const struct guards_facts *f)
{
    return f->restarts || f->stop.signal ? REPORT_RESTARTS_S : REPORT_S;
}

void guards_expect_end(guards_t *g)
{
    g->is_ending = true;
    join_hurry(g);
    round_ask(g);
}

bool guards_has_failed(const guards_t *g)
{
    enum death_kind kind = g->verdict.kind;
    bool is_lost = (g->lost_at && !g->is_loss_void) || (g->settle_at && death_is_nodes(&g->first));
    bool is_last = kind != DEATH_NONE && kind != DEATH_STOPPED && kind != DEATH_SRUN && !g->verdict.next;
    return is_lost || is_last;
}

void guards_leave(guards_t *g)
{
    if (!g->above)
        return;
    link_send(g->above, TOLD_FAREWELL, NULL);
    while (recv(g->above->fd, g->above->in.bytes, sizeof g->above->in.bytes, MSG_DONTWAIT) > 0)
        ; /* unread, it would reset the connection, and the farewell with it */
    shutdown(g->above->fd, SHUT_WR);
}

const struct death *guards_verdict(const guards_t *g, bool *ret_is_ours)
{
    if (ret_is_ours)
        *ret_is_ours = g->is_ours && !g->is_held;
    return g->verdict.kind == DEATH_NONE ? NULL : &g->verdict;
}

bool guards_is_free(const guards_t *g)
{
    bool is_last = g->is_over || (g->f.restarts == 0 && !g->f.saves);
    bool is_free = g->is_finished && is_last && !g->lost_at && !g->settle_at;
    return is_free && guards_is_last(g);
}
