/* kernels/model/cuda/matmul.h against double precision; over the emulator with a double of cuBLASLt. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/cuda/matmul.h"
#include "t/lib/tensors.h"

static cuda_blas_t *blas;
static void *workspace;

static int open_blas(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    workspace = device_bytes(NULL, CUDA_BLAS_WORKSPACE);
    blas = cuda_blas_create(workspace, CUDA_BLAS_WORKSPACE, &e);
    if (!blas)
        print_message("# %s\n", e.text);
    else
        print_message("# %s\n", cuda_blas_name(blas));
    return blas ? 0 : -1;
}

static int close_blas(void **state)
{
    (void)state;
    cuda_blas_destroy(blas, false);
    device_drop(workspace);
    return 0;
}

struct shape {
    struct cuda_matmul s;  /* without pointers */
    bool bias, add;
    size_t offset;         /* elements by which arrays start off a 256-byte boundary */
};

struct operands {
    struct tensor a, b, out, bias, add;
};

static struct operands draw_operands(const struct shape *x)
{
    const struct cuda_matmul *s = &x->s;
    return (struct operands){.a = tensor_random(s->in, s->m * s->k, x->offset, 1),
                             .b = tensor_random(s->in, s->k * s->n, x->offset, 1),
                             .bias = tensor_random(s->out, s->n, x->offset, 1),
                             .add = tensor_random(s->out, s->m * s->n, x->offset, 1),
                             .out = s->accumulate ? tensor_random(s->out, s->m * s->n, x->offset, 1)
                                                  : tensor_poisoned(s->out, s->m * s->n, x->offset)};
}

static void free_operands(struct operands *o)
{
    tensor_free(&o->a), tensor_free(&o->b), tensor_free(&o->out), tensor_free(&o->bias), tensor_free(&o->add);
}

/* What out should hold; `before` is what it held. */
static double *reference(const struct shape *x, const struct operands *o, const double *before)
{
    const struct cuda_matmul *s = &x->s;
    double *a = tensor_values(&o->a), *b = tensor_values(&o->b), *bias = tensor_values(&o->bias);
    double *add = tensor_values(&o->add), *want = malloc(o->out.n * sizeof *want);
    for (size_t i = 0; i < s->m; i++)
        for (size_t j = 0; j < s->n; j++) {
            double sum = s->accumulate ? before[i * s->n + j] : 0;
            for (size_t k = 0; k < s->k; k++)
                sum += a[s->a_transposed ? k * s->m + i : i * s->k + k] *
                       b[s->b_transposed ? j * s->k + k : k * s->n + j];
            sum += x->bias ? bias[j] : 0;
            want[i * s->n + j] = sum + (x->add ? add[i * s->n + j] : 0);
        }
    free(a), free(b), free(bias), free(add);
    return want;
}

static void multiply(const void *arg, uint64_t *hash)
{
    const struct shape *x = arg;
    struct operands o = draw_operands(x);
    struct cuda_matmul s = x->s;
    ddp_error_t e = {0};
    s.bias = x->bias ? o.bias.at : NULL, s.add = x->add ? o.add.at : NULL;
    double *before = tensor_values(&o.out), *want = reference(x, &o, before);
    if (cuda_matmul(blas, o.out.at, o.a.at, o.b.at, &s, NULL, &e) < 0)
        fail_msg("%s", e.text);
    device_check(0, "matmul");
    tensor_check("out", &o.out, want, 2e-6);
    tensor_hash(hash, &o.out);
    free(before), free(want);
    free_operands(&o);
}

static void each_type(struct shape x)
{
    static const enum ddp_dtype types[][2] = {{DDP_F32, DDP_F32}, {DDP_BF16, DDP_BF16}, {DDP_BF16, DDP_F32},
                                              {DDP_F16, DDP_F16}, {DDP_F16, DDP_F32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        x.s.in = types[i][0], x.s.out = types[i][1];
        in_every_order(multiply, &x);
    }
}

static void products_of_every_layout(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++) {
        each_type((struct shape){.s = {.m = 48, .n = 32, .k = 64, .a_transposed = t & 1, .b_transposed = t & 2}});
        each_type((struct shape){.s = {.m = 7, .n = 13, .k = 5, .a_transposed = t & 1, .b_transposed = t & 2}});
    }
}

static void products_of_one_row_column_and_term(void **state)
{
    (void)state;
    each_type((struct shape){.s = {.m = 1, .n = 24, .k = 16}});
    each_type((struct shape){.s = {.m = 24, .n = 1, .k = 16}, .bias = true});
    each_type((struct shape){.s = {.m = 24, .n = 16, .k = 1}});
}

static void a_bias_and_a_residual_are_added_before_rounding(void **state)
{
    (void)state;
    each_type((struct shape){.s = {.m = 40, .n = 24, .k = 32}, .bias = true});
    each_type((struct shape){.s = {.m = 40, .n = 24, .k = 32}, .add = true});
    each_type((struct shape){.s = {.m = 40, .n = 24, .k = 32}, .bias = true, .add = true});
}

