/* runtime/train/gmodel.h against the model on the processor: the same weights and tokens, every loss and gradient. Over
 * the emulator with a double of cuBLASLt. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/cast.h"
#include "runtime/train/gmodel_impl.h"
#include "runtime/train/model.h"
#include "t/lib/tensors.h"

/* float32: largest difference, relative to a tensor's largest gradient. */
#define F32_TOLERANCE 1e-5
/* Else: length of a tensor's difference, relative to the gradient's. Eight bits round by 2^-9 at most, eleven by
 * 2^-12. */
#define BF16_TOLERANCE 0.02
#define F16_TOLERANCE 0.0025

/* A model on the processor and one on a GPU, with the same random values. */
struct pair {
    struct gmodel_config c;
    float grad_scale;
    model_t *cpu;
    gmodel_t *gpu;
    size_t n_params;
    const struct loop_param *param;
    struct ddp_param *host, *device;
    int32_t *tokens;
    size_t n;
    int *order, n_ready;
    bool is_lost; /* the GPU, and what is in its memory */
};

static size_t elems(const struct pair *p, size_t id)
{
    return p->param[id].shape[0] * p->param[id].shape[1];
}

static void *rounded(kernel_cast_f *store, const float *x, size_t n)
{
    uint16_t *h = malloc(n * sizeof *h);
    store(h, x, n);
    void *p = device_bytes(h, n * sizeof *h);
    free(h);
    return p;
}

/* With the rows that DDP_PAD_ROWS adds, which are zeros. */
static size_t elems_on_gpu(const struct pair *p, size_t id, unsigned flags)
{
    size_t rows = (p->param[id].shape[0] + DDP_PAD_MULTIPLE - 1) / DDP_PAD_MULTIPLE * DDP_PAD_MULTIPLE;
    return flags & DDP_PAD_ROWS ? rows * p->param[id].shape[1] : elems(p, id);
}

static void fill_param(struct pair *p, size_t id)
{
    size_t n_params, n = elems(p, id);
    unsigned flags = gmodel_params(p->gpu, &n_params)[id].flags;
    size_t all = elems_on_gpu(p, id, flags);
    float *value = calloc(all, sizeof *value), *wild = random_floats(n, 0.05f);
    model_params_init(&p->c.model, p->param, id, 7, value);
    for (size_t k = 0; k < n; k++)
        value[k] = value[k] * 2 + wild[k];
    float *zeros = calloc(all, sizeof *zeros);
    p->host[id] = (struct ddp_param){.value = value, .grad = zeros, .n_elems = n};
    p->device[id] = (struct ddp_param){.value = device_bytes(value, all * 4), .grad = device_bytes(zeros, all * 4),
                                       .n_elems = n};
    p->device[id].copy_dtype = flags & DDP_KEEP_BF16 ? DDP_BF16 : flags & DDP_KEEP_F16 ? DDP_F16 : DDP_F32;
    if (p->device[id].copy_dtype != DDP_F32)
        p->device[id].copy = rounded(flags & DDP_KEEP_F16 ? kernel_store_f16 : kernel_store_bf16, value, all);
    free(wild);
}

static void pair_open(struct pair *p, struct gmodel_config c, size_t n)
{
    ddp_error_t e = {0};
    *p = (struct pair){.c = c, .n = n, .grad_scale = c.dtype == DDP_F16 ? 256 : 0.5f};
    p->cpu = model_create(&c.model, c.batch, &e);
    p->gpu = p->cpu ? gmodel_create(&c, &e) : NULL;
    if (!p->gpu)
        fail_msg("%s", e.text);
    p->param = model_params(p->cpu, &p->n_params);
    p->host = calloc(p->n_params, sizeof *p->host);
    p->device = calloc(p->n_params, sizeof *p->device);
    p->order = calloc(p->n_params, sizeof *p->order);
    for (size_t id = 0; id < p->n_params; id++)
        fill_param(p, id);
    if (model_bind(p->cpu, p->host, &e) < 0 || gmodel_bind(p->gpu, p->device, &e) < 0)
        fail_msg("%s", e.text);
    size_t n_tokens = n * (c.model.context + 1);
    p->tokens = calloc(n_tokens, sizeof *p->tokens);
    for (size_t i = 0; i < n_tokens; i++)
        p->tokens[i] = (int32_t)(draw() % c.model.vocab);
}

