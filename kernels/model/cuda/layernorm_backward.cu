/* A block takes two rows at a time (of long ones, one), a thread the same columns of all of them, so that it keeps
 * their sums in registers. All that is read of the rows is on its way before the first of it is used. A thread's
 * columns, T and the stream are as in layernorm.cu. */
#include "kernels/model/cuda/layernorm.h"

#include "kernels/model/cuda/lanes.h"
#include "kernels/model/cuda/partials.h"

#define THREADS 768u /* of a block at most, and of a multiprocessor together */
#define WARPS (THREADS / WARP)
#define MULTIPROCESSORS 132u /* an H200's; fixed, so that bits are too */
#define HELD 2u              /* rows times pieces of a row that a thread holds at a time */

constexpr unsigned N = 4; /* columns in a thread's piece */

template <typename T> struct backward_args {
    float *din;
    T *branch;   /* din rounded to T; NULL: none */
    float *work; /* [blocks, 3, width] */
    const T *dout;
    const float *in, *mean, *rstd, *weight;
    size_t rows;
    unsigned width;
    float inverse_width;
    bool accumulate, whole;
};

/* A thread's columns: their weights, and the sums over rows of dout n, dout and din. */
template <unsigned PIECES> struct columns {
    float weight[PIECES][N], dweight[PIECES][N], dbias[PIECES][N], din[PIECES][N];
};

/* What a thread holds of rows: in, which becomes n, and dout, which becomes g. din waits in shared memory, where its
 * copy takes no registers: the compiler puts off a load that is not used at once. */
template <unsigned ROWS, unsigned PIECES> struct held {
    float n[ROWS][PIECES][N], g[ROWS][PIECES][N], mean[ROWS], rstd[ROWS];
};

/* The block's shared memory: the warps' sums, twice, and din, a thread's pieces one block of threads apart. */
struct backward_room {
    float2 *sums;
    float4 *din;
};

__device__ __forceinline__ unsigned thread_column(unsigned p)
{
    return (p * blockDim.x + threadIdx.x) * N;
}

/* *to = n of din's elements, once cp_async_wait() returns; zeros behind them. */
template <bool WHOLE> __device__ __forceinline__ void copy_din(float4 *to, const float *din, unsigned n)
{
    if (WHOLE && n) {
        cp_async_16(to, din, 16);
    } else {
        float x[N];
        load_columns<WHOLE>(x, din, n);
        *to = make_float4(x[0], x[1], x[2], x[3]);
    }
}

template <bool WHOLE, typename T, unsigned ROWS, unsigned PIECES>
__device__ __forceinline__ void load_held(held<ROWS, PIECES> &h, float4 *din, const backward_args<T> &a, size_t row)
{
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
        for (unsigned p = 0; p < PIECES; p++) {
            unsigned column = thread_column(p), n = elements_left<N>(column, a.width);
            size_t at = (row + r) * a.width + column;
            load_columns<WHOLE>(h.n[r][p], a.in + at, n);
            load_columns<WHOLE>(h.g[r][p], a.dout + at, n);
            copy_din<WHOLE>(din + (r * PIECES + p) * blockDim.x + threadIdx.x, a.din + at, a.accumulate ? n : 0);
        }
    cp_async_commit();
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        h.mean[r] = a.mean[row + r];
        h.rstd[r] = a.rstd[row + r];
    }
}

/* sum[r] = the thread's sums of g and of g n. */
template <unsigned ROWS, unsigned PIECES>
__device__ __forceinline__ void normalise(float2 (&sum)[ROWS], held<ROWS, PIECES> &h, columns<PIECES> &c)
{
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        sum[r] = make_float2(0, 0);
#pragma unroll
        for (unsigned p = 0; p < PIECES; p++)
#pragma unroll
            for (unsigned i = 0; i < N; i++) {
                float n = (h.n[r][p][i] - h.mean[r]) * h.rstd[r], dout = h.g[r][p][i], g = dout * c.weight[p][i];
                c.dweight[p][i] += dout * n;
                c.dbias[p][i] += dout;
                sum[r].x += g;
                sum[r].y += g * n;
                h.n[r][p][i] = n;
                h.g[r][p][i] = g;
            }
    }
}

/* The block's sums, the same bits in every thread. room: [warps, ROWS]; a thread may read it until the next barrier. */
template <unsigned ROWS> __device__ __forceinline__ void block_sums(float2 (&sum)[ROWS], float2 *room)
{
    unsigned warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        sum[r] = make_float2(warp_sum(sum[r].x), warp_sum(sum[r].y));
        if (threadIdx.x % WARP == 0)
            room[warp * ROWS + r] = sum[r];
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++)
        sum[r] = room[r];
#pragma unroll 4
    for (unsigned w = 1; w < warps; w++)
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            sum[r].x += room[w * ROWS + r].x;
            sum[r].y += room[w * ROWS + r].y;
        }
}

template <bool WHOLE, typename T, unsigned ROWS, unsigned PIECES>
__device__ __forceinline__ void store_held(const held<ROWS, PIECES> &h, columns<PIECES> &c, const float4 *din,
                                           const float2 (&sum)[ROWS], const backward_args<T> &a, size_t row)
{
    cp_async_wait(0);
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        float mean_g = sum[r].x * a.inverse_width, mean_gn = sum[r].y * a.inverse_width;
#pragma unroll
        for (unsigned p = 0; p < PIECES; p++) {
            unsigned column = thread_column(p), n = elements_left<N>(column, a.width);
            size_t at = (row + r) * a.width + column;
            float4 before = din[(r * PIECES + p) * blockDim.x + threadIdx.x];
            float dx[N] = {before.x, before.y, before.z, before.w};
#pragma unroll
            for (unsigned i = 0; i < N; i++) {
                dx[i] += h.rstd[r] * (h.g[r][p][i] - mean_g - h.n[r][p][i] * mean_gn);
                c.din[p][i] += dx[i];
            }
            store_columns<WHOLE>(a.din + at, dx, n);
            if (a.branch)
                store_columns<WHOLE>(a.branch + at, dx, n);
        }
    }
}

