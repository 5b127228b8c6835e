/* Operations between nodes, among the owners of one local index. Their slice of an operation is cut into one sub-slice
 * per node, sub-slices into chunks. For each chunk, every other node sends the sub-slice's own node its PARTIAL (the
 * sum over its ranks); that one combines them in the fixed order as soon as all are there, and sends the RESULT to all.
 *
 * Chunks are counted over the whole stream of operations, so that the pipeline runs on from one to the next (buckets
 * follow each other without a pause). RESULT k is also the credit for PARTIAL k + NET_WINDOW: the slot in which it will
 * land is free. So a PARTIAL can be absorbed even before its operation has been started here, memory is bounded, and no
 * send ever waits for a receiver that waits for it. A gather consists of RESULTs alone, which have no slot: one that is
 * early is left in its connection. It goes out after all messages of earlier operations to that node, so that what it
 * holds up belongs to later ones.
 *
 * Two nodes swap what is small: each sends the other its partials of the whole slice and combines all of them. That is
 * as many bytes in one turn instead of two, and who has sent its part holds nobody up. Nothing is sent back, which a
 * node that leaves after its last sum would not read. Swapped chunks have slots and a count of their own; a node sends
 * one of them once it has combined the one NET_WINDOW / 2 before: by then the other had sent that, and so combined the
 * one NET_WINDOW before, whose slot this one takes. Sums for a visitor, or of owned parts alone, are not swapped. */
#include <stdlib.h>
#include <string.h>

#include "kernels/reduce.h"
#include "runtime/comm/wireup.h"

/* Chunk and window: measured with 128 KiB to 1 MiB and 4 or 8 (25 MiB, two network namespaces, 14.4 to 16.1 ms). */
enum {
    NET_WINDOW = 8,
    CHUNK_MAX = 128 << 10,
    CHUNK_MIN = 32 << 10,
    SWAP_MAX = 512 << 10, /* bytes of a slice: to combine all of more takes as long as a turn */
    SCRATCH_BYTES = 32 << 20, /* in which the slots of all nodes fit while chunks are at least CHUNK_MIN */
};

/* A place in the stream: chunk of operation. */
struct place {
    uint64_t op, chunk;
};

/* Partials to a node and from it: of what each combines for both, or of swaps. */
struct lane {
    uint64_t n_sent, n_free; /* to it; how many of these have left their slots there again, as far as is known */
    uint64_t n_got, n_own;   /* from it; how many of these are combined */
    uint64_t window;         /* so many are under way at most */
    char *slots;             /* [NET_WINDOW] */
    struct tcp_header got[NET_WINDOW]; /* of the partials in the slots */
};

struct peer {
    struct place partial, result; /* the next to it; the next from it */
    struct lane lane;
};

struct net {
    struct peer *peers; /* [n_nodes] */
    struct lane swaps;  /* with the other of two nodes */
    struct place own;   /* what is combined here next */
    uint64_t chunk;     /* blocks */
    size_t slot_bytes;
    char *scratch; /* [n_nodes][NET_WINDOW] slots: of that node's lane; this node's are those of swaps */
    char *bounce;  /* [n_nodes] tiles */
};

static struct lane *lane_of(comm_t *c, int node, const struct op *o)
{
    struct net *x = c->engine.net;
    return o->is_swapped ? &x->swaps : &x->peers[node].lane;
}

static char *slot_at(const struct net *x, const struct lane *l, uint64_t n)
{
    return l->slots + n % NET_WINDOW * x->slot_bytes;
}

static uint64_t n_chunks(const comm_t *c, uint64_t op, int node)
{
    return comm_n_chunks(engine_op(&((comm_t *)c)->engine, op)->subs[node], c->engine.net->chunk);
}

static struct comm_span chunk_of(comm_t *c, const struct place *p, int node)
{
    const struct op *o = engine_op(&c->engine, p->op);
    return comm_chunk(&o->ranges, o->subs[node], p->chunk, c->engine.net->chunk);
}

/* What a place is one of. */
enum stream { PARTIALS, RESULTS, OWN };

static bool has_none(const struct op *o, enum stream s)
{
    return (s == PARTIALS && o->work->kind == WORK_GATHER) || (s == RESULTS && o->is_swapped);
}

