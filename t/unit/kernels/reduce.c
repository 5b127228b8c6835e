#include "t/unit/unit.h"

#include <math.h>

#include "kernels/reduce.h"

enum { MAX_IN = 17, MAX_ELEMS = 1700 };

static uint64_t seed = 88172645463325252ull;

static uint32_t random_u32(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

/* A separate, slow bf16 and f16: through doubles and a search for the nearest. */
static double half_value(unsigned h, int exp_bits, int man_bits)
{
    unsigned man = h & ((1u << man_bits) - 1), ex = h >> man_bits & ((1u << exp_bits) - 1);
    int bias = (1 << (exp_bits - 1)) - 1;
    double v = ex == (1u << exp_bits) - 1 ? (man ? NAN : INFINITY)
               : ex ? ldexp(1 + ldexp(man, -man_bits), (int)ex - bias)
                    : ldexp(man, 1 - bias - man_bits);
    return h & 0x8000 ? -v : v;
}

static unsigned half_from(double v, int exp_bits, int man_bits)
{
    unsigned sign = signbit(v) ? 0x8000 : 0, inf = ((1u << exp_bits) - 1) << man_bits, lo = 0, hi = inf;
    double a = fabs(v);
    if (isnan(v))
        return inf | 1;
    if (isinf(a))
        return sign | inf;
    while (lo < hi) { /* the largest h whose value is <= a */
        unsigned mid = (lo + hi + 1) / 2;
        if (half_value(mid, exp_bits, man_bits) <= a)
            lo = mid;
        else
            hi = mid - 1;
    }
    double below = half_value(lo, exp_bits, man_bits);
    double step = half_value(lo, exp_bits, man_bits) - half_value(lo ? lo - 1 : 0, exp_bits, man_bits);
    double above = lo + 1 == inf ? below + step : half_value(lo + 1, exp_bits, man_bits);
    if (a - below > above - a || (a - below == above - a && lo & 1))
        lo++;
    return sign | lo;
}

/* The definition, one element at a time. */
static double pair(double a, double b, enum ddp_op op, int is_f64)
{
    if (op == DDP_SUM)
        return is_f64 ? a + b : (double)((float)a + (float)b);
    if (isnan(a) || isnan(b))
        return NAN;
    if (op == DDP_MIN)
        return b < a ? b : a;
    return b > a ? b : a;
}

static int below(int n)
{
    int m = 1;
    while (m * 2 < n)
        m *= 2;
    return m;
}

static double tree(const double *x, const int *here, int n, enum ddp_op op, int is_f64, int *any)
{
    if (n == 1) {
        *any = here[0];
        return x[0];
    }
    int m = below(n), l, r;
    double a = tree(x, here, m, op, is_f64, &l), b = tree(x + m, here + m, n - m, op, is_f64, &r);
    *any = l || r;
    return l && r ? pair(a, b, op, is_f64) : l ? a : b;
}

static int64_t int_tree(const int64_t *x, const int *here, int n, enum ddp_op op, int bits, int *any)
{
    if (n == 1) {
        *any = here[0];
        return x[0];
    }
    int m = below(n), l, r;
    int64_t a = int_tree(x, here, m, op, bits, &l), b = int_tree(x + m, here + m, n - m, op, bits, &r);
    *any = l || r;
    if (!l || !r)
        return l ? a : b;
    if (op == DDP_MIN)
        return a < b ? a : b;
    if (op == DDP_MAX)
        return a > b ? a : b;
    uint64_t s = (uint64_t)a + (uint64_t)b;
    return bits == 32 ? (int32_t)(uint32_t)s : (int64_t)s;
}

static void fill(void *p, size_t n, enum ddp_dtype t)
{
    for (size_t i = 0; i < n; i++) {
        float f = (float)(int32_t)random_u32() * ldexpf(1, -(int)(random_u32() % 44));
        if (random_u32() % 512 == 0)
            f = (float[]){INFINITY, -INFINITY, NAN, -0.0f, 0.0f, 1e-42f}[random_u32() % 6];
        if (t == DDP_F32)
            ((float *)p)[i] = f;
        else if (t == DDP_F64)
            ((double *)p)[i] = f * 1.1;
        else if (t == DDP_I32)
            ((int32_t *)p)[i] = (int32_t)random_u32();
        else if (t == DDP_I64)
            ((int64_t *)p)[i] = (int64_t)((uint64_t)random_u32() << 32 | random_u32());
        else
            ((uint16_t *)p)[i] = (uint16_t)random_u32(); /* every pattern: subnormals, infinities, NaNs */
    }
}

static void expect_element(const void *got, void *const *in, const int *here, int n, size_t i, enum ddp_dtype t,
                           enum ddp_op op)
{
    double x[MAX_IN] = {0};
    int64_t z[MAX_IN] = {0};
    int any;
    for (int k = 0; k < n; k++) {
        if (t == DDP_F32)
            x[k] = (double)((float *)in[k])[i];
        else if (t == DDP_F64)
            x[k] = ((double *)in[k])[i];
        else if (t == DDP_BF16)
            x[k] = half_value(((uint16_t *)in[k])[i], 8, 7);
        else if (t == DDP_F16)
            x[k] = half_value(((uint16_t *)in[k])[i], 5, 10);
        else
            z[k] = t == DDP_I32 ? ((int32_t *)in[k])[i] : ((int64_t *)in[k])[i];
    }
    if (t == DDP_I32 || t == DDP_I64) {
        int64_t want = int_tree(z, here, n, op, t == DDP_I32 ? 32 : 64, &any);
        int64_t have = t == DDP_I32 ? ((const int32_t *)got)[i] : ((const int64_t *)got)[i];
        assert_true(want == have);
        return;
    }
    double want = tree(x, here, n, op, t == DDP_F64, &any), have;
    if (t == DDP_BF16 || t == DDP_F16) {
        int e = t == DDP_BF16 ? 8 : 5, m = t == DDP_BF16 ? 7 : 10;
        have = half_value(((const uint16_t *)got)[i], e, m);
        want = half_value(half_from(want, e, m), e, m);
    } else {
        have = t == DDP_F32 ? (double)((const float *)got)[i] : ((const double *)got)[i];
    }
    if (isnan(want) ? !isnan(have) : memcmp(&want, &have, sizeof want) != 0)
        fail_msg("%s %s over %d at %zu: %.17g, not %.17g", dtype_name(t), op_name(op), n, i, have, want);
}

/* alias: out[j] is in[j] for all j. absent: some inputs are NULL. */
static void check(enum ddp_dtype t, enum ddp_op op, int n, size_t n_elems, int alias, int absent)
{
    void *in[MAX_IN], *copy[MAX_IN], *out[MAX_IN + 1];
    const void *arg[MAX_IN];
    int here[MAX_IN], n_out = 0;
    size_t bytes = n_elems * dtype_size(t);
    for (int k = 0; k < n; k++) {
        in[k] = malloc(bytes + 1);
        copy[k] = malloc(bytes + 1);
        fill(in[k], n_elems, t);
        memcpy(copy[k], in[k], bytes);
        here[k] = !absent || k == n / 2 || random_u32() % 2;
        arg[k] = here[k] ? in[k] : NULL;
        if (alias && here[k])
            out[n_out++] = in[k];
    }
    void *own = malloc(bytes + 1);
    ((char *)own)[bytes] = 77; /* nothing is written past the end */
    out[n_out++] = own;
    kernel_reduce_tree(out, n_out, arg, n, n_elems, t, op);
    assert_int_equal(((char *)own)[bytes], 77);
    for (size_t i = 0; i < n_elems; i++)
        expect_element(own, copy, here, n, i, t, op);
    for (int j = 0; j < n_out; j++)
        assert_memory_equal(out[j], own, bytes);
    if (!alias)
        for (int k = 0; k < n; k++)
            assert_memory_equal(in[k], copy[k], bytes);
    for (int k = 0; k < n; k++) {
        free(in[k]);
        free(copy[k]);
    }
    free(own);
}

static void every_type_and_operator_matches_the_definition(void **state)
{
    (void)state;
    static const int ns[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 17};
    static const size_t elems[] = {0, 1, 3, 33, 511, 512, 513, 1601};
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int op = 0; op < 3; op++)
            for (size_t a = 0; a < sizeof ns / sizeof *ns; a++)
                check((enum ddp_dtype)t, (enum ddp_op)op, ns[a], elems[(a + (size_t)t) % 8], (int)(a & 1), 0);
}