/* With n = (in - mean) rstd and g = dout weight: din += rstd (g - mean(g) - n mean(g n)). */
template <bool WHOLE, unsigned ROWS, typename T, unsigned PIECES>
__device__ __forceinline__ void backward_rows(columns<PIECES> &c, const backward_room &room, unsigned turn,
                                              const backward_args<T> &a, size_t row)
{
    held<ROWS, PIECES> h;
    float2 sum[ROWS];
    load_held<WHOLE>(h, room.din, a, row);
    normalise(sum, h, c);
    block_sums(sum, room.sums + turn * WARPS * HELD);
    store_held<WHOLE>(h, c, room.din, sum, a, row);
}

template <bool WHOLE, unsigned ROWS, typename T>
__device__ __forceinline__ void backward_block(const backward_args<T> &a, const backward_room &room)
{
    constexpr unsigned PIECES = HELD / ROWS;
    columns<PIECES> c = {};
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++)
        load_columns<WHOLE>(c.weight[p], a.weight + thread_column(p), elements_left<N>(thread_column(p), a.width));
    size_t row = (size_t)blockIdx.x * ROWS, step = (size_t)gridDim.x * ROWS;
    unsigned turn = 0;
    for (; row + ROWS <= a.rows; row += step, turn ^= 1)
        backward_rows<WHOLE, ROWS>(c, room, turn, a, row);
    if (ROWS > 1 && row < a.rows)
        backward_rows<WHOLE, 1>(c, room, turn, a, row);
#pragma unroll
    for (unsigned p = 0; p < PIECES; p++) {
        unsigned column = thread_column(p), n = elements_left<N>(column, a.width);
        float *work = a.work + (size_t)blockIdx.x * 3 * a.width + column;
        store_piece(work, c.dweight[p], n, false);
        store_piece(work + a.width, c.dbias[p], n, false);
        store_piece(work + 2 * a.width, c.din[p], n, false);
    }
}

template <typename T, unsigned ROWS>
__global__ void __launch_bounds__(THREADS) layernorm_backward(backward_args<T> a)
{
    CUDA_SHARED_ARRAY(float2, sums, 2 * WARPS * HELD);
    CUDA_SHARED(float4, din); /* [HELD, threads] */
    backward_room room = {sums, din};
    a.whole ? backward_block<true, ROWS>(a, room) : backward_block<false, ROWS>(a, room);
}

/* Rows that a block takes at a time: of long ones fewer, so that a multiprocessor has two blocks. */
static unsigned block_rows(size_t width)
{
    return width > THREADS / 2 * N ? 1 : HELD;
}

static unsigned block_threads(size_t width)
{
    size_t columns = HELD / block_rows(width) * N; /* of a thread */
    return (unsigned)((width + WARP * columns - 1) / (WARP * columns)) * WARP;
}

static unsigned n_blocks(size_t rows, size_t width)
{
    size_t most = MULTIPROCESSORS * (THREADS / block_threads(width));
    size_t needed = (rows + block_rows(width) - 1) / block_rows(width);
    return (unsigned)(needed < most ? needed : most);
}

size_t cuda_layernorm_work_elems(size_t rows, size_t width)
{
    return (size_t)n_blocks(rows, width) * 3 * width;
}

template <typename T>
static int backward(float *din, void *dbranch, float *dweight, float *dbias, float *dbias_before, float *work,
                    const void *dout, const float *in, const float *mean, const float *rstd, const float *weight,
                    size_t rows, size_t width, bool accumulate, void *stream)
{
    if (!width || width > CUDA_LAYERNORM_WIDTH_MAX)
        return cudaErrorInvalidValue;
    if (!rows)
        return 0;
    T *branch = sizeof(T) == sizeof(float) ? NULL : (T *)dbranch;
    bool whole = width % N == 0 && is_aligned_16(din) && is_aligned_16(branch) && is_aligned_16(dout) &&
                 is_aligned_16(in) && is_aligned_16(weight);
    unsigned w = (unsigned)width, blocks = n_blocks(rows, width), threads = block_threads(width);
    backward_args<T> a = {din,  branch, work, (const T *)dout, in,         mean, rstd, weight,
                          rows, w,      1.0f / (float)w,       accumulate, whole};
    auto *kernel = block_rows(width) == 1 ? layernorm_backward<T, 1> : layernorm_backward<T, HELD>;
    int rc = (int)CUDA_LAUNCH(kernel, dim3(blocks), dim3(threads), HELD * threads * sizeof(float4),
                              (cudaStream_t)stream, a);
    float *out[] = {dweight, dbias, dbias_before};
    return rc ? rc : launch_add_partials(out, 3, work, blocks, w, stream);
}

int cuda_layernorm_backward(enum ddp_dtype branch, float *din, void *dbranch, float *dweight, float *dbias,
                            float *dbias_before, float *work, const void *dout, const float *in, const float *mean,
                            const float *rstd, const float *weight, size_t rows, size_t width, bool accumulate,
                            void *stream)
{
    auto *of_type = INSTANCE_OF(backward, branch);
    return of_type ? of_type(din, dbranch, dweight, dbias, dbias_before, work, dout, in, mean, rstd, weight, rows,
                             width, accumulate, stream)
                   : (int)cudaErrorInvalidValue;
}
