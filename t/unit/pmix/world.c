/* world_from_keys against a brute-force reference, and world_exchange over the boot of one process. */
#include "t/unit/unit.h"

#include <errno.h>

#include "pmix/world.h"
#include "runtime/base/clock.h"

/* Repeatable numbers: xorshift64. */
static uint64_t rng = 88172645463325252ull;

static int below(int n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (int)(rng % (uint64_t)n);
}

/* The definitions of world.h, word by word, in O(n^2). */
static void check(const struct world *w, int size, const char *const *key)
{
    int n_nodes = 0, at = 0;
    for (int r = 0; r < size; r++) {
        int first = r, local = 0, node = 0;
        for (int q = r; q >= 0; q--)
            if (!strcmp(key[q], key[r]))
                first = q;
        for (int q = 0; q < r; q++)
            local += !strcmp(key[q], key[r]);
        for (int q = 0; q < first; q++) { /* lowest ranks of nodes before this one's */
            int is_first = 1;
            for (int p = 0; p < q; p++)
                is_first &= strcmp(key[p], key[q]) != 0;
            node += is_first;
        }
        n_nodes += first == r;
        assert_int_equal(w->node_of[r], node);
        assert_int_equal(w->local_of[r], local);
        assert_int_equal(world_rank_at(w, node, local), r);
    }
    assert_int_equal(w->n_nodes, n_nodes);
    int least = size;
    for (int k = 0; k < n_nodes; k++) {
        assert_int_equal(w->node_first[k], at);
        for (int i = 0; i < world_local_size(w, k); i++, at++) {
            assert_int_equal(w->node_of[w->node_ranks[at]], k);
            assert_true(i == 0 || w->node_ranks[at] > w->node_ranks[at - 1]);
        }
        least = world_local_size(w, k) < least ? world_local_size(w, k) : least;
    }
    assert_int_equal(w->node_first[n_nodes], size);
    assert_int_equal(world_min_local_size(w), least);
    assert_int_equal(world_rank_at(w, n_nodes, 0), -1);
    assert_int_equal(world_rank_at(w, 0, world_local_size(w, 0)), -1);
    assert_int_equal(world_rank_at(w, -1, 0), -1);
}

static void nodes_are_numbered_by_their_lowest_rank(void **state)
{
    (void)state;
    static const char *const names[] = {"7", "0", "12", "a", "", "3", "1", "00"};
    const char *key[40];
    for (int round = 0; round < 500; round++) {
        int size = 1 + below(40), n_names = 1 + below(8), blocks = below(2);
        for (int r = 0; r < size; r++) /* interleaved, or in runs of uneven length */
            key[r] = blocks && r && below(3) ? key[r - 1] : names[below(n_names)];
        struct world *w = world_from_keys(size - 1, size, key, NULL);
        assert_non_null(w);
        assert_int_equal(w->rank, size - 1);
        assert_int_equal(w->size, size);
        check(w, size, key);
        world_destroy(w);
    }
    assert_null(world_from_keys(0, 0, key, NULL));
    world_destroy(NULL);
}

static void ranks_have_names(void **state)
{
    (void)state;
    char buf[32];
    static const char *const key[] = {"0", "1"}, *const host[] = {"n1", ""};
    struct world *w = world_from_keys(0, 2, key, host);
    assert_string_equal(world_rank_name(w, 0, buf, sizeof buf), "rank 0 (n1)");
    assert_string_equal(world_rank_name(w, 1, buf, sizeof buf), "rank 1");
    assert_string_equal(world_rank_name(w, 9, buf, sizeof buf), "rank 9");
    world_destroy(w);
}

static void one_process_is_a_world(void **state)
{
    (void)state;
    ddp_error_t e;
    setenv("DDP_BOOT", "single", 1);
    setenv("SLURM_NODEID", "5", 1);
    setenv("SLURMD_NODENAME", "n6", 1);
    boot_t *b = boot_open(deadline_in(5), &e);
    assert_non_null(b);
    struct world *w = world_exchange(b, deadline_in(5), &e);
    assert_non_null(w);
    assert_int_equal(w->size, 1);
    assert_int_equal(w->n_nodes, 1);
    assert_string_equal(w->host[0], "n6");
    world_destroy(w);
    char longer[WORLD_NODE_KEY_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    setenv("DDP_NODE", longer, 1);
    assert_null(world_exchange(b, deadline_in(5), &e));
    assert_error_has(e, "DDP_NODE");
    boot_leave(b, NULL);
}

/* A store of the caller's: values by key. */
struct store {
    size_t n;
    struct {
        char key[160], data[256];
        size_t n;
    } item[8];
};

static int store_put(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct store *s = ctx;
    (void)errp;
    snprintf(s->item[s->n].key, sizeof s->item[s->n].key, "%s", key);
    memcpy(s->item[s->n].data, data, n);
    s->item[s->n++].n = n;
    return 0;
}

static long store_get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp)
{
    struct store *s = ctx;
    assert_true(timeout_s > 0 && timeout_s <= 5);
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->item[i].key, key)) {
            assert_true(s->item[i].n <= size);
            memcpy(data, s->item[i].data, s->item[i].n);
            return (long)s->item[i].n;
        }
    return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "no %s", key);
}

static void ranks_meet_over_a_store_of_the_callers(void **state)
{
    (void)state;
    ddp_error_t e;
    struct store s = {0};
    boot_t *b[2];
    for (int r = 0; r < 2; r++)
        b[r] = boot_given(&(struct boot_given){r, 2, &s, store_put, store_get}, &e);
    assert_null(world_exchange_as(b[1], "away", "one", deadline_in(5), &e));
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_error_has(e, "rank 0 did not come to the start of the group: no 0/world");
    struct world *w = world_exchange_as(b[0], "here", "nought", deadline_in(5), &e);
    assert_non_null(w);
    assert_int_equal(w->size, 2);
    assert_int_equal(w->n_nodes, 2);
    assert_string_equal(w->host[0], "nought");
    assert_string_equal(w->host[1], "one");
    world_destroy(w);
    for (int r = 0; r < 2; r++)
        assert_int_equal(boot_leave(b[r], &e), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nodes_are_numbered_by_their_lowest_rank),
    cmocka_unit_test(ranks_have_names),
    cmocka_unit_test(one_process_is_a_world),
    cmocka_unit_test(ranks_meet_over_a_store_of_the_callers),
};
UNIT_MAIN(tests)
