#include "t/lib/ref_place.h"

#include <string.h>

#include "t/lib/ref_impl.h"

/* --- words of the rule --- */

static bool core_touches(const struct inventory *inv, int core, const struct cpus *set)
{
    for (int t = 0; t < inv->core[core].n_cpus; t++)
        if (cpus_has(set, inv->core[core].cpu[t]))
            return true;
    return false;
}

/* Some of the machine's CPUs, and not all of them. */
static bool is_some(const struct inventory *inv, const struct cpus *local)
{
    bool any = false, all = true;
    for (int c = 0; c < (int)inv->n_cores; c++)
        for (int t = 0; t < inv->core[c].n_cpus && !(any && !all); t++) {
            any |= cpus_has(local, inv->core[c].cpu[t]);
            all &= cpus_has(local, inv->core[c].cpu[t]);
        }
    return any && !all;
}

bool ref_has_home(const struct inventory *inv, int gpu)
{
    return gpu >= 0 && is_some(inv, &inv->gpu[gpu].pci.local);
}

bool ref_in_home(const struct inventory *inv, int gpu, int core)
{
    return ref_has_home(inv, gpu) && core_touches(inv, core, &inv->gpu[gpu].pci.local);
}

bool ref_in_package(const struct inventory *inv, int gpu, int core)
{
    return ref_has_home(inv, gpu) && inv->gpu[gpu].pci.package >= 0 &&
           inv->core[core].package == inv->gpu[gpu].pci.package;
}

int ref_gpu_of(const struct ref *f, int rank)
{
    return f->device[rank] < 0 ? -1 : f->req->rank[rank].device[f->device[rank]];
}

static bool cpu_in_pool(const struct ref *f, int pool, unsigned cpu)
{
    for (int r = 0; r < f->n; r++)
        if (f->pool_of[r] == pool && cpus_has(&f->req->rank[r].mask, cpu))
            return true;
    return false;
}

static void find_cores_of_pools(struct ref *f)
{
    for (int r = 0; r < f->n; r++)
        for (int c = 0; c < (int)f->inv->n_cores && f->pool_of[r] == r; c++)
            for (int t = 0; t < f->inv->core[c].n_cpus; t++)
                f->in_pool[r][c] |= cpu_in_pool(f, r, f->inv->core[c].cpu[t]);
}

/* --- section 1 --- */

static bool masks_overlap(const struct ref *f, int a, int b)
{
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        for (int t = 0; t < f->inv->core[c].n_cpus; t++)
            if (cpus_has(&f->req->rank[a].mask, f->inv->core[c].cpu[t]) &&
                cpus_has(&f->req->rank[b].mask, f->inv->core[c].cpu[t]))
                return true;
    return false;
}

static void make_pools(struct ref *f)
{
    for (int r = 0; r < f->n; r++)
        for (int i = 0; i < f->req->rank[r].n_devices; i++)
            f->is_one_pool |= !f->req->keep && ref_has_home(f->inv, f->req->rank[r].device[i]);
    for (int r = 0; r < f->n; r++)
        f->pool_of[r] = f->is_one_pool ? 0 : r;
    if (f->is_one_pool || f->req->keep)
        return;
    for (int again = f->n; again > 0; again--)
        for (int a = 0; a < f->n; a++)
            for (int b = 0; b < f->n; b++)
                if (f->pool_of[a] < f->pool_of[b] && masks_overlap(f, a, b))
                    f->pool_of[b] = f->pool_of[a];
}

/* --- section 2 --- */

static int cost_of(const struct ref *f, int rank, int gpu)
{
    if (!ref_has_home(f->inv, gpu))
        return 0;
    int cost = 2;
    for (int c = 0; c < (int)f->inv->n_cores; c++) {
        if (!f->in_pool[f->pool_of[rank]][c])
            continue;
        if (ref_in_home(f->inv, gpu, c))
            return 0;
        if (ref_in_package(f->inv, gpu, c))
            cost = 1;
    }
    return cost;
}

static bool choose_from_one_list(struct ref *f, const int *given)
{
    int g = f->req->rank[0].n_devices;
    uint8_t cost[RANKS * INVENTORY_GPUS_MAX];
    for (int r = 0; r < f->n; r++)
        for (int d = 0; d < g; d++)
            cost[r * g + d] = (uint8_t)cost_of(f, r, f->req->rank[r].device[d]);
    if (ref_match(f->n, g, cost, f->n / g, (f->n + g - 1) / g, f->device))
        return true;
    if (given)
        memcpy(f->device, given, (size_t)f->n * sizeof *given);
    return given != NULL;
}

