/* judge_node.c - what is wrong within nodes: CPUs, memory, clocks. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/stats.h"
#include "runtime/cli/check/judge.h"

#define LEAST_MEMORY (256 * MIB) /* of a rank; less is no job's */
#define SKEW_WARN_S 0.1          /* logs of two nodes can still be laid side by side */
#define SKEW_FAIL_S 10.0         /* DDP_END_TIME, and who asks for a stop when, is by the clock */
#define FEW_CPUS 0.75            /* of the median rank's; 3 for 4 is how 7 are shared by two */

/* ---- CPUs ---- */

enum binding { BOUND, UNBOUND, OVERLAPPING };

static enum binding binding_of(const struct check *c, int node)
{
    struct cpus all = {{0}};
    const struct cpus *first = &c->facts[c->first[node]].mask;
    size_t sum = 0, n = 0;
    bool is_one = true;
    for (int r = 0; r < c->size; r++) {
        if (c->facts[r].node != node)
            continue;
        n++;
        sum += cpus_count(&c->facts[r].mask);
        cpus_or(&all, &c->facts[r].mask);
        is_one = is_one && cpus_equal(first, &c->facts[r].mask);
    }
    size_t count = cpus_count(&all);
    return sum == count || n == 1 ? BOUND : is_one && count >= n ? UNBOUND : OVERLAPPING;
}

/* The item's verdict where nodes are marked. */
static bool say_nodes(struct judge *j, enum verdict_level level, const char *item, const char *cure, const char *what)
{
    if (judge_name(j) == 0)
        return false;
    struct verdict *v = verdict_add(j->out, level, item, cure, "%s: %s", j->names, what);
    judge_blame(j, v);
    return true;
}

static bool has_few(struct judge *j)
{
    const struct check *c = j->c;
    double *n = calloc((size_t)c->size, sizeof *n), median = 0;
    int rank = -1;
    size_t least = CPUS_MAX;
    for (int r = 0; n && r < c->size; r++)
        n[r] = (double)cpus_count(&c->facts[r].mask);
    if (n)
        median = stats_of(n, (size_t)c->size).median;
    free(n);
    judge_clear(j);
    for (int r = 0; r < c->size; r++) {
        size_t count = cpus_count(&c->facts[r].mask);
        if ((double)count >= FEW_CPUS * median)
            continue;
        j->node[c->facts[r].node] = true;
        if (count < least) {
            least = count;
            rank = r;
        }
    }
    if (judge_name(j) == 0)
        return false;
    struct verdict *v = verdict_add(j->out, VERDICT_WARN, "binding", "ask for as many everywhere: --cpus-per-task, "
                                    "--exclusive", "ranks on %s have fewer CPUs than the others: rank %d has %zu, "
                                    "the median rank %g", j->names, rank, least, median);
    judge_blame(j, v);
    return true;
}

void judge_binding(struct judge *j)
{
    const struct check *c = j->c;
    char cpus[64];
    enum binding worst[] = {OVERLAPPING, UNBOUND};
    for (size_t i = 0; i < 2; i++) {
        judge_clear(j);
        for (int k = 0; k < c->n_nodes; k++)
            j->node[k] = binding_of(c, k) == worst[i];
        if (i == 0 && say_nodes(j, VERDICT_FAIL, "binding", "ask for a CPU for each rank, and let --ddp=on bind "
                                "(bind=auto, no --cpu-bind)", "ranks share CPUs while others are, or could be, "
                                "their own"))
            return;
        if (i == 0 && has_few(j))
            return;
        if (i == 1 && say_nodes(j, VERDICT_WARN, "binding", "srun --ddp=on without --cpu-bind and bind=none binds, "
                                "where TaskPlugin has task/affinity or task/cgroup", "nothing binds the ranks, all "
                                "of a node run on the same CPUs"))
            return;
    }
    judge_clear(j);
    for (int r = 0; r < c->size; r++)
        if (c->facts[r].n_numas > 1 && cpus_count(&c->facts[r].mask) > 1)
            j->node[c->facts[r].node] |= c->facts[r].all_numas > 1 && binding_of(c, c->facts[r].node) == BOUND &&
                                         c->size / c->n_nodes >= c->facts[r].all_numas;
    if (say_nodes(j, VERDICT_WARN, "binding", "\"ddp topo\" there shows how --ddp=on would place them",
                  "a rank's CPUs are on several memory nodes, although there are as many ranks as those"))
        return;
    size_t n = cpus_count(&c->facts[0].mask);
    verdict_add(j->out, VERDICT_OK, "binding", NULL, "each rank has CPUs of its own: rank 0 %zu (%s)", n,
                cpus_format(&c->facts[0].mask, cpus, sizeof cpus));
}

