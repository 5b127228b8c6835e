/* A warp takes a row. Where the row fits a tile (1024 elements, 32 a thread) it is read once and stays in registers;
 * longer rows are read again tile by tile, out of the L1 cache.
 *
 * T is the type of a branch's activations, by which threads divide a row; the stream is float32. */
#include "kernels/model/cuda/layernorm.h"

#include "kernels/model/cuda/lanes.h"
#include "kernels/model/cuda/partials.h"

#define EPS 1e-5f /* LAYERNORM_EPS of kernels/model/layernorm.h */
#define FORWARD_WARPS 4u
#define BACKWARD_WARPS 2112u           /* 16 on each of an H200's 132 multiprocessors; fixed, so that bits are too */
#define BLOCK_SUMS 12288u              /* floats of shared memory for column sums: 48 KiB */
#define TILE 1024u

template <typename T> struct tile {
    static constexpr unsigned N = piece<T>::N, PIECES = TILE / (WARP * N);
    float x[PIECES][N];
};

/* The column at which a thread's p-th piece of a tile starts. */
template <typename T> __device__ __forceinline__ unsigned piece_column(unsigned begin, unsigned p)
{
    return begin + (p * WARP + threadIdx.x % WARP) * piece<T>::N;
}

template <typename T>
__device__ __forceinline__ void load_tile(tile<T> &t, const float *in, unsigned begin, unsigned width, bool whole)
{
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++) {
        unsigned column = piece_column<T>(begin, p);
        load_piece(t.x[p], in + column, elements_left<piece<T>::N>(column, width), whole);
    }
}

template <typename T> __device__ __forceinline__ float tile_sum(const tile<T> &t)
{
    float sum = 0;
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++)
#pragma unroll
        for (unsigned i = 0; i < piece<T>::N; i++)
            sum += t.x[p][i];
    return sum;
}

template <typename T>
__device__ __forceinline__ float tile_squares(const tile<T> &t, float mean, unsigned begin, unsigned width)
{
    float sum = 0;
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++) {
        unsigned n = elements_left<piece<T>::N>(piece_column<T>(begin, p), width);
#pragma unroll
        for (unsigned i = 0; i < piece<T>::N; i++)
            sum += i < n ? (t.x[p][i] - mean) * (t.x[p][i] - mean) : 0.0f;
    }
    return sum;
}

template <typename T>
__device__ __forceinline__ void store_normal(T *out, const tile<T> &t, float mean, float rstd, const float *weight,
                                             const float *bias, unsigned begin, unsigned width, bool whole)
{
    constexpr unsigned N = piece<T>::N;
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++) {
        unsigned column = piece_column<T>(begin, p), n = elements_left<N>(column, width);
        float w[N], b[N], y[N];
        load_piece(w, weight + column, n, whole);
        load_piece(b, bias + column, n, whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            y[i] = (t.x[p][i] - mean) * rstd * w[i] + b[i];
        store_piece(out + column, y, n, whole);
    }
}

