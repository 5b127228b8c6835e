/* guards_suspect.c - what the failure of a program may come from, although it is none itself: another one has ended
 * with code 0 while the rest went on, stands still, or computes for ever; or all have waited for each other, in another
 * collective, say, and who gives up first is not to blame. Where several have ended there is nothing to say: they may
 * all have been ready. */
#include "spank/guards.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

#define AFTER_S 10 /* who has waited in vain takes some time to say so, and to end */

void suspect_reset(guards_t *g)
{
    g->suspect = (struct death){.kind = DEATH_NONE};
    g->n_left = 0;
    for (struct link *l = g->below; l; l = l->next)
        l->activity = (struct death){.kind = DEATH_NONE};
    g->activity = g->told_activity = (struct death){.kind = DEATH_NONE};
    g->lull = (struct lull){.kind = DEATH_NONE};
    calls_reset(g);
}

/* False: it changes nothing, here or above. */
static bool take_in(guards_t *g, const struct death *d)
{
    if (d->kind == DEATH_HALTED) {
        g->suspect = *d;
    } else if (d->kind == DEATH_LEFT && g->n_left < 2) {
        g->n_left++;
        if (g->suspect.kind != DEATH_HALTED && g->n_left == 1)
            g->suspect = *d;
        else if (g->suspect.kind == DEATH_LEFT)
            g->suspect.kind = DEATH_NONE;
    } else if (d->kind == DEATH_NONE && g->suspect.kind == DEATH_HALTED && g->suspect.rank == d->rank) {
        g->suspect.kind = DEATH_NONE;
    } else {
        return false;
    }
    return true;
}

void guards_suspect(guards_t *g, const struct death *d)
{
    if (take_in(g, d) && g->above)
        link_send(g->above, TOLD_SUSPECT, d);
}

/* of: what is below, too, where `how` counts those that wait. Where several compute it does not matter which is
 * named. */
static void add_activity(struct death *of, const struct death *d)
{
    int n = of->how + d->how;
    if (d->kind == DEATH_BUSY)
        *of = *d;
    of->how = n;
}

static enum death_kind lull_of(const guards_t *g)
{
    const struct death *a = &g->activity;
    int n_others = g->f.size - a->how;
    return a->kind == DEATH_BUSY && n_others == 1   ? DEATH_BUSY
           : a->kind == DEATH_NONE && n_others == 0 ? DEATH_IDLE
                                                    : DEATH_NONE;
}

/* It was known after some looks. */
static int lull_s(const struct lull *l)
{
    return (int)(((l->until ? l->until : clock_ns()) - l->since) / NS_PER_S + ACTIVITY_N * ACTIVITY_S);
}

static void take_lull(guards_t *g, enum death_kind kind)
{
    struct lull *l = &g->lull;
    if (kind == l->kind && !l->until)
        return;
    if (kind == DEATH_NONE) {
        l->until = l->until ? l->until : clock_ns();
        return;
    }
    *l = (struct lull){.kind = kind, .rank = g->activity.rank, .since = clock_ns()};
    snprintf(l->node, sizeof l->node, "%s", g->activity.node);
    calls_reset(g);
}

/* They may all have waited for something else at first: each round is due when twice the time has passed. */
static void look_at_lull(guards_t *g)
{
    if (g->above || g->lull.kind != DEATH_IDLE || g->lull.until || lull_s(&g->lull) < g->calls.next_s)
        return;
    g->calls.next_s = 2 * lull_s(&g->lull);
    calls_look(g);
}

void guards_activity(guards_t *g, const struct death *d)
{
    g->activity = *d;
    for (const struct link *l = g->below; l; l = l->next)
        add_activity(&g->activity, &l->activity);
    take_lull(g, lull_of(g));
    look_at_lull(g);
    const struct death *told = &g->told_activity, *now = &g->activity;
    if (!g->above || (told->kind == now->kind && told->how == now->how && told->rank == now->rank))
        return;
    g->told_activity = g->activity;
    link_send(g->above, TOLD_ACTIVITY, &g->activity);
}

void suspect_tell_above(guards_t *g)
{
    g->told_activity = (struct death){.kind = DEATH_NONE};
    if (g->suspect.kind != DEATH_NONE)
        link_send(g->above, TOLD_SUSPECT, &g->suspect);
}

/* The lull that a failure may come from; kind DEATH_NONE: none. */
static struct death of_lull(const guards_t *g)
{
    const struct lull *l = &g->lull;
    struct death d = {.kind = l->kind, .rank = l->kind == DEATH_IDLE ? -1 : l->rank, .how = lull_s(l)};
    double past_s = l->until ? (double)(clock_ns() - l->until) / 1e9 : 0;
    bool is_long = l->kind != DEATH_IDLE || d.how >= g->f.idle_s;
    if (!is_long || past_s > (l->kind == DEATH_IDLE ? AFTER_S : 0))
        d.kind = DEATH_NONE;
    snprintf(d.node, sizeof d.node, "%s", l->node);
    snprintf(d.text, sizeof d.text, "%s", l->kind == DEATH_IDLE ? g->calls.said : "");
    return d;
}

void suspect_blame(const guards_t *g, struct death *d)
{
    struct death s = g->suspect.kind == DEATH_NONE ? of_lull(g) : g->suspect;
    bool is_other = d->kind == DEATH_ENDED && death_may_follow(d) && d->rank != s.rank;
    bool is_same = d->kind == DEATH_TOLD && d->rank == s.rank && s.kind != DEATH_BUSY; /* libddp need not know how */
    if (s.kind != DEATH_NONE && (is_other || is_same))
        death_say(&s, d->text, sizeof d->text);
}
