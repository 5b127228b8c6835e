/* arena_cpu.c - values and the optimizer's state in the processor's memory, whole or spread over the ranks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/optimizer/arena.h"
#include "runtime/optimizer/zero_cpu.h"

struct arena_cpu {
    comm_t *comm;
    const struct reducer *reducer;
    struct optimizer *optimizer;
    const struct ddp_world *world;
    float *values;
    struct zero_cpu zero; /* values NULL: not spread */
};

static int step(void *ctx, const double *used, ddp_error_t *errp)
{
    struct arena_cpu *a = ctx;
    struct optimizer *o = a->optimizer;
    if (a->zero.values)
        return zero_cpu_apply(&a->zero, a->reducer, o, errp);
    optimizer_apply(o, 0, o->n_slices, a->values, reducer_grads(a->reducer), used);
    return 0;
}

static int read_values(void *ctx, void *host, const void *from, size_t n, ddp_error_t *errp)
{
    (void)ctx;
    (void)errp;
    if (host != from)
        memcpy(host, from, n);
    return 0;
}

static int write_values(void *ctx, void *to, const void *host, size_t n, ddp_error_t *errp)
{
    return read_values(ctx, to, host, n, errp);
}

static int bcast(void *ctx, void *at, size_t n, int root, ddp_error_t *errp)
{
    const struct arena_cpu *a = ctx;
    return comm_bcast(a->comm, at, n, root, errp);
}

static int open_shards(void *ctx, struct shards *p, int n_shards, ddp_error_t *errp)
{
    const struct arena_cpu *a = ctx;
    if (shards_open(p, n_shards, a->reducer->layout->n_bytes / sizeof(float), NULL, errp) < 0)
        return -1;
    const struct budget_part part = {"sums of shards", shards_bytes(p)}; /* nothing of it has been touched yet */
    return budget_check("", &part, 1, a->world->local_size, errp);
}

static void close_all(void *ctx)
{
    struct arena_cpu *a = ctx;
    if (!a->zero.values) /* else the communicator's */
        free(a->values);
    zero_cpu_close(&a->zero);
    free(a);
}

static const struct arena_ops ops = {.step = step,
                                     .read = read_values,
                                     .write = write_values,
                                     .bcast = bcast,
                                     .shards = open_shards,
                                     .close = close_all};

/* Memory for the values: all of them, or what this rank owns. */
static int allocate(struct arena_cpu *a, bool is_spread, ddp_error_t *errp)
{
    const struct layout *l = a->reducer->layout;
    size_t n = l->n_bytes ? l->n_bytes : LAYOUT_ALIGN;
    if (is_spread) {
        if (zero_cpu_open(&a->zero, a->reducer, a->optimizer, errp) < 0)
            return -1;
        a->values = comm_segment_data(a->zero.values);
        return 0;
    }
    if (optimizer_own_all(a->optimizer, l, errp) < 0)
        return -1;
    a->values = aligned_alloc(LAYOUT_ALIGN, n);
    if (!a->values)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for %zu bytes of parameters", a->world->rank,
                         n);
    memset(a->values, 0, n);
    return 0;
}

int arena_cpu_open(struct arena *ret, comm_t *c, const struct reducer *r, struct optimizer *o,
                   const struct ddp_world *w, bool is_spread, ddp_error_t *errp)
{
    struct arena_cpu *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for an arena", w->rank);
    *a = (struct arena_cpu){.comm = c, .reducer = r, .optimizer = o, .world = w};
    *ret = (struct arena){.ops = &ops, .ctx = a, .is_spread = is_spread};
    if (allocate(a, is_spread, errp) < 0)
        return -1;
    ret->values = a->values;
    return optimizer_allocate(o, errp);
}
