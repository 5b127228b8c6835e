#include "config.h"
#include "spank/guards/guards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guards/impl.h"

#define LOST_S 0.2            /* from the loss of a guard to the verdict: at a step's end Slurm kills them all */

/* ---- the verdict ---- */

/* Programs went on after the first death (srun -K0), and now nobody waits for them. */
static bool ends_after_all(const guards_t *g, const struct death *d)
{
    return d->kind == DEATH_SRUN && !g->f.ends_step && g->verdict.kind != DEATH_SRUN;
}

static void decide(guards_t *g, const struct death *d, bool is_ours)
{
    bool is_last = g->verdict.kind != DEATH_NONE && g->verdict.next == 0 && !ends_after_all(g, d);
    if (is_last || (g->verdict.next && d->next && d->next <= g->verdict.next)) {
        g->told_gone = g->verdict.next && d->next == g->verdict.next ? -1 : g->told_gone; /* now it is heard */
        return;
    }
    for (struct link *l = g->below; l; l = l->next)
        l->n_gone = 0;
    g->told_gone = 0;
    g->is_meanwhile = false;
    g->verdict = *d;
    g->is_ours = is_ours;
    g->settle_at = 0;
    g->first = (struct death){.kind = DEATH_NONE};
    link_send_below(g, TOLD_VERDICT, &g->verdict);
}

/* Not a guard's, a node's or srun's, which no generation follows. */
static bool is_programs(const struct death *d)
{
    return d->kind == DEATH_ENDED || d->kind == DEATH_TOLD || d->kind == DEATH_MEMORY || d->kind == DEATH_SHORT ||
           d->kind == DEATH_STOPPED;
}

/* What programs die of does not hide a loss. Of losses the last one counts, since a node's guards are lost one by one
 * and then all; but whoever finds that a node is silent leaves it, and that node, if it wakes, sees that one go. */
static bool hides(const struct death *d, const struct death *first)
{
    return !is_programs(d) && !(d->kind == DEATH_GONE && first->kind == DEATH_SILENT);
}

/* Where another generation may follow, an exit code waits for the loss that it may come from. */
static double settle_s(const guards_t *g, const struct death *d)
{
    return (g->f.restarts || g->f.saves) && death_may_follow(d) ? LOST_S + GUARDS_SETTLE_S : GUARDS_SETTLE_S;
}

/* Nothing follows from the loss of such a node. */
static bool is_spare(const guards_t *g, int node)
{
    return g->f.is_elastic && seats_of(&g->nodes.seats, node) < 0;
}

/* Whether it can change nothing any more. */
static bool is_late(const guards_t *g, const struct death *d)
{
    if (g->verdict.kind == DEATH_NONE)
        return g->lost_at && death_may_follow(d) && !is_spare(g, g->lost.at); /* from that loss, then */
    return (g->verdict.next == 0 && !ends_after_all(g, d)) || is_programs(d) || (g->f.is_elastic && death_is_nodes(d));
}

/* A death of this guard's program or of one below. */
static void hear(guards_t *g, const struct death *d)
{
    bool is_nodes = g->f.is_elastic && death_is_nodes(d);
    bool is_over = is_late(g, d) || (d->next && d->next <= g->generation);
    if (is_nodes) {
        nodes_lose(g, d->at, d->is_certain);
        nodes_tell_above(g); /* first: nobody waits there for the end of one that is there */
    }
    if (g->above && (!is_over || is_nodes))
        link_send(g->above, TOLD_DEATH, d);
    if (g->above || is_over || (g->is_alone && nodes_spare(g, d)))
        return;
    if (g->first.kind == DEATH_NONE || (!g->is_waiting && death_is_nearer(d, &g->first)) || hides(d, &g->first)) {
        g->first = *d;
        g->is_first_told = false;
    }
    g->first.next = g->first.of = 0;
    g->is_waiting = g->is_waiting && g->settle_at;
    if (!g->settle_at && g->is_alone && death_may_follow(d))
        roll_call(g);
    if (!g->settle_at) {
        g->died_at = clock_ns();
        g->settle_at = deadline_in(g->is_alone ? settle_s(g, d) : guards_report_s(&g->f));
    }
}

