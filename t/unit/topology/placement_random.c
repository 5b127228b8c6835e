/* Random machines, odd ones included: what must always hold, and doc/placement.md word by word (t/lib/ref_place.h).
 * PLACEMENT_SEED=N runs that one case and PLACEMENT_CASES=N as many. */
#include "t/unit/unit.h"

#include "t/lib/machines.h"
#include "t/lib/ref_place.h"

static struct place got[64], want[64];

static const char *text(const struct cpus *set)
{
    static char buf[2][400];
    static int turn;
    turn = !turn;
    return cpus_format(set, buf[turn], sizeof buf[turn]);
}

static bool is_same_place(const struct place *a, const struct place *b)
{
    return cpus_equal(&a->cpus, &b->cpus) && a->n_cores == b->n_cores && a->n_near == b->n_near &&
           a->n_sharing == b->n_sharing && a->device == b->device && a->gpu == b->gpu &&
           a->n_gpu_sharing == b->n_gpu_sharing && a->numa == b->numa && a->nic == b->nic &&
           a->nic_distance == b->nic_distance && a->reason == b->reason;
}

static void print_place(const char *who, const struct place *p)
{
    printf("# %s: cpus %s, %d cores, %d near, %d sharing, device %d, gpu %d (%d), numa %d, nic %d at %d, reason %d\n",
           who, text(&p->cpus), p->n_cores, p->n_near, p->n_sharing, p->device, p->gpu, p->n_gpu_sharing, p->numa,
           p->nic, (int)p->nic_distance, (int)p->reason);
}

static void assert_same_places(uint64_t seed, int n, const struct place *a, const struct place *b, const char *what)
{
    for (int r = 0; r < n; r++)
        if (!is_same_place(&a[r], &b[r])) {
            print_place("got", &a[r]);
            print_place("want", &b[r]);
            fail_msg("seed %llu, rank %d: %s", (unsigned long long)seed, r, what);
        }
}

static void place_all(const struct placement_request *req, struct place *ret, int garbage)
{
    ddp_error_t e;
    memset(ret, garbage, sizeof got);
    assert_int_equal(placement_choose(req, ret, &e), 0);
}

static void for_cases(void (*check)(uint64_t seed, struct random_case *c), int n_cases)
{
    const char *seed = getenv("PLACEMENT_SEED"), *cases = getenv("PLACEMENT_CASES");
    long first = seed ? strtol(seed, NULL, 10) : 1, n = cases ? strtol(cases, NULL, 10) : n_cases;
    for (long s = first; s < first + (seed ? 1 : n); s++) {
        struct random_case c;
        random_case_make((uint64_t)s, &c);
        check((uint64_t)s, &c);
        random_case_free(&c);
    }
}

/* --- what must always hold --- */

static bool core_touches(const struct inventory *inv, size_t core, const struct cpus *set)
{
    for (int t = 0; t < inv->core[core].n_cpus; t++)
        if (cpus_has(set, inv->core[core].cpu[t]))
            return true;
    return false;
}

/* Label of each rank's pool; the masks of ranks that share one overlap in a chain, or some rank sees a GPU with a
 * home. */
static void find_pools(const struct random_case *c, int *label)
{
    bool is_one = false;
    for (int r = 0; r < c->req.n_ranks; r++) {
        label[r] = r;
        for (int i = 0; i < c->rank[r].n_devices; i++) {
            if (c->rank[r].device[i] < 0)
                continue;
            struct cpus local = c->inv->gpu[c->rank[r].device[i]].pci.local;
            cpus_and(&local, &c->inv->all);
            is_one |= cpus_count(&local) > 0 && !cpus_equal(&local, &c->inv->all);
        }
    }
    for (int a = 0; a < c->req.n_ranks; a++)
        for (int b = 0; b < c->req.n_ranks; b++) {
            struct cpus both = c->rank[a].mask;
            cpus_and(&both, &c->rank[b].mask);
            cpus_and(&both, &c->inv->all);
            int from = label[b];
            for (int r = 0; r < c->req.n_ranks && (is_one || cpus_count(&both) > 0); r++)
                label[r] = label[r] == from ? label[a] : label[r];
        }
}

/* Of the ranks with this label: every one has its share of what is there, and nothing else. */
static void check_pool(uint64_t seed, const struct random_case *c, const int *label, int which)
{
    int least = 1 << 20, most = 0, n_idle = 0, n_crowded = 0, n_cores = 0, n_ranks = 0;
    struct cpus all = {{0}}, used = {{0}};
    for (int r = 0; r < c->req.n_ranks; r++)
        if (label[r] == which) {
            cpus_or(&all, &c->rank[r].mask);
            cpus_or(&used, &got[r].cpus);
            least = got[r].n_cores < least ? got[r].n_cores : least;
            most = got[r].n_cores > most ? got[r].n_cores : most;
            n_ranks++;
        }
    cpus_and(&all, &c->inv->all);
    for (size_t i = 0; i < c->inv->n_cores; i++) {
        int n_serving = 0, has_part = core_touches(c->inv, i, &all);
        for (int r = 0; r < c->req.n_ranks; r++)
            n_serving += label[r] == which && core_touches(c->inv, i, &got[r].cpus);
        n_cores += has_part;
        n_idle += has_part && n_serving == 0;
        n_crowded += n_serving > 1;
    }
    if (n_cores == 0)
        return;
    if (least < 1 || most - least > 1 || n_idle > 0 || (n_crowded > 0 && n_ranks <= n_cores))
        fail_msg("seed %llu: %d to %d cores a rank, %d idle, %d with more than one rank", (unsigned long long)seed,
                 least, most, n_idle, n_crowded);
    cpus_and(&used, &c->inv->all);
    if (!cpus_equal(&used, &all))
        fail_msg("seed %llu: CPUs %s used of %s", (unsigned long long)seed, text(&used), text(&all));
}

