/* Stands in for pmix/ until it has landed: what the communicator uses of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_impl.h"
#include "pmix/world.h"

int boot_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    return b->ops->put(b, key, data, n, errp);
}
int boot_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    return b->ops->fence(b, deadline, errp);
}
int boot_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline, ddp_error_t *errp)
{
    return b->ops->get(b, rank, key, ret_data, ret_n, deadline, errp);
}
void boot_close(boot_t *b)
{
    free(b);
}
struct world *world_from_keys(int rank, int size, const char *const *key, const char *const *host)
{
    struct world *w = calloc(1, sizeof *w);
    size_t n = (size_t)size;
    w->rank = rank;
    w->size = size;
    w->node_of = calloc(n, sizeof(int));
    w->local_of = calloc(n, sizeof(int));
    w->node_first = calloc(n + 1, sizeof(int));
    w->node_ranks = calloc(n, sizeof(int));
    w->host = calloc(n, sizeof *w->host);
    for (int r = 0, at = 0; r < size; r++) {
        snprintf(w->host[r], sizeof *w->host, "%s", host ? host[r] : key[r]);
        int first = 0;
        while (strcmp(key[first], key[r]) != 0)
            first++;
        if (first != r)
            continue;
        w->node_first[w->n_nodes] = at;
        for (int q = r, l = 0; q < size; q++)
            if (strcmp(key[q], key[r]) == 0) {
                w->node_of[q] = w->n_nodes;
                w->local_of[q] = l++;
                w->node_ranks[at++] = q;
            }
        w->node_first[++w->n_nodes] = at;
    }
    return w;
}
void world_destroy(struct world *w)
{
    free(w->node_of);
    free(w->local_of);
    free(w->node_first);
    free(w->node_ranks);
    free(w->host);
    free(w);
}
int world_local_size(const struct world *w, int node)
{
    return w->node_first[node + 1] - w->node_first[node];
}
int world_rank_at(const struct world *w, int node, int local)
{
    return local < world_local_size(w, node) ? w->node_ranks[w->node_first[node] + local] : -1;
}
int world_min_local_size(const struct world *w)
{
    int min = w->size;
    for (int k = 0; k < w->n_nodes; k++)
        min = world_local_size(w, k) < min ? world_local_size(w, k) : min;
    return min;
}
const char *world_rank_name(const struct world *w, int rank, char *buf, size_t size)
{
    snprintf(buf, size, "rank %d (%s)", rank, w->host[rank]);
    return buf;
}
