#include "t/unit/unit.h"

#include <math.h>

#include "runtime/train/model.h"
#include "t/unit/train/ref_model.h"

enum { ENTRIES = 24 };
#define H 1e-5

static uint64_t seed = 12345;

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 33;
}

static double uniform(void)
{
    return (double)draw() / (double)(1u << 31) * 2 - 1;
}

/* A model with tensors of its own, all values random, and the same values in double. */
struct world {
    struct model_config c;
    model_t *m;
    size_t n_params;
    const struct loop_param *param;
    struct ddp_param *t;
    double **d;
    int32_t *tokens;
    size_t n;
    int *order, n_ready;
};

static void world_open(struct world *w, struct model_config c, size_t batch, size_t n)
{
    ddp_error_t e = {0};
    *w = (struct world){.c = c, .n = n};
    w->m = model_create(&c, batch, &e);
    if (!w->m)
        fail_msg("%s", e.text);
    w->param = model_params(w->m, &w->n_params);
    w->t = calloc(w->n_params, sizeof *w->t);
    w->d = calloc(w->n_params, sizeof *w->d);
    w->order = calloc(w->n_params, sizeof *w->order);
    for (size_t i = 0; i < w->n_params; i++) {
        size_t k = w->param[i].shape[0] * w->param[i].shape[1];
        w->t[i] = (struct ddp_param){.value = calloc(k, 4), .grad = calloc(k, 4), .n_elems = k};
        w->d[i] = calloc(k, sizeof(double));
    }
    assert_int_equal(model_bind(w->m, w->t, &e), 0);
    model_init(w->m, 7);
    for (size_t i = 0; i < w->n_params; i++)
        for (size_t k = 0; k < w->t[i].n_elems; k++) {
            float *v = (float *)w->t[i].value + k;
            *v = *v * 5 + 0.2f * (float)uniform();
            w->d[i][k] = *v;
        }
    w->tokens = calloc(n * (c.context + 1), sizeof *w->tokens);
    for (size_t i = 0; i < n * (c.context + 1); i++)
        w->tokens[i] = (int32_t)(draw() % c.vocab);
}

static void world_close(struct world *w)
{
    for (size_t i = 0; i < w->n_params; i++) {
        free(w->t[i].value);
        free(w->t[i].grad);
        free(w->d[i]);
    }
    free(w->t);
    free(w->d);
    free(w->order);
    free(w->tokens);
    model_destroy(w->m);
}

static void note_ready(void *ctx, int id)
{
    struct world *w = ctx;
    assert_true(w->n_ready < (int)w->n_params);
    w->order[w->n_ready++] = id;
}

static double ref(const struct world *w)
{
    struct ref_config c = {w->c.layers, w->c.width, w->c.heads, w->c.context, w->c.vocab};
    return ref_loss(&c, w->d, w->tokens, w->n);
}

static double difference(struct world *w, size_t id, size_t k)
{
    double keep = w->d[id][k];
    w->d[id][k] = keep + H;
    double up = ref(w);
    w->d[id][k] = keep - H;
    double down = ref(w);
    w->d[id][k] = keep;
    return (up - down) / (2 * H);
}

/* Relative error of an entry; entries below a hundredth of the tensor's largest count as that hundredth, since they
 * are differences of larger float numbers. */
static void check_param(struct world *w, size_t id)
{
    const float *g = w->t[id].grad;
    size_t n = w->t[id].n_elems, tries = n < ENTRIES ? n : ENTRIES;
    double largest = 0;
    for (size_t k = 0; k < n; k++)
        largest = fmax(largest, fabs(g[k]));
    for (size_t i = 0; i < tries; i++) {
        size_t k = n <= ENTRIES ? i : draw() % n;
        double want = difference(w, id, k), error = fabs(g[k] - want) / fmax(fabs(want), 0.01 * largest);
        if (!(error <= 1e-3))
            fail_msg("%s[%zu]: %.9g, by differences %.9g", w->param[id].name, k, (double)g[k], want);
    }
}

