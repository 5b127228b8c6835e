#include "t/lib/machines.h"

#include <stdlib.h>
#include <string.h>

static void add_core(struct inventory *inv, int package, int numa, int cache, int threads)
{
    struct inventory_core *c = &inv->core[inv->n_cores++];
    *c = (struct inventory_core){(int16_t)package, (int16_t)numa, (int16_t)cache, (uint16_t)threads, {0}};
}

static void number_cpus(struct inventory *inv, int threads, enum machine_numbering how)
{
    for (size_t c = 0; c < inv->n_cores; c++)
        for (size_t t = 0; t < (size_t)threads; t++) {
            size_t cpu = how == MACHINE_THREADS_LAST ? c + t * inv->n_cores : c * (size_t)threads + t;
            inv->core[c].cpu[t] = (uint16_t)cpu;
            cpus_add(&inv->all, (unsigned)cpu);
        }
    inv->allowed = inv->all;
}

struct inventory *machine_make(int packages, int numas, int caches, int cores, int threads, enum machine_numbering how)
{
    struct inventory *inv = calloc(1, sizeof *inv);
    for (int c = 0; c < packages * numas * caches * cores; c++) {
        int cache = c / cores, numa = cache / caches;
        add_core(inv, numa / numas, numa, cache, threads);
        inv->numa[numa] = (struct inventory_numa){(int16_t)numa, (int16_t)(numa / numas), 1 << 30};
    }
    inv->n_packages = (size_t)packages;
    inv->n_numas = (size_t)(packages * numas);
    inv->n_caches = (size_t)(packages * numas * caches);
    inv->has_io = true;
    number_cpus(inv, threads, how);
    return inv;
}

struct cpus machine_cpus(const struct inventory *inv, const char *list)
{
    struct cpus set = {{0}};
    if (!strcmp(list, "all"))
        return inv->all;
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long lo = strtoul(list, &end, 10), hi = *end == '-' ? strtoul(end + 1, &end, 10) : lo;
        for (unsigned long cpu = lo; cpu <= hi; cpu++)
            cpus_add(&set, (unsigned)cpu);
        list = *end == ',' ? end + 1 : end;
    }
    return set;
}

void machine_settle_pci(const struct inventory *inv, struct inventory_pci *pci)
{
    int package = -1, numa = -1;
    bool is_first = true;
    for (size_t c = 0; c < inv->n_cores; c++)
        for (size_t t = 0; t < inv->core[c].n_cpus; t++) {
            if (!cpus_has(&pci->local, inv->core[c].cpu[t]))
                continue;
            package = is_first || package == inv->core[c].package ? inv->core[c].package : -1;
            numa = is_first || numa == inv->core[c].numa ? inv->core[c].numa : -1;
            is_first = false;
        }
    pci->package = (int16_t)package;
    pci->numa = (int16_t)numa;
}

static void fill_pci(const struct inventory *inv, struct inventory_pci *pci, const char *local, int root, int bridge)
{
    pci->local = machine_cpus(inv, local);
    pci->bus = (uint8_t)(inv->n_gpus + inv->n_nics + 1);
    pci->depth = 2;
    pci->path[0] = (uint16_t)root;
    pci->path[1] = (uint16_t)bridge;
    machine_settle_pci(inv, pci);
}

void machine_add_gpu(struct inventory *inv, const char *local, int root, int bridge)
{
    fill_pci(inv, &inv->gpu[inv->n_gpus].pci, local, root, bridge);
    inv->n_gpus++;
}

void machine_add_nic(struct inventory *inv, const char *local, enum inventory_nic_kind kind, int root, int bridge)
{
    struct inventory_nic *nic = &inv->nic[inv->n_nics];
    fill_pci(inv, &nic->pci, local, root, bridge);
    nic->kind = kind;
    nic->is_active = true;
    inv->n_nics++;
}
