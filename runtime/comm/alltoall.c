/* alltoall.c - every rank gives every rank bytes of its own, any number of them: gather and scatter are that, too. All
 * ranks are told first how many go from whom to whom, and so take the same turns.
 *
 * What a rank has for the ranks of one node, in their order, is a row. Rows go window by window through the memory of
 * collectives.c: a rank writes the next window of its own row; an owner sends it, with those of its guests, to the
 * owner of equal local index on the other node; there whoever it is for reads it. Guests are ranks that own nothing,
 * each that of one owner. Nodes take turns by how far they lie apart in a circle, so that a node hears from one other
 * at a time; rows that are short go in one turn. Where each rank has a node to itself, all goes at once, out of the
 * caller's memory and into it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/wireup.h"

struct alltoall {
    comm_t *c;
    const struct comm_parts *parts;
    uint64_t *given;   /* [size][size] bytes from one rank to another; none to itself */
    size_t window;     /* bytes of a row in a turn */
    int n_at_once;     /* rows of a rank, to as many nodes, in a turn */
    int n_guests;      /* an owner's, itself among them, at most */
};

static const int *ranks_of(const comm_t *c, int node, int *ret_n)
{
    *ret_n = world_local_size(c->world, node);
    return c->world->node_ranks + c->world->node_first[node];
}

static uint64_t given(const struct alltoall *x, int from, int to)
{
    return x->given[(size_t)from * (size_t)x->c->world->size + (size_t)to];
}

static uint64_t row_bytes(const struct alltoall *x, int from, int node)
{
    int n;
    const int *to = ranks_of(x->c, node, &n);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += given(x, from, to[i]);
    return sum;
}

/* Bytes of a row in the window at `at`. */
static size_t window_bytes(const struct alltoall *x, int from, int node, uint64_t at)
{
    uint64_t n = row_bytes(x, from, node);
    return n <= at ? 0 : n - at < x->window ? (size_t)(n - at) : x->window;
}

/* A part of n bytes, at byte `first` of its row, as far as the window at `at` has it: copied from part to window, or
 * back. */
static void copy(const struct alltoall *x, char *part, uint64_t first, uint64_t n, uint64_t at, char *window, bool back)
{
    uint64_t from = first > at ? first : at, end = first + n < at + x->window ? first + n : at + x->window;
    if (from < end && back)
        memcpy(part + (from - first), window + (from - at), (size_t)(end - from));
    else if (from < end)
        memcpy(window + (from - at), part + (from - first), (size_t)(end - from));
}

static void write_row(const struct alltoall *x, int node, uint64_t at, char *window)
{
    int n;
    const int *to = ranks_of(x->c, node, &n);
    for (uint64_t i = 0, first = 0; i < (uint64_t)n; first += given(x, x->c->rank, to[i]), i++)
        copy(x, (char *)x->parts->in[to[i]], first, given(x, x->c->rank, to[i]), at, window, false);
}

/* This rank's part of a row of `from`. */
static void read_row(const struct alltoall *x, int from, uint64_t at, char *window)
{
    const comm_t *c = x->c;
    int n;
    const int *to = ranks_of(c, c->node, &n);
    uint64_t first = 0;
    for (int i = 0; i < c->local; i++)
        first += given(x, from, to[i]);
    copy(x, x->parts->out[from], first, given(x, from, c->rank), at, window, true);
}