static void check_cpus(uint64_t seed, struct random_case *c)
{
    int label[64], n = c->req.n_ranks;
    struct cpus all = {{0}};
    place_all(&c->req, got, 0x5a);
    find_pools(c, label);
    for (int r = 0; r < n; r++)
        cpus_or(&all, &c->rank[r].mask);
    for (int r = 0; r < n; r++) {
        int n_alike = 0;
        for (int q = 0; q < n; q++)
            n_alike += label[q] == label[r];
        if (!cpus_within(&got[r].cpus, &all))
            fail_msg("seed %llu, rank %d: CPUs that no mask has", (unsigned long long)seed, r);
        if ((c->req.keep || n_alike == 1) && cpus_count(&c->rank[r].mask) > 0 &&
            !cpus_within(&got[r].cpus, &c->rank[r].mask))
            fail_msg("seed %llu, rank %d: not its own CPUs", (unsigned long long)seed, r);
        if (c->req.keep && !cpus_equal(&got[r].cpus, &c->rank[r].mask))
            fail_msg("seed %llu, rank %d: the mask was to stay", (unsigned long long)seed, r);
        if (!c->req.keep)
            check_pool(seed, c, label, label[r]);
    }
}

static void every_core_of_a_pool_serves_one_rank(void **state)
{
    (void)state;
    for_cases(check_cpus, 3000);
}

/* Every rank that sees GPUs has one of its list; each has floor(R/G) or ceil(R/G) ranks where the lists are alike. */
static void check_gpus(uint64_t seed, struct random_case *c)
{
    int n = c->req.n_ranks, n_devices = c->rank[0].n_devices, count[INVENTORY_GPUS_MAX] = {0};
    bool is_same = n_devices > 0;
    place_all(&c->req, got, 0x5a);
    for (int r = 0; r < n; r++) {
        const struct place *p = &got[r];
        is_same &= c->rank[r].n_devices == n_devices &&
                   !memcmp(c->rank[r].device, c->rank[0].device, (size_t)n_devices * sizeof(int16_t));
        if (c->rank[r].n_devices == 0 ? p->device != -1 || p->gpu != -1 || p->n_gpu_sharing != 0
                                      : p->device < 0 || p->device >= c->rank[r].n_devices ||
                                            p->gpu != c->rank[r].device[p->device] || p->n_gpu_sharing < 1)
            fail_msg("seed %llu, rank %d: device %d", (unsigned long long)seed, r, p->device);
        if (p->device >= 0)
            count[p->device]++;
    }
    for (int d = 0; is_same && d < n_devices; d++)
        if (count[d] > (n + n_devices - 1) / n_devices || count[d] < n / n_devices)
            fail_msg("seed %llu: %d ranks have device %d", (unsigned long long)seed, count[d], d);
}

static void every_rank_that_sees_gpus_has_one(void **state)
{
    (void)state;
    for_cases(check_gpus, 2000);
}

static int n_checked, n_left_to_given;

static void check_rule(uint64_t seed, struct random_case *c)
{
    int given[64];
    place_all(&c->req, got, 0x5a);
    for (int r = 0; r < c->req.n_ranks; r++)
        given[r] = got[r].device;
    n_checked++;
    if (!ref_place(&c->req, NULL, want)) {
        n_left_to_given++;
        assert_true(ref_place(&c->req, given, want));
    }
    assert_same_places(seed, c->req.n_ranks, got, want, "not as doc/placement.md says");
}

static void everything_is_as_the_rule_says(void **state)
{
    (void)state;
    for_cases(check_rule, 3000);
    assert_true(n_left_to_given <= n_checked / 20);
}

/* Only the facts count: not what was in memory, names, or which rank of a pool brought which CPU. */
static void check_facts_only(uint64_t seed, struct random_case *c)
{
    int n = c->req.n_ranks, label[64];
    place_all(&c->req, want, 0x5a);
    memset(c->inv->origin, 'x', sizeof c->inv->origin - 1);
    memset(c->inv->cpu_model, 'y', sizeof c->inv->cpu_model - 1);
    memset(c->inv->link_mbps, 1, sizeof c->inv->link_mbps);
    for (int r = 0; r < n; r++)
        for (int i = c->rank[r].n_devices; i < INVENTORY_GPUS_MAX; i++)
            c->rank[r].device[i] = (int16_t)(r + 99);
    place_all(&c->req, got, 0xff);
    assert_same_places(seed, n, got, want, "the same facts");
    find_pools(c, label);
    for (int r = 1; r < n; r++)
        if (label[r] != label[0])
            return;
    if (c->req.keep || n == 1 || got[0].n_cores == 0)
        return;
    struct cpus first = c->rank[0].mask;
    c->rank[0].mask = c->rank[n - 1].mask;
    c->rank[n - 1].mask = first;
    place_all(&c->req, got, 0);
    assert_same_places(seed, n, got, want, "the same pool from other masks");
}

static void nothing_but_the_facts_counts(void **state)
{
    (void)state;
    for_cases(check_facts_only, 2000);
}

static void the_same_holds_on_machines_of_hwloc(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct random_case c;
        random_case_synthetic(seed, &c);
        check_cpus(seed, &c);
        check_gpus(seed, &c);
        check_rule(seed, &c);
        random_case_free(&c);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_core_of_a_pool_serves_one_rank),
    cmocka_unit_test(every_rank_that_sees_gpus_has_one),
    cmocka_unit_test(everything_is_as_the_rule_says),
    cmocka_unit_test(nothing_but_the_facts_counts),
    cmocka_unit_test(the_same_holds_on_machines_of_hwloc),
};
UNIT_MAIN(tests)
