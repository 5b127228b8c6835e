/* round.c - generations: when all programs are over, or gone, and another one may begin. Counts go up to the
 * root, what it decides comes down; since messages of a connection keep their order, none of a generation arrives in
 * the next. */
#include "spank/guards/guards.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

static bool is_root(const guards_t *g)
{
    return *g->f.token && g->f.local_rank == 0 && !*g->f.above;
}

static void reset(guards_t *g)
{
    g->first = g->verdict = (struct death){.kind = DEATH_NONE};
    suspect_reset(g);
    g->settle_at = g->stuck_at = 0; /* not lost_at: who has gone since has */
    g->pending = g->last_next = 0;
    g->is_finished = g->is_gone = g->is_ours = g->has_saved = false;
    g->told_done = g->told_gone = g->told_saved = 0;
    g->card[0] = 0;
    for (struct link *l = g->below; l; l = l->next)
        l->n_done = l->n_gone = l->n_saved = 0;
}

/* Another than that of a verdict that is void. */
static int next_of(const guards_t *g)
{
    return (g->last_next > g->generation ? g->last_next : g->generation) + 1;
}

void round_next(const guards_t *g, struct death *d)
{
    d->next = next_of(g);
    d->restart = g->n_restarts + 1;
    d->of = g->f.restarts;
}

void round_start(guards_t *g, int generation)
{
    if (generation <= g->generation)
        return;
    reset(g);
    g->generation = generation;
    g->n_restarts++;
    nodes_seat(g);
    link_send_below(g, TOLD_START, &(struct death){.how = generation, .restart = g->n_restarts});
}

void round_over(guards_t *g)
{
    if (g->is_over)
        return;
    g->is_over = true;
    if (g->verdict.next) { /* programs were asked to end while they were about to be started again */
        g->verdict.next = g->verdict.of = 0;
        g->is_ours = false; /* that needs no second line */
    }
    g->stuck_at = 0;
    link_send_below(g, TOLD_OVER, NULL);
}

static bool has_rounds(const guards_t *g)
{
    return g->f.restarts > 0 || g->f.saves;
}

void round_stop(guards_t *g)
{
    if (g->is_stopping)
        return;
    g->is_stopping = true;
    if (g->above)
        link_send(g->above, TOLD_STOP, NULL);
    link_send_below(g, TOLD_STOP, NULL);
}

void round_ask(guards_t *g)
{
    g->is_asked = true;
    if (g->above)
        link_send(g->above, TOLD_ALONE, NULL);
    else if (g->is_alone)
        round_over(g);
}

int round_of(const guards_t *g, int what)
{
    return what == TOLD_HERE ? 0 : what == TOLD_GONE ? g->verdict.next : g->generation;
}

static int told_by(const struct link *l, int what)
{
    return what == TOLD_HERE ? l->n_here : what == TOLD_DONE ? l->n_done : what == TOLD_GONE ? l->n_gone : l->n_saved;
}

/* Of the subtree's guards. */
static int sum(const guards_t *g, int what, bool is_own)
{
    int n = is_own + (what == TOLD_HERE ? g->n_farewells : 0);
    for (const struct link *l = g->below; l; l = l->next)
        n += told_by(l, what);
    return n;
}

/* The same, told above where it has changed. */
static int count(guards_t *g, int what, bool is_own, int *told)
{
    int n = sum(g, what, is_own);
    if (n != *told && g->above) {
        *told = n;
        link_send(g->above, what, &(struct death){.how = n, .next = round_of(g, what)});
    }
    return n;
}

static bool is_at_end(const guards_t *g)
{
    return g->is_over || g->settle_at || (g->verdict.kind != DEATH_NONE && !g->verdict.next);
}

uint64_t round_due(const guards_t *g)
{
    bool is_counting = has_rounds(g) || g->f.is_whole;
    return is_counting && is_root(g) && !is_at_end(g) && !g->is_whole ? g->join_until : 0;
}

