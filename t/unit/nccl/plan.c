/* Who makes ids, under which key, and the deterministic mode's schedule, carried out here for all ranks at once. */
#include "t/unit/unit.h"


#include "kernels/reduce.h"
#include "runtime/comm/plan.h"
#include "runtime/nccl/plan.h"

enum { MAX = 1024 };

/* node_of: of every rank. */
static struct world *make_world(int rank, int size, const int *node_of)
{
    static char text[MAX][8];
    const char *keys[MAX];
    for (int r = 0; r < size; r++) {
        snprintf(text[r], sizeof text[r], "n%d", node_of[r]);
        keys[r] = text[r];
    }
    return world_from_keys(rank, size, keys, keys);
}

static void test_roots_count(void **state)
{
    (void)state;
    const int cases[][2] = {{1, 1}, {2, 1}, {128, 1}, {129, 2}, {256, 2}, {257, 3}, {1024, 8}, {100000, 782}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(nccl_n_roots(cases[i][0], 0, true), cases[i][1]);
        assert_int_equal(nccl_n_roots(cases[i][0], 0, false), 1);
    }
}

/* As NCCL deals ranks out: consecutive blocks, the longer ones first. */
static void test_blocks(void **state)
{
    (void)state;
    for (int size = 1; size < 40; size++)
        for (int n = 1; n <= size; n++) {
            int first, end, next = 0;
            for (int i = 0; i < n; i++) {
                nccl_block(size, n, i, &first, &end);
                assert_int_equal(first, next);
                assert_int_equal(end - first, size / n + (i < size % n ? 1 : 0));
                next = end;
            }
            assert_int_equal(next, size);
        }
}

enum shape { BLOCKS, CYCLIC, ONE_NODE };

static void check_roots(int size, int n_nodes, enum shape shape, int most_per_node)
{
    int node_of[MAX], roots[16], used[MAX] = {0}, n = nccl_n_roots(size, 0, true), first, end;
    for (int r = 0; r < size; r++)
        node_of[r] = shape == BLOCKS ? r / (size / n_nodes) : shape == CYCLIC ? r % n_nodes : 0;
    struct world *w = make_world(0, size, node_of);
    assert_int_equal(nccl_roots(w, n, roots), 0);
    for (int i = 0; i < n; i++) {
        nccl_block(size, n, i, &first, &end);
        assert_true(roots[i] >= first && roots[i] < end); /* so no rank has two */
        used[w->node_of[roots[i]]]++;
    }
    for (int k = 0; k < n_nodes; k++)
        assert_true(used[k] <= most_per_node);
    world_destroy(w);
}

static void test_roots_are_spread(void **state)
{
    (void)state;
    check_roots(8, 2, BLOCKS, 1);
    check_roots(512, 64, BLOCKS, 1);
    check_roots(512, 64, CYCLIC, 1); /* the first rank of each block is on node 0 */
    check_roots(256, 2, CYCLIC, 1);
    check_roots(1024, 4, CYCLIC, 2); /* eight roots on four nodes */
    check_roots(300, 1, ONE_NODE, 3);
}

/* ---- the schedule ---- */

enum { RANKS = 12, ELEMS = 1000, UNIT_MAX = 4096, STAGE = (ELEMS + UNIT_MAX) * RANKS };

struct job {
    int size;
    struct world *w[RANKS];
    struct nccl_fixed f[RANKS];
    float data[RANKS][ELEMS], before[RANKS][ELEMS], stage[RANKS][STAGE];
    struct nccl_move moves[RANKS][2 * RANKS];
    size_t n_moves[RANKS], moved[RANKS]; /* elements sent within the node */
    size_t across[RANKS];
};

static bool overlaps(const struct nccl_move *a, const struct nccl_move *b)
{
    return a->first < b->first + b->n && b->first < a->first + a->n;
}

/* The receipt on `to` that matches the k-th send of rank `from` to it. */
static const struct nccl_move *receipt(const struct job *j, int from, int to, int k)
{
    for (size_t i = 0; i < j->n_moves[to]; i++)
        if (!j->moves[to][i].is_send && j->moves[to][i].peer == from && k-- == 0)
            return &j->moves[to][i];
    fail_msg("rank %d sends what rank %d does not expect", from, to);
    return NULL;
}

