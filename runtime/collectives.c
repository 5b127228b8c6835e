/* collectives.c - collectives on the caller's own memory. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/handle.h"

struct ddp_work {
    ddp_t *d;
    comm_work_t *work;
    ddp_work_t *next;
};

static int expect(const ddp_t *d, const char *call, ddp_error_t *errp)
{
    if (handle_expect(d, PHASES_ALL, call, errp) < 0)
        return -1;
    if (d->phase == PHASE_MICRO && reducer_has_begun(&d->state.reducer))
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: gradients are on their way: call it before the first "
                         "ddp_grad_ready or after ddp_backward_end", d->team.me.rank, call);
    return 0;
}

EXPORT int ddp_barrier(ddp_t *d, ddp_error_t *errp)
{
    if (expect(d, "ddp_barrier", errp) < 0)
        return -1;
    return comm_barrier(d->team.comm, errp) < 0 ? team_break(&d->team) : 0;
}

static int check_type(size_t n, enum ddp_dtype dtype, const char *call, ddp_error_t *errp)
{
    size_t size = dtype_size(dtype);
    if (!size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: unknown type %d", call, (int)dtype);
    if (n > SIZE_MAX / size)
        return error_set(errp, DDP_E_USAGE, EOVERFLOW, "%s: %zu elements overflow", call, n);
    return 0;
}

EXPORT int ddp_bcast(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, int root, ddp_error_t *errp)
{
    if (expect(d, "ddp_bcast", errp) < 0 || check_type(n, dtype, "ddp_bcast", errp) < 0)
        return -1;
    if (root < 0 || root >= d->team.me.size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_bcast: root %d is not a rank: 0..%d", root,
                         d->team.me.size - 1);
    return comm_bcast(d->team.comm, data, n * dtype_size(dtype), root, errp) < 0 ? team_break(&d->team) : 0;
}

EXPORT int ddp_allgather(ddp_t *d, const void *in, size_t n, enum ddp_dtype dtype, void *out, ddp_error_t *errp)
{
    if (expect(d, "ddp_allgather", errp) < 0 || check_type(n, dtype, "ddp_allgather", errp) < 0)
        return -1;
    return comm_allgather(d->team.comm, in, n * dtype_size(dtype), out, errp) < 0 ? team_break(&d->team) : 0;
}

EXPORT int ddp_alltoall(ddp_t *d, const void *const *in, const size_t *n_in, void *const *out, const size_t *n_out,
                        ddp_error_t *errp)
{
    struct comm_parts parts = {in, n_in, out, n_out};
    if (expect(d, "ddp_alltoall", errp) < 0)
        return -1;
    int rc = comm_alltoall(d->team.comm, &parts, errp);
    return rc < 0 && comm_why(d->team.comm, NULL) ? team_break(&d->team) : rc;
}

static int check_op(enum ddp_op op, const char *call, ddp_error_t *errp)
{
    if (op == DDP_SUM || op == DDP_MIN || op == DDP_MAX)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "%s: unknown operator %d", call, (int)op);
}

EXPORT int ddp_reduce_scatter(ddp_t *d, const void *in, size_t n, enum ddp_dtype dtype, enum ddp_op op, void *out,
                              ddp_error_t *errp)
{
    if (expect(d, "ddp_reduce_scatter", errp) < 0 || check_type(n, dtype, "ddp_reduce_scatter", errp) < 0 ||
        check_op(op, "ddp_reduce_scatter", errp) < 0)
        return -1;
    return comm_reduce_scatter(d->team.comm, in, n, dtype, op, out, errp) < 0 ? team_break(&d->team) : 0;
}

EXPORT ddp_work_t *ddp_allreduce(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, enum ddp_op op,
                                 ddp_error_t *errp)
{
    if (expect(d, "ddp_allreduce", errp) < 0 || check_type(n, dtype, "ddp_allreduce", errp) < 0 ||
        check_op(op, "ddp_allreduce", errp) < 0)
        return NULL;
    ddp_work_t *w = calloc(1, sizeof *w);
    if (!w) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "ddp_allreduce: no memory");
        return NULL;
    }
    w->work = comm_allreduce_start(d->team.comm, data, n, dtype, op, errp);
    if (!w->work) {
        team_break(&d->team);
        free(w);
        return NULL;
    }
    w->d = d;
    w->next = d->works;
    d->works = w;
    return w;
}

EXPORT int ddp_wait(ddp_work_t *w, ddp_error_t *errp)
{
    if (!w)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_wait: nothing to wait for");
    ddp_t *d = w->d;
    if (handle_expect_rank(d, "ddp_wait", errp) < 0)
        return -1;
    int rc = comm_wait(w->work, errp);
    ddp_work_t **at = &d->works;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
    return rc < 0 ? team_break(&d->team) : 0;
}

void handle_free_works(ddp_t *d)
{
    for (ddp_work_t *w = d->works, *next; w; w = next) {
        next = w->next;
        free(w); /* what it waits for goes with the communicator */
    }
    d->works = NULL;
}

EXPORT void *ddp_alloc(ddp_t *d, size_t n_bytes, ddp_error_t *errp)
{
    if (expect(d, "ddp_alloc", errp) < 0)
        return NULL;
    comm_segment_t *s = comm_segment_create(d->team.comm, n_bytes, errp);
    if (!s)
        team_break(&d->team);
    return s ? comm_segment_data(s) : NULL;
}
