/* alltoall.c - all ranks are told how many bytes go from whom to whom, and so take the same turns. Within a node a rank
 * writes the next window of its row, and all read what is theirs. Where each rank has a node to itself, all goes at
 * once, out of the caller's memory and into it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/alltoall.h"

/* Two windows: one is read while the next is written. */
static int move_here(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int n;
    const int *from = alltoall_ranks(c, c->node, &n);
    x->window = c->moves.stride / 2;
    uint64_t most = alltoall_longest_of(x, c->node, 0);
    size_t place = 0;
    for (uint64_t at = 0; at < most; at += x->window, place = x->window - place) {
        alltoall_write(x, c->node, at, segment_part(&c->moves, c->local) + place);
        if (shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) < 0)
            return -1;
        for (int i = 0; i < n; i++)
            alltoall_read(x, from[i], at, segment_part(&c->moves, i) + place);
    }
    return most > 0 ? shm_barrier(&c->shm, WATCH_IN_ALLTOALL, errp) : 0;
}

/* Each rank has a node to itself. */
static int move_directly(struct alltoall *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    int rc = 0;
    for (int r = 0; rc == 0 && r < c->world->size; r++) {
        rc = tcp_send(c->tcp, c->world->node_of[r], (void *)x->parts->in[r], alltoall_given(x, c->rank, r), errp);
        if (rc == 0)
            rc = tcp_recv(c->tcp, c->world->node_of[r], x->parts->out[r], alltoall_given(x, r, c->rank), errp);
    }
    return rc < 0 ? comm_fail(c, errp) : tcp_exchange(c->tcp, c->watch, WATCH_IN_ALLTOALL, errp);
}

static int move(struct alltoall *x, ddp_error_t *errp)
{
    const comm_t *c = x->c;
    if (c->n_nodes > 1 && c->n_nodes == c->world->size)
        return move_directly(x, errp);
    if (c->n_nodes > 1 && alltoall_between(x, errp) < 0) /* first: other nodes go on meanwhile */
        return -1;
    return move_here(x, errp);
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
