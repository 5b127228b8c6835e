/* guard_activity.c - once a second: how much processor time the program has taken. It costs one system call. */
#include "config.h"
#include "spank/guard_impl.h"

#include <stdio.h>
#include <time.h>

#include "runtime/base/clock.h"

/* Of the program itself, not of what it has started: where that computes for it, it is nobody's suspect. */
static enum activity_kind look(struct guard *g)
{
    clockid_t clock;
    struct timespec t;
    if (g->waits)
        return ACTIVITY_WAITS;
    if (g->has_ended || clock_getcpuclockid(g->program, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return g->activity.is;
    return activity_take(&g->activity, clock_ns(), (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec);
}

static bool has_others(const struct guard *g)
{
    return g->guards && g->f.size > 1;
}

int guard_activity_wait_ms(const struct guard *g)
{
    return has_others(g) ? deadline_left_ms(g->looked_at) : -1;
}

void guard_activity_step(struct guard *g)
{
    if (!has_others(g) || deadline_left_ns(g->looked_at) > 0)
        return;
    g->looked_at = deadline_in(ACTIVITY_S);
    enum activity_kind activity = look(g);
    struct death d = {.kind = activity == ACTIVITY_COMPUTES ? DEATH_BUSY : DEATH_NONE,
                      .how = activity == ACTIVITY_WAITS, .rank = g->seat.rank, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    guards_activity(g->guards, &d);
}
