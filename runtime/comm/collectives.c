/* Broadcast, all-gather and barrier. Their data is small or travels once, so that simple is good enough: within a node
 * through the staging area, between nodes among the leaders: broadcast and barrier in log2(nodes) rounds, all-gather
 * flat, as each leader must hear everything anyway.
 *
 * A rank may still be copying out of its own part of the stage when another begins the next call: before the first
 * barrier of a call each rank writes its own part only. */
#include <errno.h>
#include <string.h>

#include "runtime/comm/wireup.h"

enum { BCAST_ALONE = 4 << 20 };

/* Runs what the leader queued; the others have nothing to do here. */
static int leaders_exchange(comm_t *c, enum watch_what what, ddp_error_t *errp)
{
    return c->n_nodes > 1 && c->local == 0 ? tcp_exchange(c->tcp, c->watch, what, errp) : 0;
}

/* The leader of the node that lies `by` after this one's, in a circle. */
static int node_after(const comm_t *c, int by)
{
    return (c->node + by) % c->n_nodes;
}

/* By dissemination: after round k a leader has heard, directly or not, from the 2^k nodes before it (Hensgen, Finkel
 * and Manber, 1988). */
static int barrier_between(comm_t *c, ddp_error_t *errp)
{
    char out = 1, in[1];
    for (int by = 1; c->local == 0 && by < c->n_nodes; by *= 2) {
        if (tcp_send(c->tcp, node_after(c, by), &out, 1, errp) < 0 ||
            tcp_recv(c->tcp, node_after(c, c->n_nodes - by), in, 1, errp) < 0)
            return comm_fail(c, errp);
        if (leaders_exchange(c, WATCH_IN_BARRIER, errp) < 0)
            return -1;
    }
    return 0;
}

int comm_barrier(comm_t *c, ddp_error_t *errp)
{
    if (comm_begin(c, WATCH_IN_BARRIER, 0, errp) < 0 || shm_barrier(&c->shm, WATCH_IN_BARRIER, errp) < 0)
        return -1;
    if (c->n_nodes == 1)
        return 0; /* the first barrier was all */
    if (barrier_between(c, errp) < 0)
        return -1;
    return shm_barrier(&c->shm, WATCH_IN_BARRIER, errp);
}

/* The leader of root's node has the data. In each round every leader that has them sends them to one that has not, so
 * that no node sends more than log2(nodes) times. */
static int bcast_between(comm_t *c, char *data, size_t n, int root_node, ddp_error_t *errp)
{
    int at = node_after(c, c->n_nodes - root_node);
    for (int have = 1; c->local == 0 && have < c->n_nodes; have *= 2) {
        int rc = 0;
        if (at < have && at + have < c->n_nodes)
            rc = tcp_send(c->tcp, node_after(c, have), data, n, errp);
        else if (at >= have && at < 2 * have)
            rc = tcp_recv(c->tcp, node_after(c, c->n_nodes - have), data, n, errp);
        if (rc < 0)
            return comm_fail(c, errp);
        if (leaders_exchange(c, WATCH_IN_BCAST, errp) < 0)
            return -1;
    }
    return 0;
}

/* By way of a window that the node's ranks share: root's, or its node's leader's. */
static int bcast_window(comm_t *c, char *window, char *data, size_t n, int root, ddp_error_t *errp)
{
    int root_node = c->world->node_of[root];
    if (c->rank == root)
        memcpy(window, data, n);
    if (c->node != root_node && bcast_between(c, window, n, root_node, errp) < 0)
        return -1;
    if (shm_barrier(&c->shm, WATCH_IN_BCAST, errp) < 0)
        return -1;
    if (c->node == root_node && bcast_between(c, window, n, root_node, errp) < 0)
        return -1;
    if (c->rank != root)
        memcpy(data, window, n);
    return 0;
}

/* Of two windows one is read while the other is written: at the barrier between, all had read what that one held. */
int comm_bcast(comm_t *c, void *data, size_t n_bytes, int root, ddp_error_t *errp)
{
    if (root < 0 || root >= c->world->size) {
        error_set(errp, DDP_E_USAGE, EINVAL, "broadcast: root %d is not one of %d ranks", root, c->world->size);
        return comm_fail(c, errp);
    }
    if (comm_begin(c, WATCH_IN_BCAST, comm_mix(n_bytes, (uint64_t)root), errp) < 0)
        return -1;
    bool is_alone = c->n_nodes == c->world->size; /* each rank, on its node: from memory to memory */
    int root_node = c->world->node_of[root];
    size_t most = is_alone ? BCAST_ALONE : c->moves.stride / 2;
    char *windows = segment_part(&c->moves, c->node == root_node ? c->world->local_of[root] : 0), *p = data;
    for (size_t left = n_bytes, i = 0, n; left > 0; left -= n, p += n, i++) {
        n = left < most ? left : most;
        int rc = is_alone ? bcast_between(c, p, n, root_node, errp)
                          : bcast_window(c, windows + i % 2 * most, p, n, root, errp);
        if (rc < 0)
            return -1;
    }
    if (n_bytes > 0 && shm_barrier(&c->shm, WATCH_IN_BCAST, errp) < 0) /* all have read */
        return -1;
    return watch_is_broken(c->watch) ? watch_error(c->watch, errp) : 0;
}

/* The stage holds a piece of n bytes from every rank, in rank order. */
static int gather_between(comm_t *c, enum watch_what what, char *stage, size_t n, ddp_error_t *errp)
{
    const struct world *w = c->world;
    if (c->n_nodes == 1)
        return 0;
    int rc = 0;
    for (int r = 0; c->local == 0 && rc == 0 && r < w->size; r++) {
        if (w->node_of[r] != c->node)
            rc = tcp_recv(c->tcp, w->node_of[r], stage + (size_t)r * n, n, errp);
        for (int k = 0; w->node_of[r] == c->node && rc == 0 && k < c->n_nodes; k++)
            if (k != c->node)
                rc = tcp_send(c->tcp, k, stage + (size_t)r * n, n, errp);
    }
    if (rc < 0)
        return comm_fail(c, errp);
    if (leaders_exchange(c, what, errp) < 0)
        return -1;
    return shm_barrier(&c->shm, what, errp);
}

int comm_gather_as(comm_t *c, enum watch_what what, const void *in, size_t n_bytes, void *out, ddp_error_t *errp)
{
    size_t size = (size_t)c->world->size, most = c->moves.stride * (size_t)c->n_owners / size;
    char *stage = segment_part(&c->moves, 0);
    if (comm_begin(c, what, n_bytes, errp) < 0)
        return -1;
    if (n_bytes > 0 && shm_barrier(&c->shm, what, errp) < 0) /* pieces lie across the parts */
        return -1;
    for (size_t at = 0, n; at < n_bytes; at += n) {
        n = n_bytes - at < most ? n_bytes - at : most;
        memcpy(stage + (size_t)c->rank * n, (const char *)in + at, n);
        if (shm_barrier(&c->shm, what, errp) < 0 || gather_between(c, what, stage, n, errp) < 0)
            return -1;
        for (size_t r = 0; r < size; r++)
            memcpy((char *)out + r * n_bytes + at, stage + r * n, n);
        if (shm_barrier(&c->shm, what, errp) < 0)
            return -1;
    }
    return watch_is_broken(c->watch) ? watch_error(c->watch, errp) : 0;
}

int comm_allgather(comm_t *c, const void *in, size_t n_bytes, void *out, ddp_error_t *errp)
{
    return comm_gather_as(c, WATCH_IN_ALLGATHER, in, n_bytes, out, errp);
}
