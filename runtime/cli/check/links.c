/* links.c - pairs of nodes: a group of two ranks for each (ddp_group), all pairs of a round at once.
 *
 * The store over which a pair meets is an all-gather of all ranks. A group puts two values, always, and gets the other
 * rank's after each: so a round is two all-gathers, in which ranks without a pair take part, too, and also one whose
 * group has failed half-way. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/stats.h"
#include "runtime/cli/check/check.h"

#define N_PUTS 2
#define KEY_MAX 48
#define VALUE_MAX 1024
#define PAIR_TIMEOUT_S 10.0
#define N_LATENCY 40
#define BLOCK_BYTES ((size_t)4 << 20)
#define PROBE_BYTES ((size_t)1 << 20)
#define MEASURE_S 0.25
#define BLOCKS_MIN 3
#define BLOCKS_MAX 1024

/* What a rank puts on the table. */
struct card {
    char key[KEY_MAX];
    int32_t n;
    char value[VALUE_MAX];
};

struct store {
    ddp_t *d;
    struct card *table; /* [size], as after the last put */
    int n_puts;
    int peer;           /* the other's rank in d */
    bool is_broken;     /* all ranks' handle, not the pair's */
    ddp_error_t why;
};

static int lay(struct store *s, const struct card *mine, ddp_error_t *errp)
{
    s->n_puts++;
    if (ddp_allgather(s->d, mine, sizeof *mine / sizeof(int32_t), DDP_I32, s->table, &s->why) == 0)
        return 0;
    s->is_broken = true;
    return error_set(errp, s->why.domain, s->why.code, "%s", s->why.text);
}

static int put(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct store *s = ctx;
    struct card mine = {.n = (int32_t)n};
    if (n > VALUE_MAX || strlen(key) >= KEY_MAX || s->n_puts == N_PUTS)
        return error_set(errp, DDP_E_USAGE, EMSGSIZE, "the pair puts %s with %zu bytes", key, n);
    strcpy(mine.key, key);
    memcpy(mine.value, data, n);
    return lay(s, &mine, errp);
}

static long get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp)
{
    struct store *s = ctx;
    const struct card *own = &s->table[ddp_world(s->d)->rank], *c = &s->table[s->peer];
    (void)timeout_s;
    c = strcmp(own->key, key) ? c : own;
    if (strcmp(c->key, key) != 0 || (size_t)c->n > size)
        return error_set(errp, DDP_E_PEER, ENOENT, "rank %d did not get so far", s->peer);
    memcpy(data, c->value, (size_t)c->n);
    return c->n;
}

static int reduce(ddp_t *pair, void *x, size_t n, enum ddp_dtype dtype, enum ddp_op op, double *ret_s,
                  ddp_error_t *errp)
{
    uint64_t start = clock_ns();
    ddp_work_t *w = ddp_allreduce(pair, x, n, dtype, op, errp);
    if (!w || ddp_wait(w, errp) < 0)
        return -1;
    *ret_s = (double)(clock_ns() - start) / NS_PER_S;
    return 0;
}

static int measure_latency(ddp_t *pair, double *ret, ddp_error_t *errp)
{
    double x = 0, took = 0, best = 1e9;
    for (int i = 0; i < N_LATENCY; i++) {
        if (reduce(pair, &x, 1, DDP_F64, DDP_SUM, &took, errp) < 0)
            return -1;
        best = took < best ? took : best;
    }
    *ret = best;
    return 0;
}

/* In memory of the pair's, so that nothing but the wire and the sum is in it, for MEASURE_S. The fastest quarter of the
 * blocks counts, as the slower of the two saw them: others may have had the cores during the rest. The first element
 * is how many of the two want another block. */
static int measure_bandwidth(ddp_t *pair, double *ret, ddp_error_t *errp)
{
    double took[BLOCKS_MAX], probe = 0, unused;
    uint64_t end = deadline_in(MEASURE_S);
    float *data = ddp_alloc(pair, BLOCK_BYTES, errp);
    if (!data || reduce(pair, data, PROBE_BYTES / sizeof *data, DDP_F32, DDP_SUM, &probe, errp) < 0 ||
        reduce(pair, &probe, 1, DDP_F64, DDP_MAX, &unused, errp) < 0)
        return -1;
    size_t bytes = probe > MEASURE_S / 4 ? PROBE_BYTES : BLOCK_BYTES, n = 0;
    do {
        data[0] = deadline_left_ns(end) > 0;
        if (reduce(pair, data, bytes / sizeof *data, DDP_F32, DDP_SUM, &took[n++], errp) < 0)
            return -1;
    } while (n < BLOCKS_MIN || (data[0] > 1.5f && n < BLOCKS_MAX));
    if (reduce(pair, took, n, DDP_F64, DDP_MAX, &unused, errp) < 0)
        return -1;
    *ret = (double)bytes / stats_of(took, n).q1 / 1e9;
    return 0;
}

