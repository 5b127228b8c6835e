/* alltoall_rows.c - rows, and what lies where in them. */
#include <string.h>

#include "runtime/comm/alltoall.h"

const int *alltoall_ranks(const comm_t *c, int node, int *ret_n)
{
    *ret_n = world_local_size(c->world, node);
    return c->world->node_ranks + c->world->node_first[node];
}

uint64_t alltoall_given(const struct alltoall *x, int from, int to)
{
    return x->given[(size_t)from * (size_t)x->c->world->size + (size_t)to];
}

static uint64_t row_bytes(const struct alltoall *x, int from, int node)
{
    int n;
    const int *to = alltoall_ranks(x->c, node, &n);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += alltoall_given(x, from, to[i]);
    return sum;
}

size_t alltoall_window(const struct alltoall *x, int from, int node, uint64_t at)
{
    uint64_t n = row_bytes(x, from, node);
    return n <= at ? 0 : n - at < x->window ? (size_t)(n - at) : x->window;
}

struct alltoall_slice alltoall_slice(const struct alltoall *x, uint64_t first, uint64_t n, uint64_t at)
{
    uint64_t from = first > at ? first : at, end = first + n < at + x->window ? first + n : at + x->window;
    struct alltoall_slice none = {0, 0, 0}, s = {(size_t)(from - first), (size_t)(from - at), (size_t)(end - from)};
    return from < end ? s : none;
}

void alltoall_write(const struct alltoall *x, int node, uint64_t at, char *window)
{
    int n;
    const int *to = alltoall_ranks(x->c, node, &n);
    uint64_t first = 0;
    for (int i = 0; i < n; first += alltoall_given(x, x->c->rank, to[i]), i++) {
        struct alltoall_slice s = alltoall_slice(x, first, alltoall_given(x, x->c->rank, to[i]), at);
        if (s.n > 0)
            memcpy(window + s.in_window, (const char *)x->parts->in[to[i]] + s.in_part, s.n);
    }
}

void alltoall_read(const struct alltoall *x, int from, uint64_t at, const char *window)
{
    const comm_t *c = x->c;
    int n;
    const int *to = alltoall_ranks(c, c->node, &n);
    uint64_t first = 0;
    for (int i = 0; i < c->local; i++)
        first += alltoall_given(x, from, to[i]);
    struct alltoall_slice s = alltoall_slice(x, first, alltoall_given(x, from, c->rank), at);
    if (s.n > 0)
        memcpy((char *)x->parts->out[from] + s.in_part, window + s.in_window, s.n);
}

uint64_t alltoall_longest_of(const struct alltoall *x, int node, int by)
{
    int n;
    const int *from = alltoall_ranks(x->c, node, &n);
    uint64_t most = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bytes = row_bytes(x, from[i], (node + by) % x->c->n_nodes);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t alltoall_longest(const struct alltoall *x, int first, int last)
{
    uint64_t most = 0;
    for (int by = first; by <= last; by++)
        for (int node = 0; node < x->c->n_nodes; node++) {
            uint64_t bytes = alltoall_longest_of(x, node, by);
            most = bytes > most ? bytes : most;
        }
    return most;
}
