#include "t/unit/unit.h"

#include "kernels/fold.h"
#include "kernels/reduce.h"
#include "runtime/optimizer/shards.h"

enum { N = 2500, MAX_SHARDS = 64, MAX_IN = 12 };

static uint64_t seed = 88172645463325252u;

/* xorshift64 (Marsaglia 2003), mapped to (-1, 1) and a wide range of exponents, so that every other order shows. */
static float noise(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    float x = (float)((double)(seed >> 11) / 4503599627370496.0 - 1);
    return seed & 64 ? x : 1e-3f * x;
}

static float shards[MAX_SHARDS][N];
static double losses[MAX_SHARDS];

static void draw(void)
{
    for (int v = 0; v < MAX_SHARDS; v++) {
        losses[v] = noise() / 3.0; /* every bit in use */
        for (int i = 0; i < N; i++)
            shards[v][i] = noise();
    }
}

static double tree_of_losses(const double *x, int n)
{
    return n == 1 ? x[0] : tree_of_losses(x, n / 2) + tree_of_losses(x + n / 2, n / 2);
}

/* Shards [from, from + n) as a rank adds them up; the last one in pieces, in any order. */
static double rank_sum(struct shards *p, int from, int n, float *grads)
{
    for (int i = 0; i < n - 1; i++)
        assert_int_equal(shards_keep(p, i, shards[from + i], losses[from + i], NULL), 0);
    memcpy(grads, shards[from + n - 1], sizeof *shards);
    static const size_t piece[][2] = {{1024, 1}, {1025, N - 1025}, {0, 17}, {17, 1007}};
    for (size_t k = 0; k < sizeof piece / sizeof *piece; k++)
        assert_int_equal(shards_fold(p, grads, piece[k][0], piece[k][1], NULL), 0);
    return shards_fold_loss(p, losses[from + n - 1]);
}

/* For every V and every number of ranks, T over the ranks' sums has the bits of T over all shards; twice, since levels
 * are used again in the next step. */
static void the_sum_is_the_tree_over_all_shards(void **state)
{
    (void)state;
    static float sum[MAX_SHARDS][N], got[N], want[N];
    double loss[MAX_SHARDS];
    for (int v = 1; v <= MAX_SHARDS; v *= 2)
        for (int ranks = 1; ranks <= v; ranks *= 2) {
            struct shards p;
            assert_int_equal(shards_open(&p, v / ranks, N, NULL, NULL), 0);
            assert_int_equal(shards_bytes(&p), (size_t)__builtin_ctz((unsigned)(v / ranks)) * N * sizeof(float));
            for (int step = 0; step < 2; step++) {
                draw();
                const void *in[MAX_SHARDS], *parts[MAX_SHARDS];
                void *out = want, *total = got;
                for (int k = 0; k < v; k++)
                    in[k] = shards[k];
                kernel_reduce_tree(&out, 1, in, v, N, DDP_F32, DDP_SUM);
                for (int r = 0; r < ranks; r++) {
                    loss[r] = rank_sum(&p, r * (v / ranks), v / ranks, sum[r]);
                    parts[r] = sum[r];
                }
                kernel_reduce_tree(&total, 1, parts, ranks, N, DDP_F32, DDP_SUM);
                if (memcmp(got, want, sizeof want))
                    fail_msg("%d shards on %d ranks: other bits", v, ranks);
                assert_true(tree_of_losses(loss, ranks) == tree_of_losses(losses, v));
            }
            shards_close(&p);
        }
}

/* ... and the test above would notice another order. */
static void another_order_has_other_bits(void **state)
{
    (void)state;
    static float got[N], want[N];
    draw();
    const float *in[] = {shards[0], shards[1], shards[2], shards[3]}, *turned[] = {in[3], in[2], in[1], in[0]};
    kernel_fold(want, in, 4, N);
    kernel_fold(got, turned, 4, N);
    assert_true(memcmp(got, want, sizeof want) != 0);
}

static void a_fold_starts_at_the_last_input(void **state)
{
    (void)state;
    static float out[N], want[N];
    for (int n_in = 1; n_in <= MAX_IN; n_in++)
        for (int over = 0; over < 2; over++) { /* into memory of its own, or over the last input */
            const float *in[MAX_IN];
            draw();
            memcpy(want, shards[n_in - 1], sizeof want);
            for (int k = n_in - 2; k >= 0; k--)
                for (int i = 0; i < N; i++)
                    want[i] = shards[k][i] + want[i];
            for (int k = 0; k < n_in; k++)
                in[k] = shards[k];
            float *result = over ? shards[n_in - 1] : out;
            kernel_fold(result, in, n_in, N);
            assert_memory_equal(result, want, sizeof want);
        }
}

static void one_shard_needs_nothing(void **state)
{
    (void)state;
    struct shards p;
    float g[3] = {1, 2, 3};
    assert_int_equal(shards_open(&p, 1, 3, NULL, NULL), 0);
    assert_int_equal(shards_bytes(&p), 0);
    assert_int_equal(shards_fold(&p, g, 0, 3, NULL), 0);
    assert_true(g[0] == 1 && g[2] == 3 && shards_fold_loss(&p, 5) == 5);
    shards_close(&p);
    shards_close(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_sum_is_the_tree_over_all_shards),
    cmocka_unit_test(another_order_has_other_bits),
    cmocka_unit_test(a_fold_starts_at_the_last_input),
    cmocka_unit_test(one_shard_needs_nothing),
};
UNIT_MAIN(tests)