static void check_one_rank(const struct job *j, int r, enum nccl_phase phase)
{
    size_t slot = nccl_fixed_slot_elems(&j->f[r], phase), stage = nccl_fixed_stage_elems(&j->f[r]);
    for (size_t i = 0; i < j->n_moves[r]; i++) {
        const struct nccl_move *a = &j->moves[r][i];
        assert_true(a->n > 0 && a->first + a->n <= j->f[r].n_elems);
        assert_true(a->first % j->f[r].unit_elems == 0);
        assert_true(a->n <= slot && (size_t)(a->slot + 1) * slot <= stage);
        for (size_t k = 0; k < i; k++) { /* a group's members run at once */
            const struct nccl_move *b = &j->moves[r][k];
            bool in_place = (a->is_send || a->slot < 0) && (b->is_send || b->slot < 0);
            assert_false(in_place && !(a->is_send && b->is_send) && overlaps(a, b));
            assert_false(!a->is_send && !b->is_send && a->slot >= 0 && a->slot == b->slot);
        }
    }
}

static void deliver(struct job *j, int from, enum nccl_phase phase, const struct nccl_move *m,
                    const struct nccl_move *to)
{
    assert_int_equal(m->n, to->n);
    assert_int_equal(m->first, to->first);
    size_t slot = nccl_fixed_slot_elems(&j->f[m->peer], phase);
    float *at = to->slot < 0 ? &j->data[m->peer][to->first] : &j->stage[m->peer][(size_t)to->slot * slot];
    memcpy(at, &j->before[from][m->first], m->n * sizeof *at);
    if (j->w[from]->node_of[from] == j->w[from]->node_of[m->peer])
        j->moved[from] += m->n;
    else
        j->across[from] += m->n;
}

static void move_phase(struct job *j, enum nccl_phase phase)
{
    size_t sent = 0, received = 0;
    memcpy(j->before, j->data, sizeof j->before);
    for (int r = 0; r < j->size; r++) {
        j->n_moves[r] = nccl_fixed_moves(&j->f[r], phase, j->moves[r]);
        assert_true(j->n_moves[r] <= nccl_fixed_most(j->w[r]));
    }
    for (int r = 0; r < j->size; r++) {
        int to[RANKS] = {0};
        check_one_rank(j, r, phase);
        for (size_t i = 0; i < j->n_moves[r]; i++) {
            const struct nccl_move *m = &j->moves[r][i];
            received += !m->is_send;
            if (!m->is_send)
                continue;
            deliver(j, r, phase, m, receipt(j, r, m->peer, to[m->peer]++));
            sent++;
        }
    }
    assert_int_equal(sent, received);
}

static void sum_phase(struct job *j, int r, enum nccl_phase phase, const struct comm_plan *p)
{
    int input[RANKS];
    const void *in[2 * RANKS];
    size_t first, n, slot = nccl_fixed_slot_elems(&j->f[r], phase);
    size_t n_in = nccl_fixed_inputs(&j->f[r], phase, input, &first, &n), n_slots = n_in;
    void *out = &j->data[r][first];
    if (phase == NCCL_ACROSS)
        n_slots = (size_t)p->n_slots;
    for (size_t i = 0; i < n_slots; i++) {
        int k = phase == NCCL_ACROSS ? p->slot_node[i] : (int)i;
        in[i] = k < 0 ? NULL : input[k] < 0 ? out : &j->stage[r][(size_t)input[k] * slot];
    }
    if (n > 0)
        kernel_reduce_tree(&out, 1, in, (int)n_slots, n, DDP_F32, DDP_SUM);
}

