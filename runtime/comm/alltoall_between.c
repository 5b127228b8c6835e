/* alltoall_between.c - rows between nodes. An owner sends its own out of the caller's memory, and those of its guests,
 * ranks that own nothing, from where these have written them, to the owner of equal local index; there it goes to its
 * place where it is for that owner, else to where the others read it. Nodes take turns by how far they lie apart in a
 * circle, so that a node hears from one other at a time; rows that are short go in one turn. */
#include "runtime/comm/alltoall.h"

/* A turn with the nodes that lie first .. last away. */
struct turn {
    int first, last;
    uint64_t at, most; /* where windows begin, and the longest row of the turn's nodes */
};

static bool next_turn(const struct alltoall *x, struct turn *t)
{
    const comm_t *c = x->c;
    if (t->at + x->window < t->most) {
        t->at += x->window;
        return true;
    }
    while (t->last < c->n_nodes - 1) {
        t->first = t->last + 1;
        t->last = t->last + x->n_at_once < c->n_nodes ? t->last + x->n_at_once : c->n_nodes - 1;
        t->at = 0;
        t->most = alltoall_longest(x, t->first, t->last);
        if (t->most > 0)
            return true;
    }
    return false;
}

static int node_at(const comm_t *c, int by)
{
    return (c->node + by + c->n_nodes) % c->n_nodes;
}

/* Two places take turns. In each are windows of what a guest has written, to the i-th node; */
static char *written(const struct alltoall *x, int local, int place, int i)
{
    return segment_part(&x->c->moves, local) + (size_t)(place * x->n_at_once + i) * x->window;
}

/* of what has come to an owner, of that local rank of the i-th node. */
static char *arrived(const struct alltoall *x, int local, int place, int i)
{
    size_t row = (size_t)(place * x->n_rows + local / x->c->n_owners);
    return segment_part(&x->c->moves, local % x->c->n_owners) + (row * (size_t)x->n_at_once + (size_t)i) * x->window;
}

static bool has_guests(const comm_t *c)
{
    return c->local_size > c->n_owners;
}

static void write_rows(const struct alltoall *x, const struct turn *t, int place)
{
    for (int by = t->first; x->c->local >= x->c->n_owners && by <= t->last; by++)
        alltoall_write(x, node_at(x->c, by), t->at, written(x, x->c->local, place, by - t->first));
}

/* This owner's own row goes out of the caller's memory, those of its guests from where they have written them. */
static int send_rows(const struct alltoall *x, int by, const struct turn *t, int place, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int node = node_at(c, by), n, rc = 0;
    const int *to = alltoall_ranks(c, node, &n), *mine = alltoall_ranks(c, c->node, &(int){0});
    uint64_t first = 0;
    for (int i = 0; rc == 0 && i < n; first += alltoall_given(x, c->rank, to[i]), i++) {
        struct alltoall_slice s = alltoall_slice(x, first, alltoall_given(x, c->rank, to[i]), t->at);
        if (s.n > 0)
            rc = tcp_send(c->tcp, node, (char *)x->parts->in[to[i]] + s.in_part, s.n, errp);
    }
    for (int l = c->local + c->n_owners; rc == 0 && l < c->local_size; l += c->n_owners)
        rc = tcp_send(c->tcp, node, written(x, l, place, by - t->first),
                      alltoall_window(x, mine[l], node, t->at), errp);
    return rc;
}

/* What is for this owner goes to where it belongs, the rest to where the others read it. */
static int expect_row(const struct alltoall *x, int node, int from, uint64_t at, char *window, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int n, rc = 0;
    const int *to = alltoall_ranks(c, c->node, &n);
    uint64_t first = 0;
    for (int i = 0; rc == 0 && i < n; first += alltoall_given(x, from, to[i]), i++) {
        struct alltoall_slice s = alltoall_slice(x, first, alltoall_given(x, from, to[i]), at);
        char *place = i == c->local ? (char *)x->parts->out[from] + s.in_part : window + s.in_window;
        if (s.n > 0)
            rc = tcp_recv(c->tcp, node, place, s.n, errp);
    }
    return rc;
}

static int exchange(const struct alltoall *x, const struct turn *t, int place, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int rc = 0, n;
    for (int by = t->first; rc == 0 && by <= t->last; by++) {
        int node = node_at(c, -by);
        const int *from = alltoall_ranks(c, node, &n);
        rc = send_rows(x, by, t, place, errp);
        for (int l = c->local; rc == 0 && l < n; l += c->n_owners)
            rc = expect_row(x, node, from[l], t->at, arrived(x, l, place, by - t->first), errp);
    }
    return rc < 0 ? comm_fail(c, errp) : tcp_exchange(c->tcp, c->watch, WATCH_IN_ALLTOALL, errp);
}

/* Does anything come to this node? */
static bool is_heard(const struct alltoall *x, const struct turn *t)
{
    const comm_t *c = x->c;
    for (int by = t->first; by <= t->last; by++) {
        int n;
        const int *from = alltoall_ranks(c, node_at(c, -by), &n);
        for (int l = 0; l < n; l++)
            if (alltoall_window(x, from[l], c->node, t->at) > 0)
                return true;
    }
    return false;
}

/* What this rank is given, but what came to its place at once. */
static void read_rows(const struct alltoall *x, const struct turn *t, int place)
{
    const comm_t *c = x->c;
    for (int by = t->first; by <= t->last; by++) {
        int n;
        const int *from = alltoall_ranks(c, node_at(c, -by), &n);
        for (int l = 0; l < n; l++)
            if (l % c->n_owners != c->local)
                alltoall_read(x, from[l], t->at, arrived(x, l, place, by - t->first));
    }
}

static void prepare(struct alltoall *x)
{
    const comm_t *c = x->c;
    int largest = 0;
    for (int k = 0; k < c->n_nodes; k++)
        largest = world_local_size(c->world, k) > largest ? world_local_size(c->world, k) : largest;
    x->n_rows = (largest + c->n_owners - 1) / c->n_owners;
    uint64_t most = alltoall_longest(x, 1, c->n_nodes - 1), each = c->moves.stride / 2 / (uint64_t)x->n_rows;
    uint64_t n = most > 0 ? each / most : 1;
    x->n_at_once = n < 1 ? 1 : n > (uint64_t)c->n_nodes - 1 ? c->n_nodes - 1 : (int)n;
    x->window = (size_t)each / (size_t)x->n_at_once;
}

/* The barrier of a turn tells that what has come can be read, that what the other place held has been, and that guests
 * have written for the next turn. Where a node has no guests, and nothing has come, there is none. */
int alltoall_between(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    struct turn t = {0, 0, 0, 0};
    int place = 0;
    prepare(x);
    bool is_more = next_turn(x, &t), is_shared = is_more && has_guests(c);
    if (is_shared) {
        write_rows(x, &t, place);
        if (shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
            return -1;
    }
    while (is_more) {
        struct turn now = t;
        if (c->tcp && exchange(x, &now, place, errp) < 0)
            return -1;
        is_more = next_turn(x, &t);
        if (!has_guests(c) && !is_heard(x, &now))
            continue;
        if (is_more)
            write_rows(x, &t, 1 - place);
        if (shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
            return -1;
        read_rows(x, &now, place);
        place = 1 - place;
        is_shared = true;
    }
    return is_shared ? shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) : 0;
}