/* The death of a guard, or of a node's. */
static struct death loss_of(const guards_t *g, const struct link *l, enum death_kind of_node, bool is_certain)
{
    struct death d = {.kind = l->is_remote ? of_node : DEATH_GUARD, .rank = l->rank, .how = g->f.silent_s,
                      .at = l->node, .is_certain = is_certain && l->is_remote};
    int seat = g->f.is_elastic ? seats_of(&g->nodes.seats, l->node) : -1;
    if (seat >= 0)
        d.rank = seat * g->f.local_size + l->rank % g->f.local_size;
    snprintf(d.node, sizeof d.node, "%s", l->name);
    if (of_node == DEATH_SILENT) {
        d.how = beat_silent_s(g, l);
        snprintf(d.text, sizeof d.text, "%.200s", g->f.name);
    }
    return d;
}

/* Not that others have gone, but that this node does not hear them. */
static struct death deafness_of(const guards_t *g)
{
    struct death d = {.kind = DEATH_DEAF, .rank = g->f.rank, .how = g->f.silent_s, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    return d;
}

/* A leader that has lost the one above, and looks for another. Its programs would wait for who is lost, or, if it is
 * this node that is, they must not be there when others take their places. */
static void end_meanwhile(guards_t *g)
{
    struct death d = g->lost;
    round_next(g, &d);
    if (g->above || g->verdict.kind != DEATH_NONE)
        return;
    decide(g, &d, false);
    g->is_meanwhile = true;
}

/* The root, of those whose loss no connection tells, or not yet. */
static void hear_absent(guards_t *g)
{
    struct death d;
    for (int i = 0; i < g->f.n_nodes && g->is_alone; i++)
        if (nodes_absent(g, i, &d) && !g->settle_at)
            hear(g, &d);
    g->nodes.absent_at = 0;
}

static void count_lost(guards_t *g)
{
    bool is_elsewhere = g->f.is_elastic && g->f.local_rank == 0;
    g->lost_at = 0;
    if (g->is_loss_void && !g->is_lost_above)
        round_ask(g); /* it will not say that it has saved */
    if (g->is_loss_void)
        return;
    if (!g->is_lost_above || (is_elsewhere && g->is_alone))
        hear(g, &g->lost);
    else if (is_elsewhere)
        end_meanwhile(g);
    else
        decide(g, &g->lost, g->is_loss_ours);
    hear_absent(g);
}

/* The connection l has gone. A leader whose above it was goes on elsewhere. */
static void drop(guards_t *g, struct link *l, enum death_kind of_node, bool is_certain)
{
    bool is_above = l == g->above, is_death = l->state == LINK_IS_IN && !l->is_over && l->is_remote;
    int node = l->node;
    nodes_drop(g, l);
    if (!is_above)
        round_take_leave(g, l);
    link_drop(g, l, of_node == DEATH_SILENT);
    if (is_above)
        g->is_dismissed = g->is_over || (g->verdict.kind != DEATH_NONE && !g->verdict.next);
    if (is_death)
        nodes_lose(g, node, is_certain);
    if (is_above && is_death && g->f.is_elastic && !g->is_ending && !g->is_over)
        join_again(g);
}

/* It may hear still, or wake later: then it knows why the others have ended, and its programs end before others have
 * their ranks. */
static void tell_lost(const guards_t *g, const struct link *l)
{
    struct death d = g->lost;
    if (g->f.is_elastic) {
        d = loss_of(g, l, DEATH_SILENT, false);
        round_next(g, &d);
    }
    if (l->state == LINK_IS_IN && !g->is_ending && !g->is_over)
        link_send(l, l == g->above ? TOLD_DEATH : TOLD_VERDICT, &d);
}

static void lose_below(guards_t *g)
{
    g->has_lost_below = true;
    if (g->above)
        link_send(g->above, TOLD_LOST, NULL);
}

static void lose(guards_t *g, struct link *l, enum death_kind of_node, bool is_certain)
{
    bool is_told = g->verdict.kind != DEATH_NONE && g->verdict.next == 0;
    bool is_first = !g->lost_at || (is_spare(g, g->lost.at) && !is_spare(g, l->node));
    if (l->state == LINK_IS_IN && !l->is_over && !is_told && is_first) {
        bool is_found = beat_hears_none(g) || g->lost.kind == DEATH_DEAF; /* by the first of them, for all */
        bool is_deaf = of_node == DEATH_SILENT && !g->f.is_elastic && is_found;
        g->lost = is_deaf ? deafness_of(g) : loss_of(g, l, of_node, is_certain);
        g->is_lost_above = l == g->above;
        g->is_loss_ours = l == g->above && g->is_teller;
        g->is_loss_void = g->is_ending;
        g->lost_at = deadline_in(of_node == DEATH_SILENT ? 0 : LOST_S);
    }
    if (of_node == DEATH_SILENT && !l->is_over && !is_told)
        tell_lost(g, l);
    if (g->f.is_elastic && g->f.local_rank == 0 && !l->is_remote && l->state == LINK_IS_IN && !l->is_over && !is_told)
        g->is_broken = !g->is_ending && !g->is_over && guards_has_others(g);
    if (l->is_remote && l != g->above && l->state == LINK_IS_IN && !l->is_over)
        lose_below(g);
    drop(g, l, of_node, is_certain);
}

/* This is the root from now on. What was on its way up is decided here, and anew: of what the old root had said not all
 * may have heard. The user has. */
static void be_root(guards_t *g)
{
    struct death d = g->verdict.next ? g->verdict : g->first;
    bool is_told = g->verdict.next && !g->is_meanwhile;
    g->is_new_root = false;
    nodes_expect(g);
    g->last_next = g->is_meanwhile ? 0 : g->verdict.next;
    if (d.kind == DEATH_NONE || (g->verdict.kind != DEATH_NONE && !g->verdict.next))
        return;
    g->verdict = g->first = (struct death){.kind = DEATH_NONE};
    g->settle_at = 0;
    d.next = d.of = 0;
    hear(g, &d);
    g->is_first_told = is_told;
}

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
    decide(g, &d, false);
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
    hear(g, &any);
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
        lose_below(g);
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
        decide(g, d, false);
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
        lose(g, l, DEATH_GONE, is_certain);
}

