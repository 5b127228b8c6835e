/* guards_suspect.c - what the failure of a program may come from, although it is none itself: another one has ended
 * with code 0 while the rest went on, stands still, or computes for ever. Where several have ended there is nothing to
 * say: they may all have been ready. */
#include "spank/guards.h"

#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

void suspect_reset(guards_t *g)
{
    g->suspect = (struct death){.kind = DEATH_NONE};
    g->n_left = 0;
    for (struct link *l = g->below; l; l = l->next)
        l->activity = (struct death){.kind = DEATH_NONE};
    g->activity = g->told_activity = (struct death){.kind = DEATH_NONE};
    g->lull_at = 0;
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

void guards_activity(guards_t *g, const struct death *d)
{
    g->activity = *d;
    for (const struct link *l = g->below; l; l = l->next)
        add_activity(&g->activity, &l->activity);
    bool is_lull = g->activity.kind == DEATH_BUSY && g->activity.how == g->f.size - 1, was_lull = g->lull_at;
    if (is_lull != was_lull)
        g->lull_at = is_lull ? clock_ns() : 0;
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

void suspect_blame(const guards_t *g, struct death *d)
{
    struct death s = g->suspect;
    if (s.kind == DEATH_NONE && g->lull_at) {
        s = g->activity;
        s.how = (int)((clock_ns() - g->lull_at) / NS_PER_S + ACTIVITY_N * ACTIVITY_S);
    }
    bool is_other = d->kind == DEATH_ENDED && death_may_follow(d) && d->rank != s.rank;
    bool is_same = d->kind == DEATH_TOLD && d->rank == s.rank && s.kind != DEATH_BUSY; /* libddp need not know how */
    if (s.kind != DEATH_NONE && (is_other || is_same))
        death_say(&s, d->text, sizeof d->text);
}
