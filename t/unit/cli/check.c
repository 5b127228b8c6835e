/* `ddp check`: who meets whom, who is slow beside the others, and what is said of it. */
#include "t/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cli/check/check.h"
#include "t/lib/folder.h"

/* ---- the tournament ---- */

static void each_meets_each_once(void **state)
{
    (void)state;
    for (int n = 0; n <= 40; n++) {
        static int met[40][40];
        int rounds = check_rounds(n);
        memset(met, 0, sizeof met);
        assert_true(rounds >= 0 && rounds <= CHECK_ROUNDS_MAX);
        for (int r = 0; r < rounds; r++) {
            int idle = 0;
            for (int i = 0; i < n; i++) {
                int other = check_opponent(n, r, i);
                idle += other < 0;
                if (other < 0)
                    continue;
                assert_true(other < n);
                assert_int_not_equal(other, i);
                assert_int_equal(check_opponent(n, r, other), i);
                met[i][other]++;
            }
            assert_int_equal(idle, n % 2);
        }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                assert_true(met[i][k] <= (i != k) && (met[i][k] == (i != k) || n > CHECK_ROUNDS_MAX + 1));
    }
}

/* ---- a check of `nodes` nodes with a rank each, all well ---- */

enum { NODES_MAX = 8 };

static struct fixture {
    struct check c;
    struct check_facts facts[2 * NODES_MAX];
    struct check_speed speed[2 * NODES_MAX];
    struct check_folder folder[2 * NODES_MAX];
    struct check_link link[NODES_MAX * NODES_MAX];
    int first[NODES_MAX];
    struct verdicts said;
} fix;

static struct check *well(int nodes, int per_node)
{
    struct check *c = &fix.c;
    verdicts_clear(&fix.said);
    memset(&fix, 0, sizeof fix);
    *c = (struct check){.size = nodes * per_node, .n_nodes = nodes, .facts = fix.facts, .speed = fix.speed,
                        .folder = fix.folder, .first = fix.first, .link = fix.link};
    for (int r = 0; r < c->size; r++) {
        struct check_facts *f = &fix.facts[r];
        *f = (struct check_facts){.node = r / per_node, .local = r % per_node, .n_numas = 1, .all_numas = 2,
                                  .is_step = 1, .plugin = "1.0", .kernel = "6.1", .program_hash = 7,
                                  .left_bytes = 8ull << 30, .limit_bytes = UINT64_MAX};
        snprintf(f->host, sizeof f->host, "n%d", f->node + 1);
        for (unsigned i = 0; i < 4; i++)
            cpus_add(&f->mask, 4 * (unsigned)f->local + i);
        fix.speed[r] = (struct check_speed){.skew_s = 1e-4, .skew_bound_s = 2e-4, .memory_gbs = 20, .cpu = 1};
        fix.folder[r] = (struct check_folder){.free_bytes = 9ull << 30, .written_bytes = 64 << 20, .write_s = 1};
    }
    for (int k = 0; k < nodes; k++)
        fix.first[k] = k * per_node;
    for (int a = 0; a < nodes; a++)
        for (int b = a + 1; b < nodes; b++)
            fix.link[c->n_links++] = (struct check_link){.a = a, .b = b, .gbs = 2, .latency_s = 50e-6};
    return c;
}

static const struct verdict *verdict_of(const char *item)
{
    verdicts_clear(&fix.said);
    check_judge(&fix.c, &fix.said);
    for (size_t i = 0; i < fix.said.n; i++)
        if (!strcmp(fix.said.of[i].item, item))
            return &fix.said.of[i];
    fail_msg("nothing is said of %s", item);
    return NULL;
}

static void expect(const char *item, enum verdict_level level, const char *found, const char *nodes)
{
    const struct verdict *v = verdict_of(item);
    const char *blamed = v->nodes ? v->nodes : "";
    if (v->level != level || !strstr(v->found, found) || strcmp(blamed, nodes) != 0)
        fail_msg("%s: level %d, \"%s\", nodes \"%s\"", item, v->level, v->found, blamed);
    assert_true((level == VERDICT_OK) == !v->cure[0]);
    for (size_t i = 0; i < fix.said.n; i++) /* nothing else is wrong */
        assert_true(!strcmp(fix.said.of[i].item, item) || fix.said.of[i].level == VERDICT_OK);
}