/* Moves a place on past ends of operations that are open. Is it in an open one? */
static bool settle(comm_t *c, struct place *p, int node, enum stream s)
{
    for (; p->op <= c->engine.opened; p->op++, p->chunk = 0)
        if (!has_none(engine_op(&c->engine, p->op), s) && p->chunk < n_chunks(c, p->op, node))
            return true;
    return false;
}

/* ---- out ---- */

static struct comm_pieces pieces(const struct op *o, struct comm_span s)
{
    return comm_pieces(o->ranges.ranges, o->ranges.n_ranges, s);
}

/* Posts a span of this rank's part. */
static void post(comm_t *c, int node, enum tcp_kind kind, const struct place *p, struct comm_span s)
{
    const struct op *o = engine_op(&c->engine, p->op);
    struct comm_piece piece;
    size_t n = 0;
    for (struct comm_pieces it = pieces(o, s); comm_piece_next(&it, &piece);)
        n++;
    struct tcp_message *m = tcp_message_create(&(struct tcp_header){.call = o->work->call,
                                                                    .number = o->work->number,
                                                                    .kind = kind,
                                                                    .chunk = (uint32_t)p->chunk},
                                               n);
    if (!m) {
        watch_abort(c->watch, "out of memory");
        return;
    }
    for (struct comm_pieces it = pieces(o, s); comm_piece_next(&it, &piece);)
        tcp_message_add(m, segment_part(o->segment, c->local) + piece.offset_bytes, piece.n_bytes);
    tcp_post(c->tcp, node, m, p->op);
}

static bool send_partials(comm_t *c, int node)
{
    struct peer *k = &c->engine.net->peers[node];
    bool has_moved = false;
    while (settle(c, &k->partial, node, PARTIALS)) {
        const struct op *o = engine_op(&c->engine, k->partial.op);
        struct lane *l = lane_of(c, node, o);
        if (l->n_sent == l->n_free + l->window)
            break;
        struct comm_span s = chunk_of(c, &k->partial, node);
        struct comm_piece p;
        for (struct comm_pieces it = pieces(o, s); comm_piece_next(&it, &p);)
            engine_reduce_node(c, o, &p, 0, p.n_elems, false);
        post(c, node, o->is_swapped ? TCP_SWAP : TCP_PARTIAL, &k->partial, s);
        k->partial.chunk++;
        l->n_sent++;
        has_moved = true;
    }
    return has_moved;
}

/* ---- what is combined here ---- */

/* A swap's results are written where this node's partials lie: has the kernel taken those of the next chunk? */
static bool is_own_sent(comm_t *c, int node, const struct lane *swaps)
{
    return swaps->n_sent > swaps->n_own && tcp_is_sent(c->tcp, node, c->engine.net->own.op);
}

/* 1: the partials of the next chunk are there; 0: not yet; -1: they are of another call, and the cause is raised. */
static int is_complete(comm_t *c, const struct op *o)
{
    for (int k = 0; k < c->n_nodes; k++) {
        const struct lane *l = lane_of(c, k, o);
        const struct tcp_header *h = &l->got[l->n_own % NET_WINDOW];
        if (k == c->node)
            continue;
        if (l->n_got == l->n_own || (o->is_swapped && !is_own_sent(c, k, l)))
            return 0;
        if (h->call != o->work->call || h->chunk != (uint32_t)c->engine.net->own.chunk) {
            watch_differs(c->watch, world_rank_at(c->world, k, c->local), h->call, c->rank, o->work->call);
            return -1;
        }
    }
    return 1;
}

/* A node's partial of a tile. Messages are packed: what follows a range of odd length is not aligned to its type. */
static const void *partial_at(comm_t *c, const struct op *o, int node, size_t at, size_t n, size_t size)
{
    struct net *x = c->engine.net;
    const struct lane *l = lane_of(c, node, o);
    const char *p = slot_at(x, l, l->n_own) + at;
    if (at % size == 0)
        return p;
    return memcpy(x->bounce + (size_t)node * ENGINE_TILE, p, n);
}

