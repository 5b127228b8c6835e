#include "config.h"
#include "spank/guards/guards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guards/impl.h"

/* ---- messages ---- */

/* Programs of a node that was left out run still. */
static void start(guards_t *g, int generation, int restart)
{
    if (generation > g->generation)
        g->n_restarts = restart - 1; /* whichever this guard has missed */
    struct death d = {.kind = DEATH_GONE, .rank = g->f.rank, .at = g->f.node, .next = generation};
    if (!g->f.is_elastic || g->is_gone || generation <= g->generation) {
        round_start(g, generation);
        return;
    }
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    g->pending = generation;
    verdict_decide(g, &d, false);
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

/* Whoever does not hear this node any more tells it so. All start again, this node, too, where it is heard then. */
static void hear_below(guards_t *g, struct link *l, const struct death *d)
{
    struct death any = *d;
    l->is_deaf = g->f.is_elastic && death_is_nodes(d) && d->at == g->f.node;
    if (l->is_deaf)
        any.at = -1;
    verdict_hear(g, &any);
}

static void take_up(guards_t *g, struct link *l, int what, const struct death *d, const char *text)
{
    if (what == TOLD_FAREWELL)
        l->is_over = true; /* what comes of it: guards_is_free */
    else if (what == TOLD_DEATH)
        hear_below(g, l, d);
    else if (what == TOLD_DONE && d->next == round_of(g, what))
        l->n_done = d->how;
    else if (what == TOLD_GONE && d->next == round_of(g, what))
        l->n_gone = d->how;
    else if (what == TOLD_HERE)
        l->n_here = d->how;
    else if (what == TOLD_SAVED && d->next == round_of(g, what))
        l->n_saved = d->how;
    else if (what == TOLD_ALONE)
        round_ask(g);
    else if (what == TOLD_SUSPECT && !roll_is_after(g, l))
        guards_suspect(g, d);
    else if (what == TOLD_ACTIVITY)
        l->activity = *d;
    else if (what == TOLD_CALL)
        calls_take(g, d);
    else if (what == TOLD_ROLLED)
        l->rolled = d->how;
    else if (what == TOLD_LOST)
        loss_tell_below(g);
    else if (what == TOLD_STOP)
        round_stop(g);
    else if (what == TOLD_NODE)
        nodes_are_at(g, l, d->at, d->how);
    else if (what == TOLD_CARD)
        guards_tell_card(g, text);
}

static void take_card(guards_t *g, const char *text)
{
    snprintf(g->card, sizeof g->card, "%s", text);
    link_send_text_below(g, TOLD_CARD, text);
}

static void take_down(guards_t *g, int what, const struct death *d, const char *text)
{
    if (what == TOLD_VERDICT)
        verdict_decide(g, d, false);
    else if (what == TOLD_OVER)
        round_over(g);
    else if (what == TOLD_START)
        start(g, d->how, d->restart);
    else if (what == TOLD_LEFT)
        nodes_take_left(g, d);
    else if (what == TOLD_STOP)
        round_stop(g);
    else if (what == TOLD_LOOK)
        calls_take_look(g, d->how);
    else if (what == TOLD_ROLL)
        roll_take(g, d->how);
    else if (what == TOLD_BEAT && d->how)
        g->is_teller = d->how > 0;
    else if (what == TOLD_CARD)
        take_card(g, text);
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
    beat_hear(l, what);
    if (l == g->above)
        take_down(g, what, d, text);
    else
        take_up(g, l, what, d, text);
    return true;
}

static void step_link(guards_t *g, struct link *l)
{
    struct death d;
    char text[FRAME_BODY_MAX + 1];
    int what, rc;
    if (l->state == LINK_CONNECTS || l->state == LINK_CALLS) {
        (l->state == LINK_CONNECTS ? join_call : join_ask)(g);
        return;
    }
    while ((rc = link_next(l, &what, &d, text)) > 0)
        if (!take(g, l, what, &d, text))
            return;
    if (rc == 0)
        return;
    bool is_certain = errno == 0 || errno == ECONNRESET;
    if (l == g->trial)
        join_fail(g);
    else
        loss_take(g, l, DEATH_GONE, is_certain);
}

/* ---- for the guard ---- */

static void step_lobby(guards_t *g, lobby_t **l)
{
    if (*l && lobby_step(*l, NULL) < 0) { /* out of descriptors, and not because of strangers */
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, lobby_fd(*l), NULL);
        join_shut(g, l);
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
    g->moved_rank = -1;
    if (g->epoll >= 0 && nodes_open(g) == 0 && join_open(g) == 0)
        return g;
    for (int i = 0; i < 2; i++)
        join_shut(g, &g->lobby[i]);
    seats_close(&g->nodes.seats);
    free(g->nodes.of);
    io_close(g->epoll);
    free(g);
    return NULL;
}

int guards_fd(const guards_t *g)
{
    return g->epoll;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

int guards_wait_ms(const guards_t *g)
{
    uint64_t first = earlier(earlier(g->settle_at, g->lost_at), earlier(g->stuck_at, round_due(g)));
    first = earlier(first, g->asked_at);
    if (join_is_open(g))
        first = earlier(first, g->join_at);
    if (guards_await_nodes(g))
        first = earlier(first, g->nodes.rejoin_at);
    first = earlier(earlier(first, beat_due(g)), earlier(g->nodes.absent_at, g->nodes.free_at));
    return first ? deadline_left_ms(first) : -1;
}

void guards_step(guards_t *g)
{
    struct epoll_event e[64];
    beat_look(g);
    int n = epoll_wait(g->epoll, e, 64, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.ptr == &g->lobby[0] || e[i].data.ptr == &g->lobby[1])
            step_lobby(g, e[i].data.ptr);
        else
            step_link(g, e[i].data.ptr);
    }
    if (beat_step(g))
        loss_take_silent(g);
    if (join_is_open(g) && deadline_is_past(g->join_at))
        join_step(g);
    if (g->is_new_root)
        verdict_take_over(g);
    if (deadline_is_past(g->lost_at))
        loss_count(g);
    if (deadline_is_past(g->nodes.absent_at))
        verdict_hear_absent(g);
    if (deadline_is_past(g->asked_at))
        verdict_hear_asked(g);
    if (deadline_is_past(g->settle_at))
        verdict_settle(g);
    if (deadline_is_past(g->nodes.free_at))
        g->nodes.free_at = 0;
    if (deadline_is_past(g->nodes.rejoin_at))
        g->nodes.rejoin_at = 0;
    struct death d;
    if (round_missing(g, &d))
        verdict_hear(g, &d);
    beat_appoint(g, NULL);
    roll_look(g);
    round_look(g);
    if (deadline_is_past(g->stuck_at) && round_stuck(g, &d)) {
        verdict_decide(g, &d, true);
        round_look(g); /* no verdict is held that is another than before */
    }
}

void guards_report(guards_t *g, const struct death *d)
{
    verdict_hear(g, d);
}