static struct check_link *link_of(int a, int b)
{
    for (size_t i = 0; i < fix.c.n_links; i++)
        if (fix.link[i].a == a && fix.link[i].b == b)
            return &fix.link[i];
    return NULL;
}

static void slow_down(int node, double times)
{
    for (size_t i = 0; i < fix.c.n_links; i++)
        if (fix.link[i].a == node || fix.link[i].b == node)
            fix.link[i].gbs /= times;
}

static void nothing_is_said_where_all_is_well(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= NODES_MAX; nodes++)
        for (int per_node = 1; per_node <= 2; per_node++) {
            well(nodes, per_node)->dir = "/ckpt";
            expect("ranks", VERDICT_OK, "rank", "");
            assert_false(verdicts_failed(&fix.said));
            assert_int_equal(fix.said.n, nodes > 1 ? 9 : 8);
        }
}

static void a_slow_node_is_named(void **state)
{
    (void)state;
    for (int nodes = 3; nodes <= NODES_MAX; nodes++)
        for (int slow = 0; slow < nodes; slow++) {
            char name[8];
            snprintf(name, sizeof name, "n%d", slow + 1);
            well(nodes, 1);
            slow_down(slow, 2.5);
            expect("links", VERDICT_FAIL, "slow on", name);
            assert_non_null(strstr(verdict_of("links")->cure, "--exclude="));
            well(nodes, 1);
            for (size_t i = 0; i < fix.c.n_links; i++)
                if (fix.link[i].a == slow || fix.link[i].b == slow)
                    fix.link[i].latency_s += 1e-3;
            expect("links", VERDICT_FAIL, "slow on", name);
        }
    well(2, 1);
    slow_down(1, 10);
    expect("links", VERDICT_OK, "not compared", "");
}

static void two_slow_nodes_and_links(void **state)
{
    (void)state;
    well(6, 1);
    slow_down(1, 3);
    slow_down(4, 3);
    expect("links", VERDICT_FAIL, "slow on n2, n5", "n2,n5");
    well(4, 1);
    link_of(1, 3)->gbs /= 4;
    expect("links", VERDICT_FAIL, "1 slow, though no node is: n2-n4", "n4");
    well(4, 1);
    *link_of(0, 2) = (struct check_link){.a = 0, .b = 2, .error = "no route"};
    expect("links", VERDICT_FAIL, "n1-n3: no route", "n3");
    well(4, 1);
    for (size_t i = 0; i < fix.c.n_links; i++) /* as noise is */
        fix.link[i].gbs *= i % 3 ? 1 : 0.7;
    expect("links", VERDICT_OK, "6 pairs", "");
}

static void versions_differ(void **state)
{
    (void)state;
    well(4, 2);
    strcpy(fix.facts[5].plugin, "2.0");
    expect("versions", VERDICT_FAIL, "differs on n3: rank 5 has 2.0, most have 1.0", "n3");
    well(4, 1);
    fix.facts[1].plugin[0] = 0;
    expect("versions", VERDICT_FAIL, "rank 1 has none", "n2");
    well(4, 1);
    fix.facts[0].program_hash = 8;
    expect("versions", VERDICT_FAIL, "the program ddp", "n1");
    well(4, 1);
    strcpy(fix.facts[2].library, "/usr/lib/libddp.so.0");
    expect("versions", VERDICT_FAIL, "libddp.so.0, which programs load, differs on n3", "n3");
    well(4, 1);
    strcpy(fix.facts[3].kernel, "5.10");
    expect("versions", VERDICT_WARN, "the kernel differs on n4", "n4");
}

static void binding(void **state)
{
    (void)state;
    well(2, 2);
    fix.facts[3].mask = fix.facts[2].mask;
    expect("binding", VERDICT_WARN, "n2: nothing binds", "n2");
    well(2, 2);
    cpus_add(&fix.facts[1].mask, 0);
    expect("binding", VERDICT_FAIL, "n1: ranks share", "n1");
    well(2, 2);
    for (int r = 0; r < 2; r++) {
        fix.facts[r].mask = (struct cpus){{0}};
        cpus_add(&fix.facts[r].mask, 0);
    }
    expect("binding", VERDICT_FAIL, "n1: ranks share", "n1");
    well(4, 1);
    fix.facts[2].mask.word[0] = 3;
    expect("binding", VERDICT_WARN, "on n3 have fewer CPUs than the others: rank 2 has 2, the median rank 4", "n3");
    well(2, 2);
    fix.facts[3].n_numas = 2;
    expect("binding", VERDICT_WARN, "on several memory nodes", "n2");
}