static void pair_close(struct pair *p)
{
    gmodel_destroy(p->gpu);
    model_destroy(p->cpu);
    for (size_t id = 0; id < p->n_params; id++) {
        free(p->host[id].value);
        free(p->host[id].grad);
        if (p->is_lost)
            continue;
        device_drop(p->device[id].value);
        device_drop(p->device[id].copy);
        device_drop(p->device[id].grad);
    }
    free(p->host);
    free(p->device);
    free(p->order);
    free(p->tokens);
}

static void nobody_listens(void *ctx, int id)
{
    (void)ctx, (void)id;
}

static double gpu_pass(struct pair *p, loop_ready_f *ready, void *ctx)
{
    ddp_error_t e = {0};
    double loss;
    if (gmodel_forward_backward(p->gpu, p->tokens, p->n, p->grad_scale, ready, ctx, &loss, &e) < 0)
        fail_msg("%s", e.text);
    device_check(0, "the pass");
    return loss;
}

static float *gpu_grad(const struct pair *p, size_t id)
{
    float *g = malloc(elems(p, id) * sizeof *g);
    device_fetch(g, p->device[id].grad, elems(p, id) * sizeof *g);
    return g;
}

/* Largest difference over largest, and length over length, of a gradient. */
static void differences(const struct pair *p, size_t id, double *ret_largest, double *ret_length)
{
    const float *want = p->host[id].grad;
    float *got = gpu_grad(p, id);
    double most = 0, largest = 0, squares = 0, all = 0;
    for (size_t k = 0; k < elems(p, id); k++) {
        double d = (double)got[k] - want[k];
        most = d == d ? fmax(most, fabs(d)) : INFINITY;
        largest = fmax(largest, fabs(want[k]));
        squares += d * d;
        all += (double)want[k] * want[k];
    }
    *ret_largest = most / largest;
    *ret_length = squares == squares ? sqrt(squares / all) : INFINITY;
    free(got);
}

static void check_gradients(struct pair *p)
{
    double worst = 0;
    for (size_t id = 0; id < p->n_params; id++) {
        bool f32 = p->c.dtype == DDP_F32;
        double largest, length;
        double tolerance = f32 ? F32_TOLERANCE : p->c.dtype == DDP_F16 ? F16_TOLERANCE : BF16_TOLERANCE;
        differences(p, id, &largest, &length);
        double d = f32 ? largest : length;
        if (!(d <= tolerance))
            fail_msg("the gradient of %s is off by %g", p->param[id].name, d);
        worst = fmax(worst, d);
    }
    print_message("# %s: gradients differ by %.2g at most\n", gmodel_products(p->gpu), worst);
}

/* Two passes, whose gradients add up. */
static void check_model(struct gmodel_config c, size_t n)
{
    struct pair p;
    pair_open(&p, c, n);
    double want = model_forward_backward(p.cpu, p.tokens, n, p.grad_scale, nobody_listens, NULL);
    double got = gpu_pass(&p, nobody_listens, NULL);
    print_message("# loss %.9g, on the processor %.9g\n", got, want);
    assert_true(fabs(got - want) <= (c.dtype == DDP_F32 ? 1e-6 : c.dtype == DDP_F16 ? 2e-4 : 2e-3) * want);
    check_gradients(&p);
    model_forward_backward(p.cpu, p.tokens, n, p.grad_scale, nobody_listens, NULL);
    assert_true(gpu_pass(&p, nobody_listens, NULL) == got);
    check_gradients(&p);
    pair_close(&p);
}

static const struct model_config odd = {2, 24, 3, 7, 37, false}, wide = {2, 128, 2, 70, 131, false};
static const struct model_config wide_layer = {1, 128, 2, 70, 131, false};
static const struct model_config small = {1, 64, 1, 9, 37, false}, deep = {3, 64, 1, 9, 37, false};

