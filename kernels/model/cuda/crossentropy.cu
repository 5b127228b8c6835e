/* A block takes a row. It is copied to shared memory, as far as it fits there, some copies ahead of the first pass,
 * which sums exponentials relative to the largest logit so far, rescaled when a larger one comes (Milakov, Gimelshein,
 * "Online normalizer calculation for softmax", arXiv:1805.02867). The second pass stores the gradient, so that global
 * memory is read once and written once; what did not fit is read again, out of the L2 cache. */
#include "kernels/model/cuda/crossentropy.h"

#include <float.h>

#include "kernels/model/cuda/lanes.h"

#define WARPS WARP /* so that a warp has a lane for each of them */
#define THREADS (WARPS * WARP)
#define AHEAD 4 /* copies of a thread that are on their way */
#define LOG2_E 1.44269504f

/* Of a row; all of GPT-2's in 16 bits. With the warps' totals it is what compute capability 8.6, 8.9 and 12.0 give a
 * block: others give more. */
constexpr unsigned KEPT_BYTES = (99u << 10) - WARPS * sizeof(float2);

/* A row of any start: whole pieces of 16 bytes, of which so many are kept in shared memory, and edges before and behind
 * them that take an element a thread. */
template <typename T> struct row_pieces {
    T *row, *body;
    unsigned head, vocab, whole, kept;
};

template <typename T> __device__ __forceinline__ row_pieces<T> row_pieces_of(T *row, unsigned vocab)
{
    unsigned head = (unsigned)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    head = head < vocab ? head : vocab;
    unsigned whole = (vocab - head) / piece<T>::N;
    return {row, row + head, head, vocab, whole, whole < KEPT_BYTES / 16 ? whole : KEPT_BYTES / 16};
}

/* This thread's element among the edges, or NULL. */
template <typename T> __device__ __forceinline__ T *edge_of(const row_pieces<T> &p)
{
    unsigned i = threadIdx.x < p.head ? threadIdx.x : threadIdx.x + p.whole * piece<T>::N;
    return i < p.vocab ? p.row + i : NULL;
}

/* A sum of exponentials relative to the largest. */
struct exponentials {
    float max, sum;
};

__device__ __forceinline__ float exponential(float x, float max)
{
    return exp2_fast((x - max) * LOG2_E);
}

template <unsigned N> __device__ __forceinline__ void add_logits(exponentials &e, const float (&x)[N])
{
    float max = e.max;
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        max = fmaxf(max, x[k]);
    e.sum *= exponential(e.max, max);
    e.max = max;
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        e.sum += exponential(x[k], max);
}

/* f(i, where piece i lies) for a thread's pieces: all that are kept, then the others. */
template <typename T, typename F>
__device__ __forceinline__ void each_piece(const row_pieces<T> &p, uint4 *kept, const F &f)
{
    unsigned i = threadIdx.x;
    for (; i < p.kept; i += THREADS)
        f(i, kept + i);
#pragma unroll 1
    for (; i < p.whole; i += THREADS)
        f(i, reinterpret_cast<uint4 *>(p.body) + i);
}

template <typename T> __device__ __forceinline__ exponentials sum_row(const row_pieces<T> &p, uint4 *kept)
{
    exponentials e = {-FLT_MAX, 0};
    float x[piece<T>::N], one[1];
    auto copy = [&](unsigned i) {
        if (i < p.kept)
            cp_async_16(kept + i, reinterpret_cast<uint4 *>(p.body) + i, 16);
        cp_async_commit();
    };
    for (unsigned i = 0; i < AHEAD; i++)
        copy(threadIdx.x + i * THREADS);
    each_piece(p, kept, [&](unsigned i, const uint4 *at) {
        copy(i + AHEAD * THREADS);
        cp_async_wait(AHEAD);
        piece<T>::unpack(x, *at);
        add_logits(e, x);
    });
    if (const T *edge = edge_of(p)) {
        one[0] = load_element(edge);
        add_logits(e, one);
    }
    return e;
}

