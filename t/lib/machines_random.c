/* Random machines and requests, odd ones included: packages of unequal size, cores with fewer threads, GPUs whose local
 * CPUs are anything, masks that cut cores in two or name CPUs that are not there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/lib/machines.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t state;

static uint64_t draw(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static int below(int n)
{
    return (int)(draw() % (uint64_t)n);
}

static void add_cache(struct inventory *inv, int package, int numa, int threads, int n_cores)
{
    for (int i = 0; i < n_cores; i++) {
        struct inventory_core *c = &inv->core[inv->n_cores++];
        c->package = (int16_t)package;
        c->numa = (int16_t)numa;
        c->cache = (int16_t)inv->n_caches;
        c->n_cpus = (uint16_t)(below(20) ? threads : 1 + below(threads));
    }
    inv->n_caches++;
}

static void add_cpu(struct inventory *inv, int core, int thread, int cpu)
{
    inv->core[core].cpu[thread] = (uint16_t)cpu;
    cpus_add(&inv->all, (unsigned)cpu);
}

/* In turn (one of both ways), sometimes with holes between. */
static void number_cpus(struct inventory *inv)
{
    int cpu = below(4) ? 0 : below(70), hole = below(4) ? 1 : 2;
    if (below(2)) {
        for (int c = 0; c < (int)inv->n_cores; c++)
            for (int t = 0; t < inv->core[c].n_cpus; t++, cpu += hole)
                add_cpu(inv, c, t, cpu);
        return;
    }
    for (int t = 0; t < INVENTORY_THREADS_MAX; t++)
        for (int c = 0; c < (int)inv->n_cores; c++)
            if (t < inv->core[c].n_cpus) {
                add_cpu(inv, c, t, cpu);
                cpu += hole;
            }
}

static struct inventory *random_machine(void)
{
    struct inventory *inv = calloc(1, sizeof *inv);
    int threads = (int[]){1, 1, 2, 2, 4, 8}[below(6)], is_even = below(2);
    int numas = 1 + below(3), caches = 1 + below(3), cores = 1 + below(5);
    inv->n_packages = (size_t)(1 + below(4));
    for (int p = 0; p < (int)inv->n_packages; p++)
        for (int n = 0, n_numas = is_even ? numas : 1 + below(3); n < n_numas; n++) {
            inv->numa[inv->n_numas] =
                (struct inventory_numa){(int16_t)inv->n_numas, (int16_t)p, below(8) ? 1 << 30 : 0};
            for (int l = 0, n_caches = is_even ? caches : 1 + below(3); l < n_caches; l++)
                add_cache(inv, p, (int)inv->n_numas, threads, is_even ? cores : 1 + below(5));
            inv->n_numas++;
        }
    int unknown = below(40); /* now and then a machine that does not tell */
    for (size_t c = 0; c < inv->n_cores; c++) {
        inv->core[c].package = unknown == 0 ? -1 : inv->core[c].package;
        inv->core[c].numa = unknown == 1 ? -1 : inv->core[c].numa;
    }
    number_cpus(inv);
    inv->allowed = inv->all;
    inv->has_io = true;
    return inv;
}

/* As hwloc makes it of "package:2 [numa] l3:2 core:4 pu:2": memory as a level of its own or beside one, CPUs numbered
 * as Linux does on x86 or one core after another. */
