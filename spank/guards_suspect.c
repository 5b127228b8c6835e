/* guards_suspect.c - what the failure of a program may come from, although it is none itself: another one has ended
 * with code 0 while the rest went on, stands still, or computes for ever; or all have waited for each other, in another
 * collective, say, and who gives up first is not to blame. Where several have ended there is nothing to say: they may
 * all have been ready. */
#include "spank/guards.h"

#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

#define IDLE_S 8 /* a program that starts, or sleeps between two tries, is none that waits in vain */

void suspect_reset(guards_t *g)
{
    g->suspect = (struct death){.kind = DEATH_NONE};
    g->n_left = 0;
    for (struct link *l = g->below; l; l = l->next)
        l->activity = (struct death){.kind = DEATH_NONE};
    g->activity = g->told_activity = (struct death){.kind = DEATH_NONE};
    g->lull = DEATH_NONE;
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

void guards_activity(guards_t *g, const struct death *d)
{
    g->activity = *d;
    for (const struct link *l = g->below; l; l = l->next)
        add_activity(&g->activity, &l->activity);
    enum death_kind lull = lull_of(g);
    if (lull != g->lull)
        g->lull_at = clock_ns();
    g->lull = lull;
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
    if (s.kind == DEATH_NONE && g->lull != DEATH_NONE) {
        s = g->activity;
        s.kind = g->lull;
        s.rank = g->lull == DEATH_IDLE ? -1 : s.rank;
        s.how = (int)((clock_ns() - g->lull_at) / NS_PER_S + ACTIVITY_N * ACTIVITY_S);
    }
    if (s.kind == DEATH_IDLE && s.how < IDLE_S)
        return;
    bool is_other = d->kind == DEATH_ENDED && death_may_follow(d) && d->rank != s.rank;
    bool is_same = d->kind == DEATH_TOLD && d->rank == s.rank && s.kind != DEATH_BUSY; /* libddp need not know how */
    if (s.kind != DEATH_NONE && (is_other || is_same))
        death_say(&s, d->text, sizeof d->text);
}