/* Combines elements [at, at + n) of a piece; packed: where the piece begins in the messages. */
static void combine_tile(comm_t *c, const struct op *o, const struct comm_piece *p, size_t packed, size_t at, size_t n)
{
    const comm_work_t *w = o->work;
    size_t size = dtype_size(p->dtype), offset = p->offset_bytes + at * size;
    char *own = segment_part(o->segment, c->local) + offset;
    if (!o->is_swapped) /* else it was, to be sent */
        engine_reduce_node(c, o, p, at, n, false);
    for (int i = 0; i < c->plan.n_slots; i++) {
        int node = c->plan.slot_node[i];
        c->in[i] = node < 0          ? NULL
                   : node == c->node ? own
                                     : partial_at(c, o, node, packed + at * size, n * size, size);
    }
    for (int l = 0; l < c->local_size; l++)
        c->out[l] = segment_part(o->segment, l) + offset;
    kernel_reduce_tree(w->owned_only ? &(void *){own} : c->out, w->owned_only ? 1 : c->local_size, c->in,
                       c->plan.n_slots, n, p->dtype, w->op);
    if (w->visit)
        w->visit(w->ctx, p->range, p->first + at, own, n);
}

static void combine(comm_t *c, const struct op *o, struct comm_span s)
{
    struct comm_piece p;
    size_t packed = 0;
    for (struct comm_pieces it = pieces(o, s); comm_piece_next(&it, &p); packed += p.n_bytes) {
        size_t tile = ENGINE_TILE / dtype_size(p.dtype);
        for (size_t at = 0; at < p.n_elems; at += tile)
            combine_tile(c, o, &p, packed, at, p.n_elems - at < tile ? p.n_elems - at : tile);
    }
}

static void spread(comm_t *c, const struct op *o, struct comm_span s)
{
    struct comm_piece p;
    for (struct comm_pieces it = pieces(o, s); comm_piece_next(&it, &p);)
        engine_spread(c, o->segment, p.offset_bytes, p.n_bytes);
}

/* May a gather's results follow what has been posted to every node? */
static bool is_gather_next(comm_t *c)
{
    struct net *x = c->engine.net;
    for (int k = 0; k < c->n_nodes; k++) {
        if (k != c->node)
            settle(c, &x->peers[k].partial, k, PARTIALS);
        if (k != c->node && x->peers[k].partial.op < x->own.op)
            return false;
    }
    return true;
}

/* Slots are free again. */
static void have_combined(comm_t *c, const struct op *o)
{
    for (int k = 0; k < c->n_nodes; k++)
        if (k != c->node)
            lane_of(c, k, o)->n_own++;
    c->engine.net->swaps.n_free = c->engine.net->swaps.n_own;
}

static void post_results(comm_t *c, const struct op *o, struct comm_span s)
{
    for (int k = 0; k < c->n_nodes; k++)
        if (k != c->node)
            post(c, k, TCP_RESULT, &c->engine.net->own, o->work->owned_only ? (struct comm_span){0, 0} : s);
}

static bool combine_next(comm_t *c)
{
    struct net *x = c->engine.net;
    if (!settle(c, &x->own, c->node, OWN))
        return false;
    const struct op *o = engine_op(&c->engine, x->own.op);
    struct comm_span s = chunk_of(c, &x->own, c->node);
    if (o->work->kind == WORK_GATHER) {
        if (!is_gather_next(c))
            return false;
        spread(c, o, s);
    } else {
        int rc = is_complete(c, o);
        if (rc <= 0)
            return rc < 0;
        combine(c, o, s);
        have_combined(c, o);
    }
    if (!o->is_swapped)
        post_results(c, o, s);
    x->own.chunk++;
    return true;
}

/* ---- in ---- */

/* The lane of a message; NULL: it is of none. */
static struct lane *lane_of_message(comm_t *c, int node, const struct tcp_header *h)
{
    struct net *x = c->engine.net;
    if (h->kind == TCP_SWAP && c->n_nodes == 2)
        return &x->swaps;
    return h->kind == TCP_PARTIAL ? &x->peers[node].lane : NULL;
}

static uint64_t own_call(void *ctx, uint64_t number)
{
    const comm_t *c = ctx;
    return shm_call(&c->shm, c->local, number);
}

