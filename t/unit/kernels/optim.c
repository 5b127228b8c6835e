#include "t/unit/unit.h"

#include <float.h>
#include <math.h>

#include "kernels/optim.h"
#include "runtime/grads/norm.h"
#include "runtime/optimizer/optimizer.h"

static uint64_t seed = 88172645463325252u;

/* xorshift64 (Marsaglia 2003), mapped to (-1, 1). */
static float noise(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (float)((double)(seed >> 11) / 4503599627370496.0 - 1);
}

static void adamw_follows_the_formula(void **state)
{
    (void)state;
    enum { N = 1003 };
    float w[N], m[N], v[N], g[N];
    double rw[N], rm[N], rv[N];
    for (int i = 0; i < N; i++) {
        w[i] = noise(), rw[i] = w[i];
        m[i] = v[i] = 0, rm[i] = rv[i] = 0;
    }
    for (int t = 1; t <= 5; t++) {
        struct optim_args a = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,
                               .grad_scale = 0.25f};
        a.bias1 = (float)(1 - pow(0.9f, t)), a.bias2 = (float)(1 - pow(0.95f, t));
        for (int i = 0; i < N; i++)
            g[i] = 4 * noise();
        optim_adamw.step(w, (float *[]){m, v}, g, N, &a);
        for (int i = 0; i < N; i++) {
            double x = 0.25 * g[i];
            rw[i] *= 1 - (double)a.lr * a.weight_decay;
            rm[i] = a.beta1 * rm[i] + (1 - (double)a.beta1) * x;
            rv[i] = a.beta2 * rv[i] + (1 - (double)a.beta2) * x * x;
            rw[i] -= a.lr * (rm[i] / (1 - pow(a.beta1, t))) / (sqrt(rv[i] / (1 - pow(a.beta2, t))) + a.eps);
        }
    }
    for (int i = 0; i < N; i++)
        assert_true(fabs(w[i] - rw[i]) <= 1e-5);
}

static double reference_tree(const double *x, size_t n)
{
    if (n == 1)
        return x[0];
    size_t m = 1;
    while (2 * m < n)
        m *= 2;
    return reference_tree(x, m) + reference_tree(x + m, n - m);
}

static void only_what_is_not_finite_overflows_a_norm(void **state)
{
    (void)state;
    static float x[3 * NORM_BLOCK];
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    struct layout l = {0};
    struct norm norm;
    double sums[3];
    assert_int_equal(layout_add(&l, "w", DDP_F32, (size_t[]){3 * NORM_BLOCK}, 1, 0, NULL), 0);
    assert_int_equal(norm_open(&norm, &l, sums, NULL), 0);
    for (int i = 0; i < 3 * NORM_BLOCK; i++)
        x[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    norm_visit(&norm, 0, 0, x, 3 * NORM_BLOCK);
    assert_true(fabs(norm_total(&norm) / (sqrt(3 * NORM_BLOCK) * FLT_MAX) - 1) < 1e-12);
    assert_int_equal(norm_worst(&norm), -1);
    for (int k = 0; k < 3; k++) {
        x[NORM_BLOCK + 77] = bad[k];
        norm_visit(&norm, 0, 0, x, 3 * NORM_BLOCK);
        assert_false(isfinite(norm_total(&norm)));
        assert_int_equal(norm_worst(&norm), 0);
    }
    norm_close(&norm);
    layout_clear(&l);
}

/* Parameters of many sizes; blocks visited from the last to the first, some several at a time. */
static void norms_are_sums_over_fixed_blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 4095, 4096, 4097, 12288, 50001};
    enum { N = sizeof sizes / sizeof *sizes };
    struct layout l = {0};
    struct norm norm;
    double of_param[N], naive = 0;
    for (int k = 0; k < N; k++)
        assert_int_equal(layout_add(&l, (char[]){(char)('a' + k), 0}, DDP_F32, &sizes[k], 1, 0, NULL), k);
    assert_int_equal(norm_open(&norm, &l, NULL, NULL), 0);
    assert_int_equal(norm.n_blocks, 1 + 1 + 1 + 1 + 1 + 2 + 3 + 13);
    norm.sums = calloc(norm.n_blocks, sizeof *norm.sums);
    for (int k = N - 1; k >= 0; k--) {
        size_t n = sizes[k], n_blocks = (n + NORM_BLOCK - 1) / NORM_BLOCK;
        float *x = malloc(n * sizeof *x);
        double block[16];
        for (size_t i = 0; i < n; i++)
            x[i] = noise(), naive += (double)x[i] * x[i];
        for (size_t b = 0; b < n_blocks; b++)
            block[b] = kernel_block_sum_squares(x + b * NORM_BLOCK, b + 1 < n_blocks ? NORM_BLOCK : n - b * NORM_BLOCK);
        of_param[k] = reference_tree(block, n_blocks);
        size_t half = n_blocks / 2 * NORM_BLOCK;
        norm_visit(&norm, k, half, x + half, n - half);
        norm_visit(&norm, k, 0, x, half);
        free(x);
    }
    assert_true(norm_total(&norm) == sqrt(reference_tree(of_param, N)));
    assert_true(fabs(norm_total(&norm) - sqrt(naive)) <= 1e-12 * sqrt(naive));
    assert_int_equal(norm_worst(&norm), -1);
    for (int round = 0; round < 100; round++) { /* the tree alone; a root hides half of the last bits */
        for (size_t b = 0; b < norm.n_blocks; b++)
            norm.sums[b] = fabs((double)noise() / 3);
        for (int k = 0; k < N; k++)
            of_param[k] =
                reference_tree(norm.sums + norm.first_block[k], norm.first_block[k + 1] - norm.first_block[k]);
        assert_true(norm_total(&norm) == sqrt(reference_tree(of_param, N)));
    }
    norm.sums[norm.first_block[7]] = NAN;
    norm.sums[norm.first_block[6] + 2] = INFINITY;
    assert_int_equal(norm_worst(&norm), 6);
    assert_false(isfinite(norm_total(&norm)));
    free(norm.sums);
    norm_close(&norm);
    layout_clear(&l);
}

