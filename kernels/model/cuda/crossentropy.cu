/* A block takes a row: once over it for the largest logit and the sum of exponentials, which is rescaled when a larger
 * one comes (Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867), and once, from the
 * other end, where the caches still hold it, for the gradient. */
#include "kernels/model/cuda/crossentropy.h"

#include <float.h>

#include "kernels/model/cuda/lanes.h"

#define WARPS 16u
#define THREADS (WARPS * WARP)

/* A row of any start as pieces: the 0th reaches up to the first 16-byte boundary, and may be empty. */
template <typename T> struct row_pieces {
    unsigned head, vocab, count;
};

template <typename T> __device__ __forceinline__ row_pieces<T> row_pieces_of(const T *row, unsigned vocab)
{
    constexpr unsigned N = piece<T>::N;
    unsigned head = (unsigned)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    row_pieces<T> p = {head < vocab ? head : vocab, vocab, 0};
    p.count = 1 + (vocab - p.head + N - 1) / N;
    return p;
}

template <typename T> __device__ __forceinline__ unsigned piece_begin(const row_pieces<T> &p, unsigned i)
{
    return i == 0 ? 0 : p.head + (i - 1) * piece<T>::N;
}

template <typename T> __device__ __forceinline__ unsigned piece_length(const row_pieces<T> &p, unsigned i)
{
    return i == 0 ? p.head : elements_left<piece<T>::N>(piece_begin(p, i), p.vocab);
}

/* A sum of exponentials relative to the largest. */
struct exponentials {
    float max, sum;
};

template <typename T>
__device__ __forceinline__ void add_piece(exponentials &e, const T *row, const row_pieces<T> &p, unsigned i)
{
    constexpr unsigned N = piece<T>::N;
    unsigned n = piece_length(p, i);
    float x[N], max = e.max;
    load_piece(x, row + piece_begin(p, i), n, i > 0);
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        max = k < n ? fmaxf(max, x[k]) : max;
    e.sum *= expf(e.max - max);
    e.max = max;
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        e.sum += k < n ? expf(x[k] - max) : 0.0f;
}

/* The block's: the same bits in every thread. */
__device__ __forceinline__ exponentials block_total(exponentials e)
{
    CUDA_SHARED_ARRAY(float, maxima, WARPS);
    CUDA_SHARED_ARRAY(float, sums, WARPS);
    unsigned warp = threadIdx.x / WARP;
    float max = warp_max(e.max), sum = warp_sum(e.sum * expf(e.max - max));
    if (threadIdx.x % WARP == 0) {
        maxima[warp] = max;
        sums[warp] = sum;
    }
    __syncthreads();
    exponentials all = {maxima[0], 0};
    for (unsigned w = 1; w < WARPS; w++)
        all.max = fmaxf(all.max, maxima[w]);
    for (unsigned w = 0; w < WARPS; w++)
        all.sum += sums[w] * expf(maxima[w] - all.max);
    return all;
}

template <typename T>
__device__ __forceinline__ void store_gradient(T *row, const row_pieces<T> &p, unsigned i, exponentials e,
                                               unsigned target, float grad_scale)
{
    constexpr unsigned N = piece<T>::N;
    unsigned begin = piece_begin(p, i), n = piece_length(p, i);
    float x[N], scale = grad_scale / e.sum;
    load_piece(x, row + begin, n, i > 0);
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        x[k] = expf(x[k] - e.max) * scale - (begin + k == target ? grad_scale : 0.0f);
    store_piece(row + begin, x, n, i > 0);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    crossentropy(double *loss, T *logits, const int32_t *targets, float grad_scale, unsigned vocab, size_t stride,
                 bool with_gradient)
{
    T *row = logits + blockIdx.x * stride;
    unsigned target = (unsigned)targets[blockIdx.x];
    row_pieces<T> p = row_pieces_of(row, vocab);
    float at_target = threadIdx.x == 0 ? load_element(row + target) : 0.0f;
    exponentials e = {-FLT_MAX, 0};
    for (unsigned i = threadIdx.x; i < p.count; i += THREADS)
        add_piece(e, row, p, i);
    e = block_total(e);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = log((double)e.sum) + ((double)e.max - (double)at_target);
    if (!with_gradient)
        return;
    for (unsigned i = threadIdx.x; i < p.count; i += THREADS)
        store_gradient(row, p, p.count - 1 - i, e, target, grad_scale);
    for (size_t i = vocab + threadIdx.x; i < stride; i += THREADS)
        store_element(row + i, 0.0f);
}

template <typename T>
static int launch(double *loss, void *logits, const int32_t *target, float grad_scale, size_t rows, size_t vocab,
                  size_t stride, bool with_gradient, void *stream)
{
    if (!vocab || vocab > INT32_MAX || stride < vocab || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    return (int)CUDA_LAUNCH(crossentropy<T>, dim3((unsigned)rows), dim3(THREADS), 0, (cudaStream_t)stream, loss,
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
