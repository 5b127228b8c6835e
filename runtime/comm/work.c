/* Works, in this version carried out by their start. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/comm/host.h"

struct comm_work {
    comm_t *comm;
};

static comm_work_t *done(comm_t *c, int rc, ddp_error_t *errp)
{
    comm_work_t *w = rc < 0 ? NULL : calloc(1, sizeof *w);
    if (!w) {
        if (rc == 0)
            error_errno(errp, "work");
        return NULL;
    }
    w->comm = c;
    return w;
}

comm_work_t *comm_reduce_start(comm_t *c, const struct comm_reduce *r, ddp_error_t *errp)
{
    int rc = comm_reduce_ranges(c, r->segment, r->ranges, r->n_ranges, r->op, errp);
    struct comm_piece p;
    struct comm_pieces it = comm_owned(c, r->ranges, r->n_ranges, r->unit_bytes);
    while (rc == 0 && r->visit && comm_piece_next(&it, &p))
        r->visit(r->ctx, p.range, p.first, segment_part(r->segment, c->local) + p.offset_bytes, p.n_elems);
    return done(c, rc, errp);
}

comm_work_t *comm_gather_start(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges,
                               size_t unit_bytes, ddp_error_t *errp)
{
    (void)unit_bytes;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n_ranges; i++)
        rc = comm_bcast(c, segment_part(s, c->local) + ranges[i].offset_bytes,
                        ranges[i].n_elems * dtype_size(ranges[i].dtype), c->world->size - 1, errp);
    return done(c, rc, errp);
}

comm_work_t *comm_allreduce_start(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op,
                                  ddp_error_t *errp)
{
    return done(c, comm_allreduce(c, data, n_elems, dtype, op, errp), errp);
}

void comm_progress(comm_t *c)
{
    (void)c;
}

bool comm_is_done(const comm_work_t *w)
{
    (void)w;
    return true;
}

int comm_wait(comm_work_t *w, ddp_error_t *errp)
{
    (void)errp;
    free(w);
    return 0;
}

struct comm_pieces comm_owned(const comm_t *c, const struct comm_range *ranges, size_t n_ranges, size_t unit_bytes)
{
    (void)unit_bytes;
    uint64_t end = c->rank == c->world->size - 1 ? comm_blocks(ranges, n_ranges) : 0;
    return comm_pieces(ranges, n_ranges, (struct comm_span){0, end});
}
