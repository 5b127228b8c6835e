/* suspect.c - what the failure of a program may come from, although it is none itself: another one has ended
 * with code 0 while the rest went on, stands still, or computes for ever; or all have waited for each other, in another
 * collective, say, and who gives up first is not to blame. Where several have ended there is nothing to say: they may
 * all have been ready. */
#include "spank/guards/guards.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/notice.h"
#include "spank/guards/activity.h"
#include "spank/guards/impl.h"

#define AFTER_S 10 /* who has waited in vain takes some time to say so, and to end */

void suspect_reset(guards_t *g)
{
    g->suspect = (struct death){.kind = DEATH_NONE};
    g->n_left = 0;
    g->asked = (struct death){.kind = DEATH_NONE};
    g->asked_at = 0;
    for (struct link *l = g->below; l; l = l->next)
        l->activity = (struct death){.kind = DEATH_NONE};
    g->activity = g->told_activity = (struct death){.kind = DEATH_NONE};
    memset(g->lull, 0, sizeof g->lull);
    calls_reset(g);
}

/* Of several each had the step's end, which has gone past guards (proctrack/linuxproc). */
static void count_asked(guards_t *g, const struct death *d)
{
    bool is_first = g->asked.kind == DEATH_NONE;
    if (is_first)
        g->asked = *d;
    if (is_first || g->asked.rank != d->rank)
        g->asked_at = is_first ? deadline_in(GUARDS_ALONE_S) : 0;
}

/* False: it changes nothing, here or above. */
static bool take_in(guards_t *g, const struct death *d)
{
    if (d->kind == DEATH_HALTED) {
        g->suspect = *d;
        if (death_asked_by(d->how))
            count_asked(g, d);
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

/* How many guards the step has, without those of nodes that are lost. */
static int count_guards(const guards_t *g)
{
    int n = 1;
    for (const struct link *l = g->below; l; l = l->next)
        n += l->n_here;
    return g->f.is_elastic && g->is_whole ? n : g->f.size;
}

static bool is_lull(const guards_t *g, int which)
{
    const struct death *a = &g->activity;
    int n_others = count_guards(g) - a->how;
    return which == LULL_ONE ? a->kind == DEATH_BUSY && n_others == 1 : a->kind == DEATH_NONE && n_others == 0;
}

/* It was known after some looks. */
static int lull_s(const struct lull *l)
{
    return (int)(((l->until ? l->until : clock_ns()) - l->since) / NS_PER_S + ACTIVITY_N * ACTIVITY_S);
}

static bool goes_on(const struct lull *l)
{
    return l->since && !l->until;
}

/* True: it has begun or ended. */
static bool take_lull(guards_t *g, int which)
{
    struct lull *l = &g->lull[which];
    bool is = is_lull(g, which), was = goes_on(l);
    if (is && !was) {
        *l = (struct lull){.since = clock_ns(), .rank = g->activity.rank};
        snprintf(l->node, sizeof l->node, "%s", g->activity.node);
    } else if (was && !is) {
        l->until = clock_ns();
    }
    return is != was;
}

static void take_lulls(guards_t *g)
{
    struct lull *all = &g->lull[LULL_ALL];
    take_lull(g, LULL_ONE);
    if (take_lull(g, LULL_ALL)) {
        if (goes_on(all))
            calls_begin(g);
        else
            calls_end(g);
    }
    if (!g->above && goes_on(all))
        calls_look(g, lull_s(all));
}

void guards_activity(guards_t *g, const struct death *d)
{
    g->activity = *d;
    for (const struct link *l = g->below; l; l = l->next)
        add_activity(&g->activity, &l->activity);
    take_lulls(g);
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

/* It went on when the first died, as far as what was on its way up then tells: the verdict may come seconds later
 * (roll.c). */
static bool went_on(const guards_t *g, const struct lull *l)
{
    uint64_t known_at = g->died_at + (uint64_t)(GUARDS_SETTLE_S * NS_PER_S);
    return l->since && l->since <= known_at && (!l->until || l->until >= g->died_at);
}

/* All had waited for long when the first died, or until a moment before, and not for nothing in common. */
static bool had_all_waited(const guards_t *g)
{
    const struct lull *l = &g->lull[LULL_ALL];
    double past_s = went_on(g, l) ? 0 : (double)(g->died_at - l->until) / 1e9;
    return l->since && lull_s(l) >= g->f.idle_s && past_s <= (*g->calls.said ? AFTER_S : 0);
}

/* The lull that a failure may come from; kind DEATH_NONE: none. Who gives up first computes while the others wait
 * still, but not for long. */
static struct death of_lull(const guards_t *g)
{
    const struct lull *one = &g->lull[LULL_ONE];
    struct death d = {.kind = DEATH_NONE, .rank = -1};
    if (had_all_waited(g) && !(went_on(g, one) && lull_s(one) >= AFTER_S)) {
        d.kind = DEATH_IDLE;
        d.how = lull_s(&g->lull[LULL_ALL]);
        snprintf(d.text, sizeof d.text, "%s", g->calls.said);
    } else if (went_on(g, one)) {
        d.kind = DEATH_BUSY;
        d.how = lull_s(one);
        d.rank = one->rank;
        snprintf(d.node, sizeof d.node, "%s", one->node);
    }
    return d;
}

/* `before`, and what libddp has told of what came of it. */
static void add_before(const struct death *before, struct death *d)
{
    struct death told = *d;
    const char *then = d->kind == DEATH_TOLD ? strstr(told.text, NOTICE_THEN) : NULL;
    death_say(before, d->text, sizeof d->text);
    size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s", then ? then : "");
}

void suspect_blame(const guards_t *g, struct death *d)
{
    struct death s = g->suspect.kind == DEATH_NONE ? of_lull(g) : g->suspect;
    bool is_other = d->kind == DEATH_ENDED && death_may_follow(d) && d->rank != s.rank;
    bool is_same = d->kind == DEATH_TOLD && d->rank == s.rank && s.kind != DEATH_BUSY; /* libddp need not know how */
    if (s.kind != DEATH_NONE && (is_other || is_same))
        add_before(&s, d);
}
