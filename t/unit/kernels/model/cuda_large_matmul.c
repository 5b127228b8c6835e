/* kernels/model/cuda/matmul.h's products at the sizes of a training step, GPT-2 124M with a batch of 64 sequences of
 * 1024, against the processor's, in rows at the ends and between; over the emulator small ones, with a double of
 * cuBLASLt. */
#include "t/unit/unit.h"

#include "kernels/model/cuda/matmul.h"
#include "kernels/model/matmul.h"
#include "t/lib/tensors.h"

#ifdef DDP_CUDA_EMULATED
enum { ROWS = 600, WIDTH = 64, VOCAB = 1024 };
#else
enum { ROWS = 65536, WIDTH = 768, VOCAB = 50304 };
#endif
#define SLICE (ROWS / 2) /* of rows that the head takes at a time */
#define SAMPLE_ROWS 16
#define N_SAMPLES 3

static cuda_blas_t *blas;
static void *workspace;

static int prepare(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    workspace = device_bytes(NULL, CUDA_BLAS_WORKSPACE);
    blas = kernel_matmul_open(&e) < 0 ? NULL : cuda_blas_create(workspace, CUDA_BLAS_WORKSPACE, &e);
    print_message("# %s\n", blas ? cuda_blas_name(blas) : e.text);
    return blas ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    cuda_blas_destroy(blas, false);
    device_drop(workspace);
    return 0;
}

/* Rows [row, row + SAMPLE_ROWS) of a, or columns of one that is transposed, likewise [k, SAMPLE_ROWS]. */
static float *part_of_a(const struct tensor *a, const struct cuda_matmul *s, size_t row)
{
    if (!s->a_transposed)
        return tensor_part(a, row * s->k, SAMPLE_ROWS * s->k);
    float *x = malloc(SAMPLE_ROWS * s->k * sizeof *x);
    for (size_t k = 0; k < s->k; k++) {
        float *some = tensor_part(a, k * s->m + row, SAMPLE_ROWS);
        memcpy(x + k * SAMPLE_ROWS, some, SAMPLE_ROWS * sizeof *x);
        free(some);
    }
    return x;
}

/* As many rows of out, to which the product is added. */
static float *before(const struct tensor *on_all, const struct tensor *on_rows, const struct cuda_matmul *s, size_t row)
{
    float *x = tensor_part(on_all, row * s->n, SAMPLE_ROWS * s->n), *bias = tensor_part(on_rows, 0, s->n);
    for (size_t i = 0; i < SAMPLE_ROWS * s->n; i++)
        x[i] = (s->accumulate || s->add ? x[i] : 0) + (s->bias ? bias[i % s->n] : 0);
    free(bias);
    return x;
}

/* Off by the largest, at most, times 1e-5 and 1.5e-8 for each term: tensor cores cut off what they add to a sum, so
 * errors have one sign. */
static void check(const char *what, struct cuda_matmul s, bool with_bias, bool with_add)
{
    struct tensor a = tensor_repeated(s.in, s.m * s.k, 0, 1), b = tensor_repeated(s.in, s.k * s.n, 0, 1);
    struct tensor bias = tensor_repeated(s.out, s.n, 0, 1), there = tensor_repeated(s.out, s.m * s.n, 0, 1);
    struct tensor out = s.accumulate ? there : tensor_poisoned(s.out, s.m * s.n, 0);
    float *b_all = tensor_part(&b, 0, b.n), *x[N_SAMPLES], *want[N_SAMPLES];
    size_t row[N_SAMPLES];
    ddp_error_t e = {0};
    s.bias = with_bias ? bias.at : NULL, s.add = with_add ? there.at : NULL;
    for (int i = 0; i < N_SAMPLES; i++) {
        row[i] = tensor_place(i, N_SAMPLES, s.m - SAMPLE_ROWS + 1);
        x[i] = part_of_a(&a, &s, row[i]);
        want[i] = before(&there, &bias, &s, row[i]);
        kernel_matmul(want[i], x[i], b_all,
                      &(struct matmul){.m = SAMPLE_ROWS, .n = s.n, .k = s.k, .a_transposed = s.a_transposed,
                                       .b_transposed = s.b_transposed, .accumulate = true});
    }
    if (cuda_matmul(blas, out.at, a.at, b.at, &s, NULL, &e) < 0)
        fail_msg("%s: %s", what, e.text);
    device_check(0, what);
    for (int i = 0; i < N_SAMPLES; i++) {
        tensor_check_part(what, &out, row[i] * s.n, SAMPLE_ROWS * s.n, want[i], 1e-5 + 1.5e-8 * (double)s.k);
        free(x[i]), free(want[i]);
    }
    free(b_all);
    tensors_free(&a, &b, &bias, &there);
    if (!s.accumulate)
        tensor_free(&out);
}

static struct cuda_matmul product(size_t m, size_t n, size_t k, enum ddp_dtype out)
{
    return (struct cuda_matmul){.m = m, .n = n, .k = k, .in = DDP_BF16, .out = out};
}

static void forward_products_match(void **state)
{
    (void)state;
    check("attn.c_attn", product(ROWS, 3 * WIDTH, WIDTH, DDP_BF16), true, false);
    check("mlp.c_fc", product(ROWS, 4 * WIDTH, WIDTH, DDP_BF16), false, false);
    check("mlp.c_proj", product(ROWS, WIDTH, 4 * WIDTH, DDP_F32), true, true);
}

static void gradients_match(void **state)
{
    (void)state;
    struct cuda_matmul din = product(ROWS, 4 * WIDTH, WIDTH, DDP_BF16);
    struct cuda_matmul dweight = product(4 * WIDTH, WIDTH, ROWS, DDP_F32);
    din.b_transposed = dweight.a_transposed = dweight.accumulate = true;
    check("mlp.c_proj d input", din, false, false);
    check("mlp.c_proj d weight", dweight, false, false);
}

static void the_heads_products_match(void **state)
{
    (void)state;
    struct cuda_matmul logits = product(SLICE, VOCAB, WIDTH, DDP_BF16);
    struct cuda_matmul dweight = product(VOCAB, WIDTH, SLICE, DDP_F32);
    logits.b_transposed = dweight.a_transposed = dweight.accumulate = true;
    check("wte", logits, false, false);
    check("wte d input", product(SLICE, WIDTH, VOCAB, DDP_BF16), false, false);
    check("wte d weight", dweight, false, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_products_match),
    cmocka_unit_test(gradients_match),
    cmocka_unit_test(the_heads_products_match),
};

int main(void)
{
    return tensors_cannot_run() ? 0 : cmocka_run_group_tests(tests, prepare, end);
}
