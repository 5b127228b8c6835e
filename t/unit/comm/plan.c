#include "t/unit/unit.h"

#include "runtime/comm/plan.h"

enum { MAX = 16, TEXT = 4096 };

static struct world *world_of(int size, const int *node_of)
{
    static char key[MAX][8];
    const char *keys[MAX];
    for (int r = 0; r < size; r++) {
        snprintf(key[r], sizeof key[r], "%d", node_of[r]);
        keys[r] = key[r];
    }
    return world_from_keys(0, size, keys, NULL);
}

/* T over texts, as "(a+b)"; an empty text is absent. */
static void symbols(char *out, char (*x)[TEXT], int n)
{
    char left[TEXT], right[TEXT];
    int m = 1;
    if (n == 1) {
        strcpy(out, x[0]);
        return;
    }
    while (m * 2 < n)
        m *= 2;
    symbols(left, x, m);
    symbols(right, x + m, n - m);
    if (*left && *right) {
        assert_true(strlen(left) + strlen(right) + 4 < TEXT);
        out[0] = 0;
        strcat(strcat(strcat(strcat(strcat(out, "("), left), "+"), right), ")");
    } else {
        strcpy(out, *left ? left : right);
    }
}

/* With is_rounded a node's sum that is rounded before others come to it is "[(a+b)]". */
static void node_symbols(char (*node)[TEXT], const struct world *w, bool is_rounded)
{
    for (int k = 0; k < w->n_nodes; k++) {
        char mine[MAX][TEXT];
        int n = world_local_size(w, k);
        for (int l = 0; l < n; l++)
            snprintf(mine[l], TEXT, "%d", world_rank_at(w, k, l));
        symbols(node[k], mine, n);
        if (is_rounded && n > 1 && w->n_nodes > 1) {
            size_t len = strlen(node[k]);
            assert_true(len + 2 < TEXT);
            memmove(node[k] + 1, node[k], len);
            node[k][0] = '[';
            strcpy(node[k] + 1 + len, "]");
        }
    }
}

enum { ORDER = 32 };

/* What the plan computes, as text, and what comm_plan_order says of it. */
static void planned(char *out, const struct world *w, bool is_rounded, bool *ret_by_rank, char *ret_order)
{
    static char slots[64][TEXT], node[MAX][TEXT];
    struct comm_plan p;
    assert_int_equal(comm_plan_init(&p, w), 0);
    assert_true(p.n_slots <= 64);
    node_symbols(node, w, is_rounded);
    for (int i = 0; i < p.n_slots; i++)
        strcpy(slots[i], p.slot_node[i] < 0 ? "" : node[p.slot_node[i]]);
    symbols(out, slots, p.n_slots);
    *ret_by_rank = p.by_rank;
    comm_plan_order(&p, w, is_rounded, ret_order, ORDER);
    comm_plan_clear(&p);
}

static void the_plan_is_the_tree(void **state)
{
    (void)state;
    static const struct {
        int size, node_of[MAX];
        bool by_rank;
        const char *want; /* NULL: only compared with T over all ranks */
    } cases[] = {
        {1, {0}, true, "0"},
        {4, {0, 0, 1, 2}, true, "((0+1)+(2+3))"},
        {4, {0, 1, 2, 2}, true, "((0+1)+(2+3))"},
        {4, {0, 1, 0, 1}, false, "((0+2)+(1+3))"},
        {3, {0, 0, 0}, false, "((0+1)+2)"},
        {7, {0, 1, 1, 2, 2, 2, 2}, false, "((0+(1+2))+((3+4)+(5+6)))"},
        {7, {0, 0, 0, 1, 1, 1, 2}, false, "((((0+1)+2)+((3+4)+5))+6)"},
        {7, {0, 0, 0, 0, 1, 1, 2}, true, "(((0+1)+(2+3))+((4+5)+6))"},
        {6, {0, 0, 1, 1, 2, 2}, true, NULL},
        {5, {0, 1, 2, 3, 4}, true, NULL},
        {12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, true, NULL},
        {16, {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 4, 4, 4}, true, NULL},
        {6, {0, 1, 1, 1, 1, 2}, false, NULL},
        {6, {0, 0, 0, 0, 1, 1}, true, NULL},
        {6, {1, 1, 0, 0, 0, 0}, false, NULL}, /* the block of four is not aligned */
    };
    static char all[MAX][TEXT], whole[TEXT], have[TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool by_rank;
        char order[ORDER];
        struct world *w = world_of(cases[i].size, cases[i].node_of);
        planned(have, w, false, &by_rank, order);
        assert_int_equal(by_rank, cases[i].by_rank);
        if (cases[i].want)
            assert_string_equal(have, cases[i].want);
        for (int r = 0; r < cases[i].size; r++)
            snprintf(all[r], TEXT, "%d", r);
        symbols(whole, all, cases[i].size);
        if (by_rank)
            assert_string_equal(have, whole);
        world_destroy(w);
    }
}