/* The warp's: the same bits in every lane. */
__device__ __forceinline__ exponentials warp_total(exponentials e)
{
    float max = warp_max(e.max);
    return {max, warp_sum(e.sum * exponential(e.max, max))};
}

/* The block's: the same bits in every thread. */
__device__ __forceinline__ exponentials block_total(exponentials e)
{
    CUDA_SHARED_ARRAY(float2, totals, WARPS);
    e = warp_total(e);
    if (threadIdx.x % WARP == 0)
        totals[threadIdx.x / WARP] = make_float2(e.max, e.sum);
    __syncthreads();
    float2 of_warp = totals[threadIdx.x % WARPS];
    return warp_total({of_warp.x, of_warp.y});
}

/* scale times the probability. */
__device__ __forceinline__ float gradient(float x, exponentials e, float scale)
{
    return exponential(x, e.max) * scale;
}

template <typename T>
__device__ __forceinline__ void store_gradient(const row_pieces<T> &p, uint4 *kept, exponentials e, float scale)
{
    constexpr unsigned N = piece<T>::N;
    each_piece(p, kept, [&](unsigned i, const uint4 *at) {
        float x[N];
        piece<T>::unpack(x, *at);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            x[k] = gradient(x[k], e, scale);
        reinterpret_cast<uint4 *>(p.body)[i] = piece<T>::pack(x);
    });
    if (T *edge = edge_of(p))
        store_element(edge, gradient(load_element(edge), e, scale));
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    crossentropy(double *loss, T *logits, const int32_t *targets, float grad_scale, unsigned vocab, size_t stride,
                 bool with_gradient)
{
    CUDA_SHARED(uint4, kept);
    T *row = logits + blockIdx.x * stride, *target = row + targets[blockIdx.x];
    row_pieces<T> p = row_pieces_of(row, vocab);
    float at_target = threadIdx.x == 0 ? load_element(target) : 0.0f;
    exponentials e = block_total(sum_row(p, kept));
    if (threadIdx.x == 0)
        loss[blockIdx.x] = log((double)e.sum) + ((double)e.max - (double)at_target);
    if (!with_gradient)
        return;
    float scale = grad_scale / e.sum;
    store_gradient(p, kept, e, scale);
    for (size_t i = vocab + threadIdx.x; i < stride; i += THREADS)
        store_element(row + i, 0.0f);
    __syncthreads();
    if (threadIdx.x == 0)
        store_element(target, gradient(at_target, e, scale) - grad_scale);
}

template <typename T>
static int launch(double *loss, void *logits, const int32_t *target, float grad_scale, size_t rows, size_t vocab,
                  size_t stride, bool with_gradient, void *stream)
{
    if (!vocab || vocab > INT32_MAX || stride < vocab || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    size_t bytes = vocab / piece<T>::N * 16, kept = bytes < KEPT_BYTES ? bytes : KEPT_BYTES;
    int rc = (int)cudaFuncSetAttribute(crossentropy<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, KEPT_BYTES);
    return rc ? rc
              : (int)CUDA_LAUNCH(crossentropy<T>, dim3((unsigned)rows), dim3(THREADS), kept, (cudaStream_t)stream, loss,
                                 (T *)logits, target, grad_scale, (unsigned)vocab, stride, with_gradient);
}

int cuda_crossentropy_forward(enum ddp_dtype type, double *loss, const void *logits, const int32_t *target, size_t rows,
                              size_t vocab, size_t stride, void *stream)
{
    auto *of_type = INSTANCE_OF(launch, type);
    return of_type ? of_type(loss, (void *)logits, target, 0, rows, vocab, stride, false, stream)
                   : (int)cudaErrorInvalidValue;
}

int cuda_crossentropy_backward(enum ddp_dtype type, double *loss, void *logits, const int32_t *target, float grad_scale,
                               size_t rows, size_t vocab, size_t stride, void *stream)
{
    auto *of_type = INSTANCE_OF(launch, type);
    return of_type ? of_type(loss, logits, target, grad_scale, rows, vocab, stride, true, stream)
                   : (int)cudaErrorInvalidValue;
}
