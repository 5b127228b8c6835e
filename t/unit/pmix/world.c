/* world_from_keys against a brute-force reference, world_exchange over the boot of one process, and over a store of the
 * caller's, which strangers may read and write. */
#include "t/unit/unit.h"

#include <errno.h>

#include "pmix/world.h"
#include "runtime/base/clock.h"
#include "runtime/base/secret.h"

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

static const char first_secret[] = "5ab1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff";
static const char other_secret[] = "6ab1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeef0";

/* Of size 2. secret: NULL: none. */
static boot_t *boot_with(const char *secret, int rank, struct store *s)
{
    if (secret)
        setenv(SECRET_VARIABLE, secret, 1);
    else
        unsetenv(SECRET_VARIABLE);
    boot_t *b = boot_given(&(struct boot_given){rank, 2, s, store_put, store_get}, NULL);
    unsetenv(SECRET_VARIABLE);
    return b;
}

static void expect_token(const char *secret, int rank, const unsigned char *nonce, const unsigned char *want, bool same)
{
    struct store s = {0};
    unsigned char token[BOOT_NONCE_BYTES];
    boot_t *b = boot_with(secret, 1 - rank, &s);
    memcpy(token, nonce, sizeof token);
    boot_token(b, rank, token);
    assert_int_equal(!memcmp(token, want, sizeof token), same);
    boot_leave(b, NULL);
}

static void tokens_follow_from_the_steps_secret(void **state)
{
    (void)state;
    struct store s = {0};
    const unsigned char nonce[BOOT_NONCE_BYTES] = "nonce of a rank", other[BOOT_NONCE_BYTES] = "nonce of a ranl";
    unsigned char token[BOOT_NONCE_BYTES];
    boot_t *b = boot_with(first_secret, 1, &s);
    memcpy(token, nonce, sizeof token);
    boot_token(b, 1, token);
    boot_leave(b, NULL);
    expect_token(first_secret, 1, nonce, token, true);
    expect_token(first_secret, 1, nonce, nonce, false);
    expect_token(first_secret, 1, other, token, false); /* another group's, or generation's */
    expect_token(first_secret, 0, nonce, token, false);
    expect_token(other_secret, 1, nonce, token, false);
    expect_token(NULL, 1, nonce, nonce, true);
    setenv(SECRET_VARIABLE, first_secret, 1);
    setenv("DDP_BOOT", "single", 1);
    b = boot_open(deadline_in(5), NULL);
    memcpy(token, nonce, sizeof token);
    boot_token(b, 0, token);
    assert_memory_equal(token, nonce, sizeof token); /* nobody else reads what is put there */
    boot_leave(b, NULL);
    unsetenv(SECRET_VARIABLE);
    unsetenv("DDP_BOOT");
}

static int get_of(boot_t *b, int rank, const char *key, ddp_error_t *errp)
{
    void *data;
    size_t n;
    if (boot_get(b, rank, key, &data, &n, deadline_in(5), errp) < 0)
        return -1;
    free(data);
    return (int)n;
}

#define CURE ": start all ranks by one srun --ddp=on, or all by env -u SLURM_DDP_SECRET; else somebody has changed "

static void what_a_stranger_puts_is_refused(void **state)
{
    (void)state;
    static const char text[] = "rank 1 has started the group with another SLURM_DDP_SECRET than rank 0" CURE;
    ddp_error_t e;
    struct store s = {0};
    boot_t *b[] = {boot_with(first_secret, 0, &s), boot_with(first_secret, 1, &s)};
    assert_int_equal(boot_put(b[1], "key", "value", 5, &e), 0);
    assert_int_equal(boot_put(b[0], "key", "value", 5, &e), 0);
    assert_int_equal(boot_put(b[1], "kez", "value", 5, &e), 0);
    assert_int_equal(get_of(b[0], 1, "key", &e), 5);
    for (size_t i = 0; i < s.item[0].n; i++) {
        s.item[0].data[i] ^= 1;
        assert_int_equal(get_of(b[0], 1, "key", &e), -1);
        assert_error_has(e, text);
        s.item[0].data[i] ^= 1;
    }
    assert_int_equal(get_of(b[0], 1, "key", &e), 5);
    size_t n = s.item[0].n;
    for (int cut = 1; cut <= 2; cut++) { /* a part of the value, and of the seal */
        s.item[0].n = cut == 1 ? n - 1 : 3;
        assert_int_equal(get_of(b[0], 1, "key", &e), -1);
        assert_error_has(e, text);
    }
    s.item[0].n = n;
    for (int from = 1; from <= 2; from++) { /* another rank's, another key's */
        memcpy(s.item[0].data, s.item[from].data, n);
        assert_int_equal(get_of(b[0], 1, "key", &e), -1);
        assert_error_has(e, text);
    }
    for (int r = 0; r < 2; r++)
        boot_leave(b[r], NULL);
}

/* Both, before either has connected to anybody. */
static void ranks_that_differ_in_the_secret_name_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *secret[2], *text[2];
    } cases[] = {
        {{first_secret, NULL}, {"rank 1 has started the group without a SLURM_DDP_SECRET, unlike rank 0" CURE,
                                "rank 0 has started the group with a SLURM_DDP_SECRET, unlike rank 1" CURE}},
        {{first_secret, other_secret}, {"rank 1 has started the group with another SLURM_DDP_SECRET than rank 0" CURE,
                                        "rank 0 has started the group with another SLURM_DDP_SECRET than rank 1" CURE}},
    };
    for (size_t i = 0; i < 2; i++) {
        ddp_error_t e;
        struct store s = {0};
        boot_t *b[] = {boot_with(cases[i].secret[0], 0, &s), boot_with(cases[i].secret[1], 1, &s)};
        for (int r = 0; r < 2; r++)
            assert_int_equal(boot_put(b[r], "world", "n\0h", 4, &e), 0);
        for (int r = 0; r < 2; r++) {
            assert_null(world_exchange_as(b[r], "n", "n", deadline_in(5), &e));
            assert_int_equal(e.domain, DDP_E_BOOT);
            assert_error_has(e, cases[i].text[r]);
        }
        for (int r = 0; r < 2; r++)
            boot_leave(b[r], NULL);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nodes_are_numbered_by_their_lowest_rank),
    cmocka_unit_test(ranks_have_names),
    cmocka_unit_test(one_process_is_a_world),
    cmocka_unit_test(ranks_meet_over_a_store_of_the_callers),
    cmocka_unit_test(tokens_follow_from_the_steps_secret),
    cmocka_unit_test(what_a_stranger_puts_is_refused),
    cmocka_unit_test(ranks_that_differ_in_the_secret_name_each_other),
};
UNIT_MAIN(tests)
