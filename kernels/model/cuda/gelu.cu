/* Forward: a block takes a row, a thread a piece of it at a time. Backward: a warp goes down a strip of rows over 32
 * pieces of columns, and keeps the columns' sums in registers. */
#include "kernels/model/cuda/gelu.h"

#include "kernels/model/cuda/lanes.h"
#include "kernels/model/cuda/partials.h"

#define FORWARD_THREADS 128u
#define STRIP_WARPS 8u
#define STRIP_ROWS 64u   /* a warp's: at least */
#define MAX_BLOCKS 1056u /* 8 on each of an H200's 132 multiprocessors; fixed, so that bits are too */

/* gelu(x) = x s and gelu'(x) = s (1 + x (1 - s) 2u'), s = logistic(2u), 2u' = 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2). */
__device__ __forceinline__ float logistic_2u(float x)
{
    float u2 = 1.5957691216f * x * (1.0f + 0.044715f * x * x);
    return 1.0f / (1.0f + expf(-u2));
}

__device__ __forceinline__ float gelu(float x)
{
    return x * logistic_2u(x);
}

__device__ __forceinline__ float gelu_slope(float x)
{
    float s = logistic_2u(x);
    return s * (1.0f + x * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * x * x));
}

template <unsigned N>
__device__ __forceinline__ void add_bias(float (&x)[N], const float *bias, unsigned column, unsigned n, bool whole)
{
    float b[N];
    if (!bias)
        return;
    load_piece(b, bias + column, n, whole);
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        x[i] += b[i];
}

template <typename T>
__global__ void __launch_bounds__(FORWARD_THREADS)
    gelu_forward(T *out, const T *in, const float *bias, unsigned width, bool whole)
{
    constexpr unsigned N = piece<T>::N;
    size_t row = (size_t)blockIdx.x * width;
    for (unsigned column = threadIdx.x * N; column < width; column += FORWARD_THREADS * N) {
        unsigned n = elements_left<N>(column, width);
        float x[N];
        load_piece(x, in + row + column, n, whole);
        add_bias(x, bias, column, n, whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            x[i] = gelu(x[i]);
        store_piece(out + row + column, x, n, whole);
    }
}

template <typename T> struct strip_args {
    T *din;           /* NULL: only sums of dout */
    float *work;      /* [strips, width], or NULL: no sums */
    const T *dout, *in;
    const float *bias;
    size_t rows;
    unsigned width;
    bool whole;
};

/* dy = the piece of dout at `at`, times the slope where there is a din. */
template <typename T>
__device__ __forceinline__ void strip_piece(float (&dy)[piece<T>::N], const strip_args<T> &a, size_t at,
                                            unsigned column, unsigned n)
{
    constexpr unsigned N = piece<T>::N;
    load_piece(dy, a.dout + at, n, a.whole);
    if (!a.din)
        return;
    float x[N];
    load_piece(x, a.in + at, n, a.whole);
    add_bias(x, a.bias, column, n, a.whole);
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        dy[i] *= gelu_slope(x[i]);
    store_piece(a.din + at, dy, n, a.whole);
}

template <typename T> __global__ void __launch_bounds__(STRIP_WARPS *WARP) gelu_backward(strip_args<T> a)
{
    constexpr unsigned N = piece<T>::N;
    CUDA_SHARED_ARRAY(float, sums, STRIP_WARPS * WARP * piece<T>::N); /* [warps, N, 32] */
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned column = (blockIdx.x * WARP + lane) * N, n = elements_left<N>(column, a.width);
    float sum[N] = {0};
    for (size_t r = (size_t)blockIdx.y * STRIP_WARPS + warp; n && r < a.rows; r += (size_t)gridDim.y * STRIP_WARPS) {
        float dy[N];
        strip_piece(dy, a, r * a.width + column, column, n);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            sum[i] += dy[i];
    }
    if (!a.work)
        return;
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        sums[(warp * N + i) * WARP + lane] = sum[i];
    __syncthreads();
    if (warp != 0)
        return;
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        for (unsigned w = 1; w < STRIP_WARPS; w++)
            sum[i] += sums[(w * N + i) * WARP + lane];
    store_piece(a.work + (size_t)blockIdx.y * a.width + column, sum, n, false);
}

template <typename T>
static int forward(void *out, const void *in, const float *bias, size_t rows, size_t width, void *stream)
{
    if (!width || width > INT32_MAX || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    bool whole = width % piece<T>::N == 0 && is_aligned_16(out) && is_aligned_16(in) && is_aligned_16(bias);
    return (int)CUDA_LAUNCH(gelu_forward<T>, dim3((unsigned)rows), dim3(FORWARD_THREADS), 0, (cudaStream_t)stream,
                            (T *)out, (const T *)in, bias, (unsigned)width, whole);
}

/* The same for every type. */
static unsigned n_strips(size_t rows, size_t width)
{
    size_t most = MAX_BLOCKS / ((width + 255) / 256), strips = (rows + STRIP_ROWS - 1) / STRIP_ROWS;
    most = most ? most : 1;
    return (unsigned)(strips < most ? strips : most);
}

size_t cuda_gelu_work_elems(size_t rows, size_t width)
{
    return n_strips(rows, width) * width;
}

template <typename T>
static int backward(void *din, float *dbias, float *work, const void *dout, const void *in, const float *bias,
                    size_t rows, size_t width, void *stream)
{
    constexpr unsigned N = piece<T>::N;
    if (!width || width > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    bool whole = width % N == 0 && is_aligned_16(din) && is_aligned_16(dout) && is_aligned_16(in) &&
                 is_aligned_16(bias);
    unsigned w = (unsigned)width, strips = n_strips(rows, width);
    strip_args<T> a = {(T *)din, dbias ? work : NULL, (const T *)dout, (const T *)in, bias, rows, w, whole};
    int rc = (int)CUDA_LAUNCH(gelu_backward<T>, dim3((w + WARP * N - 1) / (WARP * N), strips), dim3(STRIP_WARPS * WARP),
                              0, (cudaStream_t)stream, a);
    return rc || !dbias ? rc : launch_add_partials(&dbias, 1, work, strips, w, stream);
}

int cuda_gelu_forward(enum ddp_dtype type, void *out, const void *in, const float *bias, size_t rows, size_t width,
                      void *stream)
{
    auto *of_type = INSTANCE_OF(forward, type);
    return of_type ? of_type(out, in, bias, rows, width, stream) : (int)cudaErrorInvalidValue;
}

int cuda_gelu_backward(enum ddp_dtype type, void *din, float *dbias, float *work, const void *dout, const void *in,
                       const float *bias, size_t rows, size_t width, void *stream)
{
    auto *of_type = INSTANCE_OF(backward, type);
    return of_type ? of_type(din, dbias, work, dout, in, bias, rows, width, stream) : (int)cudaErrorInvalidValue;
}

int cuda_bias_backward(enum ddp_dtype type, float *dbias, float *work, const void *dout, size_t rows, size_t width,
                       void *stream)
{
    return cuda_gelu_backward(type, NULL, dbias, work, dout, NULL, NULL, rows, width, stream);
}