/* ---- time ---- */

/* An exit code waits for what other guards have seen, and for a node that is late, whose silence it may come from. What
 * is heard then of other programs came after it. */
static void settle(guards_t *g)
{
    bool may_follow = death_may_follow(&g->first) && !g->is_ending, is_roll = may_follow && roll_goes_on(g);
    if (!g->is_waiting && !is_roll)
        suspect_blame(g, &g->first);
    g->is_waiting = may_follow && !is_roll && beat_misses_one(g);
    if (is_roll || g->is_waiting) {
        g->settle_at = deadline_in(GUARDS_SETTLE_S);
        return;
    }
    round_decide(g, &g->first);
    decide(g, &g->first, !g->is_first_told || !g->first.next);
}

/* Nobody has asked the step to end, and nobody else was ended. Where this program has ended well, or all others have,
 * it may be at its end all the same. */
static void hear_asked(guards_t *g)
{
    bool is_end = g->is_ending || g->is_asked || g->is_stopping || g->is_over || g->is_finished || guards_is_last(g);
    struct death d = g->asked;
    g->asked_at = 0;
    d.kind = DEATH_ENDED;
    if (g->is_alone && !is_end)
        hear(g, &d);
}

static void lose_silent(guards_t *g)
{
    struct link *l;
    while ((l = beat_silent(g)))
        lose(g, l, DEATH_SILENT, false);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
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
        lose_silent(g);
    if (join_is_open(g) && deadline_is_past(g->join_at))
        join_step(g);
    if (g->is_new_root)
        be_root(g);
    if (deadline_is_past(g->lost_at))
        count_lost(g);
    if (deadline_is_past(g->nodes.absent_at))
        hear_absent(g);
    if (deadline_is_past(g->asked_at))
        hear_asked(g);
    if (deadline_is_past(g->settle_at))
        settle(g);
    if (deadline_is_past(g->nodes.free_at))
        g->nodes.free_at = 0;
    if (deadline_is_past(g->nodes.rejoin_at))
        g->nodes.rejoin_at = 0;
    struct death d;
    if (round_missing(g, &d))
        hear(g, &d);
    beat_appoint(g, NULL);
    roll_look(g);
    round_look(g);
    if (deadline_is_past(g->stuck_at) && round_stuck(g, &d)) {
        decide(g, &d, true);
        round_look(g); /* no verdict is held that is another than before */
    }
}

void guards_report(guards_t *g, const struct death *d)
{
    hear(g, d);
}
