/* kernels/model/cuda/attention.h for a batch of GPT-2 124M, 64 sequences of 1024, against the processor's, whole
 * sequences: the first one, the last one, one between; over the emulator fewer and shorter ones. */
#include "t/unit/unit.h"

#include <cuda_runtime_api.h>

#include "kernels/model/attention.h"
#include "kernels/model/cuda/attention.h"
#include "kernels/model/matmul.h"
#include "t/lib/tensors.h"

#ifdef DDP_CUDA_EMULATED
enum { BATCH = 3, LENGTH = 300, HEADS = 2 };
#else
enum { BATCH = 64, LENGTH = 1024, HEADS = 12 };
#endif
#define WIDTH (HEADS * CUDA_ATTENTION_HEAD)
#define N_SAMPLES 3
#define SCALE 3 /* of queries and keys: few keys count in a row, so that one which is left out shows */

static float *floats(size_t n)
{
    return malloc(n * sizeof(float));
}

/* Sequence b. */
static void check_sequence(size_t b, const struct tensor *out, const struct tensor *dqkv, const struct tensor *qkv,
                           const struct tensor *dout)
{
    struct attention_shape one = {1, LENGTH, WIDTH, HEADS};
    size_t n = (size_t)LENGTH * WIDTH;
    float *x = tensor_part(qkv, 3 * b * n, 3 * n), *dy = tensor_part(dout, b * n, n);
    float *y = floats(n), *dx = floats(3 * n), *stats = floats(kernel_attention_stats_elems(&one));
    float *work = aligned_alloc(64, (kernel_attention_work_elems(&one) * sizeof *work + 63) / 64 * 64);
    kernel_attention_forward(y, stats, x, work, &one);
    kernel_attention_backward(dx, dy, x, stats, work, &one);
    tensor_check_part("out", out, b * n, n, y, out->type == DDP_F32 ? 5e-6 : 3e-3);
    tensor_check_part("dqkv", dqkv, 3 * b * n, 3 * n, dx, out->type == DDP_F32 ? 2e-5 : 1.2e-2);
    free(x), free(dy), free(y), free(dx), free(work), free(stats);
}

static void check(enum ddp_dtype type, enum cuda_attention_way way)
{
    size_t batch = tensor_fitting(BATCH, (size_t)LENGTH * WIDTH * 8 * dtype_size(type) + 8 * LENGTH * HEADS);
    struct attention_shape s = {batch, LENGTH, WIDTH, HEADS};
    size_t n = batch * LENGTH * WIDTH, rows = cuda_attention_stats_elems(&s);
    struct tensor qkv = tensor_repeated(type, 3 * n, 0, SCALE), dout = tensor_repeated(type, n, 0, 1);
    struct tensor out = tensor_poisoned(type, n, 0), dqkv = tensor_poisoned(type, 3 * n, 0);
    struct tensor stats = tensor_poisoned(DDP_F32, rows, 0), work = tensor_poisoned(DDP_F32, rows, 0);
    device_check(cuda_attention_forward(type, way, out.at, stats.at, qkv.at, &s, NULL), "attention forward");
    device_check(cuda_attention_backward(type, way, dqkv.at, work.at, dout.at, out.at, qkv.at, stats.at, &s, NULL),
                 "attention backward");
    for (int i = 0; i < N_SAMPLES; i++)
        check_sequence(tensor_place(i, N_SAMPLES, batch), &out, &dqkv, &qkv, &dout);
    tensors_free(&qkv, &dout, &out, &dqkv, &stats, &work);
}

static int prepare(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    if (kernel_matmul_open(&e) < 0)
        print_message("# %s\n", e.text);
    return e.text[0] ? -1 : 0;
}

static void bf16_matches_by_mma(void **state)
{
    (void)state;
    check(DDP_BF16, CUDA_ATTENTION_MMA);
}

static void bf16_matches_by_wgmma(void **state)
{
    (void)state;
    struct cudaDeviceProp p;
    device_check((int)cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
    if (!cuda_attention_has_wgmma(p.major, p.minor))
        skip();
    check(DDP_BF16, CUDA_ATTENTION_WGMMA);
}

static void float32_matches(void **state)
{
    (void)state;
    check(DDP_F32, CUDA_ATTENTION_MMA);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bf16_matches_by_mma),
    cmocka_unit_test(bf16_matches_by_wgmma),
    cmocka_unit_test(float32_matches),
};

int main(void)
{
    return tensors_cannot_run() ? 0 : cmocka_run_group_tests(tests, prepare, NULL);
}
