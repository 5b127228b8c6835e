/* attention_gradients.h - from scores and dp, as sums of a warp, to p and ds, for the backward pass. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_GRADIENTS_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_GRADIENTS_H

#include "kernels/model/cuda/attention_tile.h"

template <typename H> struct backward_tensors {
    H *dqkv;
    const H *dout, *qkv;
    const float *stats, *d;
};

/* p from scores; per row: log2 of the sum of exponentials. On the diagonal tile later keys do not count. */
__device__ __forceinline__ void query_probabilities(sums<1> &p, const float (&log2_sum)[2], unsigned row, bool diagonal)
{
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p.c[0][n][i] = exp2_fast(p.c[0][n][i] * EXP2_SCALE - log2_sum[i / 2]);
    if (diagonal)
        each_sum(p, [=](float &x, unsigned query, unsigned key) { x = key <= row + query ? x : 0.0f; });
}

/* ds = p (dp - d), in p's place; d per row. */
__device__ __forceinline__ void query_gradients(sums<1> &p, const sums<1> &dp, const float (&d)[2])
{
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p.c[0][n][i] *= dp.c[0][n][i] - d[i / 2];
}

#define QUERY_NUMBERS (2 * TILE_ROWS)

/* Thread i's number of a tile of queries: of query i the statistic, of query i - 64 the d. Of queries that do not
 * exist: such that p and ds are 0. */
template <typename H>
__device__ __forceinline__ float load_query_number(const backward_tensors<H> &x, size_t stats, unsigned query,
                                                   unsigned length)
{
    unsigned at = query + threadIdx.x % TILE_ROWS;
    bool is_stat = threadIdx.x < TILE_ROWS;
    return at < length ? (is_stat ? x.stats : x.d)[stats + at] : is_stat ? INFINITY : 0.0f;
}

/* The statistic as log2. (Not where it is loaded: so the load is not waited for there.) */
__device__ __forceinline__ void store_query_number(float *numbers, float x)
{
    numbers[threadIdx.x] = threadIdx.x < TILE_ROWS ? x * LOG2_E : x;
}

/* p^T from scores; on the diagonal tile earlier queries do not count. number: as query_number's, one per column. */
__device__ __forceinline__ void key_probabilities(sums<1> &p, const float *number, unsigned row, bool diagonal)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        unsigned column = n * 8 + lane % 4 * 2;
        float2 log2_sum = *reinterpret_cast<const float2 *>(number + column);
#pragma unroll
        for (int i = 0; i < 4; i++)
            p.c[0][n][i] = exp2_fast(p.c[0][n][i] * EXP2_SCALE - (i % 2 ? log2_sum.y : log2_sum.x));
    }
    if (diagonal)
        each_sum(p, [=](float &x, unsigned key, unsigned query) { x = query >= row + key ? x : 0.0f; });
}

/* ds^T = p^T (dp^T - d), in dp's place. */
__device__ __forceinline__ void key_gradients(sums<1> &dp, const sums<1> &p, const float *number)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float2 d = *reinterpret_cast<const float2 *>(number + TILE_ROWS + n * 8 + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 4; i++)
            dp.c[0][n][i] = p.c[0][n][i] * (dp.c[0][n][i] - (i % 2 ? d.y : d.x));
    }
}

#endif