template <typename T>
__global__ void __launch_bounds__(FORWARD_WARPS *WARP, 5)
    layernorm_forward(T *out, float *mean, float *rstd, const float *in, const float *weight, const float *bias,
                      size_t rows, unsigned width, bool whole)
{
    size_t row = (size_t)blockIdx.x * FORWARD_WARPS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const float *x = in + row * width;
    bool again = width > TILE;
    tile<T> t;
    float total = 0, squares = 0;
    for (unsigned begin = 0; begin < width; begin += TILE) {
        load_tile(t, x, begin, width, whole);
        total += tile_sum(t);
    }
    float m = warp_sum(total) / (float)width;
    for (unsigned begin = 0; begin < width; begin += TILE) {
        if (again)
            load_tile(t, x, begin, width, whole);
        squares += tile_squares(t, m, begin, width);
    }
    float r = rsqrtf(warp_sum(squares) / (float)width + EPS);
    for (unsigned begin = 0; begin < width; begin += TILE) {
        if (again)
            load_tile(t, x, begin, width, whole);
        store_normal(out + row * width, t, m, r, weight, bias, begin, width, whole);
    }
    if (threadIdx.x % WARP == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

/* A tile of n = (in - mean) rstd, and of g = dout weight. With sums: dout n and dout are added to a warp's column sums,
 * which lie such that a thread's are four by four and a warp's side by side: no bank conflicts. */
template <typename T> struct gradient {
    tile<T> g, n;
};

template <typename T>
__device__ __forceinline__ void load_gradient(gradient<T> &t, float *sums, unsigned padded, const T *dout,
                                              const float *in, const float *weight, float mean, float rstd,
                                              unsigned begin, unsigned width, bool whole)
{
    constexpr unsigned N = piece<T>::N;
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++) {
        unsigned column = piece_column<T>(begin, p), n = elements_left<N>(column, width);
        float w[N], dy[N];
        load_piece(t.n.x[p], in + column, n, whole);
        load_piece(dy, dout + column, n, whole);
        load_piece(w, weight + column, n, whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++) {
            t.n.x[p][i] = (t.n.x[p][i] - mean) * rstd;
            t.g.x[p][i] = dy[i] * w[i];
        }
        if (!sums || begin + p * WARP * N >= padded)
            continue;
#pragma unroll
        for (unsigned i = 0; i < N; i += 4) {
            float4 *at = reinterpret_cast<float4 *>(sums + begin + p * WARP * N) + (i / 4) * WARP + threadIdx.x % WARP;
            float4 a = at[0], b = at[padded / 4];
            a.x += dy[i] * t.n.x[p][i], a.y += dy[i + 1] * t.n.x[p][i + 1];
            a.z += dy[i + 2] * t.n.x[p][i + 2], a.w += dy[i + 3] * t.n.x[p][i + 3];
            b.x += dy[i], b.y += dy[i + 1], b.z += dy[i + 2], b.w += dy[i + 3];
            at[0] = a;
            at[padded / 4] = b;
        }
    }
}

template <typename T>
__device__ __forceinline__ void store_din(float *din, T *branch, const gradient<T> &t, float mean_g, float mean_gn,
                                          float rstd, unsigned begin, unsigned width, bool accumulate, bool whole)
{
    constexpr unsigned N = piece<T>::N;
#pragma unroll
    for (unsigned p = 0; p < tile<T>::PIECES; p++) {
        unsigned column = piece_column<T>(begin, p), n = elements_left<N>(column, width);
        float dx[N];
        load_piece(dx, din + column, accumulate ? n : 0, whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            dx[i] += rstd * (t.g.x[p][i] - mean_g - t.n.x[p][i] * mean_gn);
        store_piece(din + column, dx, n, whole);
        if (branch)
            store_piece(branch + column, dx, n, whole);
    }
}

template <typename T> struct backward_args {
    float *din;
    T *branch;   /* din rounded to T; NULL: none */
    float *work; /* [blocks, 2, width] */
    const T *dout;
    const float *in, *mean, *rstd, *weight;
    size_t rows;
    unsigned width, padded; /* padded: whole pieces of warps */
    bool accumulate, whole;
};

/* With n = (in - mean) rstd and g = dout weight: din += rstd (g - mean(g) - n mean(g n)). */
template <typename T>
__device__ __forceinline__ void backward_row(const backward_args<T> &a, float *sums, size_t row)
{
    float mean = a.mean[row], rstd = a.rstd[row], sum_g = 0, sum_gn = 0;
    const T *dout = a.dout + row * a.width;
    const float *in = a.in + row * a.width;
    T *branch = sizeof(T) != sizeof(float) && a.branch ? a.branch + row * a.width : NULL;
    bool again = a.width > TILE;
    gradient<T> t;
    for (unsigned begin = 0; begin < a.width; begin += TILE) {
        load_gradient(t, sums, a.padded, dout, in, a.weight, mean, rstd, begin, a.width, a.whole);
#pragma unroll
        for (unsigned p = 0; p < tile<T>::PIECES; p++)
#pragma unroll
            for (unsigned i = 0; i < piece<T>::N; i++) {
                sum_g += t.g.x[p][i];
                sum_gn += t.g.x[p][i] * t.n.x[p][i];
            }
    }
    float mean_g = warp_sum(sum_g) / (float)a.width, mean_gn = warp_sum(sum_gn) / (float)a.width;
    for (unsigned begin = 0; begin < a.width; begin += TILE) {
        if (again)
            load_gradient(t, (float *)NULL, 0, dout, in, a.weight, mean, rstd, begin, a.width, a.whole);
        store_din(a.din + row * a.width, branch, t, mean_g, mean_gn, rstd, begin, a.width, a.accumulate, a.whole);
    }
}

/* Where load_gradient keeps the sum of a column. */
template <typename T> __device__ __forceinline__ unsigned sum_place(unsigned column)
{
    constexpr unsigned N = piece<T>::N;
    unsigned lane = column / N % WARP, i = column % N;
    return column / (WARP * N) * (WARP * N) + (i / 4 * WARP + lane) * 4 + i % 4;
}

template <typename T> __global__ void __launch_bounds__(256) layernorm_backward(backward_args<T> a)
{
    CUDA_SHARED(float, block_sums); /* [warps, 2, padded] */
    unsigned warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    float *sums = block_sums + warp * 2 * a.padded;
    for (unsigned i = threadIdx.x % WARP; i < 2 * a.padded / 4; i += WARP) /* those that it will add to */
        reinterpret_cast<float4 *>(sums)[i] = make_float4(0, 0, 0, 0);
    for (size_t row = (size_t)blockIdx.x * warps + warp; row < a.rows; row += (size_t)gridDim.x * warps)
        backward_row(a, sums, row);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 2 * a.width; i += blockDim.x) {
        unsigned half = i >= a.width, place = half * a.padded + sum_place<T>(i - half * a.width);
        float sum = 0;
        for (unsigned w = 0; w < warps; w++)
            sum += block_sums[w * 2 * a.padded + place];
        a.work[(size_t)blockIdx.x * 2 * a.width + i] = sum;
    }
}

template <typename T>
static int forward(void *out, float *mean, float *rstd, const float *in, const float *weight, const float *bias,
                   size_t rows, size_t width, void *stream)
{
    if (!width || width > INT32_MAX || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    bool whole = width % piece<T>::N == 0 && is_aligned_16(out) && is_aligned_16(in) && is_aligned_16(weight) &&
                 is_aligned_16(bias);
    return (int)CUDA_LAUNCH(layernorm_forward<T>, dim3((unsigned)((rows + FORWARD_WARPS - 1) / FORWARD_WARPS)),
                            dim3(FORWARD_WARPS * WARP), 0, (cudaStream_t)stream, (T *)out, mean, rstd, in, weight,
                            bias, rows, (unsigned)width, whole);
}

/* Warps a block such that its sums fit, columns counted in pieces of any type alike. */
static unsigned padded_width(size_t width)
{
    return (unsigned)((width + 255) / 256 * 256);
}

static unsigned block_warps(size_t width)
{
    unsigned fit = BLOCK_SUMS / (2 * padded_width(width));
    return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

static unsigned n_blocks(size_t rows, size_t width)
{
    size_t warps = block_warps(width), most = BACKWARD_WARPS / warps, needed = (rows + warps - 1) / warps;
    return (unsigned)(needed < most ? needed : most);
}

size_t cuda_layernorm_work_elems(size_t rows, size_t width)
{
    return (size_t)n_blocks(rows, width) * 2 * width;
}

template <typename T>
static int backward(float *din, void *dbranch, float *dweight, float *dbias, float *work, const void *dout,
                    const float *in, const float *mean, const float *rstd, const float *weight, size_t rows,
                    size_t width, bool accumulate, void *stream)
{
    if (!width || width > CUDA_LAYERNORM_WIDTH_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    bool whole = width % piece<T>::N == 0 && is_aligned_16(din) && is_aligned_16(dbranch) && is_aligned_16(dout) &&
                 is_aligned_16(in) && is_aligned_16(weight);
    unsigned w = (unsigned)width, warps = block_warps(width), blocks = n_blocks(rows, width);
    T *branch = sizeof(T) == sizeof(float) ? NULL : (T *)dbranch;
    backward_args<T> a = {din,    branch, work, (const T *)dout,     in,         mean, rstd,
                          weight, rows,   w,    padded_width(width), accumulate, whole};
    int rc = (int)CUDA_LAUNCH(layernorm_backward<T>, dim3(blocks), dim3(warps * WARP),
                              warps * 2 * a.padded * sizeof(float), (cudaStream_t)stream, a);
    float *out[] = {dweight, dbias};
    return rc ? rc : launch_add_partials(out, 2, work, blocks, w, stream);
}

int cuda_layernorm_forward(enum ddp_dtype branch, void *out, float *mean, float *rstd, const float *in,
                           const float *weight, const float *bias, size_t rows, size_t width, void *stream)
{
    auto *of_type = INSTANCE_OF(forward, branch);
    return of_type ? of_type(out, mean, rstd, in, weight, bias, rows, width, stream) : (int)cudaErrorInvalidValue;
}

int cuda_layernorm_backward(enum ddp_dtype branch, float *din, void *dbranch, float *dweight, float *dbias,
                            float *work, const void *dout, const float *in, const float *mean, const float *rstd,
                            const float *weight, size_t rows, size_t width, bool accumulate, void *stream)
{
    auto *of_type = INSTANCE_OF(backward, branch);
    return of_type ? of_type(din, dbranch, dweight, dbias, work, dout, in, mean, rstd, weight, rows, width, accumulate,
                             stream)
                   : (int)cudaErrorInvalidValue;
}
