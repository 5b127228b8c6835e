/* Sections 3 and 4: how many cores of a pool each of its ranks gets, and which. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topology/placement_impl.h"

/* A pool being dealt. With at least as many cores as ranks a seat is a core, else there is a seat for each rank. */
struct deal {
    struct placing *pl;
    const struct pool *pool;
    int n_ranks, n_seats;
    int *rank;      /* [n_ranks] local ranks, ascending; "i" below is a place here */
    int *need, *run; /* [n_ranks] seats still due; seats that the present round gives */
    int *seat_core; /* [n_seats] in the order of cores */
    int *seat_rank; /* [n_seats] i, or -1: free */
    /* Regions of GPUs within the pool. Equal ones have the number of the first. */
    int home[INVENTORY_GPUS_MAX], package[INVENTORY_GPUS_MAX];
    struct coreset home_cores[INVENTORY_GPUS_MAX], package_cores[INVENTORY_GPUS_MAX];
};

static int number_region(struct coreset *region, int gpu, const struct coreset *whole, const struct coreset *pool)
{
    region[gpu] = coreset_and(whole, pool);
    for (int g = 0; g < gpu; g++)
        if (coreset_equal(&region[g], &region[gpu]))
            return g;
    return gpu;
}

/* Where no GPU has a home all regions are empty, and there may be many pools. */
static void find_regions(struct deal *d)
{
    if (!d->pl->is_one_pool)
        return;
    for (int g = 0; g < (int)d->pl->inv->n_gpus; g++) {
        d->home[g] = number_region(d->home_cores, g, &d->pl->home[g], &d->pool->cores);
        d->package[g] = number_region(d->package_cores, g, &d->pl->package[g], &d->pool->cores);
    }
}

/* The rank's GPU, where that has a home; else -1. */
static int gpu_with_home(const struct deal *d, int i)
{
    int gpu = placing_gpu(d->pl, d->rank[i]);
    return gpu >= 0 && d->pl->has_home[gpu] ? gpu : -1;
}

static void set_out_seats(struct deal *d)
{
    int m = 0;
    for (int c = 0; c < (int)d->pl->inv->n_cores; c++)
        if (coreset_has(&d->pool->cores, c))
            d->seat_core[m++] = c;
    d->n_seats = m < d->n_ranks ? d->n_ranks : m;
    for (int s = d->n_ranks - 1; s >= 0 && m < d->n_ranks; s--) /* downwards: s * m / n_ranks is not above s */
        d->seat_core[s] = d->seat_core[s * m / d->n_ranks];
    for (int s = 0; s < d->n_seats; s++)
        d->seat_rank[s] = -1;
}

static void share_evenly(struct deal *d)
{
    for (int i = 0; i < d->n_ranks; i++)
        d->need[i] = (i + 1) * d->n_seats / d->n_ranks - i * d->n_seats / d->n_ranks;
}

static void share_by_homes(struct deal *d)
{
    int each = d->n_seats / d->n_ranks, extra = d->n_seats % d->n_ranks;
    int spare[INVENTORY_GPUS_MAX]; /* [region] pool cores there, less what its ranks get */
    for (int g = 0; g < (int)d->pl->inv->n_gpus; g++)
        spare[g] = coreset_count(&d->home_cores[g]);
    for (int i = 0; i < d->n_ranks; i++) {
        d->need[i] = each;
        if (gpu_with_home(d, i) >= 0)
            spare[d->home[gpu_with_home(d, i)]] -= each;
    }
    for (int i = 0; i < d->n_ranks && extra > 0; i++) {
        int gpu = gpu_with_home(d, i);
        if (gpu < 0 || spare[d->home[gpu]] <= 0)
            continue;
        spare[d->home[gpu]]--;
        d->need[i]++;
        extra--;
    }
    for (int i = 0; i < d->n_ranks && extra > 0; i++)
        if (d->need[i] == each) {
            d->need[i]++;
            extra--;
        }
}

/* Section 3. */
static void count_shares(struct deal *d)
{
    bool has_home = false;
    for (int i = 0; i < d->n_ranks; i++)
        has_home |= gpu_with_home(d, i) >= 0;
    if (has_home)
        share_by_homes(d);
    else
        share_evenly(d);
}

