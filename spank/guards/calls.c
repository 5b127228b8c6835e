/* calls.c - in which calls the programs wait, when all do: the root asks down the tree, and answers come up
 * added together. Ranks that wait in different collectives wait for each other for ever. */
#include "spank/guards/guards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/guards/impl.h"

/* From one round to the next: longer than it takes until a lull's end is known. */
#define AGAIN_S 4

void calls_reset(guards_t *g)
{
    g->calls.is_asked = false;
    g->calls.is_void = true;
    g->calls.said[0] = g->calls.news[0] = g->calls.told[0] = 0;
}

void calls_begin(guards_t *g)
{
    g->calls.next_s = g->f.idle_s;
    g->calls.is_void = true;
    g->calls.said[0] = g->calls.news[0] = 0;
}

void calls_end(guards_t *g)
{
    g->calls.is_void = true;
    g->calls.news[0] = 0;
}

/* ---- questions ---- */

void calls_take_look(guards_t *g, int round)
{
    struct death d = {.how = round};
    struct calls *c = &g->calls;
    c->round = round;
    c->is_asked = true;
    c->n_wanted = g->above ? g->told_activity.how : g->activity.how;
    c->n_told = c->n_kinds = 0;
    link_send_below(g, TOLD_LOOK, &d);
}

bool guards_wants_call(const guards_t *g)
{
    return g->calls.is_asked;
}

/* ---- what is said ---- */

static bool is_call(const struct call *c)
{
    return c->answer[0] != ANSWER_OTHER;
}

static void say_kind(const struct call *c, bool is_last, char *buf, size_t size)
{
    const char *name = c->answer + 1;
    size_t used;
    if (c->n == 1)
        snprintf(buf, size, "rank %d (%s)", c->rank, c->node);
    else if (is_last)
        snprintf(buf, size, "the %d others", c->n);
    else
        snprintf(buf, size, "rank %d (%s) and %d more", c->rank, c->node, c->n - 1);
    used = strlen(buf);
    snprintf(buf + used, size - used, *name ? " in %s" : " elsewhere", name);
}

/* The fewest first: it is they, mostly, who are wrong. */
static int compare(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->rank > y->rank) - (x->rank < y->rank);
}

static bool has_call(const struct calls *c)
{
    for (int i = 0; i < c->n_kinds; i++)
        if (is_call(&c->kind[i]))
            return true;
    return false;
}

static void say(struct calls *c)
{
    size_t n = (size_t)c->n_kinds, used = 0;
    qsort(c->kind, n, sizeof *c->kind, compare);
    if (n == 1)
        snprintf(c->said, sizeof c->said, "all in %s", c->kind[0].answer + 1);
    for (size_t i = 0; n > 1 && i < n && used < sizeof c->said; i++) {
        char text[ANSWER_BYTES + HOSTLIST_NAME_MAX + 64];
        say_kind(&c->kind[i], i + 1 == n, text, sizeof text);
        used += (size_t)snprintf(c->said + used, sizeof c->said - used, "%s%s", i ? ", " : "", text);
    }
}

static bool are_different_collectives(const struct calls *c)
{
    for (int i = 0; i < c->n_kinds; i++)
        if (c->kind[i].answer[0] != ANSWER_COLLECTIVE)
            return false;
    return c->n_kinds > 1;
}

/* The user is told where a second round has found the same: ranks that waited for something else have gone on by then.
 * Messages, and files, may still come. */
static void tell_user(guards_t *g)
{
    struct calls *c = &g->calls;
    bool is_again = !strcmp(c->said, c->news);
    strcpy(c->news, c->said);
    if (!is_again || !strcmp(c->said, c->told) || *g->news)
        return;
    strcpy(c->told, c->said);
    news_add(g, "warning: all ranks wait, and not in the same collective: %s", c->said);
}

/* The root: all have answered. */
static void conclude(guards_t *g)
{
    struct calls *c = &g->calls;
    if (c->is_void || c->n_kinds > CALLS_KINDS || !has_call(c))
        return;
    say(c);
    if (are_different_collectives(c))
        tell_user(g);
    else
        c->news[0] = 0;
}

/* ---- answers ---- */

static void add(struct calls *c, const struct death *d)
{
    int i = 0;
    if (d->text[0] == ANSWER_NONE)
        return;
    while (i < c->n_kinds && i < CALLS_KINDS && strcmp(c->kind[i].answer, d->text) != 0)
        i++;
    if (i == CALLS_KINDS) {
        c->n_kinds = CALLS_KINDS + 1;
        return;
    }
    struct call *k = &c->kind[i];
    if (i == c->n_kinds) {
        *k = (struct call){.n = 0};
        snprintf(k->answer, sizeof k->answer, "%.*s", ANSWER_BYTES - 1, d->text);
        c->n_kinds++;
    }
    if (k->n == 0 || d->rank < k->rank) {
        k->rank = d->rank;
        snprintf(k->node, sizeof k->node, "%s", d->node);
    }
    k->n += d->how;
}

/* One message for each kind, and one for those of which nothing is to be said. */
static void tell(const guards_t *g)
{
    const struct calls *c = &g->calls;
    int left = c->n_told;
    for (int i = 0; i < c->n_kinds && i < CALLS_KINDS; i++) {
        const struct call *k = &c->kind[i];
        struct death d = {.how = k->n, .rank = k->rank, .next = c->round};
        snprintf(d.node, sizeof d.node, "%s", k->node);
        snprintf(d.text, sizeof d.text, "%s", k->answer);
        link_send(g->above, TOLD_CALL, &d);
        left -= k->n;
    }
    struct death rest = {.how = left, .next = c->round, .text = {ANSWER_NONE}};
    if (left > 0 && c->n_kinds <= CALLS_KINDS)
        link_send(g->above, TOLD_CALL, &rest);
}

void calls_take(guards_t *g, const struct death *d)
{
    struct calls *c = &g->calls;
    if (d->next != c->round || d->how < 1 || c->n_told >= c->n_wanted)
        return;
    add(c, d);
    c->n_told += d->how;
    if (c->n_told < c->n_wanted)
        return;
    if (g->above)
        tell(g);
    else
        conclude(g);
}

void guards_call(guards_t *g, int rank, const char *answer)
{
    struct death d = {.how = 1, .rank = rank, .next = g->calls.round};
    if (!g->calls.is_asked)
        return;
    g->calls.is_asked = false;
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    snprintf(d.text, sizeof d.text, "%s", answer);
    calls_take(g, &d);
}

/* They may all have waited for something else at first: a round is due when twice the time has passed, or sooner where
 * another one is to confirm the last. */
void calls_look(guards_t *g, int waited_s)
{
    struct calls *c = &g->calls;
    bool is_news = *c->news && strcmp(c->news, c->told) != 0;
    if (waited_s < c->next_s && !(is_news && waited_s >= c->last_s + AGAIN_S))
        return;
    c->last_s = waited_s;
    c->next_s = 2 * waited_s;
    c->is_void = false;
    c->said[0] = 0;
    calls_take_look(g, c->round + 1);
}