/* Who has not joined until then never will. */
static bool is_late(const guards_t *g)
{
    return !g->is_whole && !is_at_end(g) && deadline_left_ns(g->join_until) == 0;
}

/* Nobody waits for them. */
static void look_for_missing(guards_t *g, int n_here)
{
    g->is_whole = g->is_whole || n_here == g->f.size || nodes_are_whole(g, n_here);
    if (!is_late(g) || g->f.is_elastic)
        return;
    g->n_missing = g->f.size - n_here;
    if (has_rounds(g))
        round_over(g);
    else
        g->is_whole = true; /* as whole as it gets */
}

/* Without generations each leaves when its program has ended, and has been there all the same. */
void round_take_leave(guards_t *g, const struct link *l)
{
    if (!has_rounds(g) && l->is_over)
        g->n_farewells += l->n_here;
}

/* Guards that have not joined; where all nodes have as many, it is known of which. */
static struct death missing(const guards_t *g)
{
    struct death d = {.kind = DEATH_MISSING, .rank = g->f.rank, .how = g->f.size - sum(g, TOLD_HERE, true)};
    if (g->f.is_elastic)
        nodes_name_missing(g, d.node);
    return d;
}

/* Some have not come, and are not waited for any more; they may run all the same, and count from now on. False: the
 * step does not go on without them. */
static bool do_without(guards_t *g)
{
    g->is_whole = true;
    return g->f.is_elastic && nodes_do_without(g, sum(g, TOLD_HERE, true));
}

bool round_missing(guards_t *g, struct death *ret)
{
    int n_here = sum(g, TOLD_HERE, true);
    if (!g->f.is_elastic || !is_root(g) || !is_late(g) || n_here == g->f.size || nodes_are_whole(g, n_here))
        return false;
    if (do_without(g))
        return false;
    *ret = missing(g);
    return true;
}

/* What n guards have told, all have, of `here`. */
static bool is_all(guards_t *g, int here, int n)
{
    return g->f.is_elastic && g->is_whole ? n == here && nodes_are_all(g) : n == g->f.size;
}

/* A loss may be this root's own. True: all else waits until that is known, and told. */
static bool hold(guards_t *g)
{
    bool is_nodes = g->f.is_elastic && death_is_nodes(&g->verdict), was_held = g->is_held;
    g->is_held = g->is_ours && is_nodes && nodes_may_be_cut_off(g);
    bool is_cut_off = (was_held || g->is_held) && nodes_are_cut_off(g);
    if (g->is_held && is_cut_off && !g->verdict.next && !g->nodes.rejoin_at) {
        nodes_say_few(g);
        g->is_ours = g->is_held = false;
    }
    return (was_held || g->is_held) && !is_cut_off;
}

/* The verdict said that another generation follows, but it cannot. One that is cut off ends no step. */
static void give_up(guards_t *g)
{
    g->verdict.next = g->verdict.of = 0;
    g->stuck_at = 0;
    g->is_ours = !nodes_are_cut_off(g);
    g->is_held = false;
    link_send_below(g, TOLD_VERDICT, &g->verdict);
}

/* All have gone, as far as they are here. */
static void go_on(guards_t *g)
{
    if (!nodes_go_on(g))
        give_up(g);
    else if (!g->nodes.free_at && !g->settle_at)
        round_start(g, g->verdict.next);
}

static void want_requeue(guards_t *g)
{
    g->stuck_at = 0;
    if (!g->f.requeues)
        round_over(g);
    else if (!g->is_over)
        g->wants_requeue = true;
}

/* All have gone, and a stop was asked for: who would be started now had no time to catch it. */
static void stop_instead(guards_t *g)
{
    if (g->verdict.kind != DEATH_STOPPED && !g->wants_requeue && !g->is_over)
        news_add(g, "no restart: a stop was asked for before it");
    want_requeue(g);
}