static const struct ddp_optimizer base = {
    .lr = 1e-3f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .warmup = 10, .total = 110};

static void the_schedule_warms_up_and_decays(void **state)
{
    (void)state;
    struct ddp_optimizer c = base;
    assert_true(fabs(optimizer_lr(&c, 0) - 1e-4) < 1e-10);
    assert_true(optimizer_lr(&c, 9) == (double)c.lr);
    assert_true(optimizer_lr(&c, 10) == (double)c.lr);
    assert_true(fabs(optimizer_lr(&c, 60) - 5e-4) < 1e-9);
    assert_true(optimizer_lr(&c, 110) == 0);
    c.min_lr = 1e-4f;
    assert_true(fabs(optimizer_lr(&c, 60) - 5.5e-4) < 1e-9);
    assert_true(optimizer_lr(&c, 1000) == (double)c.min_lr);
    c.total = 0;
    assert_true(optimizer_lr(&c, 1000) == (double)c.lr);
}

static struct layout two_params(void)
{
    struct layout l = {0};
    assert_int_equal(layout_add(&l, "w", DDP_F32, (size_t[]){4, 4}, 2, 0, NULL), 0);
    assert_int_equal(layout_add(&l, "b", DDP_F32, (size_t[]){4}, 1, 0, NULL), 1);
    return l;
}

static void open_whole(struct optimizer *o, const struct ddp_optimizer *c, const struct layout *l)
{
    assert_int_equal(optimizer_open(o, c, NULL), 0);
    assert_int_equal(optimizer_own_all(o, l, NULL), 0);
    assert_int_equal(optimizer_allocate(o, NULL), 0);
}

static const struct optim_rule *const rules[] = {OPTIM_RULES};
enum { N_RULES = sizeof rules / sizeof *rules };

/* DDP_RULES is all there are, and each keeps what it says. */
static void rules_are_known_by_name(void **state)
{
    (void)state;
    struct layout l = two_params();
    char all[256] = "";
    for (int r = 0; r < N_RULES; r++) {
        const struct optim_rule *rule = rules[r];
        struct ddp_optimizer c = {.rule = rule->name, .lr = 1};
        struct optimizer o;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", r ? "|" : "", rule->name);
        open_whole(&o, &c, &l);
        assert_ptr_equal(o.rule, rule);
        assert_int_equal(optimizer_bytes(&o), (size_t)rule->n_moments * 32 * sizeof(float));
        for (int k = 0; k < OPTIM_MOMENTS; k++)
            assert_true((o.moment[k] != NULL) == (k < rule->n_moments) && (!o.moment[k] || *rule->suffix[k]));
        optimizer_close(&o);
    }
    assert_string_equal(all, DDP_RULES);
    layout_clear(&l);
}