static bool is_free_in(const struct deal *d, int s, const struct coreset *region)
{
    return d->seat_rank[s] < 0 && coreset_has(region, d->seat_core[s]);
}

/* How long a run of the region's free seats each rank of the group (mine[i] is `number`) gets. */
static void deal_runs(struct deal *d, const int *mine, int number, int n_free)
{
    memset(d->run, 0, (size_t)d->n_ranks * sizeof *d->run);
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < d->n_ranks && n_free > 0; i++)
            if (mine[i] == number && d->run[i] < d->need[i]) {
                d->run[i]++;
                n_free--;
                again = true;
            }
    }
}

static void deal_group(struct deal *d, const int *mine, int number, const struct coreset *region)
{
    int n_free = 0, s = 0;
    for (int k = 0; k < d->n_seats; k++)
        n_free += is_free_in(d, k, region);
    deal_runs(d, mine, number, n_free);
    for (int i = 0; i < d->n_ranks; i++)
        for (; d->run[i] > 0; s++)
            if (is_free_in(d, s, region)) {
                d->seat_rank[s] = i;
                d->run[i]--;
                d->need[i]--;
            }
}

/* One round. mine[i]: the number of rank i's region in `region`; -1: it takes no part. */
static void deal_round(struct deal *d, const int *mine, const struct coreset *region)
{
    bool is_dealt[INVENTORY_GPUS_MAX] = {false};
    for (int i = 0; i < d->n_ranks; i++)
        if (d->need[i] > 0 && mine[i] >= 0 && !is_dealt[mine[i]]) {
            is_dealt[mine[i]] = true;
            deal_group(d, mine, mine[i], &region[mine[i]]);
        }
}

/* Section 4. `mine` is room for n_ranks numbers. */
static void deal_seats(struct deal *d, int *mine)
{
    for (int i = 0; i < d->n_ranks; i++)
        mine[i] = gpu_with_home(d, i) < 0 ? -1 : d->home[gpu_with_home(d, i)];
    deal_round(d, mine, d->home_cores);
    for (int i = 0; i < d->n_ranks; i++)
        mine[i] = gpu_with_home(d, i) < 0 ? -1 : d->package[gpu_with_home(d, i)];
    deal_round(d, mine, d->package_cores);
    memset(mine, 0, (size_t)d->n_ranks * sizeof *mine);
    deal_round(d, mine, &d->pool->cores);
    for (int s = 0; s < d->n_seats; s++)
        coreset_add(&d->pl->cores[d->rank[d->seat_rank[s]]], d->seat_core[s]);
}

static void deal_pool(struct deal *d, int number, int *mine)
{
    d->pool = &d->pl->pool[number];
    d->n_ranks = 0;
    for (int r = 0; r < d->pl->req->n_ranks; r++)
        if (d->pl->pool_of[r] == number)
            d->rank[d->n_ranks++] = r;
    if (placing_is_kept(d->pl, d->rank[0])) {
        for (int i = 0; i < d->n_ranks; i++)
            placing_cores(d->pl, &d->pl->req->rank[d->rank[i]].mask, &d->pl->cores[d->rank[i]]);
        return;
    }
    find_regions(d);
    set_out_seats(d);
    count_shares(d);
    deal_seats(d, mine);
}

int placing_deal(struct placing *pl, ddp_error_t *errp)
{
    size_t n_ranks = (size_t)pl->req->n_ranks;
    size_t n_seats = pl->inv->n_cores > n_ranks ? pl->inv->n_cores : n_ranks;
    struct deal *d = calloc(1, sizeof *d);
    int *room = calloc(4 * n_ranks + 2 * n_seats, sizeof *room);
    if (d && room) {
        d->pl = pl;
        d->rank = room;
        d->need = room + n_ranks;
        d->run = room + 2 * n_ranks;
        d->seat_core = room + 4 * n_ranks;
        d->seat_rank = room + 4 * n_ranks + n_seats;
        for (int p = 0; p < pl->n_pools; p++)
            deal_pool(d, p, room + 3 * n_ranks);
    }
    int rc = d && room ? 0 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to place %zu ranks", n_ranks);
    free(room);
    free(d);
    return rc;
}
