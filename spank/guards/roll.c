/* roll.c - the roll call before a verdict that may follow from another death, which is on its way up, or not
 * seen yet: each guard looks after its program, says what has become of it, and then answers. */
#include "spank/guards/guards.h"

#include "runtime/base/clock.h"
#include "spank/guards/impl.h"

#define ROLL_S 2.0 /* a dead process lets go of its sockets first, of its GPU, say, later */

/* The end of one that is not there any more is told by its connection, at lost_at. */
static bool is_answered(const guards_t *g)
{
    for (const struct link *l = g->below; l; l = l->next)
        if (l->state == LINK_IS_IN && !l->is_over && l->rolled != g->roll.number)
            return false;
    return !g->roll.is_called && !g->lost_at;
}

void roll_take(guards_t *g, int number)
{
    struct death d = {.how = number};
    g->roll.number = number;
    g->roll.is_called = true;
    g->roll.told = 0; /* what was told of this number was told to another root */
    for (struct link *l = g->below; l; l = l->next)
        l->rolled = 0;
    link_send_below(g, TOLD_ROLL, &d);
}

void roll_call(guards_t *g)
{
    g->roll.until = deadline_in(ROLL_S);
    roll_take(g, g->roll.number + 1);
}

bool roll_goes_on(const guards_t *g)
{
    return deadline_left_ns(g->roll.until) > 0 && !is_answered(g);
}

void roll_look(guards_t *g)
{
    struct death d = {.how = g->roll.number};
    if (!g->above || g->roll.told == g->roll.number || !is_answered(g))
        return;
    g->roll.told = g->roll.number;
    link_send(g->above, TOLD_ROLLED, &d);
}

void roll_tell(const guards_t *g, const struct link *l)
{
    if (g->roll.number > 0)
        link_send(l, TOLD_ROLL, &(struct death){.how = g->roll.number});
}

bool roll_is_after(const guards_t *g, const struct link *l)
{
    return g->settle_at && g->roll.number > 0 && l->rolled == g->roll.number;
}

bool guards_is_called(const guards_t *g)
{
    return g->roll.is_called;
}

void guards_answer(guards_t *g)
{
    g->roll.is_called = false;
    roll_look(g);
}