static uint32_t random_bits(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* T over each node's ranks, then over the nodes along the plan, at one place. */
static void expect(const struct job *j, const struct comm_plan *p, size_t n, float start[RANKS][ELEMS], float *want)
{
    float partial[RANKS][ELEMS];
    const void *in[2 * RANKS];
    const struct world *w = j->w[0];
    for (int k = 0; k < w->n_nodes; k++) {
        void *out = partial[k];
        for (int l = 0; l < world_local_size(w, k); l++)
            in[l] = start[world_rank_at(w, k, l)];
        kernel_reduce_tree(&out, 1, in, world_local_size(w, k), n, DDP_F32, DDP_SUM);
    }
    for (int i = 0; i < p->n_slots; i++)
        in[i] = p->slot_node[i] < 0 ? NULL : partial[p->slot_node[i]];
    kernel_reduce_tree(&(void *){want}, 1, in, p->n_slots, n, DDP_F32, DDP_SUM);
}

static void check_schedule(int size, const int *node_of, size_t n, size_t unit)
{
    static struct job j;
    static float start[RANKS][ELEMS], want[ELEMS];
    struct comm_plan p;
    uint32_t seed = (uint32_t)(size * 131 + (int)n);
    memset(&j, 0x55, sizeof j);
    memset(j.moved, 0, sizeof j.moved);
    memset(j.across, 0, sizeof j.across);
    j.size = size;
    for (int r = 0; r < size; r++) {
        j.w[r] = make_world(r, size, node_of);
        j.f[r] = (struct nccl_fixed){j.w[r], n, unit};
        for (size_t i = 0; i < n; i++)
            j.data[r][i] = start[r][i] = (float)random_bits(&seed) / 977 - 8000;
    }
    assert_int_equal(comm_plan_init(&p, j.w[0]), 0);
    if (n > 0)
        expect(&j, &p, n, start, want);
    for (int phase = 0; phase < NCCL_PHASES; phase++) {
        move_phase(&j, phase);
        for (int r = 0; r < size && (phase == NCCL_TO_OWNERS || phase == NCCL_ACROSS); r++)
            sum_phase(&j, r, phase, &p);
    }
    size_t all = 0;
    for (int r = 0; r < size; r++) {
        assert_memory_equal(j.data[r], want, n * sizeof(float));
        all += j.across[r];
    }
    assert_int_equal(all, 2 * (size_t)(j.w[0]->n_nodes - 1) * n); /* over all ranks: nothing twice, nothing padded */
    comm_plan_clear(&p);
    for (int r = 0; r < size; r++)
        world_destroy(j.w[r]);
}

static void test_schedule(void **state)
{
    (void)state;
    static const struct {
        int size, node_of[RANKS];
    } worlds[] = {
        {1, {0}},
        {2, {0, 0}},
        {3, {0, 0, 0}},
        {8, {0}},
        {4, {0, 1, 2, 3}},
        {4, {0, 0, 1, 1}},
        {4, {0, 1, 0, 1}}, /* not by rank */
        {4, {0, 0, 1, 2}}, /* by rank, of unequal size */
        {5, {0, 0, 0, 1, 1}},
        {12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}},
        {11, {0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3}},
        {12, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}},
    };
    static const size_t sizes[] = {0, 1, 5, 16, 17, 100, 999, 1000}, units[] = {1, 16, 64, UNIT_MAX};
    for (size_t k = 0; k < sizeof worlds / sizeof *worlds; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t u = 0; u < sizeof units / sizeof *units; u++)
                check_schedule(worlds[k].size, worlds[k].node_of, sizes[i], units[u]);
}

