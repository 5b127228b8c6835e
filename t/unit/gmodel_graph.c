/* Passes as CUDA graphs against the same passes without: every loss and gradient, bit for bit. On a GPU, or over the
 * emulator with a double of cuBLASLt. */
#include "t/unit/unit.h"

#include "kernels/cast.h"
#include "runtime/train/gmodel.h"
#include "t/lib/tensors.h"

struct side {
    gmodel_t *m;
    struct gmodel_config c;
    size_t n_params;
    const struct loop_param *param;
    struct ddp_param *tensor; /* device memory */
    int *order, n_ready;
    uint64_t *hash;           /* of gradients, when they were ready */
    int n_said;
    char said[1024];
};

static size_t elems(const struct side *s, size_t id)
{
    return s->param[id].shape[0] * s->param[id].shape[1];
}

static void hear(void *ctx, const char *text)
{
    struct side *s = ctx;
    s->n_said++;
    snprintf(s->said, sizeof s->said, "%s", text);
}

static void fill_param(struct side *s, size_t id)
{
    size_t n = elems(s, id);
    float *value = calloc(n, sizeof *value), *zeros = calloc(n, sizeof *zeros), *wild = random_floats(n, 0.05f);
    uint16_t *half = calloc(n, sizeof *half);
    model_params_init(&s->c.model, s->param, id, 7, value);
    for (size_t k = 0; k < n; k++)
        value[k] = value[k] * 2 + wild[k];
    kernel_store_bf16(half, value, n);
    s->tensor[id] = (struct ddp_param){.value = device_bytes(value, n * sizeof *value),
                                       .grad = device_bytes(zeros, n * sizeof *zeros),
                                       .n_elems = n};
    if (s->param[id].flags & DDP_KEEP_BF16)
        s->tensor[id].value_bf16 = device_bytes(half, n * sizeof *half);
    free(value), free(zeros), free(wild), free(half);
}

static void side_open(struct side *s, struct gmodel_config c)
{
    ddp_error_t e = {0};
    *s = (struct side){.c = c};
    s->c.warn = hear;
    s->c.warn_ctx = s;
    s->m = gmodel_create(&s->c, &e);
    if (!s->m)
        fail_msg("%s", e.text);
    s->param = gmodel_params(s->m, &s->n_params);
    s->tensor = calloc(s->n_params, sizeof *s->tensor);
    s->order = calloc(s->n_params, sizeof *s->order);
    s->hash = calloc(s->n_params, sizeof *s->hash);
    seed_floats(11);
    for (size_t id = 0; id < s->n_params; id++)
        fill_param(s, id);
    if (gmodel_bind(s->m, s->tensor, &e) < 0)
        fail_msg("%s", e.text);
}

static void side_close(struct side *s, bool is_lost)
{
    gmodel_destroy(s->m);
    for (size_t id = 0; id < s->n_params && !is_lost; id++) {
        device_drop(s->tensor[id].value);
        device_drop(s->tensor[id].value_bf16);
        device_drop(s->tensor[id].grad);
    }
    free(s->tensor), free(s->order), free(s->hash);
}

static uint64_t grad_hash(const struct side *s, size_t id)
{
    size_t n = elems(s, id);
    uint32_t *bits = malloc(n * sizeof *bits);
    uint64_t hash = 14695981039346656037u;
    device_fetch(bits, s->tensor[id].grad, n * sizeof *bits);
    for (size_t k = 0; k < n; k++)
        hash = (hash ^ bits[k]) * 1099511628211u;
    free(bits);
    return hash;
}

/* Waits for all of the device, which no capture would stand. */
static void ready(void *ctx, int id)
{
    struct side *s = ctx;
    device_check(0, "until a gradient is ready");
    s->hash[id] = grad_hash(s, (size_t)id);
    s->order[s->n_ready++] = id;
}

static int32_t *random_tokens(const struct side *s, size_t n)
{
    size_t n_tokens = n * (s->c.model.context + 1);
    int32_t *tokens = calloc(n_tokens, sizeof *tokens);
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (int32_t)(draw() % s->c.model.vocab);
    return tokens;
}

/* Of so many samples, with the factor of gradients; 0: an evaluation. */
struct step {
    size_t n;
    float scale;
};

static void take(struct side *s, const struct step *step, const int32_t *tokens, double *ret_losses)
{
    ddp_error_t e = {0};
    s->n_ready = 0;
    int rc = step->scale > 0 ? gmodel_forward_backward(s->m, tokens, step->n, step->scale, ready, s, ret_losses, &e)
                             : gmodel_evaluate(s->m, tokens, step->n, ret_losses, &e);
    if (rc < 0)
        fail_msg("%s", e.text);
    device_check(0, "the pass");
    assert_int_equal(s->n_ready, step->scale > 0 ? s->n_params : 0);
}