static void products_accumulate(void **state)
{
    (void)state;
    each_type((struct shape){.s = {.m = 33, .n = 24, .k = 40, .a_transposed = true, .accumulate = true}});
}

static void starts_may_be_any_multiple_of_16_bytes(void **state)
{
    (void)state;
    for (size_t offset = 8; offset <= 32; offset += 8)
        each_type((struct shape){.s = {.m = 16, .n = 24, .k = 32}, .bias = true, .add = true, .offset = offset});
}

static void other_starts_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"out", "a", "b", "bias", "add"};
    struct tensor t = tensor_random(DDP_BF16, 64, 0, 1);
    for (int i = 0; i < 5; i++) {
        char want[160];
        void *at[5];
        ddp_error_t e = {0};
        for (int k = 0; k < 5; k++)
            at[k] = (char *)t.at + (k == i ? 8 : 0);
        struct cuda_matmul s = {.m = 8, .n = 8, .k = 8, .in = DDP_BF16, .out = DDP_BF16, .bias = at[3], .add = at[4]};
        assert_int_equal(cuda_matmul(blas, at[0], at[1], at[2], &s, NULL, &e), -1);
        snprintf(want, sizeof want,
                 "cuda_matmul of [8, 8] x [8, 8] bf16: %s begins at %p, and must at a multiple of 16", names[i], at[i]);
        assert_error_has(e, want);
        assert_int_equal(e.domain, DDP_E_USAGE);
    }
    tensor_free(&t);
}

/* Before anything of them is looked at. */
static void matrices_beyond_what_cublaslt_can_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t m, n, k;
        const char *want;
    } all[] = {{65536, 50304, 8, "cuda_matmul of [65536, 8] x [8, 50304] bf16: out has more than 2147483647 elements"},
               {32768, 8, 65536, "[32768, 65536] x [65536, 8] bf16: a has more than 2147483647 elements"},
               {8, 32768, 65536, "[8, 65536] x [65536, 32768] bf16: b has more than 2147483647 elements"},
               {(size_t)1 << 33, (size_t)1 << 33, 8, "bf16: out has more"}};
    struct tensor t = tensor_random(DDP_BF16, 64, 0, 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct cuda_matmul s = {.m = all[i].m, .n = all[i].n, .k = all[i].k, .in = DDP_BF16, .out = DDP_BF16};
        ddp_error_t e = {0};
        assert_int_equal(cuda_matmul(blas, t.at, t.at, t.at, &s, NULL, &e), -1);
        assert_error_has(e, all[i].want);
        assert_error_has(e, "take a smaller --batch");
    }
    tensor_free(&t);
}

/* More shapes than are remembered, twice. */
static void many_shapes_are_no_trouble(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++)
        for (size_t m = 1; m <= 80; m++) {
            struct shape x = {.s = {.m = m, .n = 3, .k = 2}};
            uint64_t hash = 0;
            multiply(&x, &hash);
        }
}

/* On a real cuBLASLt there is nothing to show: the bias goes along there, or apart. */
static void a_bias_that_cannot_go_along_goes_first(void **state)
{
    static const char *const calls[] = {"heuristic", "matmul"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        setenv("BLASLTDOUBLE_BIAS", calls[i], 1);
        /* shapes that no other test has: a choice is remembered */
        each_type((struct shape){.s = {.m = 9, .n = 40 + 8 * i, .k = 16}, .bias = true});
        struct shape both = {.s = {.m = 5, .n = 293 + i, .k = 8, .in = DDP_BF16, .out = DDP_F32},
                             .bias = true, .add = true};
        in_every_order(multiply, &both);
    }
    unsetenv("BLASLTDOUBLE_BIAS");
}

static void an_impossible_product_is_refused(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    struct tensor t = tensor_random(DDP_F32, 64, 0, 1);
    struct cuda_matmul good = {.m = 8, .n = 8, .k = 8}, s = good;
    s.out = DDP_BF16;
    assert_int_equal(cuda_matmul(blas, t.at, t.at, t.at, &s, NULL, &e), -1);
    assert_error_has(e, "cuda_matmul of [8, 8] x [8, 8] f32: CUBLAS_STATUS_INVALID_VALUE");
    s.in = DDP_F16;
    assert_int_equal(cuda_matmul(blas, t.at, t.at, t.at, &s, NULL, &e), -1);
    assert_error_has(e, "cuda_matmul of [8, 8] x [8, 8] f16: CUBLAS_STATUS_INVALID_VALUE");
    s = good, s.k = 0;
    assert_int_equal(cuda_matmul(blas, t.at, t.at, t.at, &s, NULL, &e), -1);
    s = good, s.accumulate = true, s.bias = t.at;
    assert_int_equal(cuda_matmul(blas, t.at, t.at, t.at, &s, NULL, &e), -1);
    tensor_free(&t);
}