/* A GPU of a node of eight moves what a ring would: 2 * 7/8 of the array. */
static void test_schedule_moves_no_more_than_a_ring(void **state)
{
    (void)state;
    static const int one_node[8] = {0}, two_nodes[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    for (int nodes = 1; nodes <= 2; nodes++)
        for (int r = 0; r < 8; r++) {
            struct world *w = make_world(r, 8, nodes == 1 ? one_node : two_nodes);
            struct nccl_fixed f = {w, 800, 1};
            struct nccl_move moves[16];
            size_t sent[2] = {0};
            for (int phase = 0; phase < NCCL_PHASES; phase++)
                for (size_t i = 0, n = nccl_fixed_moves(&f, phase, moves); i < n; i++)
                    sent[phase == NCCL_ACROSS || phase == NCCL_BACK] += moves[i].is_send ? moves[i].n : 0;
            assert_int_equal(sent[0], nodes == 1 ? 2 * 700 : 2 * 600);
            assert_int_equal(sent[1], nodes == 1 ? 0 : 2 * 100);
            world_destroy(w);
        }
}

/* What is received before a sum needs no more than the range itself, and what units round up. */
static void test_stage_is_small(void **state)
{
    (void)state;
    static const int nodes[] = {1, 2, 8, 32};
    static int node_of[256];
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (int each = 1; each <= 8; each++) {
            int size = nodes[i] * each;
            for (int r = 0; r < size; r++)
                node_of[r] = r / each;
            struct world *w = make_world(0, size, node_of);
            struct nccl_fixed f = {w, 1 << 20, 64};
            size_t stage = nccl_fixed_stage_elems(&f);
            assert_true(stage >= f.n_elems && stage <= f.n_elems + 64 * (size_t)size);
            world_destroy(w);
        }
}

/* ---- its reduce-scatter ---- */

enum { SHARE = 10, FIRST = 3, PART = 5 };

/* Sends of one phase by who sends to whom, in order; receipts must be the same list. */
struct list {
    size_t n, first[4 * RANKS];
};

static void note(struct list *l, const struct nccl_move *m)
{
    assert_true(m->n == PART && m->first % SHARE == FIRST && m->first < SHARE * RANKS);
    l->first[l->n++] = m->first;
}

/* Returns how many elements rank sends. */
static size_t note_moves(const struct world *w, enum nccl_phase phase, struct list sent[RANKS], struct list came[RANKS])
{
    const struct nccl_scatter s = {w, SHARE, FIRST, PART};
    struct nccl_move moves[8 * RANKS * RANKS];
    bool is_taken[4 * RANKS * RANKS] = {false};
    size_t n = nccl_scatter_moves(&s, phase, moves), total = 0;
    assert_true(n <= nccl_scatter_most(w));
    for (size_t i = 0; i < n; i++) {
        const struct nccl_move *m = &moves[i];
        assert_int_equal(w->node_of[m->peer] == w->node_of[w->rank], phase == NCCL_TO_OWNERS);
        note(m->is_send ? &sent[m->peer] : &came[m->peer], m);
        total += m->is_send ? m->n : 0;
        if (m->is_send)
            continue;
        assert_true(m->slot >= 0 && (size_t)m->slot < nccl_scatter_slots(w) && !is_taken[m->slot]);
        is_taken[m->slot] = true;
    }
    return total;
}

static size_t check_scatter(int size, const int *node_of, enum nccl_phase phase)
{
    static struct list sent[RANKS][RANKS], came[RANKS][RANKS];
    size_t all = 0;
    memset(sent, 0, sizeof sent);
    memset(came, 0, sizeof came);
    for (int r = 0; r < size; r++) {
        struct world *w = make_world(r, size, node_of);
        all += note_moves(w, phase, sent[r], came[r]);
        world_destroy(w);
    }
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++)
            assert_memory_equal(&sent[from][to], &came[to][from], sizeof sent[from][to]);
    return all;
}

/* Whatever the nodes: each rank's part once to who sums it on its node, and each node's sum once to its owner. */
static void test_scatter(void **state)
{
    (void)state;
    uint32_t seed = 5;
    for (int round = 0; round < 300; round++) {
        int size = 1 + (int)(random_bits(&seed) % RANKS), most = 1 + (int)(random_bits(&seed) % (uint32_t)size);
        int node_of[RANKS], n_nodes = 0;
        for (int r = 0; r < size; r++)
            node_of[r] = (int)(random_bits(&seed) % (uint32_t)most);
        struct world *w = make_world(0, size, node_of);
        n_nodes = w->n_nodes;
        world_destroy(w);
        /* of each share every rank but one of each node sends its part, and every node but one its sum */
        assert_int_equal(check_scatter(size, node_of, NCCL_TO_OWNERS), PART * (size_t)size * (size_t)(size - n_nodes));
        assert_int_equal(check_scatter(size, node_of, NCCL_ACROSS), PART * (size_t)size * (size_t)(n_nodes - 1));
    }
}

/* A stage as large as the range takes all of it at once, where nodes have equally many ranks. */
static void test_scatter_slots(void **state)
{
    (void)state;
    static int node_of[256];
    for (int each = 1; each <= 8; each++)
        for (int nodes = 1; nodes <= 32; nodes *= 2) {
            for (int r = 0; r < nodes * each; r++)
                node_of[r] = r / each;
            struct world *w = make_world(0, nodes * each, node_of);
            assert_int_equal(nccl_scatter_slots(w), nodes * each);
            world_destroy(w);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_scatter),
    cmocka_unit_test(test_scatter_slots),
    cmocka_unit_test(test_roots_count),
    cmocka_unit_test(test_blocks),
    cmocka_unit_test(test_roots_are_spread),
    cmocka_unit_test(test_schedule),
    cmocka_unit_test(test_schedule_moves_no_more_than_a_ring),
    cmocka_unit_test(test_stage_is_small),
};
UNIT_MAIN(tests)
