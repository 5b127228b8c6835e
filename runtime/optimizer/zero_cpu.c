#include "runtime/optimizer/zero_cpu.h"

#include <errno.h>
#include <stdlib.h>

#define UNIT_BYTES (NORM_BLOCK * sizeof(float)) /* that in which gradients are reduced to their owners */

bool zero_cpu_is_wanted(enum zero_mode setting, const struct ddp_world *w, size_t n_bytes)
{
    if (setting == ZERO_AUTO)
        return w->n_nodes == 1 && w->size > 1 && n_bytes >= ZERO_AUTO_BYTES;
    return setting == ZERO_ON;
}

static int allocate(struct zero_cpu *z, const struct reducer *r, ddp_error_t *errp)
{
    z->n_buckets = reducer_n_buckets(r);
    z->range = calloc((size_t)r->layout->n + 1, sizeof *z->range);
    z->bucket = calloc((size_t)z->n_buckets + 1, sizeof *z->bucket);
    if (!z->range || !z->bucket)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d buckets", z->n_buckets);
    z->values = comm_segment_create(r->comm, r->layout->n_bytes, errp);
    return z->values ? 0 : -1;
}

/* Fills bucket b, whose ranges start at `range`, and makes slices of the pieces that this rank owns. */
static int share(struct zero_cpu_bucket *z, const struct reducer *r, int b, struct comm_range *range,
                 struct optimizer *o, ddp_error_t *errp)
{
    struct comm_piece p;
    int n;
    const int *id = reducer_bucket(r, b, &n);
    *z = (struct zero_cpu_bucket){.range = range, .n_ranges = (size_t)n, .first = o->n_slices};
    for (int i = 0; i < n; i++)
        range[i] = (struct comm_range){r->layout->param[id[i]].offset_bytes, r->layout->param[id[i]].n_elems, DDP_F32};
    for (struct comm_pieces it = comm_owned(r->comm, range, (size_t)n, UNIT_BYTES); comm_piece_next(&it, &p);)
        if (optimizer_own(o, r->layout, id[p.range], p.first, p.n_elems, errp) < 0)
            return -1;
    z->end = o->n_slices;
    return 0;
}

int zero_cpu_open(struct zero_cpu *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp)
{
    struct zero_cpu made = {0};
    int rc = allocate(&made, r, errp);
    struct comm_range *range = made.range;
    for (int b = 0; rc == 0 && b < made.n_buckets; b++) {
        rc = share(&made.bucket[b], r, b, range, o, errp);
        range += made.bucket[b].n_ranges;
    }
    if (rc < 0) {
        zero_cpu_close(&made);
        return -1;
    }
    *z = made;
    return 0;
}

void zero_cpu_close(struct zero_cpu *z)
{
    free(z->range);
    free(z->bucket);
    *z = (struct zero_cpu){0};
}

int zero_cpu_apply(struct zero_cpu *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp)
{
    for (struct zero_cpu_bucket *b = z->bucket; b < z->bucket + z->n_buckets; b++) {
        optimizer_apply(o, b->first, b->end, comm_segment_data(z->values), reducer_grads(r), reducer_used(r));
        b->work = comm_gather_start(r->comm, z->values, b->range, b->n_ranges, UNIT_BYTES, errp);
        if (!b->work)
            return -1;
    }
    for (struct zero_cpu_bucket *b = z->bucket; b < z->bucket + z->n_buckets; b++) {
        comm_work_t *work = b->work;
        b->work = NULL;
        if (comm_wait(work, errp) < 0)
            return -1;
    }
    return 0;
}
