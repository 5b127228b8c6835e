/* Section 2: one GPU for each rank that sees any. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topology/matching.h"
#include "topology/placement_impl.h"

int placing_cost(const struct placing *pl, int rank, int gpu)
{
    const struct coreset *pool = &pl->pool[pl->pool_of[rank]].cores;
    if (gpu < 0 || !pl->has_home[gpu] || coreset_touches(pool, &pl->home[gpu]))
        return 0;
    return coreset_touches(pool, &pl->package[gpu]) ? 1 : 2;
}

static bool is_same_list(const struct placement_request *req)
{
    const struct placement_rank *first = &req->rank[0];
    for (int r = 1; r < req->n_ranks; r++) {
        const struct placement_rank *rank = &req->rank[r];
        if (rank->n_devices != first->n_devices ||
            memcmp(rank->device, first->device, (size_t)first->n_devices * sizeof *first->device))
            return false;
    }
    return true;
}

static int match(struct placing *pl, ddp_error_t *errp)
{
    int n_ranks = pl->req->n_ranks, n_devices = pl->req->rank[0].n_devices;
    uint8_t *cost = malloc((size_t)n_ranks * (size_t)n_devices);
    if (!cost)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the distances of %d GPUs", n_devices);
    for (int r = 0; r < n_ranks; r++)
        for (int d = 0; d < n_devices; d++)
            cost[r * n_devices + d] = (uint8_t)placing_cost(pl, r, pl->req->rank[r].device[d]);
    struct matching m = {n_ranks, n_devices, cost, n_ranks / n_devices, (n_ranks + n_devices - 1) / n_devices};
    int rc = matching_choose(&m, pl->device, errp);
    free(cost);
    return rc;
}

/* n_before[gpu]: ranks that took it. */
static int choose_in_own_list(const struct placing *pl, int rank, const int *n_before)
{
    const struct placement_rank *r = &pl->req->rank[rank];
    int best = -1, best_before = 0, best_cost = 0;
    for (int i = 0; i < r->n_devices; i++) {
        int d = (rank + i) % r->n_devices;
        int before = r->device[d] < 0 ? 0 : n_before[r->device[d]], cost = placing_cost(pl, rank, r->device[d]);
        if (best < 0 || before < best_before || (before == best_before && cost < best_cost)) {
            best = d;
            best_before = before;
            best_cost = cost;
        }
    }
    return best;
}

static void choose_in_turn(struct placing *pl)
{
    int n_before[INVENTORY_GPUS_MAX] = {0};
    for (int r = 0; r < pl->req->n_ranks; r++) {
        pl->device[r] = choose_in_own_list(pl, r, n_before);
        if (placing_gpu(pl, r) >= 0)
            n_before[placing_gpu(pl, r)]++;
    }
}

int placing_gpu(const struct placing *pl, int rank)
{
    return pl->device[rank] < 0 ? -1 : pl->req->rank[rank].device[pl->device[rank]];
}

int placing_gpus(struct placing *pl, ddp_error_t *errp)
{
    pl->is_same_list = is_same_list(pl->req);
    if (pl->is_same_list && pl->req->rank[0].n_devices > 0)
        return match(pl, errp);
    choose_in_turn(pl);
    return 0;
}
