/* A chunk's way between nodes: each owner adds up its node's copies (in place, in its own part of the segment), sends
 * every node the sub-slice that it combines, combines its own from all nodes' partials, and sends the result back to
 * all. The two halves overlap: chunk i's partials travel together with chunk i - 1's results. */
#include <errno.h>
#include <string.h>

#include "kernels/reduce.h"
#include "runtime/comm/host.h"

struct reduction {
    comm_t *c;
    struct comm_segment *s;
    const struct comm_range *ranges;
    size_t n_ranges;
    enum ddp_op op;
    struct comm_span slice;
};

static struct comm_pieces pieces(const struct reduction *r, struct comm_span span)
{
    return comm_pieces(r->ranges, r->n_ranges, span);
}

/* Adds up the node's copies of a span, into this rank's part or into all. */
static void reduce_node(const struct reduction *r, struct comm_span span, bool into_all)
{
    comm_t *c = r->c;
    struct comm_piece p;
    if (c->local_size == 1)
        return;
    for (struct comm_pieces it = pieces(r, span); comm_piece_next(&it, &p);) {
        for (int l = 0; l < c->local_size; l++)
            c->in[l] = c->out[l] = segment_part(r->s, l) + p.offset_bytes;
        void *own = segment_part(r->s, c->local) + p.offset_bytes;
        kernel_reduce_tree(into_all ? c->out : &own, into_all ? c->local_size : 1, c->in, c->local_size, p.n_elems,
                           p.dtype, r->op);
    }
}

/* Writes this rank's copy of a span over the other local ranks'. */
static void spread(const struct reduction *r, struct comm_span span)
{
    struct comm_piece p;
    for (struct comm_pieces it = pieces(r, span); comm_piece_next(&it, &p);)
        for (int l = 0; l < r->c->local_size; l++)
            if (l != r->c->local)
                memcpy(segment_part(r->s, l) + p.offset_bytes, segment_part(r->s, r->c->local) + p.offset_bytes,
                       p.n_bytes);
}

static struct comm_span sub_chunk(const struct reduction *r, int node, uint64_t chunk)
{
    return comm_chunk(comm_cut(r->slice, r->c->n_nodes, node), chunk * r->c->chunk_blocks, r->c->chunk_blocks);
}

/* Node k's partials of a chunk, as they arrived. */
static char *scratch_of(const comm_t *c, int node)
{
    return c->scratch + (size_t)node * c->chunk_blocks * COMM_BLOCK;
}

static void combine_nodes(const struct reduction *r, struct comm_span span)
{
    comm_t *c = r->c;
    struct comm_piece p;
    for (struct comm_pieces it = pieces(r, span); comm_piece_next(&it, &p);) {
        for (int i = 0; i < c->plan.n_slots; i++) {
            int node = c->plan.slot_node[i];
            c->in[i] = node < 0          ? NULL
                       : node == c->node ? segment_part(r->s, c->local) + p.offset_bytes
                                         : scratch_of(c, node) + p.packed_bytes;
        }
        for (int l = 0; l < c->local_size; l++)
            c->out[l] = segment_part(r->s, l) + p.offset_bytes;
        kernel_reduce_tree(c->out, c->local_size, c->in, c->plan.n_slots, p.n_elems, p.dtype, r->op);
    }
}

/* The partials of `chunk` go out and come in. */
static int queue_partials(const struct reduction *r, int node, uint64_t chunk, ddp_error_t *errp)
{
    comm_t *c = r->c;
    struct comm_piece p;
    for (struct comm_pieces it = pieces(r, sub_chunk(r, node, chunk)); comm_piece_next(&it, &p);)
        if (tcp_send(c->tcp, node, segment_part(r->s, c->local) + p.offset_bytes, p.n_bytes, errp) < 0)
            return -1;
    for (struct comm_pieces it = pieces(r, sub_chunk(r, c->node, chunk)); comm_piece_next(&it, &p);)
        if (tcp_recv(c->tcp, node, scratch_of(c, node) + p.packed_bytes, p.n_bytes, errp) < 0)
            return -1;
    return 0;
}

static int queue_results(const struct reduction *r, int node, uint64_t chunk, ddp_error_t *errp)
{
    comm_t *c = r->c;
    struct comm_piece p;
    for (struct comm_pieces it = pieces(r, sub_chunk(r, c->node, chunk)); comm_piece_next(&it, &p);)
        if (tcp_send(c->tcp, node, segment_part(r->s, c->local) + p.offset_bytes, p.n_bytes, errp) < 0)
            return -1;
    for (struct comm_pieces it = pieces(r, sub_chunk(r, node, chunk)); comm_piece_next(&it, &p);)
        if (tcp_recv(c->tcp, node, segment_part(r->s, c->local) + p.offset_bytes, p.n_bytes, errp) < 0)
            return -1;
    return 0;
}