void round_look(guards_t *g)
{
    int here = count(g, TOLD_HERE, true, &g->told_here);
    if (!has_rounds(g)) {
        if (is_root(g) && g->f.is_whole)
            look_for_missing(g, here);
        return;
    }
    if (g->is_alone && !is_root(g)) /* nobody would tell of a next generation */
        round_over(g);
    int saved = count(g, TOLD_SAVED, g->has_saved, &g->told_saved);
    int done = count(g, TOLD_DONE, g->is_finished, &g->told_done); /* behind those that have saved */
    int gone = count(g, TOLD_GONE, g->is_gone, &g->told_gone);
    nodes_tell_above(g);
    if (!is_root(g))
        return;
    look_for_missing(g, here);
    nodes_wait(g);
    bool is_held = hold(g);
    nodes_say_losses(g);
    bool has_stopped = g->verdict.kind == DEATH_STOPPED || (g->is_stopping && !is_held && !nodes_are_few(g));
    if (is_all(g, here, saved) && g->verdict.kind == DEATH_NONE)
        want_requeue(g);
    else if (g->verdict.next && is_all(g, here, gone) && has_stopped)
        stop_instead(g);
    else if (is_all(g, here, done) && !(g->f.is_elastic && g->verdict.next)) /* else one that had not has left */
        round_over(g);
    else if (g->verdict.next && is_all(g, here, gone) && !is_held)
        go_on(g);
}

void round_tell_above(guards_t *g)
{
    g->told_here = g->told_done = g->told_gone = g->told_saved = 0;
    nodes_tell_again(g);
    if (*g->card && g->verdict.kind == DEATH_NONE) /* else it may be of a generation that is over above */
        link_send_text(g->above, TOLD_CARD, g->card);
    if (g->is_asked)
        link_send(g->above, TOLD_ALONE, NULL);
    if (g->is_stopping)
        link_send(g->above, TOLD_STOP, NULL);
}

/* The same rank again and again, soon after its start: it will not get better. */
static bool is_loop(guards_t *g, const struct death *d)
{
    bool is_soon = d->after_s < GUARDS_LOOP_S;
    g->n_in_row = !is_soon ? 0 : d->rank == g->last_rank ? g->n_in_row + 1 : 1;
    g->last_rank = d->rank;
    return g->n_in_row >= GUARDS_LOOP_N;
}

void round_decide(guards_t *g, struct death *d)
{
    bool may = is_root(g) && !g->is_over;
    if (may && d->kind == DEATH_STOPPED && g->f.saves) {
        d->next = next_of(g);
        g->stuck_at = deadline_in(g->f.stuck_s);
        return;
    }
    bool is_nodes = g->f.is_elastic && death_is_nodes(d);
    bool is_programs = d->kind == DEATH_ENDED || d->kind == DEATH_TOLD || d->kind == DEATH_SHORT;
    may = may && !g->is_ending && !g->is_stopping && (is_programs || is_nodes);
    if (!may || g->n_restarts >= g->f.restarts)
        return;
    if (is_nodes)
        nodes_leave(g, d->at);
    else if (is_loop(g, d) && !nodes_move(g, d)) {
        d->of = GUARDS_LOOP_N;
        return;
    }
    round_next(g, d);
    if (is_nodes && !nodes_are_enough(g))
        d->of = 0; /* round_look says it, or that they are few */
    g->stuck_at = deadline_in(g->f.stuck_s);
}

static struct death stuck(const guards_t *g)
{
    struct death d = {.kind = DEATH_STUCK, .rank = g->f.rank};
    const char *node = g->f.name;
    for (const struct link *l = g->below; l && g->is_gone; l = l->next)
        if (l->n_gone < l->n_here) {
            d.rank = l->rank;
            node = l->name;
        }
    snprintf(d.node, sizeof d.node, "%s", node);
    return d;
}

bool round_stuck(guards_t *g, struct death *ret)
{
    bool was_whole = g->is_whole;
    g->stuck_at = 0;
    if (!was_whole && do_without(g))
        g->stuck_at = deadline_in(g->f.stuck_s);
    else
        *ret = was_whole ? stuck(g) : missing(g);
    return !g->stuck_at;
}