static void choose_from_own_list(struct ref *f, int r)
{
    int n = f->req->rank[r].n_devices;
    long best = 0;
    for (int d = 0; d < n; d++) {
        int gpu = f->req->rank[r].device[d];
        long before = 0, turn = ((d - r) % n + n) % n;
        for (int q = 0; q < r; q++)
            before += gpu >= 0 && ref_gpu_of(f, q) == gpu;
        long weight = before * 1000000 + cost_of(f, r, gpu) * 1000 + turn;
        if (f->device[r] < 0 || weight < best) {
            f->device[r] = d;
            best = weight;
        }
    }
}

static bool choose_devices(struct ref *f, const int *given)
{
    const struct placement_rank *rank = f->req->rank;
    f->is_same = true;
    for (int r = 0; r < f->n; r++) {
        f->device[r] = -1;
        f->is_same &= rank[r].n_devices == rank[0].n_devices;
        for (int i = 0; i < rank[0].n_devices && f->is_same; i++)
            f->is_same &= rank[r].device[i] == rank[0].device[i];
    }
    if (f->is_same && rank[0].n_devices > 0)
        return choose_from_one_list(f, given);
    for (int r = 0; r < f->n; r++)
        choose_from_own_list(f, r);
    return true;
}

/* --- sections 3 and 4 --- */

static int n_cores_in(const struct ref *f, int pool)
{
    int n = 0;
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        n += f->in_pool[pool][c];
    return n;
}

static int n_ranks_in(const struct ref *f, int pool)
{
    int n = 0;
    for (int r = 0; r < f->n; r++)
        n += f->pool_of[r] == pool;
    return n;
}

static bool is_own(const struct ref *f, int pool)
{
    return f->req->keep || n_cores_in(f, pool) == 0 || (!f->is_one_pool && n_ranks_in(f, pool) == 1);
}

static enum place_reason reason_of(const struct ref *f, int rank)
{
    int pool = f->pool_of[rank];
    if (is_own(f, pool))
        return f->req->keep ? PLACE_KEPT : PLACE_OWN;
    if (n_cores_in(f, pool) < n_ranks_in(f, pool))
        return PLACE_SHARED;
    return ref_has_home(f->inv, ref_gpu_of(f, rank)) ? PLACE_GPU : PLACE_SHARE;
}

static void serve_pool(const struct ref *f, int pool, struct place *ret)
{
    static bool owner[CORES * RANKS];
    memset(owner, 0, sizeof owner);
    if (!is_own(f, pool))
        ref_deal(f, pool, owner);
    for (int r = 0; r < f->n; r++) {
        if (f->pool_of[r] != pool)
            continue;
        if (is_own(f, pool))
            ret[r].cpus = f->req->rank[r].mask;
        for (int c = 0; c < (int)f->inv->n_cores; c++)
            for (int t = 0; t < f->inv->core[c].n_cpus && owner[c * RANKS + r]; t++)
                if (cpu_in_pool(f, pool, f->inv->core[c].cpu[t]))
                    cpus_add(&ret[r].cpus, f->inv->core[c].cpu[t]);
        ret[r].reason = reason_of(f, r);
    }
}

/* --- sections 5 and 6, and the counts --- */

static int memory_node(const struct ref *f, int rank)
{
    int gpu = ref_gpu_of(f, rank), n_of_numa[INVENTORY_NUMAS_MAX + 1] = {0}, n = 0; /* from node -1 */
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        if (f->has[rank][c]) {
            n_of_numa[f->inv->core[c].numa + 1]++;
            n++;
        }
    if (f->req->n_ranks == 1 && f->req->rank[0].n_devices > 1)
        return -1;
    for (int node = 0; node < (int)f->inv->n_numas; node++)
        if (f->inv->numa[node].memory_bytes == 0)
            n_of_numa[node + 1] = 0;
    if (gpu >= 0 && f->inv->gpu[gpu].pci.numa >= 0 && n_of_numa[f->inv->gpu[gpu].pci.numa + 1] > 0)
        return f->inv->gpu[gpu].pci.numa;
    for (int node = 0; node < (int)f->inv->n_numas; node++)
        if (n > 0 && n_of_numa[node + 1] == n)
            return node;
    return -1;
}

