/* Operations: each leaves the communicator ISSUED, or READY where NCCL was done with it at once. */
#include <errno.h>

#include "runtime/nccl/impl.h"

static int check_type(enum ddp_dtype t, ddp_error_t *errp)
{
    return dtype_size(t) > 0 ? 0 : error_set(errp, DDP_E_USAGE, EINVAL, "NCCL: unknown element type %d", (int)t);
}

/* NCCL has answered `code` to what was called last. */
static int issued(nccl_t *n, int code, ddp_error_t *errp)
{
    if (code != NCCL_OK && code != NCCL_IN_PROGRESS)
        return nccl_break(n, code, WATCH_IN_NCCL, errp);
    n->life = NCCL_ISSUED; /* also where it answers NCCL_OK: an error may show in its state */
    return 0;
}

/* One operation of a group. */
typedef int member_f(nccl_t *n, const void *members, size_t i, int root, void *stream);

static int allreduce_one(nccl_t *n, const void *members, size_t i, int root, void *stream)
{
    const struct nccl_range *r = (const struct nccl_range *)members + i;
    (void)root;
    return r->n_elems ? n->lib->allreduce(n->handle, r->data, r->data, r->n_elems, r->dtype, stream) : NCCL_OK;
}

static int bcast_one(nccl_t *n, const void *members, size_t i, int root, void *stream)
{
    const struct nccl_range *r = (const struct nccl_range *)members + i;
    return r->n_elems ? n->lib->bcast(n->handle, r->data, r->n_elems, r->dtype, root, stream) : NCCL_OK;
}

static int exchange_one(nccl_t *n, const void *members, size_t i, int root, void *stream)
{
    const struct nccl_piece *p = (const struct nccl_piece *)members + i;
    (void)root;
    if (p->n_elems == 0)
        return NCCL_OK;
    return p->is_send ? n->lib->send(n->handle, p->data, p->n_elems, p->dtype, p->peer, stream)
                      : n->lib->recv(n->handle, p->data, p->n_elems, p->dtype, p->peer, stream);
}

/* A group is ended in any case: what a thread has begun would swallow its next calls. */
static int group(nccl_t *n, member_f *f, const void *members, size_t n_members, int root, void *stream,
                 ddp_error_t *errp)
{
    if (n_members == 0)
        return 0;
    int code = n->lib->group_start();
    if (code != NCCL_OK)
        return issued(n, code, errp);
    for (size_t i = 0; i < n_members && (code == NCCL_OK || code == NCCL_IN_PROGRESS); i++)
        code = f(n, members, i, root, stream);
    int end = n->lib->group_end();
    return issued(n, code == NCCL_OK || code == NCCL_IN_PROGRESS ? end : code, errp);
}

int nccl_check_ranges(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, ddp_error_t *errp)
{
    for (size_t i = 0; i < n_ranges; i++)
        if (check_type(ranges[i].dtype, errp) < 0)
            return nccl_break(n, 0, WATCH_IN_NCCL, errp);
    return 0;
}

int nccl_allreduce(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, void *stream, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0 || nccl_check_ranges(n, ranges, n_ranges, errp) < 0)
        return -1;
    return group(n, allreduce_one, ranges, n_ranges, 0, stream, errp);
}

int nccl_bcast(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, int root, void *stream, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0 || nccl_check_ranges(n, ranges, n_ranges, errp) < 0)
        return -1;
    return group(n, bcast_one, ranges, n_ranges, root, stream, errp);
}

int nccl_exchange(nccl_t *n, const struct nccl_piece *pieces, size_t n_pieces, void *stream, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    for (size_t i = 0; i < n_pieces; i++)
        if (check_type(pieces[i].dtype, errp) < 0)
            return nccl_break(n, 0, WATCH_IN_NCCL, errp);
    return group(n, exchange_one, pieces, n_pieces, 0, stream, errp);
}

int nccl_reduce_scatter(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                        ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    if (check_type(t, errp) < 0)
        return nccl_break(n, 0, WATCH_IN_NCCL, errp);
    return issued(n, n->lib->reduce_scatter(n->handle, in, out, n_each, t, stream), errp);
}

int nccl_allgather(nccl_t *n, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream,
                   ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    if (check_type(t, errp) < 0)
        return nccl_break(n, 0, WATCH_IN_NCCL, errp);
    return issued(n, n->lib->allgather(n->handle, in, out, n_each, t, stream), errp);
}