static enum tcp_verdict partial_header(comm_t *c, int node, struct lane *l, const struct tcp_header *h)
{
    struct net *x = c->engine.net;
    uint64_t mine = own_call(c, h->number);
    if (l->n_got - l->n_own >= NET_WINDOW || h->n_bytes > x->slot_bytes || (mine != 0 && mine != h->call))
        return TCP_DIFFERS;
    l->got[l->n_got % NET_WINDOW] = *h;
    return tcp_into(c->tcp, node, slot_at(x, l, l->n_got), h->n_bytes) < 0 ? TCP_NO_MEMORY : TCP_READ;
}

/* The last one may still be arriving. Slots that are free again have numbers of earlier calls. */
static void compare_lane(comm_t *c, int node, const struct lane *l, uint64_t call)
{
    for (uint64_t n = l->n_own; n <= l->n_got; n++) {
        const struct tcp_header *h = &l->got[n % NET_WINDOW];
        if (h->number == c->shm.begun && h->call != call)
            watch_differs(c->watch, world_rank_at(c->world, node, c->local), h->call, c->rank, call);
    }
}

void net_compare(comm_t *c, uint64_t call)
{
    struct net *x = c->engine.net;
    for (int k = 0; k < c->n_nodes; k++)
        if (k != c->node) {
            compare_lane(c, k, &x->peers[k].lane, call);
            if (c->n_nodes == 2)
                compare_lane(c, k, &x->swaps, call);
        }
}

static enum tcp_verdict result_header(comm_t *c, int node, const struct tcp_header *h)
{
    struct net *x = c->engine.net;
    struct place *at = &x->peers[node].result;
    struct comm_piece p;
    if (!settle(c, at, node, RESULTS)) {
        uint64_t mine = own_call(c, h->number);
        return mine != 0 && mine != h->call ? TCP_DIFFERS : TCP_LEAVE;
    }
    const struct op *o = engine_op(&c->engine, at->op);
    if (h->call != o->work->call || h->chunk != (uint32_t)at->chunk)
        return TCP_DIFFERS;
    if (o->work->owned_only)
        return TCP_READ;
    for (struct comm_pieces it = pieces(o, chunk_of(c, at, node)); comm_piece_next(&it, &p);)
        if (tcp_into(c->tcp, node, segment_part(o->segment, c->local) + p.offset_bytes, p.n_bytes) < 0)
            return TCP_NO_MEMORY;
    return TCP_READ;
}

static enum tcp_verdict on_header(void *ctx, int node, const struct tcp_header *h)
{
    comm_t *c = ctx;
    struct lane *l = lane_of_message(c, node, h);
    if (l)
        return partial_header(c, node, l, h);
    return h->kind == TCP_RESULT ? result_header(c, node, h) : TCP_DIFFERS;
}

static void on_message(void *ctx, int node, const struct tcp_header *h)
{
    comm_t *c = ctx;
    struct peer *k = &c->engine.net->peers[node];
    struct lane *l = lane_of_message(c, node, h);
    if (l) {
        l->n_got++;
        return;
    }
    const struct op *o = engine_op(&c->engine, k->result.op);
    if (!o->work->owned_only)
        spread(c, o, chunk_of(c, &k->result, node));
    k->result.chunk++;
    k->lane.n_free += o->work->kind == WORK_REDUCE;
}

/* ---- the whole ---- */

/* Does open operation n still have to be combined here, without that node's partial? */
static bool lacks_partial(comm_t *c, int node, uint64_t n)
{
    struct net *x = c->engine.net;
    settle(c, &x->own, c->node, OWN);
    const struct op *o = engine_op(&c->engine, x->own.op);
    const struct lane *l = lane_of(c, node, o);
    return x->own.op <= n && o->work->kind == WORK_REDUCE && l->n_got == l->n_own;
}

/* Does open operation n wait for that node? */
static bool needs(comm_t *c, int node, uint64_t n)
{
    struct peer *k = &c->engine.net->peers[node];
    settle(c, &k->partial, node, PARTIALS);
    settle(c, &k->result, node, RESULTS);
    return k->partial.op <= n || k->result.op <= n || lacks_partial(c, node, n) || !tcp_is_sent(c->tcp, node, n);
}

