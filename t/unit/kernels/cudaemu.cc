/* The CUDA emulator itself: what it computes, and the mistakes that it must see. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern "C" {
#include <setjmp.h>

#include <cmocka.h>
}

#include "kernels/cuda/cuda.h"
#include "t/lib/cudaemu/emu.h"
#include "t/lib/cudaemu/script.h"

static __global__ void sum_block(double *out, const float *in, int n)
{
    CUDA_SHARED_ARRAY(double, part, 8);
    CUDA_SHARED(float, staged);
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        staged[i] = in[i];
    __syncthreads();
    double sum = 0;
    for (int i = n - 1 - (int)threadIdx.x; i >= 0; i -= (int)blockDim.x)
        sum += staged[i];
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            sum += part[w];
        *out = sum;
    }
}

static void threads_share_and_wait(void **)
{
    float in[1000];
    double want = 0, out;
    for (int i = 0; i < 1000; i++) {
        in[i] = (float)(i * i % 97);
        want += in[i];
    }
    for (int order = EMU_FORWARD; order <= EMU_RANDOM; order++) {
        emu_set_order((enum emu_order)order, 5);
        out = -1;
        assert_int_equal(CUDA_LAUNCH(sum_block, 1, 256, sizeof in, NULL, &out, in, 1000), 0);
        assert_true(out == want);
    }
    emu_set_order(EMU_FORWARD, 0);
}

static __global__ void shuffles(int *out)
{
    int lane = (int)threadIdx.x % 32;
    int *o = out + threadIdx.x * 8;
    o[0] = __shfl_sync(0xffffffff, lane, 5);
    o[1] = __shfl_sync(0xffffffff, lane, 1, 8);
    o[2] = __shfl_down_sync(0xffffffff, lane, 3);
    o[3] = __shfl_up_sync(0xffffffff, lane, 3, 16);
    o[4] = __shfl_xor_sync(0xffffffff, lane, 31);
    o[5] = (int)__ballot_sync(0xffffffff, lane % 3 == 0);
    if (lane < 16)
        o[6] = (int)__ballot_sync(0x0000ffff, 1);
    else
        o[6] = __shfl_xor_sync(0xffff0000, lane, 1);
    __syncwarp();
    o[7] = __all_sync(0xffffffff, lane < 32) * 2 + __any_sync(0xffffffff, lane == 40);
}

static void warps_exchange(void **)
{
    int out[64][8];
    unsigned thirds = 0;
    for (int l = 0; l < 32; l += 3)
        thirds |= 1u << l;
    assert_int_equal(CUDA_LAUNCH(shuffles, 1, 64, 0, NULL, out[0]), 0);
    for (int t = 0; t < 64; t++) {
        int l = t % 32;
        int want[8] = {5, l / 8 * 8 + 1, l < 29 ? l + 3 : l, l % 16 >= 3 ? l - 3 : l, 31 - l, (int)thirds,
                       l < 16 ? 0xffff : l ^ 1, 2};
        assert_memory_equal(out[t], want, sizeof want);
    }
}

/* a [16, 16], b [16, 8], row-major */
static __global__ void multiply(float *d, const uint16_t *a, const uint16_t *b, bool f16)
{
    CUDA_SHARED_ARRAY(uint16_t, sa, 256);
    CUDA_SHARED_ARRAY(uint16_t, sb, 256);
    int l = (int)threadIdx.x, at = l * 8;
    cp_async_16(sa + at, a + at, 16);
    cp_async_commit();
    if (l < 16)
        cp_async_16(sb + at, b + at, 16);
    cp_async_16(sa + 256 - 8 - at, a + 256 - 8 - at, 16);
    cp_async_commit();
    cp_async_wait(0);
    __syncthreads();
    uint32_t fa[4], fb[4];
    float c[4] = {1, 2, 3, 4};
    ldmatrix_x4(fa, sa + l % 16 * 16 + l / 16 * 8);
    ldmatrix_x4_trans(fb, sb + l % 16 * 8);
    if (f16)
        mma_f16_16816(c, fa, fb, c);
    else
        mma_bf16_16816(c, fa, fb, c);
    for (int i = 0; i < 4; i++)
        d[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = c[i];
}

static void check_product(uint16_t (*store)(float))
{
    alignas(16) uint16_t a[256], b[128];
    float d[128], fa[256], fb[128];
    for (int i = 0; i < 256; i++)
        a[i] = store(fa[i] = (float)(i * 7 % 23 - 11));
    for (int i = 0; i < 128; i++)
        b[i] = store(fb[i] = (float)(i * 5 % 19 - 9));
    for (int order = EMU_FORWARD; order <= EMU_RANDOM; order++) {
        emu_set_order((enum emu_order)order, 9);
        assert_int_equal(CUDA_LAUNCH(multiply, 1, 32, 0, NULL, d, a, b, store == f16_store), 0);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                float want = (float)(1 + i / 8 * 2 + j % 2);
                for (int k = 0; k < 16; k++)
                    want += fa[i * 16 + k] * fb[k * 8 + j];
                assert_true(d[i * 8 + j] == want);
            }
    }
    emu_set_order(EMU_FORWARD, 0);
}

