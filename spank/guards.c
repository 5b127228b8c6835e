#include "config.h"
#include "spank/guards.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "spank/guards_impl.h"

#define LOST_S 0.2            /* from the loss of a guard to the verdict: at a step's end Slurm kills them all */

/* ---- the verdict ---- */

static void decide(guards_t *g, const struct death *d, bool is_ours)
{
    if (g->verdict.kind != DEATH_NONE && (g->verdict.next == 0 || d->next))
        return;
    g->verdict = *d;
    g->is_ours = is_ours;
    g->settle_at = 0;
    g->first = (struct death){.kind = DEATH_NONE};
    link_send_below(g, TOLD_VERDICT, &g->verdict);
}

/* Not a guard's, a node's or srun's, which no generation follows. */
static bool is_programs(const struct death *d)
{
    return d->kind == DEATH_ENDED || d->kind == DEATH_TOLD || d->kind == DEATH_MEMORY || d->kind == DEATH_STOPPED;
}

/* Where another generation may follow, an exit code waits for the loss that it may come from. */
static double settle_s(const guards_t *g, const struct death *d)
{
    return (g->f.restarts || g->f.saves) && death_may_follow(d) ? LOST_S + GUARDS_SETTLE_S : GUARDS_SETTLE_S;
}

/* Whether it can change nothing any more. */
static bool is_late(const guards_t *g, const struct death *d)
{
    if (g->verdict.kind == DEATH_NONE)
        return g->lost_at && death_may_follow(d); /* from that loss, then */
    return g->verdict.next == 0 || is_programs(d);
}

/* A death of this guard's program or of one below. */
static void hear(guards_t *g, const struct death *d)
{
    if (is_late(g, d))
        return;
    if (!g->is_alone && g->above) {
        link_send(g->above, TOLD_DEATH, d);
        return;
    }
    if (g->first.kind == DEATH_NONE || death_is_nearer(d, &g->first) || !is_programs(d))
        g->first = *d;
    if (!g->settle_at)
        g->settle_at = deadline_in(g->is_alone ? settle_s(g, d) : guards_report_s(&g->f));
}

/* The death of a guard, or of a node's. */
static struct death loss_of(const guards_t *g, const struct link *l, enum death_kind of_node)
{
    struct death d = {.kind = l->is_remote ? of_node : DEATH_GUARD, .rank = l->rank, .how = g->f.silent_s};
    snprintf(d.node, sizeof d.node, "%s", l->name);
    return d;
}

/* Whoever loses the guard above decides for itself and those below. Of many, the first tells the user; where the loss
 * is seen from another node, one there does. */
static bool is_first_below(const guards_t *g)
{
    return g->above->is_remote ? g->f.node % GUARDS_FAN == 1 : g->f.local_rank == 1 && g->f.n_nodes == 1;
}

static void count_lost(guards_t *g)
{
    g->lost_at = 0;
    if (g->is_ending && !g->is_lost_above)
        round_ask(g); /* it will not say that it has saved */
    if (g->is_ending)
        return;
    if (g->is_lost_above)
        decide(g, &g->lost, g->is_loss_ours);
    else
        hear(g, &g->lost);
}

static void lose(guards_t *g, struct link *l, enum death_kind of_node)
{
    bool is_told = g->verdict.kind != DEATH_NONE && g->verdict.next == 0;
    if (l->state == LINK_IS_IN && !l->is_over && !is_told && !g->lost_at) {
        g->lost = loss_of(g, l, of_node);
        g->is_lost_above = l == g->above;
        g->is_loss_ours = l == g->above && is_first_below(g);
        g->lost_at = deadline_in(of_node == DEATH_SILENT ? 0 : LOST_S);
    }
    link_drop(g, l);
}

/* What happened before there was a guard above is told to it now. */
static void tell_above(guards_t *g)
{
    const struct death *d = g->verdict.kind != DEATH_NONE ? &g->verdict : g->settle_at ? &g->first : NULL;
    if (d)
        link_send(g->above, TOLD_DEATH, d);
    if (d == &g->first)
        g->settle_at = 0;
    suspect_tell_above(g);
    round_tell_above(g);
}