/* With a scale of 1/2. */
static void step(struct optimizer *o, float *w, const float *g, double norm, const double *used, struct ddp_step *ret)
{
    optimizer_begin(o, norm, .5, ret);
    if (!ret->skipped)
        optimizer_apply(o, 0, o->n_slices, w, g, used);
}

static void a_step_clips_decays_and_skips(void **state)
{
    (void)state;
    struct layout l = two_params();
    struct ddp_optimizer c = {.lr = 1, .clip = 1, .weight_decay = .5f, .rule = "sgd"};
    struct optimizer o;
    struct ddp_step s = {0};
    open_whole(&o, &c, &l);
    float w[32] = {0}, g[32] = {0};
    w[0] = w[16] = 2;
    g[0] = 6, g[16] = 8; /* norm 10, 5 after scaling by 1/2; clipped to 1 */
    step(&o, w, g, 10, NULL, &s);
    assert_true(fabs(s.grad_norm - 5) < 1e-12 && s.step == 1 && !s.skipped);
    assert_true(fabsf(w[0] - (2 * .5f - .6f)) < 1e-5f); /* two dimensions: decays */
    assert_true(fabsf(w[16] - (2 - .8f)) < 1e-5f);      /* one dimension: does not */
    g[3] = INFINITY;
    float before = w[0];
    step(&o, w, g, INFINITY, NULL, &s);
    assert_true(s.skipped && s.step == 1 && w[0] == before);
    float bias = w[16];
    step(&o, w, g, 1, (double[]){0, 2}, &s);
    assert_true(s.step == 2 && w[0] == before && w[16] != bias); /* no rank used w */
    optimizer_close(&o);
    layout_clear(&l);
}

/* What a step asks of the kernel, in its own numbers: bias correction counts steps that were taken. */
static void a_step_scales_clips_and_corrects_bias(void **state)
{
    (void)state;
    struct layout l = two_params();
    struct ddp_optimizer c = {.lr = 1e-2f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .weight_decay = .1f, .clip = 1};
    struct optimizer o;
    struct ddp_step s;
    open_whole(&o, &c, &l);
    const struct optim_args *a = &o.args;
    static const double norm[] = {1.9, 1.9999990, INFINITY, 8, NAN, 1.5};
    static const double clip[] = {1, 1 / (.9999995 + 1e-6), 0, 1 / (4 + 1e-6), 0, 1}; /* 0: skipped */
    for (int i = 0, t = 0; i < 6; i++) {
        optimizer_begin(&o, norm[i], .5, &s);
        t += clip[i] > 0;
        assert_true(s.skipped == (clip[i] == 0) && s.step == (uint64_t)t);
        assert_true(a->grad_scale == (float)(.5 * clip[s.skipped ? i - 1 : i]));
        assert_true(fabsf(a->bias1 - (float)(1 - pow(.9, t))) < 1e-6f);
        assert_true(fabsf(a->bias2 - (float)(1 - pow(.95, t))) < 1e-6f);
        assert_true(a->lr == c.lr && a->beta1 == c.beta1 && a->beta2 == c.beta2 && a->eps == c.eps);
        assert_true(a->weight_decay == c.weight_decay);
    }
    optimizer_close(&o);
    layout_clear(&l);
}

static void matrices_decay_unless_they_are_told_not_to(void **state)
{
    (void)state;
    struct layout l = {0};
    assert_int_equal(layout_add(&l, "w", DDP_F32, (size_t[]){2, 1}, 2, 0, NULL), 0);
    assert_int_equal(layout_add(&l, "b", DDP_F32, (size_t[]){2}, 1, 0, NULL), 1);
    assert_int_equal(layout_add(&l, "e", DDP_F32, (size_t[]){2, 1, 1}, 3, DDP_NO_DECAY, NULL), 2);
    for (int r = 0; r < N_RULES; r++) {
        struct ddp_optimizer c = {.lr = .5f, .beta1 = .9f, .beta2 = .95f, .eps = 1, .weight_decay = .5f};
        c.rule = rules[r]->name;
        struct optimizer o;
        struct ddp_step s;
        float w[48], g[48] = {0};
        for (int i = 0; i < 48; i++)
            w[i] = 1;
        open_whole(&o, &c, &l);
        step(&o, w, g, 1, NULL, &s);
        assert_true(w[0] == .75f && w[1] == .75f && w[16] == 1 && w[32] == 1);
        optimizer_close(&o);
    }
    layout_clear(&l);
}

