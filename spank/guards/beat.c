/* beat.c - guards of different nodes say every second that they are there; who says nothing is told to the user
 * first, and is lost later. */
#include "spank/guards/guards.h"

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

#define BEAT_S 1.0
#define LATE_S 2  /* twice BEAT_S */
#define SOON_S 5  /* where silence is borne for longer a death is not to wait for it */
#define REST_S 10.0 /* from Slurm's SIGTSTP, 2 s before its SIGSTOP: a guard that runs then has not been suspended */

static bool has_remote(const guards_t *g)
{
    bool has = g->above && g->above->is_remote;
    for (const struct link *l = g->below; l && !has; l = l->next)
        has = l->is_remote;
    return has;
}

static bool is_better_teller(const struct link *l, const struct link *than)
{
    return !than || l->is_remote > than->is_remote || (l->is_remote == than->is_remote && l->rank < than->rank);
}

bool beat_appoint(guards_t *g, const struct link *asks)
{
    const struct link *first = NULL, *before = g->teller;
    if (g->above || !g->is_alone)
        return false;
    for (const struct link *l = g->below; l; l = l->next)
        if (!l->is_over && is_better_teller(l, first))
            first = l;
    if (!first || first == before)
        return false;
    g->teller = first;
    if (before)
        link_send(before, TOLD_BEAT, &(struct death){.how = -1});
    if (first != asks)
        link_send(first, TOLD_BEAT, &(struct death){.how = 1});
    return first == asks;
}

uint64_t beat_due(const guards_t *g)
{
    return has_remote(g) ? g->beat_at ? g->beat_at : clock_ns() : 0;
}

/* A guard that was stopped with its step, or had no processor, has heard nobody, and nobody is to blame. Programs that
 * were to end were stopped as well. */
void beat_look(guards_t *g)
{
    uint64_t now = clock_ns();
    if (has_remote(g) && now - g->looked_at > (uint64_t)(2.5 * BEAT_S * NS_PER_S)) {
        g->stuck_at += g->stuck_at ? now - g->looked_at : 0;
        for (struct link *l = g->below; l; l = l->next)
            l->heard = now;
        if (g->above)
            g->above->heard = now;
    }
    g->looked_at = now;
}

/* Slurm reaches the nodes of a step one after the other: some stand still while others do not yet, or not any more. */
void guards_expect_rest(guards_t *g)
{
    g->rest_until = deadline_in(REST_S);
    g->beat_at = g->woken_at = 0;
}

void guards_expect_wake(guards_t *g)
{
    g->woken_at = clock_ns();
}

void beat_hear(struct link *l, int what)
{
    if (what != TOLD_BEAT && what != TOLD_REST)
        return;
    l->rests_at = what == TOLD_REST ? clock_ns() : 0;
    l->is_deaf = false;
}

static uint64_t later(uint64_t when, double s)
{
    return when + (uint64_t)(s * NS_PER_S);
}

/* It may stand still, until Slurm has had the time to wake it, too. What it tells long after this node has been woken
 * is another suspension, which this node does not know of yet. */
static bool may_rest(const guards_t *g, const struct link *l)
{
    bool is_over = g->woken_at && l->rests_at < later(g->woken_at, REST_S) &&
                   g->looked_at > later(g->woken_at, g->f.wake_s);
    return l->rests_at && !is_over;
}

/* Whether anything is to be heard of it: not of those that have gone by themselves. */
static bool is_heard(const guards_t *g, const struct link *l)
{
    return l && l->is_remote && !l->is_over && !may_rest(g, l);
}

static bool is_silent(const guards_t *g, const struct link *l, uint64_t now, int s)
{
    return is_heard(g, l) && now > l->heard && now - l->heard > (uint64_t)s * NS_PER_S;
}

/* Of one that was to be woken: since this node was, or has heard it. */
int beat_silent_s(const guards_t *g, const struct link *l)
{
    return l->rests_at ? (int)((g->looked_at - l->heard) / NS_PER_S) : g->f.silent_s;
}

/* Of a node that only then is lost: once, until it speaks again. Of the node above one of those below it tells. */
static void note(guards_t *g, struct link *l, uint64_t now)
{
    bool is_quiet = is_silent(g, l, now, GUARDS_SAY_SILENT_S) && g->f.silent_s > GUARDS_SAY_SILENT_S;
    if (is_quiet && !l->is_quiet && (l != g->above || g->is_teller))
        news_add(g, "warning: node %.64s (rank %d) has been silent for %d s, and is given %d s", l->name,
                 l->rank, GUARDS_SAY_SILENT_S, g->f.silent_s);
    l->is_quiet = is_quiet;
}

bool beat_step(guards_t *g)
{
    uint64_t now = g->looked_at;
    if (!has_remote(g))
        return false;
    if (g->beat_at && deadline_left_ns(g->beat_at) > 0)
        return false;
    g->beat_at = deadline_in(BEAT_S);
    int what = deadline_left_ns(g->rest_until) > 0 ? TOLD_REST : TOLD_BEAT;
    link_send_below(g, what, NULL);
    if (g->above && g->above->is_remote)
        link_send(g->above, what, NULL);
    for (struct link *l = g->below; l; l = l->next)
        note(g, l, now);
    if (g->above)
        note(g, g->above, now);
    return true;
}

static void count(const guards_t *g, const struct link *l, uint64_t since, int *n, int *n_heard)
{
    if (!is_heard(g, l))
        return;
    ++*n;
    *n_heard += l->heard > since;
}

bool beat_misses_one(const guards_t *g)
{
    bool is_late = false;
    for (const struct link *l = g->below; l && !is_late; l = l->next)
        is_late = is_silent(g, l, g->looked_at, LATE_S);
    return is_late && g->f.silent_s <= SOON_S;
}

/* Those that were cut off together were last heard within a second of each other. */
static uint64_t heard_since(const guards_t *g)
{
    return g->looked_at - (uint64_t)((g->f.silent_s - 1.2 * BEAT_S) * NS_PER_S);
}

bool beat_is_late(const guards_t *g, const struct link *l)
{
    return l->is_deaf || (is_heard(g, l) && l->heard <= heard_since(g));
}

bool beat_hears_none(const guards_t *g)
{
    uint64_t since = heard_since(g);
    int n = 0, n_heard = 0;
    for (const struct link *l = g->below; l; l = l->next)
        count(g, l, since, &n, &n_heard);
    count(g, g->above, since, &n, &n_heard);
    return n > 1 && n_heard == 0;
}

/* By the time of beat_look: a guard that was stopped since then has not forgiven yet. The one above first: of a node
 * that hears nobody it is what its programs end by, before others have their ranks. */
struct link *beat_silent(guards_t *g)
{
    uint64_t now = g->looked_at;
    if (is_silent(g, g->above, now, g->f.silent_s))
        return g->above;
    for (struct link *l = g->below; l; l = l->next)
        if (is_silent(g, l, now, g->f.silent_s))
            return l;
    return NULL;
}
