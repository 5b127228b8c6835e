/* A warp goes down a strip of rows over 32 pieces of columns, some rows at a time, whose loads are all on their way
 * before the first is used; it keeps the columns' biases, and their sums, in registers. */
#include "kernels/model/cuda/gelu.h"

#include "kernels/model/cuda/lanes.h"
#include "kernels/model/cuda/partials.h"

#define STRIP_WARPS 8u
#define STRIP_THREADS (STRIP_WARPS * WARP)
#define STRIP_ROWS 64u /* a block's: at least */
/* Blocks that an H200's 132 multiprocessors take at once; fixed, so that bits are too. GELU takes many times as many:
 * where all come at once, all load, compute and store at once, and multiprocessors that are over early idle. On an H200
 * 65536 x 3072 take 0.316 ms backward instead of 0.420, 0.203 ms forward instead of 0.212. */
#define FORWARD_RESIDENT 6u
#define BACKWARD_RESIDENT 4u
#define MULTIPROCESSORS 132u
#define WAVES 12u

/* gelu(x) = x s and gelu'(x) = s (1 + x (1 - s) 2u'), s = logistic(2u) = 1 / (1 + e), e = exp(-2u) = 2^(-2u log2(e)),
 * 2u' = 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2). */
struct logistic {
    float e, s;
};

__device__ __forceinline__ logistic logistic_2u(float x)
{
    float e = exp2_fast(x * (-2.3022082f - 0.10294324f * (x * x)));
    return {e, reciprocal_fast(1.0f + e)};
}

__device__ __forceinline__ float gelu(float x)
{
    return x * logistic_2u(x).s;
}

/* 1 - s is e s, which cancels nothing. Where e overflows s is 0, and so is the slope: e may be any number then. */
__device__ __forceinline__ float gelu_slope(float x)
{
    logistic l = logistic_2u(x);
    float x_2u = x * (1.5957691f + 0.21406445f * (x * x));
    return l.s * (1.0f + fminf(l.e, 0x1p127f) * l.s * x_2u);
}

template <typename T> struct strip_args {
    T *out;
    float *work;          /* [strips, width], or NULL: no sums */
    const T *dout, *in;
    const float *bias;    /* or NULL: zeros */
    size_t rows;
    unsigned width;
    bool whole;
};

/* The first column of the thread's piece. */
template <typename T> __device__ __forceinline__ unsigned strip_column()
{
    return (blockIdx.x * WARP + threadIdx.x % WARP) * piece<T>::N;
}

template <unsigned COUNT> struct row_group {
    static constexpr unsigned ROWS = COUNT;
};

/* f(group, row, step) for the warp's rows, MOST at a time as long as there are so many: row, row + step, ... */
template <unsigned MOST, typename F> __device__ __forceinline__ void each_group(size_t rows, const F &f)
{
    size_t step = (size_t)gridDim.y * STRIP_WARPS, row = (size_t)blockIdx.y * STRIP_WARPS + threadIdx.x / WARP;
    for (; row + (MOST - 1) * step < rows; row += MOST * step)
        f(row_group<MOST>(), row, step);
    for (; row < rows; row += step)
        f(row_group<1>(), row, step);
}

/* x = rows of `from` at `at`, at + step, ... */
template <bool WHOLE, unsigned ROWS, unsigned N, typename T>
__device__ __forceinline__ void load_rows(float (&x)[ROWS][N], const T *from, size_t at, size_t step, unsigned n)
{
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++)
        load_columns<WHOLE>(x[r], from + at + r * step, n);
}

template <typename T, bool WHOLE> __device__ __forceinline__ void forward_strip(const strip_args<T> &a)
{
    constexpr unsigned N = piece<T>::N;
    unsigned column = strip_column<T>(), n = elements_left<N>(column, a.width);
    float bias[N] = {0};
    if (!n)
        return;
    if (a.bias)
        load_columns<WHOLE>(bias, a.bias + column, n);
    each_group<WHOLE ? 2 : 1>(a.rows, [&](auto group, size_t row, size_t step) {
        constexpr unsigned ROWS = decltype(group)::ROWS;
        size_t at = row * a.width + column, next = step * a.width;
        float x[ROWS][N];
        load_rows<WHOLE>(x, a.in, at, next, n);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                x[r][i] = gelu(x[r][i] + bias[i]);
            store_columns<WHOLE>(a.out + at + r * next, x[r], n);
        }
    });
}

/* sum += the columns of out = dout gelu'(in + bias). */
template <typename T, bool WHOLE>
__device__ __forceinline__ void backward_strip(float (&sum)[piece<T>::N], const strip_args<T> &a)
{
    constexpr unsigned N = piece<T>::N;
    unsigned column = strip_column<T>(), n = elements_left<N>(column, a.width);
    float bias[N] = {0};
    if (!n)
        return;
    if (a.bias)
        load_columns<WHOLE>(bias, a.bias + column, n);
    each_group<WHOLE ? 2 : 1>(a.rows, [&](auto group, size_t row, size_t step) {
        constexpr unsigned ROWS = decltype(group)::ROWS;
        size_t at = row * a.width + column, next = step * a.width;
        float dy[ROWS][N], x[ROWS][N];
        load_rows<WHOLE>(dy, a.dout, at, next, n);
        load_rows<WHOLE>(x, a.in, at, next, n);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
            for (unsigned i = 0; i < N; i++) {
                dy[r][i] *= gelu_slope(x[r][i] + bias[i]);
                sum[i] += dy[r][i];
            }
            store_columns<WHOLE>(a.out + at + r * next, dy[r], n);
        }
    });
}