/* Three owners that share every parameter out among them step as one does alone, and keep a third of its state each. */
static void slices_step_as_the_whole_does(void **state)
{
    (void)state;
    enum { N = 4096 * 3, ARENA = N + 16 };
    struct layout l = {0};
    assert_int_equal(layout_add(&l, "w", DDP_F32, (size_t[]){N / 64, 64}, 2, 0, NULL), 0);
    assert_int_equal(layout_add(&l, "b", DDP_F32, (size_t[]){13}, 1, 0, NULL), 1);
    struct ddp_optimizer c = {.lr = 1e-2f, .beta1 = .9f, .beta2 = .95f, .eps = 0, .weight_decay = .1f, .clip = 3};
    struct optimizer whole, part[3];
    static float w[ARENA], sharded[ARENA], g[ARENA];
    open_whole(&whole, &c, &l);
    for (int k = 0; k < 3; k++) {
        struct optimizer *o = &part[k];
        assert_int_equal(optimizer_open(o, &c, NULL), 0);
        if (k == 0) /* a tensor's end, and another bucket's */
            assert_int_equal(optimizer_own(o, &l, 1, 0, 13, NULL), 0);
        assert_int_equal(optimizer_own(o, &l, 0, (size_t)(2 - k) * 4096, 4096, NULL), 0);
        assert_int_equal(optimizer_allocate(o, NULL), 0);
        assert_int_equal(optimizer_bytes(o), 2 * sizeof(float) * (4096 + (k == 0 ? 16 : 0)));
    }
    assert_int_equal(optimizer_bytes(&whole), 2 * sizeof(float) * ARENA);
    for (int i = 0; i < ARENA; i++)
        w[i] = sharded[i] = i < N + 13 ? noise() : 0;
    for (int t = 0; t < 4; t++) {
        struct ddp_step s;
        for (int i = 0; i < N + 13; i++)
            g[i] = 8 * noise();
        step(&whole, w, g, 300, NULL, &s);
        for (int k = 0; k < 3; k++)
            step(&part[k], sharded, g, 300, NULL, &s);
        assert_memory_equal(w, sharded, sizeof w);
    }
    assert_true(w[N + 13] == 0); /* eps is 0: 0 / 0, were the padding stepped */
    for (int k = 0; k < 3; k++)
        optimizer_close(&part[k]);
    optimizer_close(&whole);
    layout_clear(&l);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    struct layout l = two_params();
    struct optimizer o;
    ddp_error_t e;
    struct ddp_optimizer c = base;
    c.beta2 = 1;
    assert_int_equal(optimizer_open(&o, &c, &e), -1);
    assert_error_has(e, "beta2");
    c = base, c.lr = NAN;
    assert_int_equal(optimizer_open(&o, &c, &e), -1);
    assert_error_has(e, "lr");
    c = base, c.rule = "adamx";
    assert_int_equal(optimizer_open(&o, &c, &e), -1);
    assert_error_has(e, "rule = adamx is none of adamw|sgd");
    c = base, c.warmup = 111;
    assert_int_equal(optimizer_open(&o, &c, &e), -1);
    layout_clear(&l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(adamw_follows_the_formula),
    cmocka_unit_test(norms_are_sums_over_fixed_blocks),
    cmocka_unit_test(only_what_is_not_finite_overflows_a_norm),
    cmocka_unit_test(rules_are_known_by_name),
    cmocka_unit_test(the_schedule_warms_up_and_decays),
    cmocka_unit_test(a_step_clips_decays_and_skips),
    cmocka_unit_test(a_step_scales_clips_and_corrects_bias),
    cmocka_unit_test(matrices_decay_unless_they_are_told_not_to),
    cmocka_unit_test(slices_step_as_the_whole_does),
    cmocka_unit_test(bad_settings_are_named),
};
UNIT_MAIN(tests)