static struct inventory *synthetic_machine(void)
{
    ddp_error_t e;
    char text[128];
    struct inventory *inv = calloc(1, sizeof *inv);
    static const char *const orders[] = {"", "(indexes=core:pu)", "(indexes=package:core:pu)"};
    static const char *const memories[] = {"[numa(memory=1GB)]", "numa:2", "numa:3", "numa:4"};
    int n_numas = 1 + below(4), n_packages = 1 + below(3), n_caches = 1 + below(3), n_cores = 1 + below(6),
        n_threads = 1 << below(3);
    snprintf(text, sizeof text, "package:%d %s l3:%d core:%d pu:%d%s", n_packages, memories[n_numas - 1], n_caches,
             n_cores, n_threads, orders[below(3)]);
    setenv("HWLOC_SYNTHETIC", text, 1);
    if (!inv || inventory_load(NULL, false, inv, &e) < 0 ||
        (int)inv->n_packages != n_packages || (int)inv->n_numas != n_packages * n_numas ||
        (int)inv->n_cores != n_packages * n_numas * n_caches * n_cores)
        abort();
    unsetenv("HWLOC_SYNTHETIC");
    snprintf(inv->origin, sizeof inv->origin, "%.63s", text);
    return inv;
}

static void add_core_cpus(const struct inventory *inv, int core, struct cpus *set)
{
    for (int t = 0; t < inv->core[core].n_cpus; t++)
        cpus_add(set, inv->core[core].cpu[t]);
}

enum region_kind { REGION_NUMA, REGION_PACKAGE, REGION_CACHE, REGION_ALL, REGION_NONE, REGION_CPUS, REGION_KINDS };

/* Like the region of `kind` that this core lies in. */
static struct cpus region_of(const struct inventory *inv, int core, enum region_kind kind)
{
    struct cpus set = {{0}};
    const struct inventory_core *of = &inv->core[core];
    int percent = 10 + below(60);
    for (int c = 0; c < (int)inv->n_cores; c++) {
        const struct inventory_core *o = &inv->core[c];
        if ((kind == REGION_NUMA && o->numa == of->numa) || (kind == REGION_PACKAGE && o->package == of->package) ||
            (kind == REGION_CACHE && o->cache == of->cache) || kind == REGION_ALL)
            add_core_cpus(inv, c, &set);
        for (int t = 0; t < o->n_cpus && kind == REGION_CPUS; t++)
            if (below(100) < percent)
                cpus_add(&set, o->cpu[t]);
    }
    if (below(10) == 0)
        cpus_add(&set, CPUS_MAX - 1); /* not one of the machine's */
    return set;
}

static void random_pci(const struct inventory *inv, struct inventory_pci *pci, enum region_kind kind)
{
    pci->local = region_of(inv, below((int)inv->n_cores), kind);
    pci->bus = (uint8_t)(inv->n_gpus + inv->n_nics + 1);
    pci->depth = (uint8_t)below(4);
    for (int i = 0; i < pci->depth; i++)
        pci->path[i] = (uint16_t)(i == 0 ? below(3) : pci->path[i - 1] * 2 + 3 + below(2));
    machine_settle_pci(inv, pci);
}

static void add_devices(struct inventory *inv)
{
    int n_gpus = below(4) ? below(9) : 0, n_nics = below(6);
    bool is_like = below(3) > 0; /* GPUs of one kind of locality, as most machines have */
    enum region_kind kind = (enum region_kind)below(REGION_KINDS);
    for (int i = 0; i < n_gpus; i++) {
        random_pci(inv, &inv->gpu[inv->n_gpus].pci, is_like ? kind : (enum region_kind)below(REGION_KINDS));
        inv->n_gpus++;
    }
    for (int i = 0; i < n_nics; i++) {
        struct inventory_nic *nic = &inv->nic[inv->n_nics];
        random_pci(inv, &nic->pci, (enum region_kind)below(REGION_KINDS));
        nic->kind = (enum inventory_nic_kind)(below(2) ? NIC_ETHERNET : below(4));
        nic->is_active = below(4) > 0;
        inv->n_nics++;
    }
}