static void memory_clocks_and_speed(void **state)
{
    (void)state;
    well(4, 2);
    fix.facts[3].left_bytes = 100 << 20;
    expect("memory", VERDICT_FAIL, "0.1 GiB free on n2", "n2");
    well(4, 1);
    fix.facts[3].left_bytes = 3ull << 30;
    expect("memory", VERDICT_WARN, "3.0 GiB free on n4", "n4");
    for (int k = 0; k < 3; k++) /* not known: no measure for others */
        fix.facts[k].left_bytes = UINT64_MAX;
    expect("memory", VERDICT_OK, "3.0 GiB free on n4, the least; 3.0 GiB on the median node", "");
    fix.facts[3].left_bytes = UINT64_MAX;
    expect("memory", VERDICT_WARN, "not known on any node", "");
    well(4, 1);
    fix.speed[2].skew_s = -0.5;
    expect("clocks", VERDICT_WARN, "on n3 by -0.5 s", "n3");
    fix.speed[2].skew_bound_s = 0.45; /* the network was slow: nothing is sure */
    expect("clocks", VERDICT_OK, "none differs", "");
    well(4, 1);
    fix.speed[1].skew_s = 60;
    expect("clocks", VERDICT_FAIL, "on n2 by +60 s", "n2");
    for (int k = 1; k < 4; k++) /* it is rank 0's node that is off */
        fix.speed[k].skew_s = -60;
    expect("clocks", VERDICT_FAIL, "on n1 the clock is off from the median node's: on n1 by +60 s", "n1");
    well(2, 1);
    fix.speed[1].skew_s = -60;
    expect("clocks", VERDICT_FAIL, "those of n1 and n2 are 60 s apart", "");
    well(1, 2);
    expect("clocks", VERDICT_OK, "one node, with nothing to compare", "");
    well(4, 1);
    fix.speed[1].memory_gbs = 9;
    expect("bandwidth", VERDICT_FAIL, "memory is slow on n2: rank 1 reaches 9.0 GB/s, the median rank 20.0", "n2");
    well(4, 1);
    fix.speed[3].cpu = 0.4;
    expect("cores", VERDICT_FAIL, "something else has the CPUs on n4: rank 3 got 0.40", "n4");
    fix.speed[3].cpu = 0; /* it came too late for any */
    expect("cores", VERDICT_FAIL, "something else has the CPUs on n4: rank 3 got 0.00", "n4");
    for (int k = 0; k < 3; k++)
        fix.speed[k].memory_gbs = fix.speed[k].cpu = 0; /* not measured */
    fix.speed[3].cpu = 0.9;
    expect("cores", VERDICT_OK, "ranks got 0.90 of a core each, rank 3 (n4) the least with 0.90", "");
    well(2, 2);
    for (int r = 0; r < 4; r++)
        fix.speed[r].cpu = r < 2 ? 0.4 : 0.5; /* none has little beside the others */
    fix.speed[1].cpu = 0.31;
    expect("cores", VERDICT_WARN, "ranks on n1 got less than half of a core: rank 1 0.31, with CPUs ", "n1");
}

static void gpus_and_folder(void **state)
{
    (void)state;
    well(3, 1);
    for (int k = 0; k < 3; k++)
        fix.facts[k].n_gpus = 8;
    expect("gpus", VERDICT_OK, "8 on each node", "");
    fix.facts[1].n_gpus = 7;
    expect("gpus", VERDICT_FAIL, "n2: fewer GPUs than other nodes, 7 of 8", "n2");
    fix.facts[1].n_gpus = 8;
    strcpy(fix.facts[2].gpu_fault, "GPU 0000:1b:00.0 has 8 of 16 PCI lanes");
    expect("gpus", VERDICT_FAIL, "n3: GPU 0000:1b:00.0 has 8 of 16", "n3");
    well(3, 2)->dir = "/ckpt";
    fix.folder[4].is_other = 1;
    expect("folder", VERDICT_FAIL, "/ckpt on n3 is not that of n1", "");
    strcpy(fix.folder[2].error, "no file can be made: Permission denied");
    expect("folder", VERDICT_FAIL, "/ckpt on n2: no file can be made", "");
    well(3, 2)->dir = "/ckpt";
    strcpy(fix.folder[0].warning, "any user can write there");
    expect("folder", VERDICT_WARN, "any user can write there", "");
    well(3, 1)->dir = "/ckpt";
    fix.folder[2].write_s = 5;
    expect("folder", VERDICT_WARN, "slow on n3", "n3");
    well(3, 1)->dir = "/ckpt";
    fix.folder[0].free_bytes = 1 << 20;
    expect("folder", VERDICT_WARN, "0.0 GiB free", "");
}

