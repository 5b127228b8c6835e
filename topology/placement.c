#include "topology/placement.h"

#include <errno.h>
#include <string.h>

#include "topology/placement_impl.h"

static int check(const struct placement_request *req, ddp_error_t *errp)
{
    if (req->n_ranks < 1 || req->n_ranks > PLACEMENT_RANKS_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%d ranks on one node: 1 to %d can be placed", req->n_ranks,
                         PLACEMENT_RANKS_MAX);
    for (int r = 0; r < req->n_ranks; r++) {
        const struct placement_rank *rank = &req->rank[r];
        if (rank->n_devices < 0 || rank->n_devices > INVENTORY_GPUS_MAX)
            return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d sees %d GPUs: 0 to %d are possible", r,
                             rank->n_devices, INVENTORY_GPUS_MAX);
        for (int i = 0; i < rank->n_devices; i++)
            if (rank->device[i] < -1 || rank->device[i] >= (int)req->inventory->n_gpus)
                return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d sees GPU %d: this machine has %zu", r,
                                 rank->device[i], req->inventory->n_gpus);
    }
    return 0;
}

/* A rank's CPUs: its mask, or of its cores all threads that are in the pool. */
static void fill_cpus(const struct placing *pl, int rank, struct place *p)
{
    const struct coreset *cores = &pl->cores[rank];
    const struct inventory *inv = pl->inv;
    if (placing_is_kept(pl, rank)) {
        p->cpus = pl->req->rank[rank].mask;
        return;
    }
    for (size_t c = 0; c < inv->n_cores; c++)
        for (int t = 0; t < inv->core[c].n_cpus && coreset_has(cores, (int)c); t++)
            cpus_add(&p->cpus, inv->core[c].cpu[t]);
    cpus_and(&p->cpus, &pl->pool[pl->pool_of[rank]].cpus);
}

/* The kernel refuses to prefer a node without memory, as of a package whose slots are empty. */
static bool has_memory(const struct inventory *inv, int numa)
{
    return numa >= 0 && inv->numa[numa].memory_bytes > 0;
}

/* The NUMA node that all of these cores belong to; -1: there is none. */
static int common_numa(const struct inventory *inv, const struct coreset *cores)
{
    int numa = -1;
    bool is_first = true;
    for (size_t c = 0; c < inv->n_cores; c++) {
        if (!coreset_has(cores, (int)c))
            continue;
        if (!is_first && inv->core[c].numa != numa)
            return -1;
        numa = inv->core[c].numa;
        is_first = false;
    }
    return numa;
}

/* Section 5. */
static int memory_node(const struct placing *pl, int rank)
{
    const struct inventory *inv = pl->inv;
    int gpu = placing_gpu(pl, rank);
    int wanted = gpu < 0 ? -1 : inv->gpu[gpu].pci.numa;
    if (pl->req->n_ranks == 1 && pl->req->rank[0].n_devices > 1)
        return -1;
    for (size_t c = 0; c < inv->n_cores && has_memory(inv, wanted); c++)
        if (inv->core[c].numa == wanted && coreset_has(&pl->cores[rank], (int)c))
            return wanted;
    int common = common_numa(inv, &pl->cores[rank]);
    return has_memory(inv, common) ? common : -1;
}

/* Does it touch these CPUs, those of them that the machine has? */
static bool is_near_cpus(const struct inventory *inv, const struct inventory_pci *pci, const struct cpus *cpus)
{
    for (int i = 0; i < CPUS_WORDS; i++)
        if (pci->local.word[i] & cpus->word[i] & inv->all.word[i])
            return !cpus_within(&inv->all, &pci->local);
    return false;
}

static enum inventory_distance distance_to_nic(const struct inventory *inv, const struct place *p,
                                               const struct inventory_nic *nic)
{
    if (p->gpu >= 0)
        return inventory_distance(&inv->gpu[p->gpu].pci, &nic->pci);
    return is_near_cpus(inv, &nic->pci, &p->cpus) ? DISTANCE_SAME_PACKAGE : DISTANCE_ACROSS;
}

/* Is NIC a nearer than b to what has this place? Switches nest: below one, more bridges in common are nearer. */
static bool is_nearer(const struct inventory *inv, const struct place *p, int a, int b)
{
    enum inventory_distance to_a = distance_to_nic(inv, p, &inv->nic[a]), to_b = distance_to_nic(inv, p, &inv->nic[b]);
    if (to_a != to_b || to_a != DISTANCE_SAME_SWITCH)
        return to_a < to_b;
    const struct inventory_pci *gpu = &inv->gpu[p->gpu].pci;
    return inventory_common_bridges(gpu, &inv->nic[a].pci) > inventory_common_bridges(gpu, &inv->nic[b].pci);
}

