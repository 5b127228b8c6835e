/* Two threads make a block's sum: one takes lanes 0 to 3 of kernel_block_sum_squares, the other 4 to 7, so that each
 * reads four neighbours at a time and has four chains of additions going. The sums are then combined along T, which
 * adds neighbours level by level. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 64, UNROLL = 8, MAX_RANGES = 64, LANES = 2 * PACK;
constexpr size_t CHUNK = (size_t)THREADS / 2 * NORM_BLOCK;

typedef table<cuda_norm_range, MAX_RANGES> ranges;

static __device__ __forceinline__ void add_square(double *lane, float x)
{
    *lane += (double)x * x;
}

/* Rounds [0, n_rounds) of LANES elements each, of which this thread has `half`. */
template <typename From>
static __device__ __forceinline__ void sum_rounds(double lane[PACK], float *out, const typename From::raw *in,
                                                  float scale, int n_rounds)
{
    for (int first = 0; first < n_rounds; first += UNROLL) {
        pack<From> p[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (first + u < n_rounds)
                p[u] = pack_read<From>(in + (first + u) * LANES);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            pack<type_f32> x;
            if (first + u < n_rounds) {
                for (int j = 0; j < PACK; j++) {
                    x.x[j] = From::load(p[u].x[j]) * scale;
                    add_square(&lane[j], x.x[j]);
                }
                if (out)
                    pack_write<type_f32>(out + (first + u) * LANES, x);
            }
        }
    }
}

/* The sum of this thread's lanes over n <= NORM_BLOCK elements. */
template <typename From>
static __device__ __forceinline__ double half_sum(float *out, const typename From::raw *in, float scale, int n)
{
    int half = (int)threadIdx.x % 2 * PACK, done = 0;
    double lane[PACK] = {0, 0, 0, 0};
    if (is_packed<From>(in) && is_packed<type_f32>(out)) {
        done = n / LANES * LANES;
        sum_rounds<From>(lane, out ? out + half : out, in + half, scale, n / LANES);
    }
    for (int i = done + half; i < n; i += LANES)
        for (int j = 0; j < PACK; j++)
            if (i + j < n) {
                float x = From::load(in[i + j]) * scale;
                add_square(&lane[j], x);
                if (out)
                    out[i + j] = x;
            }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

template <typename From>
static __global__ void __launch_bounds__(THREADS) norm_blocks(const ranges t, float scale, unsigned *found_inf)
{
    int r = table_find(t, blockIdx.x);
    cuda_norm_range range = t.range[r];
    size_t block = (size_t)(blockIdx.x - t.first_chunk[r]) * (THREADS / 2) + threadIdx.x / 2, at = block * NORM_BLOCK;
    double sum = 0;
    if (at < range.n) {
        size_t left = range.n - at;
        sum = half_sum<From>(range.out ? range.out + at : NULL, (const typename From::raw *)range.in + at, scale,
                             left < NORM_BLOCK ? (int)left : NORM_BLOCK);
    }
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    if (at < range.n && threadIdx.x % 2 == 0) {
        range.sums[block] = sum;
        if (found_inf && !isfinite(sum))
            *found_inf = 1;
    }
}

template <typename From>
static cudaError_t launch_blocks(const cuda_norm_range *range, size_t n_ranges, float scale, unsigned *found_inf,
                                 void *stream)
{
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(norm_blocks<From>, t.first_chunk[t.n], THREADS, 0, stream, t, scale, found_inf);
    });
}

extern "C" int cuda_norm_blocks(const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
                                unsigned *found_inf, void *stream)
{
    if (from == DDP_F32)
        return launch_blocks<type_f32>(range, n_ranges, scale, found_inf, stream);
    if (from == DDP_BF16)
        return launch_blocks<type_bf16>(range, n_ranges, scale, found_inf, stream);
    if (from == DDP_F16)
        return launch_blocks<type_f16>(range, n_ranges, scale, found_inf, stream);
    return cudaErrorInvalidValue;
}

/* ---- the tree ---- */

constexpr int TREE_THREADS = 256, TREE_LEVELS = 48; /* a power of two; 2^48 tiles */

/* T over x[0..n), n >= 1, for thread 0; the others get nothing of use. Tiles of TREE_THREADS are whole subtrees. */
static __device__ __forceinline__ double tree_sum(const double *x, size_t n)
{
    CUDA_SHARED_ARRAY(double, tile, TREE_THREADS);
    CUDA_SHARED_ARRAY(double, level, TREE_LEVELS); /* thread 0's: sums of 2^l tiles */
    size_t n_tiles = n / TREE_THREADS;
    int rest = (int)(n % TREE_THREADS), i = (int)threadIdx.x;
    double sum = 0;
    for (size_t k = 0; k < n_tiles + (rest > 0); k++) {
        int here = k < n_tiles ? TREE_THREADS : rest;
        if (i < here)
            tile[i] = x[k * TREE_THREADS + (size_t)i];
        __syncthreads();
        for (int d = 1; d < TREE_THREADS; d *= 2) {
            if (i % (2 * d) == 0 && i + d < here)
                tile[i] += tile[i + d];
            __syncthreads();
        }
        if (i == 0) {
            int l = 0;
            sum = tile[0];
            for (; k < n_tiles && k >> l & 1; l++)
                sum = level[l] + sum;
            if (k < n_tiles)
                level[l] = sum;
        } /* who goes on writes its own element of the tile, and not the first */
    }
    if (i == 0) { /* the rest and the levels that stand, from the last back */
        bool any = rest > 0;
        for (int l = 0; n_tiles >> l; l++)
            if (n_tiles >> l & 1) {
                sum = any ? level[l] + sum : level[l];
                any = true;
            }
    }
    return sum;
}

static __global__ void __launch_bounds__(TREE_THREADS) norm_tensors(double *work, const double *sums,
                                                                     const size_t *first_block)
{
    size_t first = first_block[blockIdx.x];
    double sum = tree_sum(sums + first, first_block[blockIdx.x + 1] - first);
    if (threadIdx.x == 0)
        work[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(TREE_THREADS) norm_step(cuda_step *step, const double *work, size_t n,
                                                                  double scale, double clip)
{
    double sum = n ? tree_sum(work, n) : 0;
    if (threadIdx.x == 0) {
        double norm = sqrt(sum) * scale;
        double by = clip > 0 && norm + 1e-6 > clip ? clip / (norm + 1e-6) : 1;
        step->norm = norm;
        step->grad_scale = (float)(scale * by);
        step->skipped = !isfinite(norm);
    }
}

extern "C" int cuda_norm_total(struct cuda_step *step, const double *sums, const size_t *first_block, double *work,
                               size_t n_tensors, double scale, float clip, void *stream)
{
    if (n_tensors) {
        cudaError_t e =
            CUDA_LAUNCH(norm_tensors, (unsigned)n_tensors, TREE_THREADS, 0, stream, work, sums, first_block);
        if (e != cudaSuccess)
            return e;
    }
    return CUDA_LAUNCH(norm_step, 1, TREE_THREADS, 0, stream, step, work, n_tensors, scale, clip);
}