static void float32_agrees_with_the_processor(void **state)
{
    (void)state;
    check_model((struct gmodel_config){.model = odd, .batch = 3, .dtype = DDP_F32}, 3);
    check_model((struct gmodel_config){.model = wide_layer, .batch = 2, .dtype = DDP_F32}, 1); /* fewer than fit */
}

static void bfloat16_deviates_little(void **state)
{
    (void)state;
    check_model((struct gmodel_config){.model = wide, .batch = 2, .dtype = DDP_BF16}, 1);
    check_model((struct gmodel_config){.model = small, .batch = 2, .dtype = DDP_BF16}, 2);
    check_model((struct gmodel_config){.model = wide, .batch = 2, .dtype = DDP_BF16, .wgmma = true}, 2);
}

static void float16_deviates_less(void **state)
{
    (void)state;
    check_model((struct gmodel_config){.model = wide, .batch = 1, .dtype = DDP_F16}, 1);
    check_model((struct gmodel_config){.model = wide, .batch = 1, .dtype = DDP_F16, .wgmma = true}, 1);
}

/* Too large a scale: the loss is still right, and the norm of all gradients shows it. */
static void what_overflows_in_float16_is_not_finite(void **state)
{
    (void)state;
    struct pair p;
    double norm = 0;
    pair_open(&p, (struct gmodel_config){.model = small, .batch = 1, .dtype = DDP_F16}, 1);
    double want = gpu_pass(&p, nobody_listens, NULL);
    p.grad_scale = 0x1p18f;
    assert_true(gpu_pass(&p, nobody_listens, NULL) == want);
    for (size_t id = 0; id < p.n_params; id++) {
        float *g = gpu_grad(&p, id);
        for (size_t k = 0; k < elems(&p, id); k++)
            norm += (double)g[k] * g[k];
        free(g);
    }
    assert_false(isfinite(norm));
    pair_close(&p);
}

static void the_head_may_come_in_slices(void **state)
{
    (void)state;
    check_model((struct gmodel_config){.model = odd, .batch = 3, .dtype = DDP_F32, .logits_rows = 8}, 3);
    check_model((struct gmodel_config){.model = small, .batch = 3, .dtype = DDP_BF16, .logits_rows = 8}, 3);
}

static void nothing_is_left_behind_the_embedding(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, (struct gmodel_config){.model = small, .batch = 2, .dtype = DDP_BF16}, 2);
    gpu_pass(&p, nobody_listens, NULL);
    size_t n = elems(&p, WTE), all = elems_on_gpu(&p, WTE, DDP_PAD_ROWS);
    float *g = malloc(all * sizeof *g);
    device_fetch(g, p.device[WTE].grad, all * sizeof *g);
    assert_int_equal(all, 128 * 64);
    for (size_t k = n; k < all; k++)
        assert_true(g[k] == 0);
    free(g);
    pair_close(&p);
}

/* Slices are as few as can be, of one size up to LOGITS_ROWS, and no longer than a product may be. */
static void check_slices(size_t batch, size_t vocab, size_t want_rows, size_t want_slices)
{
    struct glayer layer[1];
    gmodel_t m = {.c = {.model = {1, 768, 12, 1024, vocab, false}, .batch = batch, .dtype = DDP_BF16}, .layer = layer};
    gmodel_deal(&m, NULL);
    assert_int_equal(m.logits_rows, want_rows);
    assert_int_equal((batch * 1024 + m.logits_rows - 1) / m.logits_rows, want_slices);
    assert_int_equal(m.vocab_rows % DDP_PAD_MULTIPLE, 0);
    assert_true(m.logits_rows * m.vocab_rows <= CUDA_MATMUL_ELEMS_MAX);
}

