/* death.c - the program's end, as the other guards, and the user, hear of it. */
#include "config.h"
#include "spank/guard/impl.h"

#include <signal.h>
#include <stdio.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/clock.h"
#include "runtime/base/plain.h"
#include "spank/guard/process.h"

#define VERDICT_S 4.0 /* from the program's death to the guard's own end, where nobody answers */

void guard_say_death(const struct guard *g, const struct death *d)
{
    char how[512];
    bool is_end = (g->f.ends_step && !d->next) || d->kind == DEATH_STOPPED;
    const char *what = g->guards && guards_are_few(g->guards) ? "this part of the step" : "the step";
    process_say("ddp: %s%s%s%s", death_say(d, how, sizeof how), is_end ? ": " : "", is_end ? what : "",
                is_end ? " ends" : "");
}

bool guard_is_by_stop(const struct guard *g)
{
    int signo = g->f.stop.signal;
    bool is_common = signo == SIGTERM || signo == SIGINT || signo == SIGHUP; /* of scripts' own, too */
    bool is_known = g->is_stopped || (g->guards && guards_is_stopping(g->guards));
    bool is_by = (death_is_by(g->status, signo) && (is_known || !is_common)) || death_is_by(g->status, g->sent);
    return g->said.kind == DEATH_NONE && is_by;
}

struct death guard_make_death(const struct guard *g)
{
    struct death d = {.kind = guard_is_by_stop(g) ? DEATH_STOPPED : DEATH_ENDED, .rank = g->seat.rank, .how = g->status,
                      .at = g->f.node, .after_s = (uint32_t)((clock_ns() - g->began) / NS_PER_S)};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    if (cgroup_memory_kills("") > g->kills)
        death_take_memory(&d);
    int rank;
    const char *cause = g->door ? guard_door_cause(g->door, &rank) : NULL;
    if (cause && d.kind == DEATH_ENDED && death_may_follow(&d)) {
        d.kind = DEATH_TOLD;
        d.rank = rank;
        plain_fit(d.text, sizeof d.text, cause);
    }
    return d;
}

void guard_report(struct guard *g)
{
    struct death d = guard_make_death(g);
    g->verdict_until = deadline_in(VERDICT_S + guards_report_s(&g->f));
    if (g->guards)
        guards_report(g->guards, &d);
}

void guard_suspect(struct guard *g, enum death_kind kind, int how)
{
    struct death d = {.kind = kind, .rank = g->seat.rank, .at = g->f.node, .how = how,
                      .after_s = (uint32_t)((clock_ns() - g->began) / NS_PER_S)};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    if (g->guards)
        guards_suspect(g->guards, &d);
}