static void fragments_multiply(void **)
{
    check_product(bf16_store);
    check_product(f16_store);
}

static void halves_round(void **)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = f16_load((uint16_t)h), y = bf16_load((uint16_t)h);
        assert_true(x != x ? (h & 0x7fff) > 0x7c00 : f16_store(x) == h);
        assert_true(y != y ? (h & 0x7fff) > 0x7f80 : bf16_store(y) == h);
        if (h < 0x7bff) { /* half way to the next: to even */
            float next = f16_load((uint16_t)(h + 1)), mid = (x + next) / 2;
            assert_int_equal(f16_store(mid), h % 2 ? h + 1 : h);
            assert_int_equal(f16_store(nextafterf(mid, 0)), h);
            assert_int_equal(f16_store(nextafterf(mid, 1e9f)), h + 1);
        }
        if (h < 0x7f7f) {
            uint32_t mid = h << 16 | 0x8000;
            assert_int_equal(bf16_store(__uint_as_float(mid)), h % 2 ? h + 1 : h);
            assert_int_equal(bf16_store(__uint_as_float(mid - 1)), h);
            assert_int_equal(bf16_store(__uint_as_float(mid + 1)), h + 1);
        }
    }
}

static __global__ void copy_parts(uint8_t *out, const uint8_t *in)
{
    CUDA_SHARED_ARRAY(uint8_t, x, 17 * 16);
    unsigned bytes = threadIdx.x;
    if (bytes <= 16)
        cp_async_16(x + bytes * 16, bytes ? in : NULL, bytes);
    cp_async_commit();
    cp_async_wait(0);
    for (unsigned i = 0; bytes <= 16 && i < 16; i++)
        out[bytes * 16 + i] = x[bytes * 16 + i];
}

static void copies_end_in_zeros(void **)
{
    alignas(16) uint8_t in[16];
    uint8_t out[17 * 16];
    for (int i = 0; i < 16; i++)
        in[i] = (uint8_t)(i + 1);
    assert_int_equal(CUDA_LAUNCH(copy_parts, 1, 32, 0, NULL, out, in), 0);
    for (int i = 0; i < 17 * 16; i++)
        assert_int_equal(out[i], i % 16 < i / 16 ? i % 16 + 1 : 0);
}

/* ---- mistakes ---- */

