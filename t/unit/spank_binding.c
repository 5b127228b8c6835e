#include "t/unit/unit.h"

#include <unistd.h>

#include "spank/binding.h"

/* n cores of `threads` hardware threads each, numbered as Linux does: the second threads after all first ones. */
static struct cores *make_cores(size_t n, size_t threads)
{
    struct cores *c = calloc(1, sizeof *c);
    c->n = n;
    c->core = calloc(n, sizeof *c->core);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < threads; t++)
            cpus_add(&c->core[i], (unsigned)(i + t * n));
    return c;
}

static struct cpus all_of(const struct cores *c)
{
    struct cpus set = {{0}};
    for (size_t i = 0; i < c->n; i++)
        cpus_or(&set, &c->core[i]);
    return set;
}

static const char *text(const struct cpus *set)
{
    static char buf[256];
    return cpus_format(set, buf, sizeof buf);
}

static void sets_are_printed(void **state)
{
    (void)state;
    struct cpus s = {{0}};
    char small[12];
    assert_string_equal(text(&s), "none");
    cpus_add(&s, 3);
    cpus_add(&s, CPUS_MAX);
    assert_string_equal(text(&s), "3");
    for (unsigned i = 60; i < 70; i++)
        cpus_add(&s, i);
    cpus_add(&s, CPUS_MAX - 1);
    assert_string_equal(text(&s), "3,60-69,8191");
    assert_string_equal(cpus_format(&s, small, sizeof small), "3,60-69...");
    assert_int_equal(cpus_count(&s), 12);
    assert_true(cpus_has(&s, 69) && !cpus_has(&s, 70) && !cpus_has(&s, CPUS_MAX));
}

static void whole_cores_are_shared_out(void **state)
{
    (void)state;
    struct cores *c = make_cores(4, 2);
    struct cpus mask = all_of(c);
    static const char *const want[] = {"0-1,4-5", "2-3,6-7"};
    for (int r = 0; r < 2; r++) {
        struct binding_facts f = {true, false, "0xff", r, 2, 8, &mask};
        struct binding b = binding_choose(&f, c);
        assert_string_equal(text(&b.cpus), want[r]);
        assert_true(b.is_changed && b.n_sharing == 1);
        assert_int_equal(binding_cores(c, &b.cpus), 2);
    }
    cores_destroy(c);
}

static void what_others_decided_stays(void **state)
{
    (void)state;
    struct cores *c = make_cores(8, 1);
    struct cpus mask = all_of(c);
    const struct binding_facts plain = {true, false, "0xff", 1, 4, 8, &mask};
    static const struct { const char *list; bool wanted, users; int held; bool changed; int sharing; } cases[] = {
        {"0xff", true, false, 8, true, 1},
        {NULL, true, false, 8, true, 1},
        {"0xff", false, false, 8, false, 4},            /* bind=none */
        {"0xff", true, true, 8, false, 4},              /* --cpu-bind */
        {"0x3,0xc,0x30,0xc0", true, false, 8, false, 1}, /* Slurm bound each rank */
        {"0xf,0xf,0xf0,0xf0", true, false, 8, true, 1},  /* Slurm bound pairs of ranks to one mask */
        {"0xff", true, false, 2, false, 4},             /* the step holds 2 CPUs, the mask is the machine */
        {"0xff", true, false, 0, false, 4},             /* not known what the step holds */
        {"0x1,0x2", true, false, 8, false, 1},          /* fewer masks than ranks */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct binding_facts f = plain;
        f.bind_list = cases[i].list;
        f.is_wanted = cases[i].wanted;
        f.is_users = cases[i].users;
        f.cpus_on_node = cases[i].held;
        struct binding b = binding_choose(&f, c);
        if (b.is_changed != cases[i].changed || b.n_sharing != cases[i].sharing)
            fail_msg("case %zu: changed %d, sharing %d (%s)", i, b.is_changed, b.n_sharing, b.why);
        assert_non_null(b.why);
    }
    cores_destroy(c);
}

/* Every share within the mask; the shares together are the mask; sizes differ by one core at most; no two overlap
 * unless there are more ranks than cores; hardware threads of a core stay together. */
