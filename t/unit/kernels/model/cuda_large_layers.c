/* The kernels of kernels/model/cuda but for attention at the sizes of a training step, GPT-2 124M with a batch of 64
 * sequences of 1024 in bfloat16, against the processor's in float32; over the emulator small, but with more than 2^16
 * elements. What they do with odd sizes and starts the other tests of each look at. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/crossentropy.h"
#include "kernels/model/cuda/bias.h"
#include "kernels/model/cuda/crossentropy.h"
#include "kernels/model/cuda/embedding.h"
#include "kernels/model/cuda/gelu.h"
#include "kernels/model/cuda/layernorm.h"
#include "kernels/model/layernorm.h"
#include "t/lib/tensors.h"

#ifdef DDP_CUDA_EMULATED
enum { BATCH = 3, LENGTH = 110, WIDTH = 200, VOCAB = 250, PADDED = 256 };
#else
enum { BATCH = 64, LENGTH = 1024, WIDTH = 768, VOCAB = 50257, PADDED = 50304 };
#endif
#define N_SAMPLES 17

/* Of sums of float32 over all rows, relative to the largest: of 65536 rows each adds a thousandth. */
#define SUMS 3e-5

static float *all(const struct tensor *t)
{
    return tensor_part(t, 0, t->n);
}

static void check_all(const char *what, const struct tensor *t, const float *want, double tolerance)
{
    tensor_check_part(what, t, 0, t->n, want, tolerance);
}

static size_t n_rows(size_t bytes_a_row)
{
    return tensor_fitting(BATCH, LENGTH * bytes_a_row) * LENGTH;
}

static struct tensor numbers(enum ddp_dtype type, size_t n)
{
    return tensor_repeated(type, n, 0, 2);
}

static void check_sums(const char *what, const struct tensor *t, const double *want)
{
    float *x = malloc(t->n * sizeof *x);
    for (size_t i = 0; i < t->n; i++)
        x[i] = (float)want[i];
    check_all(what, t, x, SUMS);
    free(x);
}

static void layernorms_match(void **state)
{
    (void)state;
    size_t rows = n_rows(15 * WIDTH), n = rows * WIDTH;
    struct tensor in = numbers(DDP_F32, n), weight = numbers(DDP_F32, WIDTH), bias = numbers(DDP_F32, WIDTH);
    struct tensor out = tensor_poisoned(DDP_BF16, n, 0), mean = tensor_poisoned(DDP_F32, rows, 0);
    struct tensor rstd = tensor_poisoned(DDP_F32, rows, 0), dout = numbers(DDP_BF16, n), din = numbers(DDP_F32, n);
    struct tensor dweight = numbers(DDP_F32, WIDTH), dbias = numbers(DDP_F32, WIDTH);
    struct tensor before = tensor_repeated(DDP_F32, WIDTH, 0, 0);
    struct tensor work = tensor_poisoned(DDP_F32, cuda_layernorm_work_elems(rows, WIDTH), 0);
    float *x = all(&in), *w = all(&weight), *b = all(&bias), *dy = all(&dout), *dx = all(&din), *dw = all(&dweight);
    float *db = all(&dbias), *y = malloc(n * sizeof *y), *m = malloc(rows * sizeof *m), *r = malloc(rows * sizeof *r);
    device_check(cuda_layernorm_forward(DDP_BF16, out.at, mean.at, rstd.at, in.at, weight.at, bias.at, rows, WIDTH,
                                        NULL), "layernorm forward");
    kernel_layernorm_forward(y, m, r, x, w, b, rows, WIDTH);
    check_all("out", &out, y, 1e-5);
    check_all("mean", &mean, m, 2e-6);
    check_all("rstd", &rstd, r, 2e-6);
    device_check(cuda_layernorm_backward(DDP_BF16, din.at, out.at, dweight.at, dbias.at, before.at, work.at, dout.at,
                                         in.at, mean.at, rstd.at, weight.at, rows, WIDTH, true, NULL),
                 "layernorm backward");
    kernel_layernorm_backward(dx, dw, db, dy, x, m, r, w, rows, WIDTH, true);
    check_all("din", &din, dx, 1e-5);
    check_all("branch", &out, dx, 1e-5);
    check_all("dweight", &dweight, dw, SUMS);
    check_all("dbias", &dbias, db, SUMS);
    double *sums = calloc(WIDTH, sizeof *sums);
    for (size_t i = 0; i < n; i++)
        sums[i % WIDTH] += (double)dx[i];
    check_sums("dbias before", &before, sums);
    free(x), free(w), free(b), free(dy), free(dx), free(dw), free(db), free(y), free(m), free(r), free(sums);
    tensors_free(&in, &weight, &bias, &out, &mean, &rstd, &dout, &din, &dweight, &dbias, &before, &work);
}

