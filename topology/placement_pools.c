/* Section 1: which CPUs are shared out among which ranks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topology/placement_impl.h"

void coreset_add(struct coreset *set, int core)
{
    set->word[core / 64] |= UINT64_C(1) << core % 64;
}

bool coreset_has(const struct coreset *set, int core)
{
    return set->word[core / 64] >> core % 64 & 1;
}

bool coreset_touches(const struct coreset *a, const struct coreset *b)
{
    for (int i = 0; i < CORESET_WORDS; i++)
        if (a->word[i] & b->word[i])
            return true;
    return false;
}

bool coreset_equal(const struct coreset *a, const struct coreset *b)
{
    return !memcmp(a, b, sizeof *a);
}

struct coreset coreset_and(const struct coreset *a, const struct coreset *b)
{
    struct coreset both;
    for (int i = 0; i < CORESET_WORDS; i++)
        both.word[i] = a->word[i] & b->word[i];
    return both;
}

int coreset_count(const struct coreset *set)
{
    int n = 0;
    for (int i = 0; i < CORESET_WORDS; i++)
        n += __builtin_popcountll(set->word[i]);
    return n;
}

void placing_cores(const struct placing *pl, const struct cpus *cpus, struct coreset *ret)
{
    memset(ret, 0, sizeof *ret);
    for (unsigned cpu = cpus_next(cpus, 0); cpu < CPUS_MAX; cpu = cpus_next(cpus, cpu + 1))
        if (pl->core_of[cpu] >= 0)
            coreset_add(ret, pl->core_of[cpu]);
}

static void find_cores_of_cpus(struct placing *pl)
{
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        pl->core_of[cpu] = -1;
    for (size_t c = 0; c < pl->inv->n_cores; c++)
        for (int t = 0; t < pl->inv->core[c].n_cpus; t++)
            pl->core_of[pl->inv->core[c].cpu[t]] = (int16_t)c;
}

static void find_homes(struct placing *pl)
{
    const struct inventory *inv = pl->inv;
    for (size_t g = 0; g < inv->n_gpus; g++) {
        const struct inventory_pci *pci = &inv->gpu[g].pci;
        placing_cores(pl, &pci->local, &pl->near[g]);
        pl->has_home[g] = inventory_has_home(inv, pci);
        if (!pl->has_home[g])
            continue;
        pl->home[g] = pl->near[g];
        for (size_t c = 0; c < inv->n_cores; c++)
            if (pci->package >= 0 && inv->core[c].package == pci->package)
                coreset_add(&pl->package[g], (int)c);
    }
}

static bool sees_home(const struct placing *pl, int rank)
{
    const struct placement_rank *r = &pl->req->rank[rank];
    for (int i = 0; i < r->n_devices; i++)
        if (r->device[i] >= 0 && pl->has_home[r->device[i]])
            return true;
    return false;
}

static int first_of(int *before, int rank)
{
    while (before[rank] != rank)
        rank = before[rank] = before[before[rank]];
    return rank;
}

/* pool_of[rank] becomes a rank of the same pool that comes before it; the first one's is itself. */
static void join_overlapping(struct placing *pl)
{
    int first_with[CPUS_MAX];
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        first_with[cpu] = -1;
    for (int r = 0; r < pl->req->n_ranks; r++) {
        const struct cpus *mask = &pl->req->rank[r].mask;
        for (unsigned cpu = cpus_next(mask, 0); cpu < CPUS_MAX; cpu = cpus_next(mask, cpu + 1)) {
            if (pl->core_of[cpu] < 0)
                continue;
            if (first_with[cpu] < 0)
                first_with[cpu] = r;
            int a = first_of(pl->pool_of, first_with[cpu]), b = first_of(pl->pool_of, r);
            pl->pool_of[a < b ? b : a] = a < b ? a : b;
            first_with[cpu] = a < b ? a : b;
        }
    }
}

/* Pools are numbered by their first ranks, which come before all others in it. */
static void number_pools(struct placing *pl)
{
    for (int r = 0; r < pl->req->n_ranks; r++)
        pl->pool_of[r] = pl->pool_of[r] == r ? pl->n_pools++ : pl->pool_of[pl->pool_of[r]];
}

static void fill_pools(struct placing *pl)
{
    for (int r = 0; r < pl->req->n_ranks; r++) {
        cpus_or(&pl->pool[pl->pool_of[r]].cpus, &pl->req->rank[r].mask);
        pl->pool[pl->pool_of[r]].n_ranks++;
    }
    for (int i = 0; i < pl->n_pools; i++) {
        placing_cores(pl, &pl->pool[i].cpus, &pl->pool[i].cores);
        pl->pool[i].n_cores = coreset_count(&pl->pool[i].cores);
    }
}

struct placing *placing_create(const struct placement_request *req, ddp_error_t *errp)
{
    size_t n = (size_t)req->n_ranks;
    struct placing *pl = calloc(1, sizeof *pl);
    if (pl) {
        pl->req = req;
        pl->inv = req->inventory;
        pl->pool_of = calloc(n, sizeof *pl->pool_of);
        pl->device = calloc(n, sizeof *pl->device);
        pl->cores = calloc(n, sizeof *pl->cores);
        if (pl->pool_of && pl->device && pl->cores)
            return pl;
    }
    placing_destroy(pl);
    error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to place %zu ranks", n);
    return NULL;
}

void placing_destroy(struct placing *pl)
{
    if (!pl)
        return;
    free(pl->pool);
    free(pl->cores);
    free(pl->device);
    free(pl->pool_of);
    free(pl);
}

int placing_pools(struct placing *pl, ddp_error_t *errp)
{
    int n = pl->req->n_ranks;
    find_cores_of_cpus(pl);
    find_homes(pl);
    for (int r = 0; r < n && !pl->is_one_pool; r++)
        pl->is_one_pool = !pl->req->keep && sees_home(pl, r);
    for (int r = 0; r < n; r++)
        pl->pool_of[r] = pl->is_one_pool ? 0 : r;
    if (!pl->is_one_pool && !pl->req->keep)
        join_overlapping(pl);
    number_pools(pl);
    pl->pool = calloc((size_t)pl->n_pools, sizeof *pl->pool);
    if (!pl->pool)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the CPUs of %d ranks", n);
    fill_pools(pl);
    return 0;
}

bool placing_is_kept(const struct placing *pl, int rank)
{
    const struct pool *pool = &pl->pool[pl->pool_of[rank]];
    return pl->req->keep || pool->n_cores == 0 || (!pl->is_one_pool && pool->n_ranks == 1);
}
