#include "runtime/pace.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/stats.h"

void pace_note(struct pace *p, double took_s)
{
    p->took_s[p->n++ % PACE_STEPS] = took_s;
}

static void name(struct pace *p, const struct team *t, int rank, double factor)
{
    char who[96];
    p->slow_rank = rank;
    p->slow_factor = factor;
    snprintf(p->slow, sizeof p->slow, "%.64s computes %.2f times as long as the median rank", world_rank_name(t->map,
             rank, who, sizeof who), factor);
}

int pace_after_step(struct pace *p, struct team *t, bool has_joined, ddp_error_t *errp)
{
    if (has_joined)
        p->n = 0;
    if (p->n < PACE_STEPS)
        return 0;
    p->n = 0;
    double mine = stats_of(p->took_s, PACE_STEPS).median, *all = team_gather(t, &mine, sizeof mine, errp);
    int slowest = 0;
    if (!all)
        return -1;
    for (int r = 1; r < t->me.size; r++)
        slowest = all[r] > all[slowest] ? r : slowest;
    double most = all[slowest];
    stats_of(all, (size_t)t->me.size); /* sorts them */
    double median = all[(t->me.size - 1) / 2]; /* of two ranks the faster one */
    if (most > PACE_SLOW * median && most > PACE_LEAST_S)
        name(p, t, slowest, most / median);
    free(all);
    return 0;
}