static void take_up(guards_t *g, struct link *l, int what, const struct death *d)
{
    if (what == TOLD_FAREWELL)
        l->is_over = true; /* what comes of it: guards_is_free */
    else if (what == TOLD_DEATH)
        hear(g, d);
    else if (what == TOLD_DONE)
        l->n_done = d->how;
    else if (what == TOLD_GONE)
        l->n_gone = d->how;
    else if (what == TOLD_HERE)
        l->n_here = d->how;
    else if (what == TOLD_SAVED)
        l->n_saved = d->how;
    else if (what == TOLD_ALONE)
        round_ask(g);
    else if (what == TOLD_SUSPECT)
        guards_suspect(g, d);
    else if (what == TOLD_STOP)
        round_stop(g);
}

static void take_down(guards_t *g, int what, const struct death *d, const char *text)
{
    if (what == TOLD_VERDICT)
        decide(g, d, false);
    else if (what == TOLD_OVER)
        round_over(g);
    else if (what == TOLD_START)
        round_start(g, d->how);
    else if (what == TOLD_STOP)
        round_stop(g);
    else if (what == TOLD_CARD)
        guards_tell_card(g, text);
}

/* False: the connection has gone. */
static bool take(guards_t *g, struct link *l, int what, const struct death *d, const char *text)
{
    if (l == g->trial) {
        if (!join_succeed(g, d))
            return false;
        tell_above(g);
    } else if (l->state == LINK_ASKS) {
        l->state = LINK_IS_IN;
    }
    if (l == g->above)
        take_down(g, what, d, text);
    else
        take_up(g, l, what, d);
    return true;
}

static void step_link(guards_t *g, struct link *l)
{
    struct death d;
    char text[FRAME_BODY_MAX + 1];
    int what, rc;
    if (l->state == LINK_CONNECTS) {
        join_ask(g);
        return;
    }
    while ((rc = link_next(l, &what, &d, text)) > 0)
        if (!take(g, l, what, &d, text))
            return;
    if (rc == 0)
        return;
    if (l == g->trial)
        join_fail(g);
    else
        lose(g, l, DEATH_GONE);
}

/* ---- time ---- */

static bool is_due(uint64_t when)
{
    return when && deadline_left_ns(when) == 0;
}

static void lose_silent(guards_t *g)
{
    struct link *l;
    while ((l = beat_silent(g)))
        lose(g, l, DEATH_SILENT);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* ---- for the guard ---- */

static void step_lobby(const guards_t *g, lobby_t **l)
{
    if (*l && lobby_step(*l, NULL) < 0) { /* out of descriptors, and not because of strangers */
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, lobby_fd(*l), NULL);
        lobby_destroy(*l);
        *l = NULL;
    }
}

guards_t *guards_open(const struct guards_facts *f)
{
    guards_t *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    *g = (guards_t){.f = *f, .listen_fd = {-1, -1}, .looked_at = clock_ns(),
                    .join_at = clock_ns(), .join_until = deadline_in(f->join_s)};
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    join_open(g);
    return g;
}

int guards_fd(const guards_t *g)
{
    return g->epoll;
}

int guards_wait_ms(const guards_t *g)
{
    uint64_t first = earlier(earlier(g->settle_at, g->lost_at), earlier(g->stuck_at, round_due(g)));
    if (join_is_open(g))
        first = earlier(first, g->join_at);
    first = earlier(first, beat_due(g));
    return first ? deadline_left_ms(first) : -1;
}

void guards_step(guards_t *g)
{
    struct epoll_event e[64];
    int n = epoll_wait(g->epoll, e, 64, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.ptr == &g->lobby[0] || e[i].data.ptr == &g->lobby[1])
            step_lobby(g, e[i].data.ptr);
        else
            step_link(g, e[i].data.ptr);
    }
    if (beat_step(g))
        lose_silent(g);
    if (join_is_open(g) && is_due(g->join_at))
        join_step(g);
    if (is_due(g->lost_at))
        count_lost(g);
    if (is_due(g->settle_at)) {
        suspect_blame(g, &g->first);
        round_decide(g, &g->first);
        decide(g, &g->first, true);
    }
    round_look(g);
    if (is_due(g->stuck_at)) {
        struct death d = round_stuck(g);
        g->stuck_at = 0;
        decide(g, &d, true);
    }
}

void guards_report(guards_t *g, const struct death *d)
{
    hear(g, d);
}