/* One step: results of chunk i - 1 and partials of chunk i, of n chunks. */
static int exchange_step(const struct reduction *r, uint64_t i, uint64_t n, ddp_error_t *errp)
{
    comm_t *c = r->c;
    for (int k = 0; k < c->n_nodes; k++) {
        if (i < n)
            reduce_node(r, sub_chunk(r, k, i), false);
        if (k == c->node)
            continue;
        if ((i > 0 && queue_results(r, k, i - 1, errp) < 0) || (i < n && queue_partials(r, k, i, errp) < 0))
            return comm_fail(c, errp);
    }
    if (tcp_exchange(c->tcp, c->watch, WATCH_IN_ALLREDUCE, errp) < 0)
        return -1;
    if (i < n)
        combine_nodes(r, sub_chunk(r, c->node, i));
    for (int k = 0; i > 0 && k < c->n_nodes; k++)
        if (k != c->node)
            spread(r, sub_chunk(r, k, i - 1));
    return 0;
}

static int exchange_slice(const struct reduction *r, ddp_error_t *errp)
{
    struct comm_span longest = comm_cut(r->slice, r->c->n_nodes, 0);
    uint64_t n = (longest.end - longest.first + r->c->chunk_blocks - 1) / r->c->chunk_blocks;
    for (uint64_t i = 0; n > 0 && i <= n; i++)
        if (exchange_step(r, i, n, errp) < 0)
            return -1;
    return 0;
}

int comm_reduce_checked(comm_t *c, struct comm_segment *s, const struct comm_range *ranges, size_t n_ranges,
                        enum ddp_op op, ddp_error_t *errp)
{
    struct reduction r = {c, s, ranges, n_ranges, op, {0, 0}};
    if (shm_barrier(&c->shm, WATCH_IN_ALLREDUCE, errp) < 0)
        return -1;
    if (c->local < c->n_owners) {
        r.slice = comm_cut((struct comm_span){0, comm_blocks(ranges, n_ranges)}, c->n_owners, c->local);
        if (c->n_nodes == 1)
            reduce_node(&r, r.slice, true);
        else if (exchange_slice(&r, errp) < 0)
            return -1;
    }
    return shm_barrier(&c->shm, WATCH_IN_ALLREDUCE, errp);
}

static int check_range(const comm_segment_t *s, const struct comm_range *r, size_t i, ddp_error_t *errp)
{
    size_t size = dtype_size(r->dtype);
    if (size == 0 || r->offset_bytes % COMM_BLOCK != 0 || r->offset_bytes > s->n_bytes ||
        r->n_elems > (s->n_bytes - r->offset_bytes) / size)
        return error_set(
            errp, DDP_E_USAGE, EINVAL,
            "range %zu (%zu x %s at byte %zu) does not lie in its segment of %zu bytes on a 64-byte boundary", i,
            r->n_elems, dtype_name(r->dtype), r->offset_bytes, s->n_bytes);
    return 0;
}

int comm_reduce_ranges(comm_t *c, comm_segment_t *s, const struct comm_range *ranges, size_t n_ranges, enum ddp_op op,
                       ddp_error_t *errp)
{
    uint64_t args = comm_mix(n_ranges, (uint64_t)op);
    for (size_t i = 0; i < n_ranges; i++) {
        if (check_range(s, &ranges[i], i, errp) < 0)
            return comm_fail(c, errp);
        args = comm_mix(comm_mix(comm_mix(args, ranges[i].offset_bytes), ranges[i].n_elems), (uint64_t)ranges[i].dtype);
    }
    comm_begin(c, WATCH_IN_ALLREDUCE, args);
    return comm_reduce_checked(c, s, ranges, n_ranges, op, errp);
}

int comm_allreduce(comm_t *c, void *data, size_t n_elems, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp)
{
    size_t size = dtype_size(dtype);
    if (size == 0) {
        error_set(errp, DDP_E_USAGE, EINVAL, "all-reduce: unknown element type %d", (int)dtype);
        return comm_fail(c, errp);
    }
    comm_begin(c, WATCH_IN_ALLREDUCE, comm_mix(comm_mix(n_elems, (uint64_t)dtype), (uint64_t)op));
    char *mine = segment_part(&c->stage, c->local), *p = data;
    for (size_t left = n_elems * size, n; left > 0; left -= n, p += n) {
        n = left < c->stage.stride ? left : c->stage.stride;
        memcpy(mine, p, n); /* the barrier that ended the last chunk was the others' last touch of it */
        struct comm_range r = {.n_elems = n / size, .dtype = dtype};
        if (comm_reduce_checked(c, &c->stage, &r, 1, op, errp) < 0)
            return -1;
        memcpy(p, mine, n);
    }
    return watch_is_broken(c->watch) ? watch_error(c->watch, errp) : 0;
}