/* Ends the oldest operation if it waits for nobody. */
static bool end_share(comm_t *c)
{
    struct engine *e = &c->engine;
    uint64_t n = e->reduced + 1;
    if (n > e->opened)
        return false;
    bool is_needed = false;
    for (int k = 0; k < c->n_nodes; k++) {
        if (k == c->node || !needs(c, k, n))
            continue;
        is_needed = true;
        if (tcp_is_lost(c->tcp, k) && !watch_is_broken(c->watch))
            tcp_lost(c->tcp, k, c->watch, engine_op(e, n)->work->what);
    }
    if (is_needed)
        return false;
    settle(c, &e->net->own, c->node, OWN);
    if (e->net->own.op <= n)
        return false;
    engine_end_share(c);
    return true;
}

bool net_is_swapped(const comm_t *c, const struct op *o)
{
    const comm_work_t *w = o->work;
    size_t n = w->is_staged ? w->staged.n_bytes : (o->slice.end - o->slice.first) * COMM_BLOCK;
    return c->n_nodes == 2 && w->kind == WORK_REDUCE && !w->owned_only && !w->visit && n <= SWAP_MAX;
}

bool net_step(comm_t *c)
{
    int rc = tcp_pump(c->tcp, c->watch);
    bool has_moved = rc > 0;
    for (int k = 0; rc >= 0 && k < c->n_nodes; k++)
        has_moved = (k != c->node && send_partials(c, k)) || has_moved;
    while (rc >= 0 && !watch_is_broken(c->watch) && combine_next(c))
        has_moved = true;
    while (rc >= 0 && end_share(c))
        has_moved = true;
    return has_moved && rc >= 0;
}

/* A missing partial comes before a missing result, which may itself wait for a third node's partial: two that wait for
 * each other's results would otherwise blame each other. */
int net_suspect(comm_t *c)
{
    uint64_t n = c->engine.reduced + 1;
    int found = -1;
    bool found_lacks = false;
    for (int k = 0; k < c->n_nodes; k++) {
        if (k == c->node || !needs(c, k, n))
            continue;
        bool lacks = lacks_partial(c, k, n);
        bool is_older = found < 0 || tcp_moved_ns(c->tcp, k) < tcp_moved_ns(c->tcp, found);
        if (found < 0 || (lacks && !found_lacks) || (lacks == found_lacks && is_older)) {
            found = k;
            found_lacks = lacks;
        }
    }
    return found < 0 ? -1 : world_rank_at(c->world, found, c->local);
}

int net_init(comm_t *c, ddp_error_t *errp)
{
    size_t n = (size_t)c->n_nodes, chunk = (size_t)SCRATCH_BYTES / (n * NET_WINDOW);
    struct net *x = calloc(1, sizeof *x);
    c->engine.net = x;
    if (!x)
        return error_errno(errp, "communicator");
    chunk = chunk > CHUNK_MAX ? CHUNK_MAX : chunk < CHUNK_MIN ? CHUNK_MIN : chunk / COMM_BLOCK * COMM_BLOCK;
    x->chunk = chunk / COMM_BLOCK;
    x->slot_bytes = chunk + COMM_UNIT_MAX; /* a cut may lie almost a unit later */
    x->peers = calloc(n, sizeof *x->peers);
    x->scratch = aligned_alloc(COMM_BLOCK, n * NET_WINDOW * x->slot_bytes);
    x->bounce = aligned_alloc(COMM_BLOCK, n * ENGINE_TILE);
    if (!x->peers || !x->scratch || !x->bounce)
        return error_errno(errp, "communicator");
    x->own.op = 1;
    for (size_t k = 0; k < n; k++) {
        char *slots = x->scratch + k * NET_WINDOW * x->slot_bytes;
        x->peers[k] = (struct peer){.partial.op = 1, .result.op = 1, .lane = {.window = NET_WINDOW, .slots = slots}};
        if ((int)k == c->node)
            x->swaps = (struct lane){.window = NET_WINDOW / 2, .slots = slots};
    }
    tcp_set_handler(c->tcp, &(struct tcp_handler){c, on_header, on_message, own_call});
    return 0;
}

void net_clear(comm_t *c)
{
    struct net *x = c->engine.net;
    if (!x)
        return;
    free(x->peers);
    free(x->scratch);
    free(x->bounce);
    free(x);
    c->engine.net = NULL;
}