/* Ranks in blocks or in turn, or whatever comes. */
static void random_masks(struct random_case *c)
{
    enum { SHARED, PART, OWN_BLOCKS, OWN_THREADS, SOME, REGIONS, KINDS };
    int kind = below(KINDS);
    struct cpus part = region_of(c->inv, below((int)c->inv->n_cores), below(2) ? REGION_CPUS : REGION_PACKAGE);
    int n = c->req.n_ranks, width = 1 + (int)c->inv->n_cores / n;
    for (int r = 0; r < n; r++) {
        struct cpus *mask = &c->rank[r].mask;
        if (kind == SHARED || kind == PART)
            *mask = kind == SHARED ? c->inv->all : part;
        if (kind == OWN_BLOCKS)
            for (int i = r * width; i < (r + 1) * width && i < (int)c->inv->n_cores; i++)
                add_core_cpus(c->inv, i, mask);
        if (kind == OWN_THREADS)
            for (int i = 0; i < (int)c->inv->n_cores; i++)
                for (int t = 0; t < c->inv->core[i].n_cpus; t++)
                    if (c->inv->core[i].cpu[t] % n == r)
                        cpus_add(mask, c->inv->core[i].cpu[t]);
        if (kind == SOME)
            *mask = region_of(c->inv, 0, REGION_CPUS);
        if (kind == REGIONS)
            *mask = region_of(c->inv, below((int)c->inv->n_cores), (enum region_kind)below(REGION_KINDS));
    }
}

/* n different GPUs in any order; now and then one that is not in the inventory, or one twice. */
static void random_list(const struct inventory *inv, struct placement_rank *rank, int n)
{
    bool is_taken[INVENTORY_GPUS_MAX] = {false};
    rank->n_devices = (int16_t)n;
    for (int i = 0; i < n; i++) {
        int g = below((int)inv->n_gpus), odd = below(20);
        while (is_taken[g])
            g = (g + 1) % (int)inv->n_gpus;
        is_taken[g] = true;
        rank->device[i] = (int16_t)(odd == 0 ? -1 : odd == 1 ? below((int)inv->n_gpus) : g);
    }
}

static void random_devices(struct random_case *c)
{
    int n_gpus = (int)c->inv->n_gpus;
    enum { NONE, ALL, SAME, ONE_EACH, OWN, KINDS };
    int kind = n_gpus ? below(KINDS) : NONE;
    struct placement_rank same = {.n_devices = 0};
    if (kind == SAME)
        random_list(c->inv, &same, 1 + below(n_gpus));
    for (int r = 0; r < c->req.n_ranks; r++) {
        struct placement_rank *rank = &c->rank[r];
        if (kind == ALL) {
            rank->n_devices = (int16_t)n_gpus;
            for (int i = 0; i < n_gpus; i++)
                rank->device[i] = (int16_t)i;
        }
        if (kind == SAME) {
            rank->n_devices = same.n_devices;
            memcpy(rank->device, same.device, sizeof same.device);
        }
        if (kind == ONE_EACH) {
            rank->n_devices = 1;
            rank->device[0] = (int16_t)(r % n_gpus);
        }
        if (kind == OWN)
            random_list(c->inv, rank, below(n_gpus + 1));
    }
}

static void make_request(struct inventory *inv, struct random_case *ret)
{
    *ret = (struct random_case){.inv = inv};
    add_devices(inv);
    int n_cores = (int)ret->inv->n_cores;
    ret->req.n_ranks = 1 + (below(3) ? below(9) : below(2 * n_cores < 40 ? 2 * n_cores : 40));
    ret->rank = calloc((size_t)ret->req.n_ranks, sizeof *ret->rank);
    ret->req.inventory = ret->inv;
    ret->req.rank = ret->rank;
    ret->req.keep = below(6) ? NULL : "bind=none";
    random_masks(ret);
    random_devices(ret);
}

void random_case_make(uint64_t seed, struct random_case *ret)
{
    state = seed * 2654435761u + 1;
    make_request(random_machine(), ret);
}

void random_case_synthetic(uint64_t seed, struct random_case *ret)
{
    state = seed * 2654435761u + 1;
    make_request(synthetic_machine(), ret);
}

void random_case_free(struct random_case *c)
{
    free(c->rank);
    free(c->inv);
}
