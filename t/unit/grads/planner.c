#include "t/unit/unit.h"

#include <math.h>

#include "runtime/grads/planner.h"

static uint64_t seed = 0x2545f4914f6cdd1du;

static double uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static void fits_find_the_model(void **state)
{
    (void)state;
    size_t bytes[10];
    double took[10];
    for (int k = 0; k < 100; k++) {
        double alpha = 1e-6 + 1e-3 * uniform(), beta = 1e-11 + 1e-9 * uniform();
        for (int i = 0; i < 10; i++) {
            bytes[i] = (size_t)1 << (14 + i);
            took[i] = (alpha + beta * (double)bytes[i]) * (1 + (k ? .02 * (uniform() - .5) : 0));
        }
        struct planner_model m = planner_fit(bytes, took, 10);
        for (int i = 0; i < 10; i++)
            assert_true(fabs(m.alpha_s + m.beta_s_per_byte * (double)bytes[i] - took[i]) < (k ? .05 : 1e-9) * took[i]);
        if (k == 0)
            assert_true(fabs(m.alpha_s / alpha - 1) < 1e-6 && fabs(m.beta_s_per_byte / beta - 1) < 1e-6);
    }
}

static void fits_are_never_negative(void **state)
{
    (void)state;
    struct planner_model m = planner_fit((size_t[]){100, 100}, (double[]){2, 2}, 2);
    assert_true(fabs(m.alpha_s - 2) < 1e-9 && m.beta_s_per_byte == 0);
    m = planner_fit((size_t[]){100, 1000}, (double[]){3, 2}, 2);
    assert_true(m.alpha_s > 0 && m.beta_s_per_byte == 0);
    m = planner_fit((size_t[]){100, 1000}, (double[]){1, 20}, 2);
    assert_true(m.alpha_s == 0 && m.beta_s_per_byte > 0);
}

/* A link that lets the first 128 KiB through at once: the rate is that of the rest. */
static void fits_see_through_a_burst(void **state)
{
    (void)state;
    size_t bytes[7];
    double took[7];
    for (int i = 0; i < 7; i++) {
        bytes[i] = (size_t)65536 << i;
        took[i] = 1e-4 + 8e-9 * (bytes[i] > 131072 ? (double)(bytes[i] - 131072) : 0);
    }
    struct planner_model m = planner_fit(bytes, took, 7);
    assert_true(m.beta_s_per_byte > 7.5e-9 && m.beta_s_per_byte < 8.1e-9);
    assert_true(m.alpha_s >= 0 && m.alpha_s < 2e-4);
}

struct problem {
    struct planner_model m;
    int n;
    double ready[3000];
    size_t bytes[3000];
};

static void draw(struct problem *p, int n)
{
    double t = 0, scale = pow(10, 3 * uniform() - 2);
    p->n = n;
    p->m = (struct planner_model){uniform() < .1 ? 0 : scale * uniform(), uniform() < .1 ? 0 : 1e-6 * uniform()};
    for (int i = 0; i < n; i++) {
        t += uniform() < .3 ? 0 : uniform();
        p->ready[i] = t * (uniform() < .1 ? .5 : 1); /* this rank's order is another than rank 0's */
        p->bytes[i] = (size_t)(1 + 1e6 * uniform() * uniform());
    }
}

/* When the last bucket ends, by planner.h's model. */
static double end_s(const struct planner_model *m, const double *ready_s, const size_t *bytes, const int *end,
                    int n_buckets)
{
    double t = 0;
    for (int b = 0, i = 0; b < n_buckets; b++) {
        double held = 0;
        for (; i < end[b]; i++) {
            t = fmax(t, ready_s[i]);
            held += (double)bytes[i];
        }
        t += m->alpha_s + m->beta_s_per_byte * held;
    }
    return t;
}

static int cuts_of(unsigned mask, int n, int *end)
{
    int k = 0;
    for (int i = 1; i < n; i++)
        if (mask >> (i - 1) & 1)
            end[k++] = i;
    end[k++] = n;
    return k;
}