static void check_gradients(struct model_config c, size_t batch, size_t n)
{
    struct world w;
    world_open(&w, c, batch, n);
    double loss = model_forward_backward(w.m, w.tokens, n, 0.5f, note_ready, &w);
    assert_true(fabs(loss - ref(&w)) <= 1e-5 * fabs(loss));
    w.n_ready = 0;
    assert_true(loss == model_forward_backward(w.m, w.tokens, n, 0.5f, note_ready, &w)); /* halves: += adds them */
    for (size_t id = 0; id < w.n_params; id++)
        check_param(&w, id);
    world_close(&w);
}

static void gradients_match_finite_differences(void **state)
{
    (void)state;
    check_gradients((struct model_config){2, 24, 3, 7, 37, false}, 3, 2);
}

static void gradients_match_beyond_one_query_tile(void **state)
{
    (void)state;
    check_gradients((struct model_config){1, 8, 2, 150, 11, false}, 1, 1);
}

static void gradients_match_with_the_head_in_slices(void **state)
{
    (void)state; /* 3 * 180 rows at a vocabulary of 9000: slices of 512 rows */
    static const size_t at[] = {300, 530};
    struct world w;
    world_open(&w, (struct model_config){1, 2, 1, 180, 9000, false}, 3, 3);
    double loss = model_forward_backward(w.m, w.tokens, 3, 1, note_ready, &w);
    assert_true(fabs(loss - ref(&w)) <= 1e-5 * fabs(loss));
    for (size_t i = 0; i < 2; i++) {
        size_t k = (size_t)w.tokens[at[i]] * 2;
        double want = difference(&w, 0, k);
        assert_true(fabs(((float *)w.t[0].grad)[k] - want) <= 1e-3 * fabs(want));
    }
    world_close(&w);
}

static void ready_comes_once_each_in_backward_order(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, (struct model_config){2, 16, 2, 5, 19, false}, 1, 1);
    model_forward_backward(w.m, w.tokens, 1, 1, note_ready, &w);
    assert_int_equal(w.n_ready, w.n_params);
    int *seen = calloc(w.n_params, sizeof *seen);
    for (size_t i = 0; i < w.n_params; i++)
        assert_int_equal(seen[w.order[i]]++, 0);
    assert_string_equal(w.param[w.order[0]].name, "ln_f.bias");
    assert_string_equal(w.param[w.order[2]].name, "h.1.mlp.c_proj.bias");
    assert_string_equal(w.param[w.order[w.n_params - 1]].name, "wte.weight");
    free(seen);
    world_close(&w);
}

/* A gradient that is not complete when it is called ready would change afterwards. */
struct frozen {
    struct world *w;
    float **copy;
};

static void freeze(void *ctx, int id)
{
    struct frozen *f = ctx;
    f->copy[id] = malloc(f->w->t[id].n_elems * 4);
    memcpy(f->copy[id], f->w->t[id].grad, f->w->t[id].n_elems * 4);
}

static void a_ready_gradient_changes_no_more(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, (struct model_config){2, 16, 2, 5, 19, false}, 2, 2);
    struct frozen f = {&w, calloc(w.n_params, sizeof *f.copy)};
    model_forward_backward(w.m, w.tokens, 2, 1, freeze, &f);
    for (size_t i = 0; i < w.n_params; i++) {
        assert_memory_equal(f.copy[i], w.t[i].grad, w.t[i].n_elems * 4);
        free(f.copy[i]);
    }
    free(f.copy);
    world_close(&w);
}

