#include "t/unit/unit.h"

#include "runtime/grads/bucket.h"

static uint64_t seed = 0x9e3779b97f4a7c15u;

/* xorshift64 (Marsaglia 2003) */
static unsigned random_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static struct layout layout_of(const size_t *elems, int n)
{
    struct layout l = {0};
    char name[16];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(layout_add(&l, name, DDP_F32, &elems[i], 1, 0, NULL), i);
    }
    return l;
}

static void shuffle(int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)random_below((unsigned)i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static void the_documented_example(void **state)
{
    (void)state;
    /* MiB: 1, 20, 4, 2, 30, 0.5 in registration order */
    struct layout l = layout_of((size_t[]){1 << 18, 20 << 18, 4 << 18, 2 << 18, 30 << 18, 1 << 17}, 6);
    struct bucket_plan p;
    assert_int_equal(bucket_plan_open(&p, l.n, NULL), 0);
    bucket_plan_by_size(&p, NULL, &l, 1 << 20, 25 << 20);
    assert_int_equal(p.n_buckets, 3);
    assert_int_equal(p.first[1], 2); /* 0.5 and 30: the tensor that reaches the cap is in */
    assert_int_equal(p.first[2], 5); /* 2, 4 and 20 */
    assert_int_equal(p.param[0], 5);
    assert_int_equal(p.bucket_of[3], 1);
    bucket_plan_by_size(&p, (int[]){0, 1, 2, 3, 4, 5}, &l, 1 << 20, 25 << 20);
    assert_int_equal(p.n_buckets, 4);
    assert_int_equal(p.first[1], 1); /* 1 */
    assert_int_equal(p.first[2], 4); /* 20, 4 and 2 */
    assert_int_equal(p.first[3], 5); /* 30 */
    bucket_plan_close(&p);
    layout_clear(&l);
}

/* The rule once more, bucket by bucket: the shortest run of tensors that reaches the cap, else all that are left. */
static void check_by_rule(const struct bucket_plan *p, const int *order, const size_t *elems, size_t first_cap,
                          size_t cap)
{
    int at = 0;
    for (int b = 0; b < p->n_buckets; b++) {
        size_t held = 0, limit = b ? cap : first_cap;
        assert_int_equal(p->first[b], at);
        while (at < p->n_params && held < limit) {
            assert_int_equal(p->param[at], order[at]);
            assert_int_equal(p->bucket_of[order[at]], b);
            held += elems[order[at++]] * sizeof(float);
        }
    }
    assert_int_equal(at, p->n_params);
    assert_int_equal(p->first[p->n_buckets], at);
}

static void plans_follow_the_rule(void **state)
{
    (void)state;
    for (int k = 0; k < 2000; k++) {
        enum { MAX = 40 };
        size_t elems[MAX], first_cap = 1 + random_below(20000), cap = 1 + random_below(60000);
        int n = (int)random_below(MAX) + (k > 0), order[MAX], end[MAX], n_ends = 0;
        for (int i = 0; i < n; i++)
            elems[i] = 1 + random_below(random_below(2) ? 100 : 10000);
        struct layout l = layout_of(elems, n);
        struct bucket_plan p;
        assert_int_equal(bucket_plan_open(&p, n, NULL), 0);
        shuffle(order, n);
        bucket_plan_by_size(&p, order, &l, first_cap, cap);
        check_by_rule(&p, order, elems, first_cap, cap);
        for (int i = 0; i < n; i++)
            order[i] = n - 1 - i;
        bucket_plan_by_size(&p, NULL, &l, first_cap, cap);
        check_by_rule(&p, order, elems, first_cap, cap);
        for (int i = 1; i <= n; i++)
            if (i == n || random_below(3) == 0)
                end[n_ends++] = i;
        bucket_plan_by_cuts(&p, order, end, n_ends);
        assert_int_equal(p.n_buckets, n_ends);
        for (int i = 0, b = 0; i < n; i++) {
            b += i == end[b];
            assert_int_equal(p.param[i], order[i]);
            assert_int_equal(p.bucket_of[order[i]], b);
        }
        bucket_plan_close(&p);
        layout_clear(&l);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_documented_example),
    cmocka_unit_test(plans_follow_the_rule),
};
UNIT_MAIN(tests)