/* Both do it, on the same new tokens. */
static void compare(struct side *plain, struct side *graphs, const struct step *step, size_t number)
{
    int32_t *tokens = random_tokens(plain, step->n);
    double want[4] = {0}, got[4] = {0};
    take(plain, step, tokens, want);
    take(graphs, step, tokens, got);
    free(tokens);
    if (memcmp(want, got, sizeof want) != 0)
        fail_msg("pass %zu: losses %.17g, without graphs %.17g", number, got[0], want[0]);
    for (int i = 0; i < plain->n_ready; i++)
        assert_int_equal(plain->order[i], graphs->order[i]);
    for (size_t id = 0; id < plain->n_params; id++) {
        if (grad_hash(plain, id) != grad_hash(graphs, id))
            fail_msg("pass %zu: the gradient of %s differs", number, plain->param[id].name);
        if (step->scale > 0 && graphs->hash[id] != grad_hash(graphs, id))
            fail_msg("pass %zu: the gradient of %s was called ready too soon", number, plain->param[id].name);
    }
}

/* Both uploads, an epoch's end, validation between with a smaller group, a loss scale that changes and comes back, and
 * all of it again: each is queued, captured and launched. */
static const struct step steps[] = {
    {2, 0.5f}, {2, 0.5f}, {2, 0.5f}, {2, 0.5f},  {2, 0.5f}, {2, 0.5f}, {1, 0.5f}, {3, 0},     {3, 0},
    {1, 0},    {3, 0},    {3, 0},    {1, 0},     {3, 0},    {2, 0.5f}, {2, 0.5f}, {1, 0.5f},  {2, 0.25f},
    {1, 0.5f}, {2, 0.5f}, {1, 0.5f}, {2, 0.25f}, {2, 1},    {2, 1},    {2, 1},    {2, 0.25f}, {2, 0.5f},
    {2, 0.5f}, {2, 0.5f}, {1, 0},    {1, 0.5f},  {2, 0.5f},
};
enum { N_STEPS = sizeof steps / sizeof *steps };

static void both_open(struct side *plain, struct side *graphs, struct gmodel_config c)
{
    side_open(plain, c);
    c.has_graphs = true;
    side_open(graphs, c);
}

static void check(struct gmodel_config c)
{
    struct side plain, graphs;
    both_open(&plain, &graphs, c);
    for (size_t i = 0; i < N_STEPS; i++)
        compare(&plain, &graphs, &steps[i], i);
    if (graphs.n_said)
        fail_msg("%s", graphs.said);
    side_close(&plain, false);
    side_close(&graphs, false);
}

static const struct model_config odd = {2, 24, 3, 7, 37, false}, wide = {1, 64, 1, 9, 37, false};

static void float32_has_the_same_bits(void **state)
{
    (void)state;
    check((struct gmodel_config){.model = odd, .batch = 3, .dtype = DDP_F32, .logits_rows = 8});
}

static void bfloat16_has_the_same_bits(void **state)
{
    (void)state;
    check((struct gmodel_config){.model = wide, .batch = 3, .dtype = DDP_BF16});
}

static void recomputing_has_the_same_bits(void **state)
{
    (void)state;
    struct model_config again = odd;
    again.recompute = true;
    check((struct gmodel_config){.model = again, .batch = 3, .dtype = DDP_F32});
}

#ifdef DDP_CUDA_EMULATED
#include "t/lib/cudaemu/script.h"

static const struct gmodel_config small = {.model = {2, 24, 3, 7, 37, false}, .batch = 2, .dtype = DDP_F32, .rank = 3};

/* Streams that do nothing until somebody waits, and what is left behind. */
static void late_graphs_have_the_same_bits(void **state)
{
    setenv("EMU_STREAMS", "deferred", 1);
    cudaemu_reset();
    float32_has_the_same_bits(state);
    unsetenv("EMU_STREAMS");
    struct cudaemu_live l = cudaemu_live();
    assert_int_equal(l.allocations + l.host_allocations + l.streams + l.events + l.graphs, 0);
    cudaemu_reset();
}

/* Both uploads' parts with tokens are captured at their second use, and a block, which has none, once. */
static void passes_become_launches(void **state)
{
    (void)state;
    struct side s;
    const struct step step = {2, 0.5f};
    const int captures[] = {0, 2, 4, 6, 6, 6}, launches[] = {0, 2, 6, 10, 14, 18};
    double loss;
    cudaemu_reset();
    struct gmodel_config c = small;
    c.has_graphs = true;
    side_open(&s, c);
    int n_kernels = 0;
    for (int i = 0; i < 6; i++) {
        int32_t *tokens = random_tokens(&s, 2);
        int before = cudaemu_calls("cudaemu_enqueue");
        take(&s, &step, tokens, &loss);
        assert_int_equal(cudaemu_calls("cudaStreamBeginCapture"), captures[i]);
        assert_int_equal(cudaemu_calls("cudaGraphLaunch"), launches[i]);
        n_kernels = cudaemu_calls("cudaemu_enqueue") - before;
        free(tokens);
    }
    assert_int_equal(n_kernels, 0);
    side_close(&s, false);
    assert_int_equal(cudaemu_live().graphs, 0);
}

