/* placebench - how long placement_choose takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "t/lib/machines.h"

enum { ROUNDS = 11 };

enum masks { SHARED, OWN_CORES, KEPT };

static const char *const mask_names[] = {"one mask for all", "a mask each", "a mask each, kept"};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* GPUs and NICs evenly over the cores, each local to its part. */
static void add_devices(struct inventory *inv, int n)
{
    for (int i = 0; i < n; i++) {
        char list[64];
        int part = (int)inv->n_cores / n;
        snprintf(list, sizeof list, "%d-%d", i * part, (i + 1) * part - 1);
        machine_add_gpu(inv, list, i / 4, 100 + i / 2);
        machine_add_nic(inv, list, NIC_INFINIBAND, i / 4, 100 + i / 2);
    }
}

static void give(const struct inventory *inv, struct placement_rank *rank, int n_ranks, enum masks masks)
{
    int n_cores = (int)inv->n_cores;
    for (int r = 0; r < n_ranks; r++) {
        memset(&rank[r], 0, sizeof rank[r]);
        if (masks == SHARED)
            rank[r].mask = inv->all;
        for (int c = r * n_cores / n_ranks; masks != SHARED && c <= ((r + 1) * n_cores - 1) / n_ranks; c++)
            for (int t = 0; t < inv->core[c].n_cpus; t++)
                cpus_add(&rank[r].mask, inv->core[c].cpu[t]);
        rank[r].n_devices = (int16_t)inv->n_gpus;
        for (int g = 0; g < (int)inv->n_gpus; g++)
            rank[r].device[g] = (int16_t)g;
    }
}

static void measure(struct inventory *inv, int n_ranks, enum masks masks)
{
    double ms[ROUNDS];
    ddp_error_t e;
    struct placement_rank *rank = calloc((size_t)n_ranks, sizeof *rank);
    struct place *ret = calloc((size_t)n_ranks, sizeof *ret);
    struct placement_request req = {inv, n_ranks, rank, masks == KEPT ? "kept" : NULL};
    give(inv, rank, n_ranks, masks);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = clock_ns();
        if (placement_choose(&req, ret, &e) < 0)
            fprintf(stderr, "%s\n", e.text);
        ms[i] = (double)(clock_ns() - start) / 1e6;
    }
    qsort(ms, ROUNDS, sizeof *ms, by_value);
    printf("%5zu cores %3zu GPUs %5d ranks, %-17s: median %8.3f ms, longest %8.3f ms\n", inv->n_cores, inv->n_gpus,
           n_ranks, mask_names[masks], ms[ROUNDS / 2], ms[ROUNDS - 1]);
    free(ret);
    free(rank);
}

int main(void)
{
    static const struct { int packages, numas, caches, cores, gpus, ranks[4]; } machines[] = {
        {2, 4, 4, 8, 16, {16, 64, 256}},
        {1, 1, 1, 2, 0, {2, 4096}},
        {2, 4, 1, 1, 8, {4096}},
        {8, 8, 8, 8, 64, {64, 4096}},
    };
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct inventory *inv = machine_make(machines[i].packages, machines[i].numas, machines[i].caches,
                                             machines[i].cores, 2, MACHINE_THREADS_LAST);
        add_devices(inv, machines[i].gpus);
        for (int k = 0; machines[i].ranks[k]; k++)
            for (int masks = SHARED; masks <= KEPT; masks++)
                measure(inv, machines[i].ranks[k], (enum masks)masks);
        free(inv);
    }
    return 0;
}