static void all_that_failed_are_excluded(void **state)
{
    (void)state;
    well(6, 1);
    slow_down(3, 5);
    fix.speed[1].memory_gbs = 1;
    fix.facts[3].left_bytes = 1;
    fix.speed[5].skew_s = 1; /* a warning excludes nobody */
    check_judge(&fix.c, &fix.said);
    assert_true(verdicts_failed(&fix.said));
    char *text = verdicts_exclude(&fix.said);
    assert_string_equal(text, "n4,n2");
    free(text);
}

/* Of many the line names whole ones and says how many more there are; the list that --json and the last line print has
 * all. */
static void no_name_is_cut(void **state)
{
    enum { HOST_BYTES = 60 };
    char *end, all[NODES_MAX * (HOST_BYTES + 1)] = "";
    (void)state;
    well(NODES_MAX, 2)->dir = NULL;
    for (int r = 0; r < fix.c.size; r++)
        snprintf(fix.facts[r].host, sizeof fix.facts[r].host, "n%0*d", HOST_BYTES - 1, r / 2);
    for (int k = 0; k < NODES_MAX; k++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? "," : "", fix.facts[2 * k].host);
        fix.facts[2 * k].n_gpus = fix.facts[2 * k + 1].n_gpus = 8;
        strcpy(fix.facts[2 * k].gpu_fault, "lost");
    }
    const struct verdict *v = verdict_of("gpus");
    assert_string_equal(v->nodes, all);
    char *text = verdicts_exclude(&fix.said);
    assert_string_equal(text, all);
    free(text);
    const char *names = strstr(v->cure, "--exclude=") + strlen("--exclude=");
    int n_more = (int)strtol(strstr(names, " and ") + 5, &end, 10);
    assert_string_equal(end, " more: see --json");
    assert_true(n_more >= 1 && n_more < NODES_MAX);
    size_t shown = strcspn(names, " ");
    assert_memory_equal(names, all, shown);
    assert_int_equal(shown + 1, (size_t)(NODES_MAX - n_more) * (HOST_BYTES + 1));
}

/* ---- GPUs by the kernel's files ---- */

#define GPU "bus/pci/devices/0000:1b:00.0/"

static void a_gpu_says_how_it_is(void **state)
{
    char said[200];
    (void)state;
    struct inventory *inv = calloc(1, sizeof *inv);
    assert_non_null(inv);
    inv->n_gpus = 1;
    inv->gpu[0].pci.bus = 0x1b;
    folder_put(GPU "vendor", "");
    check_gpu_faults(inv, test_folder, said, sizeof said);
    assert_string_equal(said, ""); /* nothing is known */
    folder_put(GPU "max_link_width", "16\n");
    folder_put(GPU "current_link_width", "16\n");
    folder_put(GPU "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
    check_gpu_faults(inv, test_folder, said, sizeof said);
    assert_string_equal(said, "");
    folder_put(GPU "aer_dev_fatal", "DLP 3\nTOTAL_ERR_FATAL 3\n");
    check_gpu_faults(inv, test_folder, said, sizeof said);
    assert_string_equal(said, "GPU 0000:1b:00.0: the kernel has counted 3 fatal PCI errors");
    folder_put(GPU "current_link_width", "4\n");
    check_gpu_faults(inv, test_folder, said, sizeof said);
    assert_string_equal(said, "GPU 0000:1b:00.0 has 4 of 16 PCI lanes");
    free(inv);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_meets_each_once),
    cmocka_unit_test(nothing_is_said_where_all_is_well),
    cmocka_unit_test(a_slow_node_is_named),
    cmocka_unit_test(two_slow_nodes_and_links),
    cmocka_unit_test(versions_differ),
    cmocka_unit_test(binding),
    cmocka_unit_test(memory_clocks_and_speed),
    cmocka_unit_test(gpus_and_folder),
    cmocka_unit_test(all_that_failed_are_excluded),
    cmocka_unit_test(no_name_is_cut),
    cmocka_unit_test_setup_teardown(a_gpu_says_how_it_is, folder_make, folder_remove),
};

UNIT_MAIN(tests)
