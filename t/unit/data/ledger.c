#include "t/unit/unit.h"

#include "runtime/data/ledger.h"

static const struct {
    uint64_t n, seed, epoch, first[8];
} golden[] = { /* from another program, written by the header's text */
    {1u, 0u, 0u, {0u}},
    {2u, 0u, 0u, {0u, 1u}},
    {5u, 0u, 0u, {0u, 4u, 1u, 3u, 2u}},
    {5u, 0u, 1u, {4u, 1u, 0u, 2u, 3u}},
    {5u, 1u, 0u, {0u, 1u, 2u, 4u, 3u}},
    {17u, 42u, 3u, {8u, 1u, 2u, 5u, 13u, 3u, 11u, 15u}},
    {1000u, 42u, 0u, {697u, 847u, 508u, 517u, 481u, 273u, 736u, 883u}},
    {4294967297u, 7u, 1u,
     {1126346246u, 353995805u, 2167536179u, 761757057u, 2901382645u, 3911867924u, 3251820015u, 144728703u}},
    {1099511627776u, 7u, 2u,
     {652068430405u, 100370998929u, 149454156257u, 899437907288u, 428869872000u, 1057791924596u, 457121828804u,
      662978756020u}},
    {LEDGER_MAX, UINT64_MAX, UINT64_MAX,
     {8213968016765893477u, 5140835856471761347u, 4575875118317465216u, 5432933688186020011u, 3251724451603744448u,
      1294962429739313764u, 6412354138045756018u, 8191657738409248231u}},
};

static void the_order_never_changes(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        struct ledger l = ledger_of(golden[k].n, golden[k].seed, golden[k].epoch);
        for (uint64_t i = 0; i < 8 && i < l.n; i++)
            assert_true(ledger_get(&l, i) == golden[k].first[i]);
    }
}

static void every_sample_once_for_every_small_n(void **state)
{
    (void)state;
    enum { MOST = 3000 };
    static int seen[MOST];
    for (uint64_t n = 1, mark = 0; n <= MOST; n++) {
        struct ledger l = ledger_of(n, 42, n % 7);
        mark++;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t x = ledger_get(&l, i);
            assert_true(x < n && seen[x] != (int)mark);
            seen[x] = (int)mark;
        }
    }
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The place of sample x, by the rounds backwards; counts the turns in *turns. */
static uint64_t place_of(const struct ledger *l, uint64_t x, uint64_t *turns)
{
    do {
        uint64_t high = x >> l->low_bits, low = x - (high << l->low_bits);
        for (int i = LEDGER_ROUNDS - 1; i >= 0; i--)
            if (i % 2)
                low ^= mix(high + l->key[i]) >> (64 - l->low_bits);
            else
                high ^= mix(low + l->key[i]) >> (64 - l->high_bits);
        x = high << l->low_bits | low;
        ++*turns;
    } while (x >= l->n);
    return x;
}

static void large_ones_can_be_undone(void **state)
{
    (void)state;
    uint64_t r = 88172645463325252u, turns = 0, n_taken = 0;
    for (int bits = 1; bits <= 63; bits++)
        for (int k = 0; k < 40; k++) {
            uint64_t low = (uint64_t)1 << (bits - 1), more = k == 0 ? low : k == 1 ? 1 : draw(&r) % low + 1;
            uint64_t n = low + more;
            struct ledger l = ledger_of(n, draw(&r), draw(&r) % 1000);
            for (int j = 0; j < 50; j++) {
                uint64_t i = j == 0 ? n - 1 : draw(&r) % n, x = ledger_get(&l, i);
                assert_true(x < n);
                assert_true(place_of(&l, x, &turns) == i);
                n_taken++;
            }
        }
    assert_true(turns < 2 * n_taken);
}

