/* guards_beat.c - guards of different nodes say every second that they are there; who says nothing is told to the user
 * first, and is lost later. */
#include "spank/guards.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

#define BEAT_S 1.0

static bool has_remote(const guards_t *g)
{
    bool has = g->above && g->above->is_remote;
    for (const struct link *l = g->below; l && !has; l = l->next)
        has = l->is_remote;
    return has;
}

uint64_t beat_due(const guards_t *g)
{
    return has_remote(g) ? g->beat_at ? g->beat_at : clock_ns() : 0;
}

/* A guard that was stopped with its step, or had no processor, has heard nobody, and nobody is to blame. */
static void forgive(guards_t *g, uint64_t now)
{
    if (now - g->looked_at > (uint64_t)(2.5 * BEAT_S * NS_PER_S)) {
        for (struct link *l = g->below; l; l = l->next)
            l->heard = now;
        if (g->above)
            g->above->heard = now;
    }
    g->looked_at = now;
}

static bool is_silent(const struct link *l, uint64_t now, int s)
{
    return l && l->is_remote && !l->is_over && now - l->heard > (uint64_t)s * NS_PER_S;
}

/* Of a node that only then is lost: once, until it speaks again. The node above is told of by those of the first node
 * below it. */
static void note(guards_t *g, struct link *l, uint64_t now)
{
    bool is_quiet = is_silent(l, now, GUARDS_SAY_SILENT_S) && g->f.silent_s > GUARDS_SAY_SILENT_S;
    if (is_quiet && !l->is_quiet && (l != g->above || g->f.node % GUARDS_FAN == 1))
        snprintf(g->news, sizeof g->news, "warning: node %.64s (rank %d) has been silent for %d s, and is given %d s",
                 l->name, l->rank, GUARDS_SAY_SILENT_S, g->f.silent_s);
    l->is_quiet = is_quiet;
}

bool beat_step(guards_t *g)
{
    uint64_t now = clock_ns();
    if (!has_remote(g))
        return false;
    forgive(g, now);
    if (g->beat_at && deadline_left_ns(g->beat_at) > 0)
        return false;
    g->beat_at = deadline_in(BEAT_S);
    link_send_below(g, TOLD_BEAT, NULL);
    if (g->above && g->above->is_remote)
        link_send(g->above, TOLD_BEAT, NULL);
    for (struct link *l = g->below; l; l = l->next)
        note(g, l, now);
    if (g->above)
        note(g, g->above, now);
    return true;
}

/* By the time of beat_step: a guard that was stopped since then has not forgiven yet. */
struct link *beat_silent(guards_t *g)
{
    uint64_t now = g->looked_at;
    for (struct link *l = g->below; l; l = l->next)
        if (is_silent(l, now, g->f.silent_s))
            return l;
    return is_silent(g->above, now, g->f.silent_s) ? g->above : NULL;
}