static void measure(ddp_t *pair, struct check_link *l)
{
    ddp_error_t e = {0};
    if (measure_latency(pair, &l->latency_s, &e) < 0 || measure_bandwidth(pair, &l->gbs, &e) < 0) {
        l->gbs = 0;
        snprintf(l->error, sizeof l->error, "%.*s", CHECK_ERROR_MAX - 1, e.text);
    }
}

/* The pair that this rank is one of; NULL: l->error says why not. */
static ddp_t *meet(struct store *s, const struct check *c, struct check_link *l)
{
    int me = ddp_world(s->d)->rank, node = c->facts[me].node, other = node == l->a ? l->b : l->a;
    char name[16];
    ddp_error_t e = {0};
    s->peer = c->first[other];
    snprintf(name, sizeof name, "%d", node);
    struct ddp_group g = {.rank = node == l->a ? 0 : 1, .size = 2, .node = name, .name = c->facts[me].host,
                          .timeout_s = PAIR_TIMEOUT_S, .ctx = s, .put = put, .get = get};
    ddp_t *pair = ddp_group(&g, &e);
    if (!pair)
        snprintf(l->error, sizeof l->error, "%.*s", CHECK_ERROR_MAX - 1, e.text);
    return pair;
}

/* Both of a pair measure; where only one of them failed it failed. Better figures of before stay. */
static void take(struct check *c, const struct check_link *seen)
{
    struct check_link *l = NULL;
    for (size_t i = 0; !l && i < c->n_links; i++)
        if (c->link[i].a == seen->a && c->link[i].b == seen->b)
            l = &c->link[i];
    if (!l)
        c->link[c->n_links++] = *seen;
    else if (l->error[0] || (!seen->error[0] && seen->gbs > l->gbs)) {
        double latency_s = l->error[0] || seen->latency_s < l->latency_s ? seen->latency_s : l->latency_s;
        *l = *seen;
        l->latency_s = latency_s;
    } else if (!seen->error[0] && seen->latency_s < l->latency_s) {
        l->latency_s = seen->latency_s;
    }
}

/* All pairs measure during the same time, so that none has an idle machine, or network, to itself. */
static int play(struct store *s, struct check *c, int round, struct check_link *all, ddp_error_t *errp)
{
    int me = ddp_world(s->d)->rank, node = c->facts[me].node;
    int other = c->facts[me].local == 0 ? check_opponent(c->n_nodes, round, node) : -1;
    struct check_link mine = {.a = -1};
    ddp_t *pair = NULL;
    s->n_puts = 0;
    if (other >= 0) {
        mine = (struct check_link){.a = node < other ? node : other, .b = node < other ? other : node};
        pair = meet(s, c, &mine);
    }
    while (s->n_puts < N_PUTS && !s->is_broken)
        lay(s, &(struct card){.n = 0}, NULL);
    if (!s->is_broken && ddp_barrier(s->d, &s->why) < 0)
        s->is_broken = true;
    if (pair && !s->is_broken)
        measure(pair, &mine);
    ddp_finalize(pair);
    if (s->is_broken)
        return error_set(errp, s->why.domain, s->why.code, "%s", s->why.text);
    if (ddp_allgather(s->d, &mine, sizeof mine / sizeof(int32_t), DDP_I32, all, errp) < 0)
        return -1;
    for (int k = 0; k < c->n_nodes; k++) {
        const struct check_link *l = &all[c->first[k]];
        const struct check_link *peer = l->a == k ? &all[c->first[l->b]] : NULL;
        if (peer) /* k is the lower of the two */
            take(c, l->error[0] || !peer->error[0] ? l : peer);
    }
    return 0;
}

_Static_assert(sizeof(struct card) % sizeof(int32_t) == 0 && sizeof(struct check_link) % sizeof(int32_t) == 0,
               "sent as int32");

int check_links(ddp_t *d, struct check *c, ddp_error_t *errp)
{
    struct store s = {.d = d, .table = calloc((size_t)c->size, sizeof *s.table)};
    struct check_link *all = calloc((size_t)c->size, sizeof *all);
    int rounds = check_rounds(c->n_nodes);
    size_t room = (size_t)c->n_nodes / 2 * (size_t)rounds;
    if (!c->link)
        c->link = calloc(room + 1, sizeof *c->link);
    int rc = s.table && all && c->link ? 0 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the links");
    for (int round = 0; rc == 0 && round < rounds; round++)
        rc = play(&s, c, round, all, errp);
    free(s.table);
    free(all);
    return rc;
}
