/* explain_facts.c - what several paragraphs tell, or depend on. */
#include "topology/show/explain.h"

int tell_ranks(struct telling *tell, bool (*is)(const struct telling *tell, int r))
{
    for (int r = 0; r < tell->n_ranks; r++)
        tell->is_in[r] = is(tell, r);
    return show_add_ranks(&tell->t, tell->is_in, tell->n_ranks);
}

bool tell_has_home(const struct telling *tell)
{
    return tell->p->gpu >= 0 && tell->pl->has_home[tell->p->gpu];
}

bool tell_is_dealt(const struct telling *tell)
{
    return tell->p->reason != PLACE_KEPT && tell->p->reason != PLACE_OWN;
}

int tell_home_cores(const struct telling *tell)
{
    if (!tell_has_home(tell))
        return 0;
    struct coreset there = coreset_and(&tell->pl->home[tell->p->gpu], &tell->pool->cores);
    return coreset_count(&there);
}