/* The longest row of ranks of `node` to the node that lies `by` after it. */
static uint64_t longest_of(const struct alltoall *x, int node, int by)
{
    int n;
    const int *from = ranks_of(x->c, node, &n);
    uint64_t most = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bytes = row_bytes(x, from[i], (node + by) % x->c->n_nodes);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The longest row to nodes that lie from `first` to `last` after a rank's own: the same on every rank. */
static uint64_t longest(const struct alltoall *x, int first, int last)
{
    uint64_t most = 0;
    for (int by = first; by <= last; by++)
        for (int node = 0; node < x->c->n_nodes; node++) {
            uint64_t bytes = longest_of(x, node, by);
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* ---- within a node ---- */

/* Two windows: one is read while the next is written. */
static int move_here(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int n;
    const int *from = ranks_of(c, c->node, &n);
    x->window = c->moves.stride / 2;
    uint64_t most = longest_of(x, c->node, 0);
    size_t place = 0;
    for (uint64_t at = 0; at < most; at += x->window, place = x->window - place) {
        write_row(x, c->node, at, segment_part(&c->moves, c->local) + place);
        if (shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
            return -1;
        for (int i = 0; i < n; i++)
            read_row(x, from[i], at, segment_part(&c->moves, i) + place);
    }
    return most > 0 ? shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) : 0;
}

/* ---- between nodes ---- */

/* Windows of what a rank writes, to the i-th node of a turn; behind them those of guests, at their owner. */
static char *written(const struct alltoall *x, int local, int i)
{
    return segment_part(&x->c->moves, local) + (size_t)i * x->window;
}

static char *arrived(const struct alltoall *x, int local, int i)
{
    int at = x->n_at_once + i * x->n_guests + local / x->c->n_owners;
    return segment_part(&x->c->moves, local % x->c->n_owners) + (size_t)at * x->window;
}

/* What this owner sends, and receives, in a turn: rows to the node `to`, and from the node `from`. */
static int carry(struct alltoall *x, int to, int from, int i, uint64_t at, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int n, rc = 0;
    const int *ranks = ranks_of(c, c->node, &n);
    for (int l = c->local; rc == 0 && l < n; l += c->n_owners)
        rc = tcp_send(c->tcp, to, written(x, l, i), window_bytes(x, ranks[l], to, at), errp);
    ranks = ranks_of(c, from, &n);
    for (int l = c->local; rc == 0 && l < n; l += c->n_owners)
        rc = tcp_recv(c->tcp, from, arrived(x, l, i), window_bytes(x, ranks[l], c->node, at), errp);
    return rc;
}

static int node_at(const comm_t *c, int by)
{
    return (c->node + by + c->n_nodes) % c->n_nodes;
}

/* A turn with the nodes that lie first .. last away. */
static int take_turn(struct alltoall *x, int first, int last, uint64_t at, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int rc = 0, n;
    for (int by = first; by <= last; by++)
        write_row(x, node_at(c, by), at, written(x, c->local, by - first));
    if (shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
        return -1;
    for (int by = first; c->tcp && rc == 0 && by <= last; by++)
        rc = carry(x, node_at(c, by), node_at(c, -by), by - first, at, errp);
    if (rc < 0)
        return comm_fail(c, errp);
    if ((c->tcp && tcp_exchange(c->tcp, c->watch, WATCH_IN_ALLTOALL, errp) < 0) ||
        shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
        return -1;
    for (int by = first; by <= last; by++) {
        const int *from = ranks_of(c, node_at(c, -by), &n);
        for (int l = 0; l < n; l++)
            read_row(x, from[l], at, arrived(x, l, by - first));
    }
    return 0;
}

static int move_between(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int largest = 0;
    for (int k = 0; k < c->n_nodes; k++)
        largest = world_local_size(c->world, k) > largest ? world_local_size(c->world, k) : largest;
    uint64_t most = longest(x, 1, c->n_nodes - 1);
    x->n_guests = (largest + c->n_owners - 1) / c->n_owners;
    size_t each = c->moves.stride / (size_t)(1 + x->n_guests), n = most > 0 ? each / most : 1;
    x->n_at_once = n < 1 ? 1 : n > (size_t)c->n_nodes - 1 ? c->n_nodes - 1 : (int)n;
    x->window = each / (size_t)x->n_at_once;
    for (int first = 1; first < c->n_nodes; first += x->n_at_once) {
        int last = first + x->n_at_once < c->n_nodes ? first + x->n_at_once - 1 : c->n_nodes - 1;
        most = longest(x, first, last);
        for (uint64_t at = 0; at < most; at += x->window)
            if (take_turn(x, first, last, at, errp) < 0)
                return -1;
    }
    return shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp);
}

/* Each rank has a node to itself. */
static int move_directly(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int rc = 0;
    for (int r = 0; rc == 0 && r < c->world->size; r++) {
        rc = tcp_send(c->tcp, c->world->node_of[r], (void *)x->parts->in[r], given(x, c->rank, r), errp);
        if (rc == 0)
            rc = tcp_recv(c->tcp, c->world->node_of[r], x->parts->out[r], given(x, r, c->rank), errp);
    }
    return rc < 0 ? comm_fail(c, errp) : tcp_exchange(c->tcp, c->watch, WATCH_IN_ALLTOALL, errp);
}

static int move(struct alltoall *x, ddp_error_t *errp)
{
    const comm_t *c = x->c;
    if (c->n_nodes > 1 && c->n_nodes == c->world->size)
        return move_directly(x, errp);
    if (move_here(x, errp) < 0)
        return -1;
    return c->n_nodes > 1 ? move_between(x, errp) : 0;
}

/* ---- how many bytes go where ---- */

/* All ranks' n_in and n_out, one after the other. Every rank finds the same ones that do not go together. */
static int check(const struct alltoall *x, const uint64_t *all, ddp_error_t *errp)
{
    size_t size = (size_t)x->c->world->size;
    for (size_t from = 0; from < size; from++)
        for (size_t to = 0; to < size; to++) {
            uint64_t n = all[2 * size * from + to], room = all[2 * size * to + size + from];
            if (n != room)
                return error_set(errp, DDP_E_USAGE, EINVAL, "all-to-all: rank %zu sends %llu bytes to rank %zu, which "
                                 "has room for %llu", from, (unsigned long long)n, to, (unsigned long long)room);
            x->given[size * from + to] = from == to ? 0 : n;
        }
    return 0;
}

static int tell(struct alltoall *x, uint64_t *mine, uint64_t *all, ddp_error_t *errp)
{
    size_t size = (size_t)x->c->world->size;
    for (size_t r = 0; r < size; r++) {
        mine[r] = x->parts->n_in[r];
        mine[size + r] = x->parts->n_out[r];
    }
    if (comm_gather_as(x->c, WATCH_IN_ALLTOALL, mine, 2 * size * sizeof *mine, all, errp) < 0)
        return -1;
    return check(x, all, errp);
}

int comm_alltoall(comm_t *c, const struct comm_parts *parts, ddp_error_t *errp)
{
    size_t size = (size_t)c->world->size;
    struct alltoall x = {.c = c, .parts = parts, .given = calloc(size * size, sizeof *x.given)};
    uint64_t *mine = calloc(2 * size, sizeof *mine), *all = calloc(2 * size * size, sizeof *all);
    int rc = -1;
    if (!x.given || !mine || !all) {
        error_errno(errp, "all-to-all of %zu ranks", size);
        comm_fail(c, errp);
    } else {
        rc = tell(&x, mine, all, errp);
    }
    free(mine);
    free(all);
    if (rc == 0 && parts->out[c->rank] != parts->in[c->rank] && parts->n_in[c->rank] > 0)
        memcpy(parts->out[c->rank], parts->in[c->rank], parts->n_in[c->rank]);
    if (rc == 0)
        rc = move(&x, errp);
    free(x.given);
    if (rc == 0 && watch_is_broken(c->watch))
        rc = watch_error(c->watch, errp);
    return rc;
}