static void the_algorithm_is_told_once_there_is_one(void **state)
{
    (void)state;
    char told[160];
    ddp_error_t e = {0};
    struct tensor t = tensor_random(DDP_F32, 64, 0, 1), out = tensor_poisoned(DDP_F32, 21, 0);
    struct cuda_matmul s = {.m = 3, .n = 7, .k = 5};
    assert_string_equal(cuda_matmul_algorithm(blas, &s, told, sizeof told), "");
    if (cuda_matmul(blas, out.at, t.at, t.at, &s, NULL, &e) < 0)
        fail_msg("%s", e.text);
    device_check(0, "matmul");
    unsigned id, splits;
    int rc = sscanf(cuda_matmul_algorithm(blas, &s, told, sizeof told),
                    "id %u tile %*u stages %*u cluster %*u split-k %u workspace ", &id, &splits);
    assert_int_equal(rc, 2);
#ifdef DDP_CUDA_EMULATED
    assert_string_equal(told, "id 7 tile 0 stages 0 cluster 0 split-k 1 workspace 4096");
    setenv("BLASLTDOUBLE_BIAS", "heuristic", 1);
    s.bias = t.at;
    assert_int_equal(cuda_matmul(blas, out.at, t.at, t.at, &s, NULL, &e), 0);
    unsetenv("BLASLTDOUBLE_BIAS");
    device_check(0, "matmul");
    assert_non_null(strstr(cuda_matmul_algorithm(blas, &s, told, sizeof told), " workspace 4096 bias apart"));
#endif
    tensor_free(&t), tensor_free(&out);
}

#ifdef DDP_CUDA_EMULATED
static void large_products_of_few_summands_take_smaller_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *proposed;
        enum ddp_dtype in;
        bool bias;
        size_t k;
        unsigned tile;
    } all[] = {
        {"40:24,29,20", DDP_BF16, true, 64, 20},    {"40:24,20,29", DDP_BF16, false, 64, 29},
        {"40:24,20,201", DDP_BF16, false, 65, 201}, {"40:201,29", DDP_BF16, false, 67, 29},
        {"40:24,20", DDP_BF16, false, 68, 24},      {"40:24,201", DDP_BF16, true, 69, 24},
        {"7.9:24,29,20", DDP_BF16, true, 66, 24},   {"40:24,29,20", DDP_F32, true, 64, 24},
        {"40:24,29,20", DDP_F16, true, 64, 20},     {"40:24,29,20", DDP_BF16, true, 4096, 20},
        {"40:24,29,20", DDP_BF16, true, 4097, 24},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct cuda_matmul s = {.m = 2, .n = 2, .k = all[i].k, .in = all[i].in, .out = all[i].in};
        struct tensor t = tensor_random(all[i].in, 2 * s.k, 0, 1), out = tensor_poisoned(all[i].in, 4, 0);
        ddp_error_t e = {0};
        char told[160];
        unsigned tile = 0;
        s.bias = all[i].bias ? t.at : NULL;
        setenv("BLASLTDOUBLE_TILES", all[i].proposed, 1);
        int rc = cuda_matmul(blas, out.at, t.at, t.at, &s, NULL, &e);
        unsetenv("BLASLTDOUBLE_TILES");
        if (rc < 0)
            fail_msg("%s", e.text);
        device_check(0, "matmul");
        sscanf(cuda_matmul_algorithm(blas, &s, told, sizeof told), "id %*u tile %u", &tile);
        if (tile != all[i].tile)
            fail_msg("of %s for %zu summands tile %u is taken, not %u", all[i].proposed, s.k, tile, all[i].tile);
        tensor_free(&t), tensor_free(&out);
    }
}
#endif

static const struct CMUnitTest tests[] = {
#ifdef DDP_CUDA_EMULATED
    cmocka_unit_test(large_products_of_few_summands_take_smaller_tiles),
#endif
    cmocka_unit_test(the_algorithm_is_told_once_there_is_one),
    cmocka_unit_test(products_of_every_layout),
    cmocka_unit_test(products_of_one_row_column_and_term),
    cmocka_unit_test(a_bias_and_a_residual_are_added_before_rounding),
    cmocka_unit_test(products_accumulate),
    cmocka_unit_test(starts_may_be_any_multiple_of_16_bytes),
    cmocka_unit_test(other_starts_are_refused_by_name),
    cmocka_unit_test(matrices_beyond_what_cublaslt_can_are_refused),
    cmocka_unit_test(many_shapes_are_no_trouble),
    cmocka_unit_test(a_bias_that_cannot_go_along_goes_first),
    cmocka_unit_test(an_impossible_product_is_refused),
};

int main(void)
{
    return tensors_cannot_run() ? 0 : cmocka_run_group_tests(tests, open_blas, close_blas);
}
