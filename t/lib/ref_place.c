#include "t/lib/ref_place.h"

#include <stdlib.h>
#include <string.h>

enum { CORES = 512, RANKS = 64, SEATS = 512 };

struct ref {
    const struct placement_request *req;
    const struct inventory *inv;
    int n, pool_of[RANKS]; /* pool_of: the lowest rank of the same pool */
    bool is_one_pool, is_same;
    int device[RANKS];
    bool in_pool[RANKS][CORES]; /* the pool of this lowest rank has (part of) this core */
    bool has[RANKS][CORES];     /* the answer: rank has (part of) this core */
};

typedef bool flags[CORES];

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

static bool has_home(const struct inventory *inv, int gpu)
{
    return gpu >= 0 && is_some(inv, &inv->gpu[gpu].pci.local);
}

static bool in_home(const struct inventory *inv, int gpu, int core)
{
    return has_home(inv, gpu) && core_touches(inv, core, &inv->gpu[gpu].pci.local);
}

static bool in_package(const struct inventory *inv, int gpu, int core)
{
    int package = inv->gpu[gpu].pci.package;
    return has_home(inv, gpu) && package >= 0 && inv->core[core].package == package;
}

static int gpu_of(const struct ref *f, int rank)
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
            f->is_one_pool |= !f->req->keep && has_home(f->inv, f->req->rank[r].device[i]);
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
    if (!has_home(f->inv, gpu))
        return 0;
    int cost = 2;
    for (int c = 0; c < (int)f->inv->n_cores; c++) {
        if (!f->in_pool[f->pool_of[rank]][c])
            continue;
        if (in_home(f->inv, gpu, c))
            return 0;
        if (in_package(f->inv, gpu, c))
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
            before += gpu >= 0 && gpu_of(f, q) == gpu;
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

/* --- sections 3 and 4, for one pool --- */

struct table {
    int n, rank[RANKS], n_seats, core[SEATS], owner[SEATS], need[RANKS];
    int m; /* cores */
};

static bool same_region(const struct table *t, const bool *a, const bool *b)
{
    for (int s = 0; s < t->n_seats; s++)
        if (a[t->core[s]] != b[t->core[s]])
            return false;
    return true;
}

/* round 0: home, 1: package, 2: all. false: this rank has no such region. */
static bool region_of(const struct ref *f, int rank, int round, flags ret)
{
    int gpu = gpu_of(f, rank);
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        ret[c] = round == 2 || (gpu >= 0 && (round == 0 ? in_home(f->inv, gpu, c) : in_package(f->inv, gpu, c)));
    return round == 2 || has_home(f->inv, gpu);
}

static void lay_out(const struct ref *f, int pool, struct table *t)
{
    int cores[CORES];
    memset(t, 0, sizeof *t);
    for (int r = 0; r < f->n; r++)
        if (f->pool_of[r] == pool)
            t->rank[t->n++] = r;
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        if (f->in_pool[pool][c])
            cores[t->m++] = c;
    for (int j = 0; j < t->m; j++) {
        int seats = 0;
        for (int i = 0; i < t->n; i++)
            seats += i * t->m / t->n == j;
        if (t->m >= t->n)
            seats = 1;
        for (; seats > 0; seats--) {
            t->owner[t->n_seats] = -1;
            t->core[t->n_seats++] = cores[j];
        }
    }
}

/* Section 3's condition, for rank number i. */
static bool home_can_spare(const struct ref *f, const struct table *t, int i)
{
    flags mine, other;
    int in_pool = 0, promised = 0;
    if (!region_of(f, t->rank[i], 0, mine))
        return false;
    for (int s = 0; s < t->n_seats; s++)
        in_pool += mine[t->core[s]];
    for (int k = 0; k < t->n; k++)
        if (region_of(f, t->rank[k], 0, other) && same_region(t, mine, other))
            promised += t->need[k];
    return in_pool > promised;
}

static void set_needs(const struct ref *f, struct table *t)
{
    bool any_home = false;
    for (int i = 0; i < t->n; i++)
        any_home |= has_home(f->inv, gpu_of(f, t->rank[i]));
    for (int i = 0; i < t->n; i++) {
        t->need[i] = t->m / t->n;
        if (!any_home)
            t->need[i] = (i + 1) * t->m / t->n - i * t->m / t->n;
        if (t->m < t->n)
            t->need[i] = 1;
    }
    int extra = any_home && t->m >= t->n ? t->m % t->n : 0;
    for (int i = 0; i < t->n; i++)
        if (extra > 0 && home_can_spare(f, t, i)) {
            t->need[i]++;
            extra--;
        }
    for (int i = 0; i < t->n; i++)
        if (extra > 0 && t->need[i] == t->m / t->n) {
            t->need[i]++;
            extra--;
        }
}

static void serve_group(struct table *t, const bool *is_member, const bool *region)
{
    int deal[RANKS] = {0}, n_free = 0;
    for (int s = 0; s < t->n_seats; s++)
        n_free += t->owner[s] < 0 && region[t->core[s]];
    for (int turn = 0; turn < SEATS; turn++)
        for (int i = 0; i < t->n; i++)
            if (is_member[i] && deal[i] < t->need[i] && n_free > 0) {
                deal[i]++;
                n_free--;
            }
    for (int i = 0; i < t->n; i++)
        for (int s = 0; s < t->n_seats && deal[i] > 0; s++)
            if (t->owner[s] < 0 && region[t->core[s]]) {
                t->owner[s] = i;
                t->need[i]--;
                deal[i]--;
            }
}

static void play_round(const struct ref *f, struct table *t, int round)
{
    bool is_done[RANKS] = {false};
    for (int i = 0; i < t->n; i++) {
        flags mine, other;
        bool is_member[RANKS] = {false};
        if (is_done[i] || t->need[i] == 0 || !region_of(f, t->rank[i], round, mine))
            continue;
        for (int k = i; k < t->n; k++)
            if (t->need[k] > 0 && region_of(f, t->rank[k], round, other) && same_region(t, mine, other))
                is_member[k] = is_done[k] = true;
        serve_group(t, is_member, mine);
    }
}

static bool is_own(const struct ref *f, int pool)
{
    int n = 0, m = 0;
    for (int r = 0; r < f->n; r++)
        n += f->pool_of[r] == pool;
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        m += f->in_pool[pool][c];
    return f->req->keep || m == 0 || (!f->is_one_pool && n == 1);
}

static void serve_pool(struct ref *f, int pool, struct place *ret)
{
    struct table t;
    lay_out(f, pool, &t);
    if (!is_own(f, pool)) {
        set_needs(f, &t);
        for (int round = 0; round < 3; round++)
            play_round(f, &t, round);
    }
    for (int i = 0; i < t.n; i++) {
        struct place *p = &ret[t.rank[i]];
        for (int s = 0; s < t.n_seats && !is_own(f, pool); s++)
            for (int k = 0; k < f->inv->core[t.core[s]].n_cpus && t.owner[s] == i; k++)
                if (cpu_in_pool(f, pool, f->inv->core[t.core[s]].cpu[k]))
                    cpus_add(&p->cpus, f->inv->core[t.core[s]].cpu[k]);
        if (is_own(f, pool))
            p->cpus = f->req->rank[t.rank[i]].mask;
        int gpu = gpu_of(f, t.rank[i]);
        p->reason = t.m < t.n ? PLACE_SHARED : has_home(f->inv, gpu) ? PLACE_GPU : PLACE_SHARE;
        if (is_own(f, pool))
            p->reason = f->req->keep ? PLACE_KEPT : PLACE_OWN;
    }
}

/* --- sections 5 and 6, and the counts --- */

static int memory_node(const struct ref *f, int rank)
{
    int gpu = gpu_of(f, rank), n_of_numa[INVENTORY_NUMAS_MAX + 1] = {0}, n = 0; /* from node -1 */
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        if (f->has[rank][c]) {
            n_of_numa[f->inv->core[c].numa + 1]++;
            n++;
        }
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
        ret[r].gpu = gpu_of(&f, r);
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
