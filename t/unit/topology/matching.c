#include "t/unit/unit.h"

#include "t/lib/ref_place.h"
#include "topology/matching.h"

static void compare(int round, const struct matching *m, const int *want, const char *by)
{
    ddp_error_t e;
    int got[64];
    assert_int_equal(matching_choose(m, got, &e), 0);
    for (int r = 0; r < m->n_ranks; r++)
        if (got[r] != want[r])
            fail_msg("round %d, %d ranks, %d devices, %d to %d each: rank %d has %d, not %d (%s)", round, m->n_ranks,
                     m->n_devices, m->at_least, m->at_most, r, got[r], want[r], by);
}

static void set_bounds(struct matching *m)
{
    m->at_most = (m->n_ranks + m->n_devices - 1) / m->n_devices + (rand() % 3 == 0);
    m->at_least = rand() % 2 ? m->n_ranks / m->n_devices : 0;
}

static void every_single_assignment_is_worse(void **state)
{
    (void)state;
    uint8_t cost[64];
    int want[64], again[64];
    srand(11);
    for (int round = 0; round < 20000; round++) {
        struct matching m = {1 + rand() % 6, 1 + rand() % 4, cost, 0, 0};
        set_bounds(&m);
        for (int i = 0; i < m.n_ranks * m.n_devices; i++)
            cost[i] = (uint8_t)(rand() % 3);
        ref_match_all(m.n_ranks, m.n_devices, cost, m.at_least, m.at_most, want);
        compare(round, &m, want, "all assignments");
        if (ref_match(m.n_ranks, m.n_devices, cost, m.at_least, m.at_most, again))
            compare(round, &m, again, "search");
    }
}

static void larger_ones_equal_the_search(void **state)
{
    (void)state;
    uint8_t cost[64 * 16];
    int want[64], n_searched = 0;
    srand(12);
    for (int round = 0; round < 1000; round++) {
        struct matching m = {1 + rand() % 16, 1 + rand() % 9, cost, 0, 0};
        int n_kinds = 1 + rand() % m.n_ranks; /* ranks of one kind have equal costs */
        set_bounds(&m);
        for (int r = 0; r < m.n_ranks; r++)
            for (int d = 0; d < m.n_devices; d++)
                cost[r * m.n_devices + d] = (uint8_t)(r < n_kinds ? rand() % 3 : cost[r % n_kinds * m.n_devices + d]);
        if (!ref_match(m.n_ranks, m.n_devices, cost, m.at_least, m.at_most, want))
            continue;
        n_searched++;
        compare(round, &m, want, "search");
    }
    assert_true(n_searched > 500);
}

static void equal_costs_give_each_rank_its_number(void **state)
{
    (void)state;
    static uint8_t cost[4096 * 64];
    static int got[4096];
    ddp_error_t e;
    for (int n_ranks = 1; n_ranks <= 4096; n_ranks *= 4)
        for (int n_devices = 1; n_devices <= 64; n_devices *= 2) {
            struct matching m = {n_ranks, n_devices, cost, n_ranks / n_devices, (n_ranks + n_devices - 1) / n_devices};
            assert_int_equal(matching_choose(&m, got, &e), 0);
            for (int r = 0; r < n_ranks; r++)
                assert_int_equal(got[r], r % n_devices);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_single_assignment_is_worse),
    cmocka_unit_test(larger_ones_equal_the_search),
    cmocka_unit_test(equal_costs_give_each_rank_its_number),
};
UNIT_MAIN(tests)
