/* guards_suspect.c - what the failure of a program may come from, although it is none itself: another one has ended
 * with code 0 while the rest went on, or stands still. Where several have ended there is nothing to say: they may all
 * have been ready. */
#include "spank/guards.h"

#include "spank/guards_impl.h"

void suspect_reset(guards_t *g)
{
    g->suspect = (struct death){.kind = DEATH_NONE};
    g->n_left = 0;
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

void suspect_tell_above(const guards_t *g)
{
    if (g->suspect.kind != DEATH_NONE)
        link_send(g->above, TOLD_SUSPECT, &g->suspect);
}

void suspect_blame(const guards_t *g, struct death *d)
{
    bool is_other = d->kind == DEATH_ENDED && death_may_follow(d) && d->rank != g->suspect.rank;
    bool is_same = d->kind == DEATH_TOLD && d->rank == g->suspect.rank; /* of which libddp need not know how it ended */
    if (g->suspect.kind != DEATH_NONE && (is_other || is_same))
        death_say(&g->suspect, d->text, sizeof d->text);
}