/* x becomes gelu(x + bias), and dy its gradient, which db gets the sums of. */
static void reference_gelu(float *x, float *dy, double *db, const float *bias, size_t rows, size_t width)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < width; i++) {
            float *in = &x[r * width + i], v = *in + bias[i];
            float s = 1 / (1 + expf(-1.5957691216f * v * (1 + 0.044715f * v * v)));
            dy[r * width + i] *= s * (1 + v * (1 - s) * 1.5957691216f * (1 + 0.134145f * v * v));
            db[i] += (double)dy[r * width + i];
            *in = v * s;
        }
}

static void gelus_and_sums_for_biases_match(void **state)
{
    (void)state;
    size_t width = 4 * WIDTH, rows = n_rows(8 * width), n = rows * width;
    struct tensor in = numbers(DDP_BF16, n), bias = numbers(DDP_F32, width), out = tensor_poisoned(DDP_BF16, n, 0);
    struct tensor dout = numbers(DDP_BF16, n), din = tensor_poisoned(DDP_BF16, n, 0);
    struct tensor dbias = tensor_repeated(DDP_F32, width, 0, 0), sums = tensor_repeated(DDP_F32, width, 0, 0);
    struct tensor work = tensor_poisoned(DDP_F32, cuda_gelu_work_elems(rows, width), 0);
    float *x = all(&in), *b = all(&bias), *dy = all(&dout);
    double *db = calloc(width, sizeof *db), *s = calloc(width, sizeof *s);
    for (size_t i = 0; i < n; i++)
        s[i % width] += (double)dy[i];
    device_check(cuda_gelu_forward(DDP_BF16, out.at, in.at, bias.at, rows, width, NULL), "gelu forward");
    device_check(cuda_gelu_backward(DDP_BF16, din.at, dbias.at, work.at, dout.at, in.at, bias.at, rows, width, NULL),
                 "gelu backward");
    device_check(cuda_bias_backward(DDP_BF16, sums.at, work.at, dout.at, rows, width, NULL), "bias backward");
    reference_gelu(x, dy, db, b, rows, width);
    check_all("out", &out, x, 2e-6);
    check_all("din", &din, dy, 2e-6);
    check_sums("dbias", &dbias, db);
    check_sums("sums", &sums, s);
    free(x), free(b), free(dy), free(db), free(s);
    tensors_free(&in, &bias, &out, &dout, &din, &dbias, &sums, &work);
}

static void rows_of_a_bias_match(void **state)
{
    (void)state;
    size_t width = 3 * WIDTH, rows = n_rows(4 * width), n = rows * width;
    struct tensor bias = numbers(DDP_BF16, width), add = numbers(DDP_BF16, n), out = tensor_poisoned(DDP_BF16, n, 0);
    float *b = all(&bias), *want = all(&add);
    for (size_t i = 0; i < n; i++)
        want[i] += b[i % width];
    device_check(cuda_bias_rows(out.at, add.at, bias.at, rows, width, DDP_BF16, NULL), "bias");
    check_all("out", &out, want, 0);
    free(b), free(want);
    tensors_free(&bias, &add, &out);
}

static int32_t *random_tokens(size_t n, void **ret_device)
{
    int32_t *t = malloc(n * sizeof *t);
    for (size_t i = 0; i < n; i++)
        t[i] = (int32_t)(draw() % VOCAB);
    t[n - 1] = VOCAB - 1;
    *ret_device = device_bytes(t, n * sizeof *t);
    return t;
}

