/* activity.c - once a second: how much processor time the program has taken. It costs one system call, and some
 * for each of its threads and of what it has started where it takes none. And where it waits, when all do. */
#include "config.h"
#include "spank/guard/impl.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "spank/guard/process.h"

/* Where only what it has started computes, it is nobody's suspect, and does not wait either. */
static enum activity_kind look(struct guard *g)
{
    uint64_t now = clock_ns(), used;
    if (g->waits) /* it counts as ended, too */
        return ACTIVITY_WAITS;
    if (g->has_ended)
        return ACTIVITY_MIXED;
    if (!process_used(g->program, &used))
        return g->activity.is;
    bool is_low = activity_is_low(&g->activity, now, used);
    return activity_take(&g->activity, now, used, is_low ? process_used_below(g->program) : ACTIVITY_UNKNOWN);
}

static bool has_others(const struct guard *g)
{
    return g->guards && g->f.size > 1;
}

int guard_activity_wait_ms(const struct guard *g)
{
    int ms = has_others(g) ? deadline_left_ms(g->looked_at) : -1, child_ms = deadline_left_ms(g->waiting.child.until);
    return g->waiting.child.pid && child_ms < ms ? child_ms : ms;
}

static void step_call(struct guard *g)
{
    char answer[ANSWER_BYTES] = {ANSWER_NONE};
    if (guards_wants_call(g->guards) && !g->waiting.is_asked && !g->has_ended && !g->waits)
        guard_waits_ask(&g->waiting, g->program);
    if (guard_waits_hear(&g->waiting, answer) || g->has_ended || g->waits)
        guards_call(g->guards, g->seat.rank, answer);
}

void guard_activity_step(struct guard *g)
{
    if (has_others(g))
        step_call(g);
    if (!has_others(g) || deadline_left_ns(g->looked_at) > 0)
        return;
    g->looked_at = deadline_in(ACTIVITY_S);
    enum activity_kind activity = look(g);
    struct death d = {.kind = activity == ACTIVITY_COMPUTES ? DEATH_BUSY : DEATH_NONE,
                      .how = activity == ACTIVITY_WAITS, .rank = g->seat.rank, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    guards_activity(g->guards, &d);
}
