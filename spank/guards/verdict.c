/* verdict.c - which death is the one that all are told of, and when: deaths are heard on their way up to the root,
 * which waits for what else has happened before it decides. */
#include "spank/guards/guards.h"

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

/* Programs went on after the first death (srun -K0), and now nobody waits for them. */
static bool ends_after_all(const guards_t *g, const struct death *d)
{
    return d->kind == DEATH_SRUN && !g->f.ends_step && g->verdict.kind != DEATH_SRUN;
}

void verdict_decide(guards_t *g, const struct death *d, bool is_ours)
{
    bool is_last = g->verdict.kind != DEATH_NONE && g->verdict.next == 0 && !ends_after_all(g, d);
    if (is_last || (g->verdict.next && d->next && d->next <= g->verdict.next)) {
        g->told_gone = g->verdict.next && d->next == g->verdict.next ? -1 : g->told_gone; /* now it is heard */
        return;
    }
    for (struct link *l = g->below; l; l = l->next)
        l->n_gone = 0;
    g->told_gone = 0;
    g->is_meanwhile = false;
    g->verdict = *d;
    g->is_ours = is_ours;
    g->settle_at = 0;
    g->first = (struct death){.kind = DEATH_NONE};
    link_send_below(g, TOLD_VERDICT, &g->verdict);
}

/* Not a guard's, a node's or srun's, which no generation follows. */
static bool is_programs(const struct death *d)
{
    return d->kind == DEATH_ENDED || d->kind == DEATH_TOLD || d->kind == DEATH_MEMORY || d->kind == DEATH_SHORT ||
           d->kind == DEATH_STOPPED;
}

/* What programs die of does not hide a loss. Of losses the last one counts, since a node's guards are lost one by one
 * and then all; but whoever finds that a node is silent leaves it, and that node, if it wakes, sees that one go. */
static bool hides(const struct death *d, const struct death *first)
{
    return !is_programs(d) && !(d->kind == DEATH_GONE && first->kind == DEATH_SILENT);
}

/* Where another generation may follow, an exit code waits for the loss that it may come from. */
static double settle_s(const guards_t *g, const struct death *d)
{
    return (g->f.restarts || g->f.saves) && death_may_follow(d) ? LOST_S + GUARDS_SETTLE_S : GUARDS_SETTLE_S;
}

/* Whether it can change nothing any more. */
static bool is_late(const guards_t *g, const struct death *d)
{
    if (g->verdict.kind == DEATH_NONE)
        return g->lost_at && death_may_follow(d) && !nodes_is_spare(g, g->lost.at); /* from that loss, then */
    return (g->verdict.next == 0 && !ends_after_all(g, d)) || is_programs(d) || (g->f.is_elastic && death_is_nodes(d));
}

void verdict_hear(guards_t *g, const struct death *d)
{
    bool is_nodes = g->f.is_elastic && death_is_nodes(d);
    bool is_over = is_late(g, d) || (d->next && d->next <= g->generation);
    if (is_nodes) {
        nodes_lose(g, d->at, d->is_certain);
        nodes_tell_above(g); /* first: nobody waits there for the end of one that is there */
    }
    if (g->above && (!is_over || is_nodes))
        link_send(g->above, TOLD_DEATH, d);
    if (g->above || is_over || (g->is_alone && nodes_spare(g, d)))
        return;
    if (g->first.kind == DEATH_NONE || (!g->is_waiting && death_is_nearer(d, &g->first)) || hides(d, &g->first)) {
        g->first = *d;
        g->is_first_told = false;
    }
    g->first.next = g->first.of = 0;
    g->is_waiting = g->is_waiting && g->settle_at;
    if (!g->settle_at && g->is_alone && death_may_follow(d))
        roll_call(g);
    if (!g->settle_at) {
        g->died_at = clock_ns();
        g->settle_at = deadline_in(g->is_alone ? settle_s(g, d) : guards_report_s(&g->f));
    }
}

void verdict_hear_absent(guards_t *g)
{
    struct death d;
    for (int i = 0; i < g->f.n_nodes && g->is_alone; i++)
        if (nodes_absent(g, i, &d) && !g->settle_at)
            verdict_hear(g, &d);
    g->nodes.absent_at = 0;
}

void verdict_take_over(guards_t *g)
{
    struct death d = g->verdict.next ? g->verdict : g->first;
    bool is_told = g->verdict.next && !g->is_meanwhile;
    g->is_new_root = false;
    nodes_expect(g);
    g->last_next = g->is_meanwhile ? 0 : g->verdict.next;
    if (d.kind == DEATH_NONE || (g->verdict.kind != DEATH_NONE && !g->verdict.next))
        return;
    g->verdict = g->first = (struct death){.kind = DEATH_NONE};
    g->settle_at = 0;
    d.next = d.of = 0;
    verdict_hear(g, &d);
    g->is_first_told = is_told;
}

/* An exit code waits for what other guards have seen, and for a node that is late, whose silence it may come from. What
 * is heard then of other programs came after it. */
void verdict_settle(guards_t *g)
{
    bool may_follow = death_may_follow(&g->first) && !g->is_ending, is_roll = may_follow && roll_goes_on(g);
    if (!g->is_waiting && !is_roll)
        suspect_blame(g, &g->first);
    g->is_waiting = may_follow && !is_roll && beat_misses_one(g);
    if (is_roll || g->is_waiting) {
        g->settle_at = deadline_in(GUARDS_SETTLE_S);
        return;
    }
    round_decide(g, &g->first);
    verdict_decide(g, &g->first, !g->is_first_told || !g->first.next);
}

/* Nobody has asked the step to end, and nobody else was ended. Where this program has ended well, or all others have,
 * it may be at its end all the same. */
void verdict_hear_asked(guards_t *g)
{
    bool is_end = g->is_ending || g->is_asked || g->is_stopping || g->is_over || g->is_finished || guards_is_last(g);
    struct death d = g->asked;
    g->asked_at = 0;
    d.kind = DEATH_ENDED;
    if (g->is_alone && !is_end)
        verdict_hear(g, &d);
}
