/* A warp takes a row. Where the row fits a tile (1024 elements, 32 a thread) it is read once and stays in registers;
 * longer rows are read again tile by tile, out of the L1 cache.
 *
 * A thread has four columns side by side: 16 bytes of float32 and 8 of 16 bits, so that a warp's accesses are whole
 * sectors of 32 bytes. T is the type of a branch's activations; the stream is float32. */
#include "kernels/model/cuda/layernorm.h"

#include "kernels/model/cuda/lanes.h"

#define EPS 1e-5f /* LAYERNORM_EPS of kernels/model/layernorm.h */
#define WARPS 4u
#define TILE 1024u

constexpr unsigned N = 4;                      /* columns in a thread's piece */
constexpr unsigned PIECES = TILE / (WARP * N); /* of a tile */

struct tile {
    float x[PIECES][N];
};

/* The column at which a thread's p-th piece of a tile starts. */
__device__ __forceinline__ unsigned piece_column(unsigned begin, unsigned p)
{
    return begin + (p * WARP + threadIdx.x % WARP) * N;
}

template <bool WHOLE>
__device__ __forceinline__ void load_tile(tile &t, const float *in, unsigned begin, unsigned width)
{
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++) {
        unsigned column = piece_column(begin, p);
        load_columns<WHOLE>(t.x[p], in + column, elements_left<N>(column, width));
    }
}

__device__ __forceinline__ float tile_sum(const tile &t)
{
    float sum = 0;
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++)
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            sum += t.x[p][i];
    return sum;
}

template <bool WHOLE>
__device__ __forceinline__ float tile_squares(const tile &t, float mean, unsigned begin, unsigned width)
{
    float sum = 0;
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++) {
        unsigned n = elements_left<N>(piece_column(begin, p), width);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            sum += (WHOLE ? n : i < n) ? (t.x[p][i] - mean) * (t.x[p][i] - mean) : 0.0f;
    }
    return sum;
}

template <typename T> struct forward_args {
    T *out;
    float *mean, *rstd;
    const float *in, *weight, *bias;
    size_t rows;
    unsigned width;
    bool whole;
};

template <bool WHOLE, typename T>
__device__ __forceinline__ void store_normal(const forward_args<T> &a, const tile &t, size_t row, float mean,
                                             float rstd, unsigned begin)
{
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++) {
        unsigned column = piece_column(begin, p), n = elements_left<N>(column, a.width);
        float w[N], b[N], y[N];
        load_columns<WHOLE>(w, a.weight + column, n);
        load_columns<WHOLE>(b, a.bias + column, n);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            y[i] = (t.x[p][i] - mean) * rstd * w[i] + b[i];
        store_columns<WHOLE>(a.out + row * a.width + column, y, n);
    }
}

template <bool WHOLE, typename T> __device__ __forceinline__ void forward_row(const forward_args<T> &a, size_t row)
{
    const float *x = a.in + row * a.width;
    bool again = a.width > TILE;
    tile t;
    float total = 0, squares = 0;
    for (unsigned begin = 0; begin < a.width; begin += TILE) {
        load_tile<WHOLE>(t, x, begin, a.width);
        total += tile_sum(t);
    }
    float mean = warp_sum(total) / (float)a.width;
    for (unsigned begin = 0; begin < a.width; begin += TILE) {
        if (again)
            load_tile<WHOLE>(t, x, begin, a.width);
        squares += tile_squares<WHOLE>(t, mean, begin, a.width);
    }
    float rstd = rsqrtf(warp_sum(squares) / (float)a.width + EPS);
    for (unsigned begin = 0; begin < a.width; begin += TILE) {
        if (again)
            load_tile<WHOLE>(t, x, begin, a.width);
        store_normal<WHOLE>(a, t, row, mean, rstd, begin);
    }
    if (threadIdx.x % WARP == 0) {
        a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
}

template <typename T>
__global__ void __launch_bounds__(WARPS *WARP, 5) layernorm_forward(forward_args<T> a)
{
    size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= a.rows)
        return;
    a.whole ? forward_row<true>(a, row) : forward_row<false>(a, row);
}

template <typename T>
static int forward(void *out, float *mean, float *rstd, const float *in, const float *weight, const float *bias,
                   size_t rows, size_t width, void *stream)
{
    if (!width || width > INT32_MAX || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    bool whole = width % N == 0 && is_aligned_16(out) && is_aligned_16(in) && is_aligned_16(weight) &&
                 is_aligned_16(bias);
    forward_args<T> a = {(T *)out, mean, rstd, in, weight, bias, rows, (unsigned)width, whole};
    return (int)CUDA_LAUNCH(layernorm_forward<T>, dim3((unsigned)((rows + WARPS - 1) / WARPS)),
                            dim3(WARPS * WARP), 0, (cudaStream_t)stream, a);
}

int cuda_layernorm_forward(enum ddp_dtype branch, void *out, float *mean, float *rstd, const float *in,
                           const float *weight, const float *bias, size_t rows, size_t width, void *stream)
{
    auto *of_type = INSTANCE_OF(forward, branch);
    return of_type ? of_type(out, mean, rstd, in, weight, bias, rows, width, stream) : (int)cudaErrorInvalidValue;
}
