/* attention_wgmma.h - attention's kernels for compute capability 9.0, in terms of wgmma: a block is one warpgroup and
 * has 64 rows of a head, of queries or of keys, as tiles in shared memory. It multiplies them by pairs of tiles, one
 * pair after the other, of which the next is copied in while the present one is worked on. Several blocks share a
 * multiprocessor, and are never at the same point: while one makes exponentials, products of the others are under way.
 *
 * The same results as attention.cu's and attention_backward.cu's, but for the order of summation within a product. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_WGMMA_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_WGMMA_H

#include "kernels/cuda/wgmma.h"
#include "kernels/model/cuda/attention_tile.h"

#define PAIR_ELEMS (2 * TILE_ELEMS) /* keys and values, or queries and dout */

template <bool TRANSPOSED, bool ADD, typename A>
__device__ __forceinline__ void wgmma(bf16, float (&d)[8][4], const A &a, uint64_t b)
{
    wgmma_bf16<TRANSPOSED, ADD>(d, a, b);
}

template <bool TRANSPOSED, bool ADD, typename A>
__device__ __forceinline__ void wgmma(f16, float (&d)[8][4], const A &a, uint64_t b)
{
    wgmma_f16<TRANSPOSED, ADD>(d, a, b);
}

/* Begins s = x y^T of two tiles: y's rows are the sums' columns. */
template <typename H> __device__ __forceinline__ void begin_transposed(sums<1> &s, const H *x, const H *y)
{
    uint64_t a = wgmma_descriptor(x), b = wgmma_descriptor(y);
    wgmma<false, false>(H(), s.c[0], wgmma_rows(a, 0), wgmma_rows(b, 0));
#pragma unroll
    for (unsigned k = 1; k < 4; k++)
        wgmma<false, true>(H(), s.c[0], wgmma_rows(a, k), wgmma_rows(b, k));
}

/* Begins s += f tile. f and s are fenced. */
template <typename H> __device__ __forceinline__ void begin_product(sums<1> &s, const left<H, 1> &f, const H *tile)
{
    uint64_t b = wgmma_descriptor(tile);
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        wgmma<true, true>(H(), s.c[0], f.a[0][k], wgmma_columns(b, k));
}

/* Two tensors whose rows come in pairs of tiles. */
template <typename H> struct pair_source {
    const H *first, *second;
    size_t first_stride, second_stride;
};

/* Begins to copy the 64 rows from `row` on, of `length`; zeros behind them. */
template <typename H>
__device__ __forceinline__ void copy_pair(H *pair, const pair_source<H> &s, unsigned row, unsigned length)
{
    copy_tile<TILE_ROWS>(pair, s.first + row * s.first_stride, s.first_stride, length - row);
    copy_tile<TILE_ROWS>(pair + TILE_ELEMS, s.second + row * s.second_stride, s.second_stride, length - row);
    cp_async_commit();
}

/* This thread's copies are there, and all others'; products may read them. */
__device__ __forceinline__ void meet_after_copies()
{
    cp_async_wait(0);
    async_proxy_fence();
    __syncthreads();
}

/* Of two pairs of tiles: the one that is worked on, and the one that the next is copied to. */
template <unsigned PAIR> struct pair_is {
    static constexpr unsigned HERE = PAIR, NEXT = PAIR ^ 1;
};

/* step(pair_is, row) for row = begin, begin + 64, ... below end, with both pairs in turn as constants, so that where
 * tiles lie is known when this is compiled. */
template <typename F> __device__ __forceinline__ void each_pair(unsigned begin, unsigned end, const F &step)
{
    for (unsigned row = begin; row < end; row += 2 * TILE_ROWS) {
        step(pair_is<0>(), row);
        if (row + TILE_ROWS < end)
            step(pair_is<1>(), row + TILE_ROWS);
    }
}

#endif