static int nic_distance(const struct ref *f, const struct place *p, int nic)
{
    const struct inventory_pci *pci = &f->inv->nic[nic].pci;
    if (p->gpu >= 0)
        return (int)inventory_distance(&f->inv->gpu[p->gpu].pci, pci);
    bool touches = false;
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        for (int t = 0; t < f->inv->core[c].n_cpus; t++)
            touches |= cpus_has(&p->cpus, f->inv->core[c].cpu[t]) && cpus_has(&pci->local, f->inv->core[c].cpu[t]);
    return touches && is_some(f->inv, &pci->local) ? DISTANCE_SAME_PACKAGE : DISTANCE_ACROSS;
}

static int n_common(const struct inventory_pci *a, const struct inventory_pci *b)
{
    for (int n = 0; n < INVENTORY_PATH_MAX; n++)
        if (n >= a->depth || n >= b->depth || a->path[n] != b->path[n])
            return n;
    return INVENTORY_PATH_MAX;
}

static void choose_nic(const struct ref *f, int rank, struct place *ret)
{
    bool is_fabric = false;
    long best = 0;
    ret[rank].nic = -1;
    ret[rank].nic_distance = DISTANCE_ACROSS;
    for (int i = 0; i < (int)f->inv->n_nics; i++)
        is_fabric |= f->inv->nic[i].is_active && f->inv->nic[i].kind != NIC_ETHERNET;
    for (int i = 0; i < (int)f->inv->n_nics; i++) {
        if (!f->inv->nic[i].is_active || (f->inv->nic[i].kind != NIC_ETHERNET) != is_fabric)
            continue;
        long before = 0;
        for (int q = 0; q < rank; q++)
            before += ret[q].nic == i;
        int distance = nic_distance(f, &ret[rank], i), apart = 0; /* apart: bridges that are not in common */
        if (distance == DISTANCE_SAME_SWITCH)
            apart = INVENTORY_PATH_MAX - n_common(&f->inv->gpu[ret[rank].gpu].pci, &f->inv->nic[i].pci);
        long weight = distance * 100000000L + apart * 1000000L + before * 1000 + i;
        if (ret[rank].nic < 0 || weight < best) {
            best = weight;
            ret[rank].nic = i;
            ret[rank].nic_distance = (enum inventory_distance)distance;
        }
    }
}

static void count(struct ref *f, struct place *ret)
{
    for (int r = 0; r < f->n; r++) {
        struct place *p = &ret[r];
        for (int c = 0; c < (int)f->inv->n_cores; c++) {
            p->n_cores += f->has[r][c];
            p->n_near += f->has[r][c] && p->gpu >= 0 && core_touches(f->inv, c, &f->inv->gpu[p->gpu].pci.local);
        }
        for (int q = 0; q < f->n; q++) {
            bool shares = q == r;
            for (int c = 0; c < (int)f->inv->n_cores; c++)
                shares |= f->has[r][c] && f->has[q][c];
            p->n_sharing += shares;
            if (p->device >= 0)
                p->n_gpu_sharing +=
                    q == r || (f->is_same ? ret[q].device == p->device : p->gpu >= 0 && ret[q].gpu == p->gpu);
        }
    }
}

bool ref_place(const struct placement_request *req, const int *given, struct place *ret)
{
    static struct ref f;
    memset(&f, 0, sizeof f);
    f.req = req;
    f.inv = req->inventory;
    f.n = req->n_ranks;
    make_pools(&f);
    find_cores_of_pools(&f);
    if (!choose_devices(&f, given))
        return false;
    memset(ret, 0, (size_t)f.n * sizeof *ret);
    for (int r = 0; r < f.n; r++) {
        ret[r].device = f.device[r];
        ret[r].gpu = ref_gpu_of(&f, r);
        if (f.pool_of[r] == r)
            serve_pool(&f, r, ret);
    }
    for (int r = 0; r < f.n; r++) {
        for (int c = 0; c < (int)f.inv->n_cores; c++)
            f.has[r][c] = core_touches(f.inv, c, &ret[r].cpus);
        ret[r].numa = memory_node(&f, r);
        choose_nic(&f, r, ret);
    }
    count(&f, ret);
    return true;
}
