/* scatter.c - reduce-scatter of the caller's memory, in pieces through the memory of collectives.c. A piece is a range
 * for each rank, and a work that reduces the ranges. They are laid in the order of their owners (comm_owned), so that
 * where all nodes have as many ranks each rank owns what it is to have, and nothing else moves; elsewhere the works
 * give all of it to all. There is room for two pieces: one is copied while the other is reduced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/wireup.h"

struct piece {
    comm_work_t *work;
    size_t at, n; /* elements of each rank's part */
};

struct scatter {
    comm_t *c;
    const char *in;
    char *out;
    size_t n_elems, elem_bytes;
    enum ddp_dtype dtype;
    enum ddp_op op;
    size_t most;                /* elements of a rank's range in a piece */
    bool is_even;               /* all nodes have as many ranks */
    struct comm_range *ranges;  /* [2][size] */
    int *rank_of;               /* [size] whose range i is */
    struct piece pieces[2];
};

static bool is_even(const struct world *w)
{
    return world_min_local_size(w) * w->n_nodes == w->size;
}

static int prepare(struct scatter *x, ddp_error_t *errp)
{
    const struct world *w = x->c->world;
    size_t size = (size_t)w->size, bytes = x->c->moves.stride / 2 / size / COMM_BLOCK * COMM_BLOCK;
    x->most = bytes / x->elem_bytes;
    if (x->most == 0)
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "reduce-scatter: %d ranks are more than it can do", w->size);
    x->ranges = calloc(2 * size, sizeof *x->ranges);
    x->rank_of = calloc(size, sizeof *x->rank_of);
    if (!x->ranges || !x->rank_of)
        return error_errno(errp, "reduce-scatter");
    x->is_even = is_even(w);
    for (int i = 0; i < w->size; i++)
        x->rank_of[i] = x->is_even ? world_rank_at(w, i % w->n_nodes, i / w->n_nodes) : i;
    for (size_t i = 0; i < 2 * size; i++)
        x->ranges[i] = (struct comm_range){.offset_bytes = i * bytes, .dtype = x->dtype};
    return 0;
}

static int begin(struct scatter *x, int half, size_t at, size_t n, ddp_error_t *errp)
{
    comm_t *c = x->c;
    size_t size = (size_t)c->world->size;
    struct comm_range *ranges = x->ranges + (size_t)half * size;
    char *own = segment_part(&c->moves, c->local);
    for (size_t i = 0; i < size; i++) {
        ranges[i].n_elems = n;
        memcpy(own + ranges[i].offset_bytes, x->in + ((size_t)x->rank_of[i] * x->n_elems + at) * x->elem_bytes,
               n * x->elem_bytes);
    }
    struct comm_reduce r = {.segment = &c->moves, .ranges = ranges, .n_ranges = size, .op = x->op};
    r.owned_only = x->is_even;
    r.is_scatter = true;
    x->pieces[half] = (struct piece){comm_reduce_start(c, &r, errp), at, n};
    return x->pieces[half].work ? 0 : -1;
}

static int end(struct scatter *x, int half, ddp_error_t *errp)
{
    comm_t *c = x->c;
    struct piece *p = &x->pieces[half];
    if (!p->work)
        return 0;
    int rc = comm_wait(p->work, errp);
    p->work = NULL;
    if (rc < 0)
        return -1;
    for (int i = 0; i < c->world->size; i++)
        if (x->rank_of[i] == c->rank)
            memcpy(x->out + p->at * x->elem_bytes,
                   segment_part(&c->moves, c->local) + x->ranges[half * c->world->size + i].offset_bytes,
                   p->n * x->elem_bytes);
    return 0;
}

static int move(struct scatter *x, ddp_error_t *errp)
{
    int half = 0;
    for (size_t at = 0, n; at < x->n_elems; at += n, half = !half) {
        n = x->n_elems - at < x->most ? x->n_elems - at : x->most;
        if (begin(x, half, at, n, errp) < 0 || end(x, !half, errp) < 0)
            return -1;
    }
    return end(x, !half, errp); /* the last piece */
}

int comm_reduce_scatter(comm_t *c, const void *in, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, void *out,
                        ddp_error_t *errp)
{
    struct scatter x = {.c = c, .in = in, .out = out, .n_elems = n_elems, .elem_bytes = dtype_size(dtype)};
    x.dtype = dtype;
    x.op = op;
    int rc = prepare(&x, errp);
    if (rc < 0)
        comm_fail(c, errp);
    else
        rc = move(&x, errp);
    for (int half = 0; half < 2; half++) /* after an error: the works know the ranges */
        comm_wait(x.pieces[half].work, NULL);
    free(x.ranges);
    free(x.rank_of);
    return rc;
}