static void plans_are_the_optimum_of_brute_force(void **state)
{
    (void)state;
    static struct problem p;
    for (int round = 0; round < 300; round++) {
        draw(&p, 1 + round % 12);
        int end[12], k = planner_cut(&p.m, p.ready, p.bytes, p.n, end), fewest = 99, brute[12];
        double best = INFINITY, got;
        assert_true(k >= 1 && end[k - 1] == p.n);
        for (int b = 1; b < k; b++)
            assert_true(end[b] > end[b - 1] && end[0] > 0);
        got = end_s(&p.m, p.ready, p.bytes, end, k);
        for (unsigned mask = 0; mask < 1u << (p.n - 1); mask++)
            best = fmin(best, end_s(&p.m, p.ready, p.bytes, brute, cuts_of(mask, p.n, brute)));
        for (unsigned mask = 0; mask < 1u << (p.n - 1); mask++) {
            int n = cuts_of(mask, p.n, brute);
            if (end_s(&p.m, p.ready, p.bytes, brute, n) <= best * (1 + 1e-10) && n < fewest)
                fewest = n;
        }
        assert_true(got >= best && got <= best * (1 + 1e-8));
        assert_true(k <= fewest);
    }
}

/* As bucket_plan_by_size cuts. */
static int fixed_cuts(const struct problem *p, size_t first_cap, size_t cap, int *end)
{
    size_t held = 0;
    int k = 0;
    for (int i = 0; i < p->n; i++) {
        held += p->bytes[i];
        if (held >= (k ? cap : first_cap) || i + 1 == p->n) {
            end[k++] = i + 1;
            held = 0;
        }
    }
    return k;
}

static void plans_are_never_worse_than_fixed_caps(void **state)
{
    (void)state;
    static struct problem p;
    static int end[3000], fixed[3000];
    for (int round = 0; round < 60; round++) {
        draw(&p, round < 50 ? 150 : 900);
        int k = planner_cut(&p.m, p.ready, p.bytes, p.n, end);
        double got = end_s(&p.m, p.ready, p.bytes, end, k);
        for (size_t cap = 1 << 16; cap <= 25 << 20; cap *= 2) {
            int n = fixed_cuts(&p, cap < 1 << 20 ? cap : 1 << 20, cap, fixed);
            assert_true(got <= end_s(&p.m, p.ready, p.bytes, fixed, n) * (1 + 1e-8));
        }
    }
}

static void very_many_gradients_are_cut_too(void **state)
{
    (void)state;
    static struct problem p;
    static int end[3000], fixed[3000];
    for (int round = 0; round < 5; round++) {
        draw(&p, 3000);
        p.m.alpha_s = fmax(p.m.alpha_s, 1e-3);
        int k = planner_cut(&p.m, p.ready, p.bytes, p.n, end);
        assert_true(k >= 1 && end[k - 1] == p.n);
        for (int b = 1; b < k; b++)
            assert_true(end[b] > end[b - 1]);
        int n = fixed_cuts(&p, 1 << 20, 25 << 20, fixed);
        assert_true(end_s(&p.m, p.ready, p.bytes, end, k) <= end_s(&p.m, p.ready, p.bytes, fixed, n) * 1.01);
    }
    assert_int_equal(planner_cut(&p.m, NULL, NULL, 0, end), 0);
}

/* Each gradient is ready as the one before arrives: whatever is put together ends later. */
static void there_may_be_as_many_buckets_as_gradients(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static const struct planner_model m = {.beta_s_per_byte = 1};
    static double ready[MANY];
    static size_t bytes[MANY];
    static int end[MANY];
    for (int i = 0; i < MANY; i++) {
        ready[i] = i;
        bytes[i] = 1;
    }
    assert_int_equal(planner_cut(&m, ready, bytes, MANY, end), MANY);
    for (int b = 0; b < MANY; b++)
        assert_int_equal(end[b], b + 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fits_find_the_model),
    cmocka_unit_test(fits_are_never_negative),
    cmocka_unit_test(fits_see_through_a_burst),
    cmocka_unit_test(plans_are_the_optimum_of_brute_force),
    cmocka_unit_test(plans_are_never_worse_than_fixed_caps),
    cmocka_unit_test(very_many_gradients_are_cut_too),
    cmocka_unit_test(there_may_be_as_many_buckets_as_gradients),
};
UNIT_MAIN(tests)
