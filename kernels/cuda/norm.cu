/* Two threads make a block's sum: one takes lanes 0 to 3 of kernel_block_sum_squares, the other 4 to 7, so that each
 * reads four neighbours at a time and has four chains of additions going. */
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
static __global__ void __launch_bounds__(THREADS) norm_blocks(const ranges t, float scale)
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
    if (at < range.n && threadIdx.x % 2 == 0)
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