/* Two passes of both sides are done but for the half of the last one, which captures blocks: how many kernels that is. */
static int a_captured_kernel(void)
{
    struct side s;
    double loss;
    cudaemu_reset();
    side_open(&s, small);
    int32_t *tokens = random_tokens(&s, 2);
    take(&s, &(struct step){2, 0.5f}, tokens, &loss);
    int n = cudaemu_calls("cudaemu_enqueue");
    free(tokens);
    side_close(&s, false);
    return 3 * n + n / 2;
}

/* Whatever fails passes: training goes on without graphs, to the same bits, and says so once. */
static void without_graphs_training_goes_on(void **state)
{
    (void)state;
    const struct {
        const char *fail, *says;
    } cases[] = {
        {"cudaStreamBeginCapture:1:901", "cudaStreamBeginCapture: cudaErrorStreamCaptureInvalidated: a call came"},
        {"cudaStreamEndCapture:4:901", "cudaStreamEndCapture: cudaErrorStreamCaptureInvalidated"},
        {"cudaGraphInstantiateWithFlags:2:2", "cudaGraphInstantiate: cudaErrorMemoryAllocation: out of memory"},
        {"cudaGraphLaunch:9:1", "cudaGraphLaunch: cudaErrorInvalidValue"},
        {NULL, "): "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fail[64];
        struct side plain, graphs;
        snprintf(fail, sizeof fail, "cudaemu_enqueue:%d:1", cases[i].fail ? 0 : a_captured_kernel());
        setenv("EMU_FAIL", cases[i].fail ? cases[i].fail : fail, 1);
        cudaemu_reset();
        unsetenv("EMU_FAIL");
        struct gmodel_config c = small;
        c.has_graphs = true;
        side_open(&graphs, c);
        side_open(&plain, small);
        for (size_t k = 0; k < (cases[i].fail ? 7 : 3); k++)
            compare(&plain, &graphs, &(struct step){2, 0.5f}, k);
        side_close(&plain, false);
        assert_int_equal(graphs.n_said, 1);
        if (!strstr(graphs.said, "CUDA graphs are off from here on: rank 3: GPU 0") || !strstr(graphs.said, cases[i].says))
            fail_msg("%s: \"%s\"", cases[i].fail, graphs.said);
        side_close(&graphs, false);
        assert_int_equal(cudaemu_live().graphs, 0);
    }
}

/* Where the GPU is lost nothing goes on. */
static void a_lost_gpu_ends_the_pass(void **state)
{
    (void)state;
    static const char *const fails[] = {"cudaStreamBeginCapture:1:719", "cudaStreamEndCapture:2:719",
                                        "cudaGraphInstantiateWithFlags:1:719", "cudaGraphLaunch:3:719"};
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        ddp_error_t e = {0};
        struct side s;
        double loss;
        int rc = 0;
        setenv("EMU_FAIL", fails[i], 1);
        cudaemu_reset();
        unsetenv("EMU_FAIL");
        struct gmodel_config c = small;
        c.has_graphs = true;
        side_open(&s, c);
        int32_t *tokens = random_tokens(&s, 2);
        for (int k = 0; k < 6 && rc == 0; k++) {
            s.n_ready = 0;
            rc = gmodel_forward_backward(s.m, tokens, 2, 1, ready, &s, &loss, &e);
        }
        assert_int_equal(rc, -1);
        assert_error_has(e, "rank 3: GPU 0");
        assert_error_has(e, "cudaErrorLaunchFailure: a kernel crashed");
        assert_int_equal(s.n_said, 0);
        free(tokens);
        side_close(&s, true);
    }
    cudaemu_reset();
}
#endif

static const struct CMUnitTest tests[] = {
#ifndef DDP_CUDA_EMULATED /* else late, which takes as long */
    cmocka_unit_test(float32_has_the_same_bits),
#endif
    cmocka_unit_test(bfloat16_has_the_same_bits),
    cmocka_unit_test(recomputing_has_the_same_bits),
#ifdef DDP_CUDA_EMULATED
    cmocka_unit_test(late_graphs_have_the_same_bits),
    cmocka_unit_test(passes_become_launches),
    cmocka_unit_test(without_graphs_training_goes_on),
    cmocka_unit_test(a_lost_gpu_ends_the_pass),
#endif
};
TENSORS_MAIN(tests)