static void sizes_are_exact(void **state)
{
    (void)state;
    static const size_t elems[] = {0, 1, 3, 33, 511, 512, 513, 1601};
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t e = 0; e < sizeof elems / sizeof *elems; e++)
            for (int n = 1; n <= 4; n++)
                check((enum ddp_dtype)t, DDP_SUM, n, elems[e], n & 1, 0);
}

static void absent_inputs_keep_the_tree(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int n = 1; n <= MAX_IN; n++)
            check((enum ddp_dtype)t, DDP_SUM, n, 200, n & 1, 1);
}

static void the_order_is_the_tree_not_left_to_right(void **state)
{
    (void)state;
    float x[5] = {1, 1e8f, -1e8f, 1, 3}, y;
    const void *in[5] = {&x[0], &x[1], &x[2], &x[3], &x[4]};
    void *out[1] = {&y};
    kernel_reduce_tree(out, 1, in, 5, 1, DDP_F32, DDP_SUM);
    float want = ((x[0] + x[1]) + (x[2] + x[3])) + x[4], left = (((x[0] + x[1]) + x[2]) + x[3]) + x[4];
    assert_true(y == want);
    assert_true(y != left);
}

static void halves_round_once_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) { /* one input: every pattern comes back, NaNs stay NaNs */
        uint16_t x = (uint16_t)h, y;
        const void *in[1] = {&x};
        void *out[1] = {&y};
        kernel_reduce_tree(out, 1, in, 1, 1, DDP_F16, DDP_SUM);
        assert_true((x & 0x7fff) > 0x7c00 ? (y & 0x7fff) > 0x7c00 : x == y);
        kernel_reduce_tree(out, 1, in, 1, 1, DDP_BF16, DDP_SUM);
        assert_true((x & 0x7fff) > 0x7f80 ? (y & 0x7fff) > 0x7f80 : x == y);
    }
    uint16_t x[4] = {0x3f80, 0x3b80, 0x3b80, 0x3b80}, y; /* bf16: 1 + 3/256; rounding each time would give 1 */
    const void *in[4] = {&x[0], &x[1], &x[2], &x[3]};
    void *out[1] = {&y};
    kernel_reduce_tree(out, 1, in, 4, 1, DDP_BF16, DDP_SUM);
    assert_int_equal(y, 0x3f82);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_type_and_operator_matches_the_definition),
    cmocka_unit_test(sizes_are_exact),
    cmocka_unit_test(absent_inputs_keep_the_tree),
    cmocka_unit_test(the_order_is_the_tree_not_left_to_right),
    cmocka_unit_test(halves_round_once_to_nearest_even),
};
UNIT_MAIN(tests)
