/* slow.c - who meets whom, and who is slow beside the others. */
#include <stdlib.h>

#include "runtime/base/stats.h"
#include "runtime/cli/check/check.h"

/* How much worse than the median something has to be to be named, in each of three tries (check.c). */
#define SLOW_GBS 0.5     /* a node's links: this part of the median node's; */
#define LATE_TIMES 4.0   /* or their latency: so many times as long, */
#define LATE_S 500e-6    /* and longer by this */
#define SLOW_LINK 0.4    /* a single link, which is measured once: this part */
#define SLOW_MEMORY 0.5
#define SLOW_CPU 0.5
#define HALF_CORE 0.5

int check_rounds(int n_nodes)
{
    int all = n_nodes < 2 ? 0 : n_nodes + n_nodes % 2 - 1;
    return all < CHECK_ROUNDS_MAX ? all : CHECK_ROUNDS_MAX;
}

/* The circle: with m nodes, m even, the last stays, and in round r of m - 1 those meet whose numbers add up to r modulo
 * m - 1. */
int check_opponent(int n_nodes, int round, int node)
{
    int rest = n_nodes + n_nodes % 2 - 1, rounds = check_rounds(n_nodes);
    int r = (int)((int64_t)round * rest / rounds), last = rest;
    int other = node == last ? -1 : ((r - node) % rest + rest) % rest;
    if (node == last) /* its opponent is who would meet himself */
        other = r % 2 ? (r + rest) / 2 : r / 2;
    else if (other == node)
        other = last;
    return other < n_nodes ? other : -1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a node's pairs: the better middle. 0 pairs: -1. */
static double of_node(const struct check *c, int node, bool is_latency, double *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_links; i++) {
        const struct check_link *l = &c->link[i];
        if ((l->a == node || l->b == node) && !(is_latency && l->error[0]))
            scratch[n++] = is_latency ? l->latency_s : l->gbs;
    }
    qsort(scratch, n, sizeof *scratch, compare);
    return n == 0 ? -1 : is_latency ? scratch[(n - 1) / 2] : scratch[n / 2];
}

int check_slow_nodes(const struct check *c, bool *is_slow, double *ret_gbs, double *ret_latency_s)
{
    size_t n = (size_t)c->n_nodes;
    double *gbs = calloc(n, sizeof *gbs), *late = calloc(n, sizeof *late), *sorted = calloc(n, sizeof *sorted);
    double *scratch = calloc(c->n_links + 1, sizeof *scratch);
    int n_slow = 0;
    *ret_gbs = *ret_latency_s = 0;
    for (size_t i = 0; i < n; i++)
        is_slow[i] = false;
    if (gbs && late && sorted && scratch && c->n_links > 0) {
        for (size_t i = 0; i < n; i++)
            sorted[i] = gbs[i] = of_node(c, (int)i, false, scratch);
        *ret_gbs = stats_of(sorted, n).median;
        for (size_t i = 0; i < n; i++)
            sorted[i] = late[i] = of_node(c, (int)i, true, scratch);
        *ret_latency_s = stats_of(sorted, n).median;
        for (size_t i = 0; n > 2 && i < n; i++) {
            is_slow[i] = gbs[i] < SLOW_GBS * *ret_gbs ||
                         (late[i] > LATE_TIMES * *ret_latency_s && late[i] > *ret_latency_s + LATE_S);
            n_slow += is_slow[i];
        }
    }
    free(gbs);
    free(late);
    free(sorted);
    free(scratch);
    return n_slow;
}

bool check_slow_link(const struct check_link *l, const bool *is_slow, double gbs, double latency_s)
{
    if (is_slow[l->a] || is_slow[l->b])
        return false;
    return l->error[0] || l->gbs < SLOW_LINK * gbs ||
           (l->latency_s > LATE_TIMES * latency_s && l->latency_s > latency_s + LATE_S);
}

bool check_is_measured(const struct check_speed *s)
{
    return s->memory_gbs > 0;
}

int check_slow_ranks(const struct check *c, uint8_t *slow, struct check_speed *ret_median)
{
    size_t size = (size_t)c->size, n = 0;
    double *memory = calloc(size, sizeof *memory), *cpu = calloc(size, sizeof *cpu);
    int n_slow = 0;
    *ret_median = (struct check_speed){0};
    for (size_t r = 0; memory && cpu && r < size; r++) {
        if (!check_is_measured(&c->speed[r]))
            continue;
        memory[n] = c->speed[r].memory_gbs;
        cpu[n++] = c->speed[r].cpu;
    }
    if (n > 0) {
        ret_median->memory_gbs = stats_of(memory, n).median;
        ret_median->cpu = stats_of(cpu, n).median;
    }
    for (size_t r = 0; r < size; r++) {
        const struct check_speed *s = &c->speed[r];
        slow[r] = check_is_measured(s) ? (s->memory_gbs < SLOW_MEMORY * ret_median->memory_gbs) * CHECK_SLOW_MEMORY +
                                             (s->cpu < SLOW_CPU * ret_median->cpu) * CHECK_SLOW_CPU +
                                             (s->cpu < HALF_CORE) * CHECK_HALF_CORE : 0;
        n_slow += slow[r] != 0;
    }
    free(memory);
    free(cpu);
    return n_slow;
}
