/* bootprobe - wires up as libddp does and prints one line per rank, under whatever started it:
 *
 *   bootprobe [--timeout S] [--die RANK | --stall RANK]
 *
 *   rank 2 of 4: node 1 of 2, local 0 of 2, host n2
 *
 * The ranks also exchange values of 0 and of BOOT_VALUE_MAX bytes and compare them. Then, before a last fence, RANK may
 * die by SIGKILL, or never come: S is then the deadline of that fence alone, which the others begin together. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "pmix/world.h"
#include "runtime/base/clock.h"
#include "runtime/base/num.h"

enum { NOBODY = -1, WIRE_UP_S = 30 };

struct plan {
    double timeout_s;
    int die_rank, stall_rank;
};

static uint64_t wire_up_deadline(const struct plan *p)
{
    return deadline_in(p->stall_rank == NOBODY ? p->timeout_s : WIRE_UP_S);
}

static unsigned char pattern(int rank, size_t i)
{
    return (unsigned char)((size_t)(rank + 1) * 31 + i * 7 + i / 251);
}

static int put_values(boot_t *b, ddp_error_t *errp)
{
    static unsigned char big[BOOT_VALUE_MAX];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = pattern(boot_rank(b), i);
    return boot_put(b, "empty", NULL, 0, errp) < 0 || boot_put(b, "big", big, sizeof big, errp) < 0 ? -1 : 0;
}

static int check_values(boot_t *b, int rank, uint64_t deadline, ddp_error_t *errp)
{
    unsigned char *data;
    size_t n, bad = 0;
    void *p;
    if (boot_get(b, rank, "empty", &p, &n, deadline, errp) < 0)
        return -1;
    free(p);
    if (n != 0)
        return error_set(errp, DDP_E_DATA, EPROTO, "rank %d's empty value has %zu bytes", rank, n);
    if (boot_get(b, rank, "big", &p, &n, deadline, errp) < 0)
        return -1;
    data = p;
    for (size_t i = 0; i < n; i++)
        bad += data[i] != pattern(rank, i);
    free(p);
    if (n != BOOT_VALUE_MAX || bad)
        return error_set(errp, DDP_E_DATA, EPROTO, "rank %d's big value has %zu bytes, %zu wrong", rank, n, bad);
    return 0;
}

static int probe(boot_t *b, const struct plan *p, struct world **ret_world, ddp_error_t *errp)
{
    uint64_t deadline = wire_up_deadline(p);
    if (put_values(b, errp) < 0)
        return -1;
    *ret_world = world_exchange(b, deadline, errp);
    if (!*ret_world)
        return -1;
    for (int r = 0; r < boot_size(b); r++)
        if (check_values(b, r, deadline, errp) < 0)
            return -1;
    if (p->stall_rank != NOBODY && boot_fence(b, deadline, errp) < 0)
        return -1;
    if (p->die_rank == boot_rank(b))
        raise(SIGKILL);
    while (p->stall_rank == boot_rank(b))
        pause();
    return boot_fence(b, deadline_in(p->timeout_s), errp);
}

static int usage(void)
{
    fprintf(stderr, "usage: bootprobe [--timeout S] [--die RANK | --stall RANK]\n");
    return 2;
}

static int parse(int argc, char **argv, struct plan *p)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *rank = !strcmp(argv[i], "--die")   ? &p->die_rank
                  : !strcmp(argv[i], "--stall") ? &p->stall_rank
                                                : NULL;
        if (!strcmp(argv[i], "--timeout") ? num_double(value, 0, 3600, &p->timeout_s) < 0
                                          : !rank || num_int(value, 0, 1 << 20, rank) < 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {.timeout_s = WIRE_UP_S, .die_rank = NOBODY, .stall_rank = NOBODY};
    struct world *w = NULL;
    ddp_error_t e;
    if (parse(argc, argv, &plan) < 0)
        return usage();
    boot_t *b = boot_open(wire_up_deadline(&plan), &e);
    if (!b) {
        fprintf(stderr, "bootprobe: %s\n", e.text);
        return 1;
    }
    int rank = boot_rank(b), rc = probe(b, &plan, &w, &e);
    if (rc < 0)
        fprintf(stderr, "bootprobe: rank %d: %s\n", rank, e.text);
    else
        printf("rank %d of %d: node %d of %d, local %d of %d, host %s\n", rank, w->size, w->node_of[rank],
               w->n_nodes, w->local_of[rank], world_local_size(w, w->node_of[rank]), w->host[rank]);
    if (boot_leave(b, &e) < 0) {
        fprintf(stderr, "bootprobe: rank %d: %s\n", rank, e.text);
        rc = -1;
    }
    world_destroy(w);
    return rc < 0 ? 1 : 0;
}