static void logits_come_in_few_slices(void **state)
{
    (void)state;
    check_slices(1, 50257, 1024, 1);
    check_slices(41, 50257, 41984, 1);
    check_slices(42, 50257, 21504, 2);
    check_slices(64, 50257, 32768, 2);
    check_slices(85, 50257, 29696, 3);
    check_slices(64, 65536, 22528, 3);
    check_slices(64, 256, 65536, 1);
    check_slices(3, 1 << 22, 439, 7); /* no whole 1024 */
}

static void check_recompute(enum ddp_dtype dtype)
{
    struct gmodel_config c = {.model = deep, .batch = 2, .dtype = dtype}, again = c;
    struct pair a, b;
    again.model.recompute = true;
    seed_floats(5);
    pair_open(&a, c, 2);
    seed_floats(5);
    pair_open(&b, again, 2);
    assert_true(gpu_pass(&a, nobody_listens, NULL) == gpu_pass(&b, nobody_listens, NULL));
    for (size_t id = 0; id < a.n_params; id++) {
        float *x = gpu_grad(&a, id), *y = gpu_grad(&b, id);
        assert_memory_equal(x, y, elems(&a, id) * sizeof *x);
        free(x), free(y);
    }
    assert_true(gmodel_activation_bytes(&again) < gmodel_activation_bytes(&c));
    pair_close(&a);
    pair_close(&b);
}

static void recomputing_gives_the_same_bits(void **state)
{
    (void)state;
    check_recompute(DDP_F32);
    check_recompute(DDP_BF16);
}

/* A gradient that is called ready is complete once what is queued is done. */
struct frozen {
    struct pair *p;
    float **copy;
};

static void freeze(void *ctx, int id)
{
    struct frozen *f = ctx;
    device_check(0, "until a gradient is ready");
    assert_null(f->copy[id]);
    f->copy[id] = gpu_grad(f->p, (size_t)id);
    f->p->order[f->p->n_ready++] = id;
}

static void a_ready_gradient_changes_no_more(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, (struct gmodel_config){.model = odd, .batch = 2, .dtype = DDP_F32}, 2);
    struct frozen f = {&p, calloc(p.n_params, sizeof *f.copy)};
    gpu_pass(&p, freeze, &f);
    assert_int_equal(p.n_ready, p.n_params);
    assert_string_equal(p.param[p.order[0]].name, "ln_f.bias");
    assert_string_equal(p.param[p.order[2]].name, "h.1.mlp.c_proj.bias");
    assert_string_equal(p.param[p.order[p.n_params - 1]].name, "wte.weight");
    for (size_t id = 0; id < p.n_params; id++) {
        float *g = gpu_grad(&p, id);
        assert_memory_equal(g, f.copy[id], elems(&p, id) * sizeof *g);
        free(g);
        free(f.copy[id]);
    }
    free(f.copy);
    pair_close(&p);
}

static void evaluation_sums_the_same_losses(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    struct pair p;
    double got[3], want[3];
    pair_open(&p, (struct gmodel_config){.model = odd, .batch = 4, .dtype = DDP_F32}, 3);
    model_evaluate(p.cpu, p.tokens, 3, want);
    if (gmodel_evaluate(p.gpu, p.tokens, 3, got, &e) < 0)
        fail_msg("%s", e.text);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got[i] - want[i]) <= 1e-6 * want[i]);
    assert_true(fabs(gpu_pass(&p, nobody_listens, NULL) - (got[0] + got[1] + got[2])) <= 1e-9 * got[0]);
    pair_close(&p);
}

static void sizes_that_a_gpu_cannot_do_are_refused(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    struct model_config c = odd;
    assert_int_equal(gmodel_check(&c, DDP_F32, &e), 0);
    assert_int_equal(gmodel_check(&c, DDP_BF16, &e), -1);
    assert_error_has(e, "needs heads of 64, and --width=24 over --heads=3 are 8 each");
    assert_int_equal(gmodel_check(&c, DDP_F16, &e), -1);
    assert_error_has(e, "f16 on a GPU needs heads of 64");
    c.context = 10000;
    assert_int_equal(gmodel_check(&c, DDP_F32, &e), -1);
    assert_error_has(e, "--dtype=bf16");
    c = (struct model_config){1, 6400, 100, 8, 8, false};
    assert_int_equal(gmodel_check(&c, DDP_BF16, &e), -1);
    assert_error_has(e, "widths up to 6144");
}

