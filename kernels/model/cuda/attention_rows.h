/* attention_rows.h - softmax of the rows of scores that a warp has, tile after tile, for the forward pass. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_ROWS_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_ROWS_H

#include "kernels/model/cuda/attention_tile.h"

/* Per row (two a lane and m): the largest score so far and the sum of exponentials relative to it, of this lane's
 * columns only; the quad's are added at the end. */
template <int M> struct row_state {
    float max[M][2], sum[M][2];
};

template <int M> __device__ __forceinline__ void set_none(row_state<M> &r)
{
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        r.max[i / 2][i % 2] = -INFINITY;
        r.sum[i / 2][i % 2] = 0;
    }
}

__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 1));
    return fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(WARP_ALL, x, 1);
    return x + __shfl_xor_sync(WARP_ALL, x, 2);
}

/* Keys after the row's query do not count. */
template <int M> __device__ __forceinline__ void mask_scores(sums<M> &s, unsigned query, unsigned key)
{
    each_sum(s, [=](float &score, unsigned row, unsigned column) {
        if (key + column > query + row)
            score = -INFINITY;
    });
}

/* Scores become exponentials; what was summed before is scaled to the new maximum. Every row has had a score by then:
 * the first tile holds key 0, which no query comes before. */
template <int M> __device__ __forceinline__ void exponentiate(sums<M> &s, sums<M> &out, row_state<M> &r)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float max = r.max[m][half], sum = 0;
#pragma unroll
            for (int n = 0; n < 8; n++)
                max = fmaxf(max, fmaxf(s.c[m][n][2 * half], s.c[m][n][2 * half + 1]));
            max = quad_max(max);
            float before = exp2_fast((r.max[m][half] - max) * EXP2_SCALE), offset = max * EXP2_SCALE;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    s.c[m][n][i] = exp2_fast(s.c[m][n][i] * EXP2_SCALE - offset);
                    sum += s.c[m][n][i];
                    out.c[m][n][i] *= before;
                }
            r.sum[m][half] = r.sum[m][half] * before + sum;
            r.max[m][half] = max;
        }
}

/* scale = 1 / sum; the statistics of the first `valid` rows from `query` go to stats. */
template <int M>
__device__ __forceinline__ void finish_rows(float (&scale)[M][2], float *stats, unsigned valid, const row_state<M> &r)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned row = m * 16 + half * 8 + lane / 4;
            float sum = quad_sum(r.sum[m][half]);
            scale[m][half] = 1.0f / sum;
            if (lane % 4 == 0 && row < valid)
                stats[row] = r.max[m][half] * SOFTMAX_SCALE + logf(sum);
        }
}

#endif