/* All placements of up to seven ranks on up to three nodes: by_rank promises T over all ranks, and the order's text is
 * "ranks" just where the sum is that. */
static void by_rank_means_the_whole_tree(void **state)
{
    (void)state;
    static char all[MAX][TEXT], whole[TEXT], have[TEXT];
    int n_by_rank = 0;
    for (int size = 1; size <= 7; size++) {
        for (int r = 0; r < size; r++)
            snprintf(all[r], TEXT, "%d", r);
        symbols(whole, all, size);
        int total = 1;
        for (int r = 0; r < size; r++)
            total *= 3;
        for (int code = 0; code < total; code++) {
            int node_of[MAX];
            for (int r = 0, c = code; r < size; r++, c /= 3)
                node_of[r] = c % 3;
            bool by_rank;
            char order[ORDER];
            struct world *w = world_of(size, node_of);
            planned(have, w, false, &by_rank, order);
            if (by_rank && ++n_by_rank)
                assert_string_equal(have, whole);
            assert_int_equal(!strcmp(order, "ranks"), !strcmp(have, whole));
            planned(have, w, true, &by_rank, order);
            assert_int_equal(!strcmp(order, "ranks"), !strcmp(have, whole));
            world_destroy(w);
        }
    }
    assert_true(n_by_rank > 30);
}