/* ---- memory, clocks, speed ---- */

/* What is left on each node, to left[n_nodes], INFINITY where it is not known, and the ranks there, to n[n_nodes].
 * The median of those that are known; NAN: none is. */
static double memory_of(const struct check *c, double *left, int *n)
{
    size_t known = 0;
    double median = NAN, *sorted = calloc((size_t)c->n_nodes, sizeof *sorted);
    for (int k = 0; k < c->n_nodes; k++)
        left[k] = INFINITY;
    for (int r = 0; r < c->size; r++) {
        int k = c->facts[r].node;
        n[k]++;
        if (c->facts[r].left_bytes != UINT64_MAX)
            left[k] = fmin(left[k], (double)c->facts[r].left_bytes);
    }
    for (int k = 0; sorted && k < c->n_nodes; k++)
        if (isfinite(left[k]))
            sorted[known++] = left[k];
    if (known > 0)
        median = stats_of(sorted, known).median;
    free(sorted);
    return median;
}

static void say_memory(struct judge *j, const double *left, const int *n, double median)
{
    const struct check *c = j->c;
    bool is_short = false;
    int least = 0;
    judge_clear(j);
    for (int k = 0; k < c->n_nodes; k++) {
        least = left[k] < left[least] ? k : least;
        is_short |= j->node[k] = left[k] < LEAST_MEMORY * n[k];
    }
    for (int k = 0; !is_short && k < c->n_nodes; k++)
        j->node[k] = left[k] < median / 2;
    enum verdict_level level = is_short ? VERDICT_FAIL : judge_name(j) ? VERDICT_WARN : VERDICT_OK;
    judge_name(j);
    const struct check_facts *f = &c->facts[c->first[least]];
    struct verdict *v = verdict_add(
        j->out, level, "memory",
        level == VERDICT_OK ? NULL : "see what else is there (ps, tmpfs), ask for more (--mem), or exclude them",
        "%s%s%.1f GiB free%s on %s, the least; %.1f GiB on the median node", j->names,
        *j->names ? " short of it: " : "", left[least] / GIB,
        f->limit_bytes != UINT64_MAX ? " (the control group's share)" : "", f->host, median / GIB);
    judge_blame(j, v);
}

void judge_memory(struct judge *j)
{
    const struct check *c = j->c;
    double *left = calloc((size_t)c->n_nodes, sizeof *left);
    int *n = calloc((size_t)c->n_nodes, sizeof *n);
    double median = left && n ? memory_of(c, left, n) : NAN;
    if (!isnan(median))
        say_memory(j, left, n, median);
    else
        verdict_add(j->out, VERDICT_WARN, "memory", "mount /proc", "what is free is not known on any node");
    free(left);
    free(n);
}

/* How far each node's clock is from the median node's at least, and its sign, to off[n_nodes]; so that rank 0's node,
 * against which all are measured, can be the one that is off. Of two nodes: from the first one's. Returns the most that
 * is not known of one. */
static double skew_of(const struct check *c, double *off, double *scratch)
{
    size_t n = (size_t)c->n_nodes;
    double median = 0, bound = 0, most = 0;
    for (size_t k = 0; k < n; k++)
        scratch[k] = c->speed[c->first[k]].skew_s;
    if (n > 2)
        median = stats_of(scratch, n).median;
    for (size_t k = 0; k < n; k++)
        scratch[k] = c->speed[c->first[k]].skew_bound_s;
    if (n > 2)
        bound = stats_of(scratch, n).median;
    for (size_t k = 0; k < n; k++) {
        const struct check_speed *s = &c->speed[c->first[k]];
        double x = s->skew_s - median, sure = fabs(x) - s->skew_bound_s - bound;
        off[k] = copysign(fmax(sure, 0), x);
        most = fmax(most, s->skew_bound_s + bound);
    }
    return most;
}

static void say_clocks(struct judge *j, enum verdict_level level, int worst, double off_s)
{
    const struct check *c = j->c;
    judge_name(j);
    if (c->n_nodes == 2)
        verdict_add(j->out, level, "clocks", "start chrony or ntpd on both", "those of %s and %s are %.3g s apart",
                    judge_host(j, 0), judge_host(j, 1), fabs(off_s));
    else
        judge_blame(j, verdict_add(j->out, level, "clocks", "start chrony or ntpd there", "on %s the clock is off from "
                                   "the median node's: on %s by %+.3g s", j->names, judge_host(j, worst), off_s));
}