/* Is chi-squared of n_cells equally probable cells within five standard deviations? */
static void assert_uniform(const uint32_t *count, size_t n_cells, const char *what, uint64_t n)
{
    double total = 0, chi = 0, freedom = (double)n_cells - 1;
    for (size_t i = 0; i < n_cells; i++)
        total += count[i];
    double want = total / (double)n_cells;
    for (size_t i = 0; i < n_cells; i++)
        chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
    double apart = chi - freedom;
    if (apart > 0 && apart * apart > 25 * 2 * freedom)
        fail_msg("%s, n = %d: chi-squared is %.1f of %.0f", what, (int)n, chi, freedom);
}

/* The number of the order among all n!: by how many of the samples that follow are smaller. */
static size_t order_number(const struct ledger *l)
{
    size_t number = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        size_t n_smaller = 0;
        for (uint64_t j = i + 1; j < l->n; j++)
            n_smaller += ledger_get(l, j) < ledger_get(l, i);
        number = number * (size_t)(l->n - i) + n_smaller;
    }
    return number;
}

static void all_orders_are_as_frequent(void **state)
{
    (void)state;
    static const size_t factorial[] = {1, 1, 2, 6, 24, 120, 720};
    for (uint64_t n = 2; n <= 6; n++) {
        uint32_t count[720] = {0};
        for (uint64_t epoch = 0; epoch < 200 * factorial[n]; epoch++) {
            struct ledger l = ledger_of(n, 5, epoch);
            count[order_number(&l)]++;
        }
        assert_uniform(count, factorial[n], "orders", n);
    }
}

/* Over the epochs, and over seeds, a place holds every sample as often, and so do two places together every pair. */
static void places_and_pairs_are_uniform(void **state)
{
    (void)state;
    enum { CELLS = 16, EPOCHS = 20000 };
    static const uint64_t sizes[] = {16, 32, 48, 64, 80, 256, 1008, 4096, 65536, 999984, (uint64_t)1 << 40};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], width = n / CELLS;
        uint32_t first[CELLS] = {0}, last[CELLS] = {0}, by_seed[CELLS] = {0}, pair[CELLS * CELLS] = {0},
                 next[CELLS * CELLS] = {0};
        uint64_t before = 0;
        for (uint64_t e = 0; e < EPOCHS; e++) {
            struct ledger l = ledger_of(n, 1, e), s = ledger_of(n, e, 0);
            uint64_t a = ledger_get(&l, 0) / width, b = ledger_get(&l, 1) / width;
            first[a]++;
            last[ledger_get(&l, n - 1) / width]++;
            by_seed[ledger_get(&s, 0) / width]++;
            pair[a * CELLS + b] += width >= 4096; /* else two places see that they differ */
            next[before * CELLS + a]++;           /* of two epochs */
            before = a;
        }
        assert_uniform(first, CELLS, "first place", n);
        assert_uniform(last, CELLS, "last place", n);
        assert_uniform(by_seed, CELLS, "first place by seed", n);
        assert_uniform(next, CELLS * CELLS, "first place of two epochs", n);
        if (width >= 4096)
            assert_uniform(pair, CELLS * CELLS, "first two places", n);
    }
}

/* Every pair of different samples, in every pair of places. */
static void small_pairs_are_uniform(void **state)
{
    (void)state;
    for (uint64_t n = 3; n <= 12; n++) {
        for (uint64_t at = 1; at < n; at++) {
            uint32_t count[12 * 11] = {0};
            for (uint64_t e = 0; e < 6000; e++) {
                struct ledger l = ledger_of(n, 77 + at, e);
                uint64_t a = ledger_get(&l, 0), b = ledger_get(&l, at);
                count[a * (n - 1) + b - (b > a)]++;
            }
            assert_uniform(count, n * (n - 1), "pairs", n);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_order_never_changes),
    cmocka_unit_test(every_sample_once_for_every_small_n),
    cmocka_unit_test(large_ones_can_be_undone),
    cmocka_unit_test(all_orders_are_as_frequent),
    cmocka_unit_test(places_and_pairs_are_uniform),
    cmocka_unit_test(small_pairs_are_uniform),
};
UNIT_MAIN(tests)