/* sum += the columns of dout. */
template <typename T, bool WHOLE>
__device__ __forceinline__ void sum_strip(float (&sum)[piece<T>::N], const strip_args<T> &a)
{
    constexpr unsigned N = piece<T>::N;
    unsigned column = strip_column<T>(), n = elements_left<N>(column, a.width);
    if (!n)
        return;
    each_group<WHOLE ? 4 : 1>(a.rows, [&](auto group, size_t row, size_t step) {
        constexpr unsigned ROWS = decltype(group)::ROWS;
        float dy[ROWS][N];
        load_rows<WHOLE>(dy, a.dout, row * a.width + column, step * a.width, n);
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                sum[i] += dy[r][i];
    });
}

/* The sums of the block's warps are added, and go to work. */
template <typename T>
__device__ __forceinline__ void store_sums(float (&sum)[piece<T>::N], const strip_args<T> &a)
{
    constexpr unsigned N = piece<T>::N;
    CUDA_SHARED_ARRAY(float, sums, STRIP_WARPS * WARP * piece<T>::N); /* [warps, N, 32] */
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = strip_column<T>();
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
    store_piece(a.work + (size_t)blockIdx.y * a.width + column, sum, elements_left<N>(column, a.width), false);
}

template <typename T>
__global__ void __launch_bounds__(STRIP_THREADS, FORWARD_RESIDENT) gelu_forward(strip_args<T> a)
{
    a.whole ? forward_strip<T, true>(a) : forward_strip<T, false>(a);
}

template <typename T>
__global__ void __launch_bounds__(STRIP_THREADS, BACKWARD_RESIDENT) gelu_backward(strip_args<T> a)
{
    float sum[piece<T>::N] = {0};
    a.whole ? backward_strip<T, true>(sum, a) : backward_strip<T, false>(sum, a);
    if (a.work)
        store_sums(sum, a);
}

template <typename T>
__global__ void __launch_bounds__(STRIP_THREADS, BACKWARD_RESIDENT) bias_backward(strip_args<T> a)
{
    float sum[piece<T>::N] = {0};
    a.whole ? sum_strip<T, true>(sum, a) : sum_strip<T, false>(sum, a);
    store_sums(sum, a);
}

/* The same for every type. */
static unsigned n_strips(size_t rows, size_t width, unsigned blocks)
{
    size_t most = blocks * MULTIPROCESSORS / ((width + 255) / 256), strips = (rows + STRIP_ROWS - 1) / STRIP_ROWS;
    most = most ? most : 1;
    return (unsigned)(strips < most ? strips : most);
}

template <typename T> static dim3 strip_grid(size_t width, unsigned strips)
{
    constexpr unsigned COLUMNS = WARP * piece<T>::N;
    return dim3(((unsigned)width + COLUMNS - 1) / COLUMNS, strips);
}

template <typename T> static bool is_whole(const strip_args<T> &a)
{
    return a.width % piece<T>::N == 0 && is_aligned_16(a.out) && is_aligned_16(a.dout) && is_aligned_16(a.in) &&
           is_aligned_16(a.bias);
}

template <typename T>
static int forward(void *out, const void *in, const float *bias, size_t rows, size_t width, void *stream)
{
    strip_args<T> a = {(T *)out, NULL, NULL, (const T *)in, bias, rows, (unsigned)width, false};
    if (!width || width > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    a.whole = is_whole(a);
    unsigned strips = n_strips(rows, width, FORWARD_RESIDENT * WAVES);
    return (int)CUDA_LAUNCH(gelu_forward<T>, strip_grid<T>(width, strips), dim3(STRIP_THREADS), 0,
                            (cudaStream_t)stream, a);
}

size_t cuda_gelu_work_elems(size_t rows, size_t width)
{
    return n_strips(rows, width, BACKWARD_RESIDENT * WAVES) * width;
}

template <typename T>
static int backward(void *din, float *dbias, float *work, const void *dout, const void *in, const float *bias,
                    size_t rows, size_t width, void *stream)
{
    strip_args<T> a = {(T *)din, dbias ? work : NULL, (const T *)dout, (const T *)in, bias, rows, (unsigned)width,
                        false};
    if (!width || width > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    a.whole = is_whole(a);
    unsigned strips = n_strips(rows, width, BACKWARD_RESIDENT * WAVES);
    int rc = (int)CUDA_LAUNCH(gelu_backward<T>, strip_grid<T>(width, strips), dim3(STRIP_THREADS), 0,
                              (cudaStream_t)stream, a);
    return rc || !dbias ? rc : launch_add_partials(&dbias, 1, work, strips, a.width, stream);
}

template <typename T>
static int sum_columns(float *dbias, float *work, const void *dout, size_t rows, size_t width, void *stream)
{
    strip_args<T> a = {NULL, work, (const T *)dout, NULL, NULL, rows, (unsigned)width, false};
    if (!width || width > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    a.whole = is_whole(a);
    unsigned strips = n_strips(rows, width, BACKWARD_RESIDENT);
    int rc = (int)CUDA_LAUNCH(bias_backward<T>, strip_grid<T>(width, strips), dim3(STRIP_THREADS), 0,
                              (cudaStream_t)stream, a);
    return rc ? rc : launch_add_partials(&dbias, 1, work, strips, a.width, stream);
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
    auto *of_type = INSTANCE_OF(sum_columns, type);
    return of_type ? of_type(dbias, work, dout, rows, width, stream) : (int)cudaErrorInvalidValue;
}