static __global__ void mistaken(int which, float *out)
{
    CUDA_SHARED_ARRAY(float, x, 64);
    unsigned i = threadIdx.x, lane = i % 32;
    uint32_t r[4];
    if (which == 1 && i == 40)
        return;
    if (which == 2 && i < 32)
        __syncthreads();
    else
        __syncthreads();
    x[i] = (float)i;
    if (which == 3 && lane == 7)
        return;
    if (which == 4 && lane == 9)
        __syncthreads();
    if (which != 5)
        __syncwarp(which == 6 ? 0x7fffffffu : 0xffffffffu);
    float other = __shfl_xor_sync(which == 7 ? 0xffffu << (i & 16) : 0xffffffffu, x[i ^ 1], 16);
    if (i == 0)
        *out = other;
    if (which == 8)
        ldmatrix_x4(r, (char *)x + 8);
    if (which == 9)
        cp_async_16(x, out + 1, 16);
    if (which == 11)
        cp_async_16(x, out, 17);
    if (which == 10 && i >= 32)
        __syncwarp(lane % 2 ? 0xaaaaaaaau : 0xffffffffu);
    __syncthreads();
    out[1 + i] = x[63 - i];
}

static void mistakes_are_named(void **)
{
    static const char *const want[] = {
        "",
        "mistaken: block (0, 0, 0), thread (0, 0, 0) waits at __syncthreads",
        "and thread (0, 0, 0) at another, in",
        "where thread (7, 0, 0) never comes: it has ended",
        "where thread (9, 0, 0) never comes: it waits at __syncthreads",
        NULL, /* x[i ^ 1] is read early, when it is still NaN */
        "with mask 0x7fffffff, which lacks its own lane 31",
        "reads lane 16 in a shuffle",
        "gives ldmatrix in",
        "gives cp_async_16 in",
        "(33, 0, 0) never comes: it waits at __syncthreads",
        "for 17 bytes",
    };
    alignas(16) float out[128];
    for (int which = 0; which <= 11; which++) {
        memset(out, 0, sizeof out);
        cudaemu_reset();
        int rc = CUDA_LAUNCH(mistaken, 1, 64, 0, NULL, which, out);
        if (which == 5) {
            assert_int_equal(rc, 0);
            assert_true(out[0] != out[0]);
            continue;
        }
        assert_int_equal(rc, which ? cudaErrorLaunchFailure : cudaSuccess);
        if (!strstr(emu_error(), want[which]))
            fail_msg("mistake %d: \"%s\" lacks \"%s\"", which, emu_error(), want[which]);
    }
}

static __global__ void nothing() {}

static __global__ void roomy()
{
    CUDA_SHARED_ARRAY(char, room, 4096);
    room[threadIdx.x] = 0;
}

static void launches_have_limits(void **)
{
    cudaemu_reset();
    assert_int_equal(CUDA_LAUNCH(nothing, 1, 1056, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(CUDA_LAUNCH(nothing, 1, 33, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(CUDA_LAUNCH(nothing, 0, 32, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(CUDA_LAUNCH(nothing, dim3(1, 65536), 32, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(CUDA_LAUNCH(nothing, 1, 32, 49153, NULL), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536), 0);
    assert_int_equal(CUDA_LAUNCH(nothing, 1, 32, 49153, NULL), 0);
    assert_int_equal(CUDA_LAUNCH(nothing, 1, 32, 65537, NULL), cudaErrorInvalidValue);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, 44 << 10, NULL), 0);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, (44 << 10) + 1, NULL), cudaErrorLaunchFailure);
    assert_non_null(strstr(emu_error(), "asks for 49153 bytes of shared memory"));
    cudaemu_reset();
    int most = 99 << 10;
    assert_int_equal(cudaFuncSetAttribute(roomy, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(roomy, cudaFuncAttributeMaxDynamicSharedMemorySize, most), 0);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, 95 << 10, NULL), 0);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, (95 << 10) + 1, NULL), cudaErrorLaunchFailure);
    cudaemu_reset();
    /* arrays beside it do not count against what was asked for */
    assert_int_equal(cudaFuncSetAttribute(roomy, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024), 0);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, 1024, NULL), 0);
    assert_int_equal(CUDA_LAUNCH(roomy, 1, 32, 1025, NULL), cudaErrorInvalidValue);
    cudaemu_reset();
}

static __global__ void add_one(int *x)
{
    if (threadIdx.x == 0)
        ++*x;
}