/* Section 6. n_before[nic]: ranks that got it. */
static void choose_nic(const struct inventory *inv, int *n_before, struct place *p)
{
    bool has_fabric = false;
    int best = -1;
    for (size_t i = 0; i < inv->n_nics; i++)
        has_fabric |= inv->nic[i].is_active && inv->nic[i].kind != NIC_ETHERNET;
    for (int i = 0; i < (int)inv->n_nics; i++) {
        const struct inventory_nic *nic = &inv->nic[i];
        if (!nic->is_active || (has_fabric && nic->kind == NIC_ETHERNET))
            continue;
        if (best < 0 || is_nearer(inv, p, i, best) || (!is_nearer(inv, p, best, i) && n_before[i] < n_before[best]))
            best = i;
    }
    p->nic = best;
    p->nic_distance = best < 0 ? DISTANCE_ACROSS : distance_to_nic(inv, p, &inv->nic[best]);
    if (best >= 0)
        n_before[best]++;
}

static enum place_reason reason(const struct placing *pl, int rank)
{
    const struct pool *pool = &pl->pool[pl->pool_of[rank]];
    int gpu = placing_gpu(pl, rank);
    if (pl->req->keep)
        return PLACE_KEPT;
    if (placing_is_kept(pl, rank))
        return PLACE_OWN;
    if (pool->n_cores < pool->n_ranks)
        return PLACE_SHARED;
    return gpu >= 0 && pl->has_home[gpu] ? PLACE_GPU : PLACE_SHARE;
}

static void fill_place(const struct placing *pl, int rank, int *nic_n_before, struct place *p)
{
    memset(p, 0, sizeof *p);
    fill_cpus(pl, rank, p);
    p->n_cores = coreset_count(&pl->cores[rank]);
    p->n_sharing = 1;
    p->device = pl->device[rank];
    p->gpu = placing_gpu(pl, rank);
    if (p->gpu >= 0) {
        struct coreset near = coreset_and(&pl->near[p->gpu], &pl->cores[rank]);
        p->n_near = coreset_count(&near);
    }
    p->numa = memory_node(pl, rank);
    choose_nic(pl->inv, nic_n_before, p);
    p->reason = reason(pl, rank);
}

/* coreset_touches for the first words alone: of many ranks each is compared with each. */
static bool share_core(const struct coreset *a, const struct coreset *b, size_t n_words)
{
    for (size_t w = 0; w < n_words; w++)
        if (a->word[w] & b->word[w])
            return true;
    return false;
}

static void count_ranks_of_cores(const struct placing *pl, struct place *ret)
{
    size_t n_words = (pl->inv->n_cores + 63) / 64;
    for (int a = 0; a < pl->req->n_ranks; a++)
        for (int b = 0; b < a; b++)
            if (share_core(&pl->cores[a], &pl->cores[b], n_words)) {
                ret[a].n_sharing++;
                ret[b].n_sharing++;
            }
}

/* In one and the same list a device is its ordinal (two parts of one GPU may be in it), else its place in the
 * inventory; what is not there is nobody else's. */
static void count_ranks_of_gpus(const struct placing *pl, struct place *ret)
{
    int n[INVENTORY_GPUS_MAX] = {0};
    for (int r = 0; r < pl->req->n_ranks; r++) {
        int which = pl->is_same_list ? ret[r].device : ret[r].gpu;
        if (which >= 0)
            n[which]++;
    }
    for (int r = 0; r < pl->req->n_ranks; r++) {
        int which = pl->is_same_list ? ret[r].device : ret[r].gpu;
        ret[r].n_gpu_sharing = which >= 0 ? n[which] : ret[r].device >= 0;
    }
}

static void fill_places(const struct placing *pl, struct place *ret)
{
    int nic_n_before[INVENTORY_NICS_MAX] = {0};
    for (int r = 0; r < pl->req->n_ranks; r++)
        fill_place(pl, r, nic_n_before, &ret[r]);
    count_ranks_of_cores(pl, ret);
    count_ranks_of_gpus(pl, ret);
}

int placement_choose(const struct placement_request *req, struct place *ret, ddp_error_t *errp)
{
    if (check(req, errp) < 0)
        return -1;
    struct placing *pl = placing_create(req, errp);
    int rc = !pl || placing_pools(pl, errp) < 0 || placing_gpus(pl, errp) < 0 || placing_deal(pl, errp) < 0 ? -1 : 0;
    if (rc == 0)
        fill_places(pl, ret);
    placing_destroy(pl);
    return rc;
}

const char *placement_why(const struct placement_request *req, const struct place *p)
{
    switch (p->reason) {
    case PLACE_KEPT:
        return req->keep ? req->keep : "as it was";
    case PLACE_OWN:
        return "CPUs that no other rank has";
    case PLACE_GPU:
        return p->n_near > 0 ? "beside its GPU" : "none of the CPUs here is beside its GPU";
    case PLACE_SHARE:
        return "an equal share of the cores";
    case PLACE_SHARED:
        return "one core, shared: there are more ranks than cores";
    }
    return "?";
}
