/* attention_wgmma.h - attention's kernels for compute capability 9.0, in terms of wgmma: each warpgroup takes 64 rows
 * (of queries or keys) whose fragments stay in registers, and all of a block multiply them by the same pairs of tiles
 * of 64, of which the next is copied in while the present one is worked on.
 *
 * The same results as attention.cu's and attention_backward.cu's, but for the order of summation within a product. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_WGMMA_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_WGMMA_H

#include "kernels/cuda/wgmma.h"
#include "kernels/model/cuda/attention_tile.h"

#define GROUP_THREADS 128u
#define GROUP_ROWS 64u
#define PAIR_ELEMS (2 * TILE_ELEMS) /* keys and values, or queries and dout */

template <bool TRANSPOSED, bool ADD>
__device__ __forceinline__ void wgmma(bf16, float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    wgmma_bf16<TRANSPOSED, ADD>(d, a, b);
}

template <bool TRANSPOSED, bool ADD>
__device__ __forceinline__ void wgmma(f16, float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    wgmma_f16<TRANSPOSED, ADD>(d, a, b);
}

/* Begins s = f tile^T: the tile's rows are the sums' columns. f is fenced. */
template <typename H>
__device__ __forceinline__ void begin_transposed(sums<1> &s, const left<H, 1> &f, const H *tile)
{
    uint64_t b = wgmma_descriptor(tile);
    wgmma<false, false>(H(), s.c[0], f.a[0][0], wgmma_rows(b, 0));
#pragma unroll
    for (unsigned k = 1; k < 4; k++)
        wgmma<false, true>(H(), s.c[0], f.a[0][k], wgmma_rows(b, k));
}

/* Begins s += f tile. f and s are fenced. */
template <typename H> __device__ __forceinline__ void begin_product(sums<1> &s, const left<H, 1> &f, const H *tile)
{
    uint64_t b = wgmma_descriptor(tile);
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        wgmma<true, true>(H(), s.c[0], f.a[0][k], wgmma_columns(b, k));
}

/* The warp's 16 rows `from` in global memory, of which the first `valid` exist, zeros for the others. */
template <typename H>
__device__ __forceinline__ void load_left(left<H, 1> &f, const H *from, size_t stride, unsigned valid)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + i % 2 * 8, column = k * 16 + i / 2 * 8 + lane % 4 * 2;
            f.a[0][k][i] = row < valid ? *reinterpret_cast<const uint32_t *>(from + row * stride + column) : 0;
        }
}

/* Where a thread copies from: the first warpgroup the first tile of a pair, the second the second. (Of queries they
 * have the earlier ones, and so the fewest keys.) */
template <typename H> struct pair_source {
    const H *from;
    size_t stride;
};

template <typename H>
__device__ __forceinline__ pair_source<H> pair_of(const H *first, size_t first_stride, const H *second,
                                                  size_t second_stride)
{
    bool is_first = threadIdx.x < GROUP_THREADS;
    return {is_first ? first : second, is_first ? first_stride : second_stride};
}

/* Begins to copy the 64 rows from `row` on, of `length`; zeros behind them. */
template <typename H>
__device__ __forceinline__ void copy_pair(H *pair, const pair_source<H> &s, unsigned row, unsigned length)
{
    unsigned group = threadIdx.x / GROUP_THREADS;
    if (group < 2)
        copy_tile<TILE_ROWS, GROUP_THREADS>(pair + group * TILE_ELEMS, s.from + row * s.stride, s.stride, length - row);
    cp_async_commit();
}

/* This thread's copies are there, and all others'; products may read them. */
__device__ __forceinline__ void meet_after_copies()
{
    cp_async_wait(0);
    async_proxy_fence();
    __syncthreads();
}

#endif