#ifdef DDP_CUDA_EMULATED
#include "t/lib/cudaemu/script.h"

/* Again, with streams that do nothing until somebody waits: what runs ahead of what it needs would show. */
static void nothing_runs_ahead_of_its_tokens(void **state)
{
    (void)state;
    setenv("EMU_STREAMS", "deferred", 1);
    cudaemu_reset();
    check_model((struct gmodel_config){.model = odd, .batch = 3, .dtype = DDP_F32}, 3);
    evaluation_sums_the_same_losses(NULL);
    unsetenv("EMU_STREAMS");
    cudaemu_reset();
}

/* Every extent of every product, but the number of tokens. */
static void products_are_whole_tiles(void **state)
{
    (void)state;
    setenv("BLASLTDOUBLE_ROWS", "64", 1);
    check_model((struct gmodel_config){.model = small, .batch = 2, .dtype = DDP_BF16}, 2);
    unsetenv("BLASLTDOUBLE_ROWS");
}

static void all_memory_comes_back(void **state)
{
    (void)state;
    struct pair p;
    cudaemu_reset();
    pair_open(&p, (struct gmodel_config){.model = small, .batch = 1, .dtype = DDP_BF16}, 1);
    gpu_pass(&p, nobody_listens, NULL);
    pair_close(&p);
    struct cudaemu_live l = cudaemu_live();
    assert_int_equal(l.allocations + l.host_allocations + l.streams + l.events, 0);
}

static void errors_name_rank_and_cause(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    struct pair p;
    double loss;
    struct gmodel_config c = {.model = odd, .batch = 2, .dtype = DDP_F32, .rank = 3};
    setenv("EMU_MEMORY", "1000", 1);
    cudaemu_reset();
    assert_null(gmodel_create(&c, &e));
    assert_error_has(e, "rank 3: GPU 0");
    assert_error_has(e, "for matrix products: out of memory, 1000 free: take a smaller --batch");
    unsetenv("EMU_MEMORY");
    cudaemu_reset();
    pair_open(&p, c, 2);
    char fault[64]; /* in the midst of a pass */
    snprintf(fault, sizeof fault, "cudaemu_enqueue:%d:719", cudaemu_calls("cudaemu_enqueue") + 20);
    pair_close(&p);
    setenv("EMU_FAIL", fault, 1);
    cudaemu_reset();
    unsetenv("EMU_FAIL");
    pair_open(&p, c, 2);
    assert_int_equal(gmodel_forward_backward(p.gpu, p.tokens, 2, 1, nobody_listens, NULL, &loss, &e), -1);
    assert_error_has(e, "rank 3: GPU 0");
    p.is_lost = true;
    pair_close(&p);
    cudaemu_reset();
}
#endif

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(float32_agrees_with_the_processor),
    cmocka_unit_test(bfloat16_deviates_little),
    cmocka_unit_test(float16_deviates_less),
    cmocka_unit_test(what_overflows_in_float16_is_not_finite),
    cmocka_unit_test(the_head_may_come_in_slices),
    cmocka_unit_test(nothing_is_left_behind_the_embedding),
    cmocka_unit_test(logits_come_in_few_slices),
    cmocka_unit_test(recomputing_gives_the_same_bits),
    cmocka_unit_test(a_ready_gradient_changes_no_more),
    cmocka_unit_test(evaluation_sums_the_same_losses),
    cmocka_unit_test(sizes_that_a_gpu_cannot_do_are_refused),
#ifdef DDP_CUDA_EMULATED
    cmocka_unit_test(nothing_runs_ahead_of_its_tokens),
    cmocka_unit_test(products_are_whole_tiles),
    cmocka_unit_test(all_memory_comes_back),
    cmocka_unit_test(errors_name_rank_and_cause),
#endif
};
TENSORS_MAIN(tests)
