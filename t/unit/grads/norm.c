/* The norm: every element counts, once, and the sum has one order. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/optim.h"
#include "runtime/grads/norm.h"

enum { PARAMS = 6 };

static struct layout lay_out(const size_t *elems)
{
    struct layout l = {0};
    for (int i = 0; i < PARAMS; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(layout_add(&l, name, DDP_F32, &elems[i], 1, 0, NULL), i);
    }
    return l;
}

/* Of whole numbers, whose squares add up exactly; a parameter in one visit, and in one for each of its blocks. */
static void every_element_counts(void **state)
{
    (void)state;
    static const size_t elems[PARAMS] = {5, NORM_BLOCK, NORM_BLOCK + 1, 3 * NORM_BLOCK - 1, 1, 2};
    static float x[3 * NORM_BLOCK];
    double sums[PARAMS * 3], want = 0;
    struct layout l = lay_out(elems);
    struct norm n;
    assert_int_equal(norm_open(&n, &l, sums, NULL), 0);
    assert_int_equal(n.n_blocks, 9);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i % 7 + 1);
    for (int id = 0; id < PARAMS; id++)
        for (size_t i = 0; i < elems[id]; i++)
            want += (double)x[i] * (double)x[i];
    for (int id = 0; id < PARAMS; id++)
        norm_visit(&n, id, 0, x, elems[id]);
    assert_true(norm_total(&n) == sqrt(want));
    memset(sums, 0, sizeof sums);
    for (int id = 0; id < PARAMS; id++)
        for (size_t at = 0; at < elems[id]; at += NORM_BLOCK)
            norm_visit(&n, id, at, x + at, elems[id] - at < NORM_BLOCK ? elems[id] - at : NORM_BLOCK);
    assert_true(norm_total(&n) == sqrt(want));
    norm_close(&n);
    layout_clear(&l);
}

/* T(6) = T(4) + T(2): ((a + b) + (c + d)) + (e + f), of numbers that tell it from other orders. */
static void the_order_is_the_tree(void **state)
{
    (void)state;
    static const double sum[PARAMS] = {1e16, 1, -1e16, 1, 4, 4};
    static const size_t each_one[PARAMS] = {1, 1, 1, 1, 1, 1}, six_in_one[PARAMS] = {5 * NORM_BLOCK + 1, 1, 1, 1, 1, 1};
    double sums[2 * PARAMS] = {0};
    for (int k = 0; k < 2; k++) {
        struct layout l = lay_out(k ? six_in_one : each_one);
        struct norm n;
        assert_int_equal(norm_open(&n, &l, sums, NULL), 0);
        memset(sums, 0, sizeof sums);
        memcpy(sums, sum, sizeof sum);
        assert_true(norm_total(&n) == sqrt(8));
        norm_close(&n);
        layout_clear(&l);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_element_counts),
    cmocka_unit_test(the_order_is_the_tree),
};
UNIT_MAIN(tests)