static void the_order_says_how_ranks_lie_on_nodes(void **state)
{
    (void)state;
    static const struct {
        int size, node_of[MAX];
        bool is_rounded;
        const char *want;
    } cases[] = {
        {4, {0, 0, 1, 1}, false, "ranks"},
        {7, {0, 0, 1, 1, 2, 2, 2}, false, "ranks"},
        {4, {0, 0, 1, 1}, true, "nodes 2,2"},
        {4, {0, 0, 0, 1}, false, "nodes 3,1"},
        {4, {0, 1, 1, 0}, false, "nodes 1,2,1@0"},
        {4, {0, 1, 0, 1}, false, "nodes 1,1,1@0,1@1"},
        {16, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, false, "4 nodes, 12ba6f1cdf80c3f5"},
        {16, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 3, 2}, false, "4 nodes, a6b51f14a6b7e5dd"},
    };
    static char have[TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool by_rank;
        char order[ORDER];
        struct world *w = world_of(cases[i].size, cases[i].node_of);
        planned(have, w, cases[i].is_rounded, &by_rank, order);
        assert_string_equal(order, cases[i].want);
        world_destroy(w);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Is `block` where these ranges may be cut? */
static bool is_cut_point(const struct comm_ranges *r, uint64_t block)
{
    uint64_t base = 0;
    for (size_t i = 0; i < r->n_ranges; i++) {
        uint64_t n = comm_blocks(&r->ranges[i], 1);
        if (block < base + n)
            return (block - base) % r->unit == 0;
        base += n;
    }
    return block == base;
}

static void check_chunks(const struct comm_ranges *r, struct comm_span s, uint64_t max)
{
    uint64_t at = s.first;
    for (uint64_t i = 0; i < comm_n_chunks(s, max); i++) {
        struct comm_span c = comm_chunk(r, s, i, max);
        assert_true(c.first == at && c.end >= c.first && c.end - c.first < max + r->unit && is_cut_point(r, c.end));
        at = c.end;
    }
    assert_true(at == s.end);
}

/* Over random ranges, units, ranks and nodes: parts follow each other without a gap, begin and end at units, and differ
 * from an equal share by less than a unit. */
static void parts_cover_all_blocks_once(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 3000; i++) {
        struct comm_range ranges[12];
        struct comm_ranges r = {ranges, next_random(&seed) % 12, 1ull << next_random(&seed) % 11};
        for (size_t k = 0; k < r.n_ranges; k++)
            ranges[k] = (struct comm_range){0, next_random(&seed) % (1 << next_random(&seed) % 20),
                                            (enum ddp_dtype)(next_random(&seed) % DTYPE_COUNT)};
        struct comm_span all = {0, comm_blocks(ranges, r.n_ranges)};
        int parts = 1 + (int)(next_random(&seed) % 8), nodes = 1 + (int)(next_random(&seed) % 5);
        uint64_t at = 0, max = r.unit * (1 + next_random(&seed) % 5);
        for (int p = 0; p < parts; p++) {
            struct comm_span s = comm_cut(&r, all, parts, p);
            uint64_t share = all.end / (uint64_t)parts, n = s.end - s.first, inner = s.first;
            assert_true(s.first == at && s.end >= s.first && is_cut_point(&r, s.end));
            assert_true(n <= share + r.unit && n + r.unit >= share);
            for (int k = 0; k < nodes; k++) {
                struct comm_span sub = comm_cut(&r, s, nodes, k);
                assert_true(sub.first == inner && is_cut_point(&r, sub.end));
                check_chunks(&r, sub, max);
                inner = sub.end;
            }
            assert_true(inner == s.end);
            at = s.end;
        }
        assert_true(at == all.end);
    }
}

static void pieces_cover_every_element_once(void **state)
{
    (void)state;
    static const struct comm_range ranges[] = {
        {6400, 33, DDP_F32}, {0, 1, DDP_F64}, {640, 0, DDP_F32}, {1280, 16, DDP_F32}, {12800, 100, DDP_BF16},
    };
    enum { N = 5 };
    uint64_t n = comm_blocks(ranges, N);
    assert_int_equal(n, 3 + 1 + 0 + 1 + 4);
    for (int parts = 1; parts <= 12; parts++) {
        unsigned char seen[20000] = {0};
        size_t bytes = 0, want = 33 * 4 + 8 + 16 * 4 + 200;
        for (int i = 0; i < parts; i++) {
            struct comm_piece p;
            struct comm_span s = comm_cut(&(struct comm_ranges){ranges, N, 1}, (struct comm_span){0, n}, parts, i);
            size_t packed = 0;
            for (struct comm_pieces it = comm_pieces(ranges, N, s); comm_piece_next(&it, &p);) {
                assert_int_equal(p.n_bytes, p.n_elems * dtype_size(p.dtype));
                assert_int_equal(p.offset_bytes % 64, 0);
                assert_true(p.n_bytes > 0 && p.packed_bytes >= packed && p.packed_bytes % 64 == 0);
                assert_true(p.packed_bytes + p.n_bytes <= (s.end - s.first) * 64);
                packed = p.packed_bytes + p.n_bytes;
                bytes += p.n_bytes;
                for (size_t b = 0; b < p.n_bytes; b++)
                    assert_int_equal(seen[p.offset_bytes + b]++, 0);
            }
        }
        assert_int_equal(bytes, want);
        assert_int_equal(seen[6400 + 33 * 4], 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_plan_is_the_tree),
    cmocka_unit_test(by_rank_means_the_whole_tree),
    cmocka_unit_test(the_order_says_how_ranks_lie_on_nodes),
    cmocka_unit_test(parts_cover_all_blocks_once),
    cmocka_unit_test(pieces_cover_every_element_once),
};
UNIT_MAIN(tests)
