#include "pmix/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "world"

/* Index in firsts[0..n) of the rank whose node key equals rank r's, or -1. firsts: the lowest rank of each node. */
static int find_node(const char *const *node_key, const int *firsts, int n, int r)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(node_key[firsts[i]], node_key[r]))
            return i;
    return -1;
}

/* Fills node_of, local_of, n_nodes and, in node_first[k + 1], the number of ranks on node k. node_ranks is scratch. */
static void number_nodes(struct world *w, const char *const *node_key)
{
    int *firsts = w->node_ranks;
    for (int r = 0; r < w->size; r++) {
        int k = r > 0 && !strcmp(node_key[r], node_key[r - 1]) ? w->node_of[r - 1]
                                                               : find_node(node_key, firsts, w->n_nodes, r);
        if (k < 0) {
            k = w->n_nodes++;
            firsts[k] = r;
        }
        w->node_of[r] = k;
        w->local_of[r] = w->node_first[k + 1]++;
    }
}

struct world *world_from_keys(int rank, int size, const char *const *node_key, const char *const *host)
{
    if (size < 1)
        return NULL;
    size_t n = (size_t)size;
    struct world *w = calloc(1, sizeof *w);
    if (!w || !(w->node_of = calloc(n, sizeof *w->node_of)) || !(w->local_of = calloc(n, sizeof *w->local_of)) ||
        !(w->node_first = calloc(n + 1, sizeof *w->node_first)) ||
        !(w->node_ranks = calloc(n, sizeof *w->node_ranks)) || !(w->host = calloc(n, sizeof *w->host))) {
        world_destroy(w);
        return NULL;
    }
    w->rank = rank;
    w->size = size;
    number_nodes(w, node_key);
    for (int k = 0; k < w->n_nodes; k++)
        w->node_first[k + 1] += w->node_first[k];
    for (int r = 0; r < size; r++) {
        w->node_ranks[w->node_first[w->node_of[r]] + w->local_of[r]] = r;
        if (host)
            snprintf(w->host[r], sizeof w->host[r], "%s", host[r]);
    }
    return w;
}

void world_destroy(struct world *w)
{
    if (!w)
        return;
    int saved = errno;
    free(w->node_of);
    free(w->local_of);
    free(w->node_first);
    free(w->node_ranks);
    free(w->host);
    free(w);
    errno = saved;
}

/* What a rank publishes about itself: both texts with their closing 0, in this order. */
struct card {
    char node[WORLD_NODE_KEY_MAX + 1];
    char host[WORLD_HOST_MAX + 1];
};

static int card_make(struct card *ret, const char *node, const char *host, ddp_error_t *errp)
{
    char name[256] = "";
    if (!node)
        node = getenv("DDP_NODE");
    if (!node || !*node)
        node = getenv("SLURM_NODEID");
    if (!node || !*node)
        node = "0";
    if (strlen(node) > WORLD_NODE_KEY_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "DDP_NODE or SLURM_NODEID \"%.32s...\" is longer than %d bytes",
                         node, WORLD_NODE_KEY_MAX);
    if (!host)
        host = getenv("SLURMD_NODENAME");
    if (!host || !*host) {
        gethostname(name, sizeof name - 1);
        host = name;
    }
    snprintf(ret->node, sizeof ret->node, "%s", node);
    snprintf(ret->host, sizeof ret->host, "%.*s", WORLD_HOST_MAX, host);
    return 0;
}

static int card_put(boot_t *b, const struct card *c, ddp_error_t *errp)
{
    char data[sizeof *c];
    size_t node_n = strlen(c->node) + 1, host_n = strlen(c->host) + 1;
    memcpy(data, c->node, node_n);
    memcpy(data + node_n, c->host, host_n);
    return boot_put(b, KEY, data, node_n + host_n, errp);
}

static int card_get(boot_t *b, int rank, struct card *ret, uint64_t deadline, ddp_error_t *errp)
{
    void *data;
    size_t n;
    if (boot_get(b, rank, KEY, &data, &n, deadline, errp) < 0)
        return -1;
    const char *node = data, *end = node + n, *node_end = memchr(node, 0, n);
    const char *host = node_end ? node_end + 1 : end;
    bool is_good = node_end && host < end && memchr(host, 0, (size_t)(end - host)) == end - 1 &&
                   node_end - node <= WORLD_NODE_KEY_MAX && end - 1 - host <= WORLD_HOST_MAX;
    if (is_good) {
        snprintf(ret->node, sizeof ret->node, "%s", node);
        snprintf(ret->host, sizeof ret->host, "%s", host);
    }
    free(data);
    if (is_good)
        return 0;
    return error_set(errp, DDP_E_BOOT, EPROTO, "rank %d describes itself in a way that this rank does not understand: "
                     "is it the same version of libddp?", rank);
}

struct world *world_exchange(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    return world_exchange_as(b, NULL, NULL, deadline, errp);
}

struct world *world_exchange_as(boot_t *b, const char *own_node, const char *own_name, uint64_t deadline,
                                ddp_error_t *errp)
{
    size_t n = (size_t)boot_size(b);
    struct card mine, *cards = calloc(n, sizeof *cards);
    const char **node = calloc(n, sizeof *node), **host = calloc(n, sizeof *host);
    struct world *w = NULL;
    if (!cards || !node || !host) {
        error_errno(errp, "world of %zu ranks", n);
        goto out;
    }
    if (card_make(&mine, own_node, own_name, errp) < 0 || card_put(b, &mine, errp) < 0 ||
        boot_fence(b, deadline, errp) < 0)
        goto out;
    for (size_t r = 0; r < n; r++) {
        if (card_get(b, (int)r, &cards[r], deadline, errp) < 0)
            goto out;
        node[r] = cards[r].node;
        host[r] = cards[r].host;
    }
    w = world_from_keys(boot_rank(b), (int)n, node, host);
    if (!w)
        error_errno(errp, "world of %zu ranks", n);
out:
    free(cards);
    free(node);
    free(host);
    return w;
}

int world_local_size(const struct world *w, int node)
{
    return w->node_first[node + 1] - w->node_first[node];
}

int world_rank_at(const struct world *w, int node, int local)
{
    if (node < 0 || node >= w->n_nodes || local < 0 || local >= world_local_size(w, node))
        return -1;
    return w->node_ranks[w->node_first[node] + local];
}

int world_min_local_size(const struct world *w)
{
    int least = w->size;
    for (int k = 0; k < w->n_nodes; k++)
        if (world_local_size(w, k) < least)
            least = world_local_size(w, k);
    return least;
}

const char *world_rank_name(const struct world *w, int rank, char *buf, size_t size)
{
    const char *host = rank >= 0 && rank < w->size ? w->host[rank] : "";
    if (host[0])
        snprintf(buf, size, "rank %d (%s)", rank, host);
    else
        snprintf(buf, size, "rank %d", rank);
    return buf;
}