static void check_shares(const struct cores *c, const struct cpus *mask, int n_ranks)
{
    size_t m = binding_cores(c, mask), least = SIZE_MAX, most = 0;
    int sharing_total = 0;
    struct cpus seen = {{0}};
    struct binding all[24];
    for (int r = 0; r < n_ranks; r++) {
        struct binding_facts f = {true, false, NULL, r, n_ranks, CPUS_MAX, mask};
        struct binding *b = &all[r];
        *b = binding_choose(&f, c);
        size_t cores = binding_cores(c, &b->cpus);
        assert_true(cores > 0 && cpus_within(&b->cpus, mask));
        for (size_t i = 0; i < c->n; i++) {
            struct cpus core = c->core[i], part = c->core[i];
            cpus_and(&core, mask);
            cpus_and(&part, &b->cpus);
            assert_true(cpus_count(&part) == 0 || cpus_equal(&part, &core));
        }
        struct cpus overlap = seen;
        cpus_and(&overlap, &b->cpus);
        assert_true((size_t)n_ranks > m || cpus_count(&overlap) == 0);
        cpus_or(&seen, &b->cpus);
        least = cores < least ? cores : least;
        most = cores > most ? cores : most;
        sharing_total += b->n_sharing == 1;
    }
    assert_true(cpus_equal(&seen, mask) && most - least <= 1);
    assert_true((size_t)n_ranks > m || sharing_total == n_ranks);
    for (int r = 0; r < n_ranks; r++) {
        int same = 0;
        for (int q = 0; q < n_ranks; q++)
            same += cpus_equal(&all[r].cpus, &all[q].cpus);
        assert_int_equal(all[r].n_sharing, same);
    }
}

static void shares_are_fair_on_random_machines(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        struct cores *c = make_cores(1 + (size_t)rand() % 12, 1 + (size_t)rand() % 2);
        struct cpus mask = {{0}}, machine = all_of(c);
        for (unsigned i = 0; i < 24; i++)
            if (rand() % 3 && cpus_has(&machine, i))
                cpus_add(&mask, i);
        int n = 1 + rand() % 16;
        if (n > 1 && cpus_count(&mask) > 0)
            check_shares(c, &mask, n);
        cores_destroy(c);
    }
}

static void an_empty_mask_is_left_alone(void **state)
{
    (void)state;
    struct cores *c = make_cores(2, 1);
    struct cpus mask = {{0}};
    struct binding_facts f = {true, false, NULL, 0, 2, 2, &mask};
    assert_false(binding_choose(&f, c).is_changed);
    cores_destroy(c);
    cores_destroy(NULL);
}

/* cores_load with hwloc's own report of its plugins, which goes to stderr, in *ret_plugins: how many it opened. */
static struct cores *load_and_count_plugins(int *ret_plugins)
{
    char line[512];
    FILE *report = tmpfile();
    int saved = dup(2);
    assert_true(report && saved >= 0 && dup2(fileno(report), 2) >= 0);
    setenv("HWLOC_PLUGINS_VERBOSE", "1", 1);
    struct cores *c = cores_load(NULL);
    unsetenv("HWLOC_PLUGINS_VERBOSE");
    dup2(saved, 2);
    close(saved);
    rewind(report);
    *ret_plugins = 0;
    while (fgets(line, sizeof line, report))
        *ret_plugins += strstr(line, "contains expected symbol") != NULL;
    fclose(report);
    return c;
}

static void this_machines_cores_are_found(void **state)
{
    (void)state;
    ddp_error_t e;
    setenv("HWLOC_PLUGINS_PATH", "/some/where", 1);
    struct cores *c = cores_load(&e);
    assert_non_null(c);
    assert_string_equal(getenv("HWLOC_PLUGINS_PATH"), "/some/where");
    unsetenv("HWLOC_PLUGINS_PATH");
    cores_destroy(c);
    int n_plugins;
    c = load_and_count_plugins(&n_plugins);
    assert_non_null(c);
    assert_null(getenv("HWLOC_PLUGINS_PATH"));
    assert_int_equal(n_plugins, 0); /* hwloc_opencl.so, hwloc_gl.so, hwloc_pci.so ... */
    struct cpus seen = {{0}};
    for (size_t i = 0; i < c->n; i++) {
        struct cpus both = seen;
        cpus_and(&both, &c->core[i]);
        assert_int_equal(cpus_count(&both), 0);
        assert_true(cpus_count(&c->core[i]) > 0);
        cpus_or(&seen, &c->core[i]);
    }
    cores_destroy(c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sets_are_printed),
    cmocka_unit_test(whole_cores_are_shared_out),
    cmocka_unit_test(what_others_decided_stays),
    cmocka_unit_test(shares_are_fair_on_random_machines),
    cmocka_unit_test(an_empty_mask_is_left_alone),
    cmocka_unit_test(this_machines_cores_are_found),
};
UNIT_MAIN(tests)