static void compare_clocks(struct judge *j)
{
    const struct check *c = j->c;
    double *off = calloc((size_t)c->n_nodes, 2 * sizeof *off);
    int worst = 0;
    if (!off)
        return;
    double bound = skew_of(c, off, off + c->n_nodes);
    judge_clear(j);
    for (int k = 0; k < c->n_nodes; k++) {
        worst = fabs(off[k]) > fabs(off[worst]) ? k : worst;
        j->node[k] = fabs(off[k]) > SKEW_WARN_S;
    }
    double most = fabs(off[worst]);
    if (most > SKEW_WARN_S)
        say_clocks(j, most > SKEW_FAIL_S ? VERDICT_FAIL : VERDICT_WARN, worst, off[worst]);
    else
        verdict_add(j->out, VERDICT_OK, "clocks", NULL, "none differs from the %s's by more than %.3g ms, which is how "
                    "well that is known", c->n_nodes == 2 ? "other" : "median node", (most + bound) * 1e3);
    free(off);
}

void judge_clocks(struct judge *j)
{
    if (j->c->n_nodes > 1)
        compare_clocks(j);
    else
        verdict_add(j->out, VERDICT_OK, "clocks", NULL, "one node, with nothing to compare its clock with");
}

/* Where no rank has little beside the others, all may have. least: what `rank` got. */
static bool say_half_cores(struct judge *j, const uint8_t *slow, double median, int rank, double least)
{
    const struct check *c = j->c;
    char cpus[64];
    for (int r = 0; r < c->size; r++)
        j->node[c->facts[r].node] |= (slow[r] & CHECK_HALF_CORE) != 0;
    if (judge_name(j) == 0)
        return false;
    judge_blame(j, verdict_add(j->out, VERDICT_WARN, "cores", "start fewer ranks, give each more CPUs (-c), or see "
                               "what else runs there", "ranks on %s got less than half of a core: rank %d %.2f, with "
                               "CPUs %s; the median rank %.2f", j->names, rank, least,
                               cpus_format(&c->facts[rank].mask, cpus, sizeof cpus), median));
    return true;
}

static void judge_part(struct judge *j, const uint8_t *slow, uint8_t what, const struct check_speed *median)
{
    const struct check *c = j->c;
    bool is_memory = what == CHECK_SLOW_MEMORY;
    const char *item = is_memory ? "bandwidth" : "cores";
    double least = INFINITY;
    int rank = 0;
    char cure[400];
    judge_clear(j);
    for (int r = 0; r < c->size; r++) {
        double x = is_memory ? c->speed[r].memory_gbs : c->speed[r].cpu;
        if (!check_is_measured(&c->speed[r]))
            continue;
        j->node[c->facts[r].node] |= (slow[r] & what) != 0;
        if (x < least) {
            least = x;
            rank = r;
        }
    }
    if (isinf(least))
        verdict_add(j->out, VERDICT_WARN, item, "make room for a few MiB a rank", "not measured, no rank had memory "
                    "for it");
    else if (judge_name(j) == 0 && is_memory)
        verdict_add(j->out, VERDICT_OK, item, NULL, "memory, all ranks at once: %.1f GB/s each, rank %d (%s) the least "
                    "with %.1f", median->memory_gbs, rank, c->facts[rank].host, least);
    else if (!*j->names && say_half_cores(j, slow, median->cpu, rank, least))
        return;
    else if (!*j->names)
        verdict_add(j->out, VERDICT_OK, item, NULL, "ranks got %.2f of a core each, rank %d (%s) the least with %.2f",
                    median->cpu, rank, c->facts[rank].host, least);
    else
        judge_blame(j, verdict_add(j->out, VERDICT_FAIL, item, judge_cure(j, cure, sizeof cure),
                             is_memory ? "memory is slow on %s: rank %d reaches %.1f GB/s, the median rank %.1f"
                                       : "something else has the CPUs on %s: rank %d got %.2f of a core, the median "
                                         "rank %.2f",
                             j->names, rank, least, is_memory ? median->memory_gbs : median->cpu));
}

void judge_speed(struct judge *j)
{
    struct check_speed median;
    uint8_t *slow = calloc((size_t)j->c->size, sizeof *slow);
    if (slow) {
        check_slow_ranks(j->c, slow, &median);
        judge_part(j, slow, CHECK_SLOW_CPU, &median);
        judge_part(j, slow, CHECK_SLOW_MEMORY, &median);
    }
    free(slow);
}