static void embeddings_match(void **state)
{
    (void)state;
    size_t rows = n_rows(8 * WIDTH), n = rows * WIDTH;
    struct embedding_shape s = {rows / LENGTH, LENGTH, WIDTH, LENGTH + 1};
    void *tokens, *sorted = device_bytes(NULL, cuda_embedding_sorted_elems(&s) * sizeof(uint32_t));
    int32_t *token = random_tokens(s.batch * s.token_stride, &tokens);
    struct tensor wte = numbers(DDP_F32, (size_t)VOCAB * WIDTH), wpe = numbers(DDP_F32, (size_t)LENGTH * WIDTH);
    struct tensor out = tensor_poisoned(DDP_F32, n, 0), dout = numbers(DDP_F32, n);
    float *te = all(&wte), *pe = all(&wpe), *y = malloc(n * sizeof *y), *dy = all(&dout);
    device_check(cuda_embedding_forward(out.at, tokens, wte.at, wpe.at, &s, NULL), "embedding forward");
    kernel_embedding_forward(y, token, te, pe, &s);
    check_all("out", &out, y, 0);
    device_check(cuda_embedding_sort(sorted, tokens, &s, VOCAB, NULL), "embedding sort");
    device_check(cuda_embedding_backward(wte.at, wpe.at, dout.at, sorted, &s, NULL), "embedding backward");
    kernel_embedding_backward(te, pe, dy, token, &s);
    check_all("dwte", &wte, te, 2e-6);
    check_all("dwpe", &wpe, pe, 2e-6);
    free(token), free(te), free(pe), free(y), free(dy);
    device_drop(tokens), device_drop(sorted);
    tensors_free(&wte, &wpe, &out, &dout);
}

/* Row r, whose logits were x. */
static void check_loss(const struct tensor *logits, const double *loss, float *x, size_t r, int32_t target)
{
    double want, got;
    device_fetch(&got, loss + r, sizeof got);
    kernel_crossentropy_backward(&want, x, &target, 1, 1, VOCAB);
    if (!(fabs(got - want) <= 1e-5))
        fail_msg("loss of row %zu: %.9g, want %.9g", r, got, want);
    if (logits)
        tensor_check_part("gradient", logits, r * PADDED, PADDED, x, 1e-6);
}

/* All logits at once: on a GPU 3.3e9, more than 2^31. */
static void losses_match(void **state)
{
    (void)state;
    size_t rows = n_rows(2 * PADDED + 12), row[N_SAMPLES];
    struct tensor logits = tensor_repeated(DDP_BF16, rows * PADDED, 0, 6);
    double *loss = device_bytes(NULL, rows * sizeof *loss);
    void *targets;
    int32_t *target = random_tokens(rows, &targets);
    float *x[N_SAMPLES];
    device_check(cuda_crossentropy_forward(DDP_BF16, loss, logits.at, targets, rows, VOCAB, PADDED, NULL), "forward");
    for (int i = 0; i < N_SAMPLES; i++) {
        row[i] = tensor_place(i, N_SAMPLES, rows);
        x[i] = tensor_part(&logits, row[i] * PADDED, PADDED);
        float *again = tensor_part(&logits, row[i] * PADDED, PADDED);
        check_loss(NULL, loss, again, row[i], target[row[i]]);
        free(again);
    }
    device_check(cuda_crossentropy_backward(DDP_BF16, loss, logits.at, targets, 1, rows, VOCAB, PADDED, NULL),
                 "backward");
    for (int i = 0; i < N_SAMPLES; i++) {
        memset(x[i] + VOCAB, 0, (PADDED - VOCAB) * sizeof **x);
        check_loss(&logits, loss, x[i], row[i], target[row[i]]);
        free(x[i]);
    }
    device_drop(loss), device_drop(targets);
    free(target);
    tensor_free(&logits);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(layernorms_match), cmocka_unit_test(gelus_and_sums_for_biases_match),
    cmocka_unit_test(rows_of_a_bias_match), cmocka_unit_test(embeddings_match), cmocka_unit_test(losses_match),
};

TENSORS_MAIN(tests)