/* The gradients of one pass, with and without keeping activations. */
static void recomputing_gives_the_same_bits(void **state)
{
    (void)state;
    struct model_config c = {3, 48, 3, 40, 37, false}, again = c;
    again.recompute = true;
    struct world a, b;
    seed = 5;
    world_open(&a, c, 3, 2);
    seed = 5;
    world_open(&b, again, 3, 2);
    double loss = model_forward_backward(a.m, a.tokens, 2, 1, note_ready, &a);
    assert_true(loss == model_forward_backward(b.m, b.tokens, 2, 1, note_ready, &b));
    for (size_t i = 0; i < a.n_params; i++) {
        assert_memory_equal(a.t[i].value, b.t[i].value, a.t[i].n_elems * 4);
        assert_memory_equal(a.t[i].grad, b.t[i].grad, a.t[i].n_elems * 4);
    }
    assert_memory_equal(a.order, b.order, a.n_params * sizeof *a.order);
    world_close(&a);
    world_close(&b);
    size_t one_block = model_activation_bytes(&(struct model_config){1, 48, 3, 40, 37, false}, 3);
    size_t kept = model_activation_bytes(&c, 3), left = model_activation_bytes(&again, 3);
    assert_true(left == one_block + 2 * 3 * 40 * 48 * sizeof(float)); /* one block's, and each block's input */
    assert_true(kept > 2 * one_block && left < kept);
}

static void evaluation_sums_the_same_losses(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, (struct model_config){2, 16, 2, 5, 19, false}, 4, 3);
    double sum[3], loss = model_forward_backward(w.m, w.tokens, 3, 1, note_ready, &w);
    model_evaluate(w.m, w.tokens, 3, sum);
    assert_true(fabs(sum[0] + sum[1] + sum[2] - loss) <= 1e-9 * loss);
    world_close(&w);
}

static double std_of(const struct ddp_param *t, double *ret_mean)
{
    double sum = 0, squares = 0;
    for (size_t k = 0; k < t->n_elems; k++) {
        double v = ((const float *)t->value)[k];
        sum += v;
        squares += v * v;
    }
    *ret_mean = sum / (double)t->n_elems;
    return sqrt(squares / (double)t->n_elems - *ret_mean * *ret_mean);
}

static void initial_values_are_those_of_gpt2(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, (struct model_config){2, 64, 2, 16, 300, false}, 1, 1);
    model_init(w.m, 42);
    for (size_t id = 0; id < w.n_params; id++) {
        const char *name = w.param[id].name;
        double mean, std = std_of(&w.t[id], &mean);
        double want = strstr(name, "c_proj") ? 0.02 / 2 : 0.02, k = (double)w.t[id].n_elems;
        if (w.param[id].ndim == 2) {
            assert_true(fabs(std - want) < 4 * want / sqrt(2 * k));
            assert_true(fabs(mean) < 4 * want / sqrt(k));
        } else {
            assert_true(std == 0);
            assert_true(mean == (strstr(name, "weight") ? 1 : 0));
        }
    }
    float first = *(float *)w.t[0].value;
    model_init(w.m, 43);
    assert_true(first != *(float *)w.t[0].value);
    model_init(w.m, 42);
    assert_true(first == *(float *)w.t[0].value);
    world_close(&w);
}

static void sizes_are_checked_and_counted(void **state)
{
    (void)state;
    ddp_error_t e;
    assert_null(model_create(&(struct model_config){1, 10, 3, 4, 5, false}, 1, &e));
    assert_error_has(e, "heads");
    struct model_config small = {12, 768, 12, 1024, 50257, false};
    assert_int_equal(model_params_elems(&small), 124439808); /* GPT-2 small's well known number */
    assert_true(model_flops_per_token(&small) == 6.0 * (12 * 12 * 768 * 768 + 50257 * 768) + 6.0 * 12 * 1024 * 768);
    size_t n = 0;
    struct loop_param *p = model_params_create(&small);
    for (size_t i = 0; i < model_params_count(&small); i++)
        n += p[i].shape[0] * p[i].shape[1];
    assert_int_equal(n, 124439808);
    free(p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients_match_finite_differences),
    cmocka_unit_test(gradients_match_beyond_one_query_tile),
    cmocka_unit_test(gradients_match_with_the_head_in_slices),
    cmocka_unit_test(ready_comes_once_each_in_backward_order),
    cmocka_unit_test(a_ready_gradient_changes_no_more),
    cmocka_unit_test(recomputing_gives_the_same_bits),
    cmocka_unit_test(evaluation_sums_the_same_losses),
    cmocka_unit_test(initial_values_are_those_of_gpt2),
    cmocka_unit_test(sizes_are_checked_and_counted),
};
UNIT_MAIN(tests)