static void launches_wait_for_their_stream(void **)
{
    int x = 0;
    setenv("EMU_STREAMS", "deferred", 1);
    cudaemu_reset();
    for (int i = 0; i < 3; i++)
        assert_int_equal(CUDA_LAUNCH(add_one, 1, 32, 0, NULL, &x), 0);
    assert_int_equal(x, 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    assert_int_equal(x, 3);
    unsetenv("EMU_STREAMS");
    cudaemu_reset();
}

/* A wait is for the record that there was when it was asked for, whatever becomes of the event, or of its stream. */
static void waits_are_for_the_record_before_them(void **)
{
    setenv("EMU_STREAMS", "deferred", 1);
    for (int then = 0; then < 4; then++) { /* nothing; a record elsewhere; the event destroyed; its stream destroyed */
        int x = 0, *p = nullptr;
        cudaStream_t first, other, waits;
        cudaEvent_t e;
        cudaemu_reset();
        assert_int_equal(cudaMalloc((void **)&p, sizeof *p), 0);
        assert_int_equal(cudaStreamCreate(&first) | cudaStreamCreate(&other) | cudaStreamCreate(&waits), 0);
        assert_int_equal(cudaEventCreate(&e), 0);
        assert_int_equal(cudaMemsetAsync(p, 1, sizeof *p, first), 0);
        assert_int_equal(cudaEventRecord(e, first), 0);
        assert_int_equal(cudaStreamWaitEvent(waits, e, 0), 0);
        assert_int_equal(cudaMemcpyAsync(&x, p, sizeof x, cudaMemcpyDeviceToHost, waits), 0);
        assert_int_equal(then == 1 ? cudaEventRecord(e, other) : cudaSuccess, 0);
        assert_int_equal(then == 2 ? cudaEventDestroy(e) : cudaSuccess, 0);
        assert_int_equal(then == 3 ? cudaStreamDestroy(first) : cudaSuccess, 0);
        assert_int_equal(cudaStreamSynchronize(waits), 0);
        assert_int_equal(x, 0x01010101);
        assert_int_equal(then == 1 ? cudaEventSynchronize(e) : cudaSuccess, 0);
        assert_int_equal(then == 1 ? cudaEventQuery(e) : cudaSuccess, 0);
    }
    unsetenv("EMU_STREAMS");
    cudaemu_reset();
}

/* cudaMemcpy gives pageable memory back before its bytes have arrived; only the default stream waits for them. */
static void pageable_copies_come_later(void **)
{
    int *p = nullptr, host = 7, got = 0;
    cudaStream_t other;
    setenv("EMU_STREAMS", "deferred", 1);
    cudaemu_reset();
    assert_int_equal(cudaMalloc((void **)&p, sizeof *p), 0);
    assert_int_equal(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), 0);
    for (int waits = 0; waits < 2; waits++) {
        assert_int_equal(cudaMemcpy(p, &host, sizeof host, cudaMemcpyHostToDevice), 0);
        host = 8; /* the caller's again */
        assert_int_equal(waits ? cudaDeviceSynchronize() : cudaSuccess, 0);
        assert_int_equal(cudaMemcpyAsync(&got, p, sizeof got, cudaMemcpyDeviceToHost, other), 0);
        assert_int_equal(cudaStreamSynchronize(other), 0);
        assert_int_equal(got, waits ? 8 : -1);
    }
    assert_int_equal(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost), 0);
    assert_int_equal(got, 8);
    unsetenv("EMU_STREAMS");
    cudaemu_reset();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pageable_copies_come_later),
    cmocka_unit_test(launches_wait_for_their_stream), cmocka_unit_test(waits_are_for_the_record_before_them),
    cmocka_unit_test(threads_share_and_wait), cmocka_unit_test(warps_exchange),
    cmocka_unit_test(fragments_multiply), cmocka_unit_test(copies_end_in_zeros),
    cmocka_unit_test(halves_round), cmocka_unit_test(mistakes_are_named),
    cmocka_unit_test(launches_have_limits),
};

int main()
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
