/* srun.c - the step ends where srun has gone: nobody hears what it says, nor waits for it. Whether the step is
 * over is the root's to tell, whose place another may have taken. */
#include "spank/guard/impl.h"

#include <stdio.h>

#include "runtime/base/clock.h"

/* When the step ends for want of srun; 0: it is there. Where Slurm ends a job, the batch script and its srun go first;
 * its SIGTERM may come behind that, from when on programs save, and Slurm says how long. */
static uint64_t due(const struct guard *g)
{
    bool may_save = g->is_asked || g->is_stopped || g->end_at;
    return g->srun_gone ? g->srun_gone + (may_save ? GUARD_STOP_KILL_S : GUARD_TERM_S) * NS_PER_S : 0;
}

struct pollfd guard_srun_poll(struct guard *g, bool is_root)
{
    if (!g->has_srun && is_root) {
        g->has_srun = true;
        g->srun = *g->f.srun_port ? lifeline_open(g->f.srun_host, g->f.srun_port) : NULL;
    }
    return g->srun ? (struct pollfd){.fd = lifeline_fd(g->srun), .events = lifeline_events(g->srun)}
                   : (struct pollfd){.fd = -1};
}

int guard_srun_wait_ms(const struct guard *g)
{
    if (g->srun_gone)
        return deadline_left_ms(due(g));
    return g->srun ? lifeline_wait_ms(g->srun) : -1;
}

void guard_srun_step(struct guard *g)
{
    if (g->srun && lifeline_step(g->srun) && g->guards) /* else there is nobody to tell */
        g->srun_gone = clock_ns();
    if (g->srun && g->guards && guards_are_most(g->guards))
        lifeline_say(g->srun, g->f.token, LIFELINE_MOST);
    if (g->srun_gone && deadline_left_ns(due(g)) == 0) {
        struct death d = {.kind = DEATH_SRUN, .rank = g->f.rank};
        snprintf(d.node, sizeof d.node, "%s", g->f.name);
        g->srun_gone = 0;
        guards_report(g->guards, &d);
    }
}
