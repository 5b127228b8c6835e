/* A thread has one of the 8 lanes of kernel_block_sum_squares, a warp 4 blocks of NORM_BLOCK elements. Many loads are
 * on their way at a time, so that a block of threads is soon over: this runs beside the backward pass, whose kernels
 * fill the GPU exactly, and would be held up by one that stays on a multiprocessor for long. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 64, LANES = 8, BYTES_AHEAD = 128, MAX_RANGES = 96;
constexpr size_t CHUNK = (size_t)THREADS / LANES * NORM_BLOCK;

typedef table<cuda_norm_range, MAX_RANGES> ranges;

/* Of COUNT elements, LANES apart. A float's square is exact in double: fma rounds once, as the addition does. */
template <typename From, int COUNT>
static __device__ __forceinline__ void add_squares(double *sum, float *out, const typename From::raw *in, float scale)
{
    typename From::raw raw[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++)
        raw[u] = in[u * LANES];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        float x = From::load(raw[u]) * scale;
        *sum = fma((double)x, (double)x, *sum);
        if (out)
            out[u * LANES] = x;
    }
}

/* The sum of this thread's lane over n <= NORM_BLOCK elements. */
template <typename From>
static __device__ __forceinline__ double lane_sum(float *out, const typename From::raw *in, float scale, int n)
{
    constexpr int UNROLL = BYTES_AHEAD / (int)sizeof(typename From::raw);
    int i = (int)threadIdx.x % LANES;
    double sum = 0;
    for (; i + (UNROLL - 1) * LANES < n; i += UNROLL * LANES)
        add_squares<From, UNROLL>(&sum, out ? out + i : NULL, in + i, scale);
    for (; i < n; i += LANES)
        add_squares<From, 1>(&sum, out ? out + i : NULL, in + i, scale);
    return sum;
}

template <typename From>
static __global__ void __launch_bounds__(THREADS) norm_blocks(const ranges t, float scale)
{
    int r = table_find(t, blockIdx.x);
    cuda_norm_range range = t.range[r];
    size_t block = (size_t)(blockIdx.x - t.first_chunk[r]) * (THREADS / LANES) + threadIdx.x / LANES;
    size_t at = block * NORM_BLOCK;
    double sum = 0;
    if (at < range.n) {
        size_t left = range.n - at;
        sum = lane_sum<From>(range.out ? range.out + at : NULL, (const typename From::raw *)range.in + at, scale,
                             left < NORM_BLOCK ? (int)left : NORM_BLOCK);
    }
    for (int step = 1; step < LANES; step *= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (at < range.n && threadIdx.x % LANES == 0)
        range.sums[block] = sum;
}

template <typename From>
static cudaError_t launch(const cuda_norm_range *range, size_t n_ranges, float scale, void *stream)
{
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(norm_blocks<From>, t.first_chunk[t.n], THREADS, 0, stream, t, scale);
    });
}

extern "C" int cuda_norm_blocks(const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
                                void *stream)
{
    if (from == DDP_F32)
        return launch<type_f32>(range, n_ranges, scale, stream);
    if (from == DDP_BF16)
        return launch<type_bf16>(range, n_ranges, scale, stream);
    if (from == DDP_F16)
        return launch<type_f16>(range, n_ranges, scale, stream);
    return cudaErrorInvalidValue;
}
