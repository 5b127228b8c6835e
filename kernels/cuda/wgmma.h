/* wgmma.h - products of a warpgroup (four warps, the first a multiple of four) by the tensor cores of compute
 * capability 9.0: wgmma.mma_async of the PTX ISA, for code that is compiled for sm_90a.
 *
 *   wgmma_bf16<TRANSPOSED, ADD>(d, a, b), wgmma_f16   d = a b, plus d if ADD: 64 x 64 sums of float32, 16 summands
 *   wgmma_rows, wgmma_columns(t, k)      b: summands 16 k and on of a tile, t its wgmma_descriptor(tile); see below.
 *                                        a: registers, or the wgmma_rows of a tile
 *   wgmma_fence(x, ...)                  before products: their registers a, and d where ADD, which have been written
 *                                        or read since the last
 *   wgmma_commit()                       the products since the last become a group
 *   wgmma_wait(n, x, ...)                until all but the n youngest groups are done; x: their d, which are not to be
 *                                        touched from the product to here. Nor are a and b to be changed
 *   async_proxy_fence()                  what this thread has written to shared memory (cp_async, once waited for) may
 *                                        be b, for all threads that meet it at a barrier after this
 *
 * All by the 128 threads of a warpgroup together. Fragments: of d and a, warp w has rows 16 w to 16 w + 15, as a warp's
 * for mma.m16n8k16: a[i] is that of 16 x 16 elements; d[j] that of 16 x 8 sums, columns 8 j and on.
 *
 * b, or a, is a matrix of 16-bit elements in shared memory, in a tile of rows of 64 (128 bytes) that begins at a
 * multiple of 1024 bytes, 16-byte chunk c of row r at c ^ (r % 8): the 128-byte swizzle. wgmma_rows: row n of the tile
 * has the 16 summands of the sums' column n (of a: of row n), from element 16 k on (not TRANSPOSED, "K-major").
 * wgmma_columns: row 16 k + i has the i-th summand of all 64 columns (TRANSPOSED, "MN-major"). */
#ifndef DDP_KERNELS_CUDA_WGMMA_H
#define DDP_KERNELS_CUDA_WGMMA_H

#include "kernels/cuda/cuda.h"

/* The fields of a matrix descriptor: address, and distance of 8 rows, in units of 16 bytes; 128-byte swizzle. The
 * leading dimension's distance is that of a second matrix beside it, and not used. */
__device__ __forceinline__ uint64_t wgmma_descriptor(const void *tile)
{
    return (shared_address(tile) & 0x3ffff) >> 4 | (uint64_t)64 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

__device__ __forceinline__ uint64_t wgmma_rows(uint64_t descriptor, unsigned k)
{
    return descriptor + k * (32 >> 4);
}

__device__ __forceinline__ uint64_t wgmma_columns(uint64_t descriptor, unsigned k)
{
    return descriptor + k * (16 * 128 >> 4);
}

#ifndef DDP_CUDA_EMULATED

/* The compiler moves neither what writes these registers behind the fence nor what reads them before the wait. */
static __device__ __forceinline__ void wgmma_hold(float (&d)[8][4])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
}

static __device__ __forceinline__ void wgmma_hold(uint32_t (&a)[4][4])
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3])::"memory");
}

template <typename... Arrays> static __device__ __forceinline__ void wgmma_fence(Arrays &...x)
{
    (wgmma_hold(x), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define wgmma_wait(n, ...) wgmma_wait_groups<n>(__VA_ARGS__)
template <int N, typename... Arrays> static __device__ __forceinline__ void wgmma_wait_groups(Arrays &...x)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
    (wgmma_hold(x), ...);
}

static __device__ __forceinline__ void async_proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define WGMMA_ROW(how, x) how((x)[0]), how((x)[1]), how((x)[2]), how((x)[3])
#define WGMMA_SUMS(how, d)                                                                                             \
    WGMMA_ROW(how, (d)[0]), WGMMA_ROW(how, (d)[1]), WGMMA_ROW(how, (d)[2]), WGMMA_ROW(how, (d)[3]),                    \
        WGMMA_ROW(how, (d)[4]), WGMMA_ROW(how, (d)[5]), WGMMA_ROW(how, (d)[6]), WGMMA_ROW(how, (d)[7])
#define WGMMA_SET(x) "=f"(x)
#define WGMMA_ADD(x) "+f"(x)
#define WGMMA(type, how, add, d, a, b, transposed)                                                                     \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred p;\n"                                                                                     \
                 "setp.ne.b32 p, %37, 0;\n"                                                                            \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " "                                       \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "    \
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                                            \
                 "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n"                                                          \
                 "}"                                                                                                   \
                 : WGMMA_SUMS(how, d)                                                                                  \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "n"(add), "n"(transposed))

#define WGMMA_TILES(type, how, add, d, a, b, transposed)                                                               \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred p;\n"                                                                                     \
                 "setp.ne.b32 p, %34, 0;\n"                                                                            \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " "                                       \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "    \
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                                            \
                 "%32, %33, p, 1, 1, 0, %35;\n"                                                                        \
                 "}"                                                                                                   \
                 : WGMMA_SUMS(how, d)                                                                                  \
                 : "l"(a), "l"(b), "n"(add), "n"(transposed))

template <bool TRANSPOSED, bool ADD>
static __device__ __forceinline__ void wgmma_bf16(float (&d)[8][4], uint64_t a, uint64_t b)
{
    if (ADD)
        WGMMA_TILES("bf16", WGMMA_ADD, 1, d, a, b, TRANSPOSED);
    else
        WGMMA_TILES("bf16", WGMMA_SET, 0, d, a, b, TRANSPOSED);
}

template <bool TRANSPOSED, bool ADD>
static __device__ __forceinline__ void wgmma_f16(float (&d)[8][4], uint64_t a, uint64_t b)
{
    if (ADD)
        WGMMA_TILES("f16", WGMMA_ADD, 1, d, a, b, TRANSPOSED);
    else
        WGMMA_TILES("f16", WGMMA_SET, 0, d, a, b, TRANSPOSED);
}

template <bool TRANSPOSED, bool ADD>
static __device__ __forceinline__ void wgmma_bf16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    if (ADD)
        WGMMA("bf16", WGMMA_ADD, 1, d, a, b, TRANSPOSED);
    else
        WGMMA("bf16", WGMMA_SET, 0, d, a, b, TRANSPOSED);
}

template <bool TRANSPOSED, bool ADD>
static __device__ __forceinline__ void wgmma_f16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    if (ADD)
        WGMMA("f16", WGMMA_ADD, 1, d, a, b, TRANSPOSED);
    else
        WGMMA("f16", WGMMA_SET, 0, d, a, b, TRANSPOSED);
}

#endif
#endif
