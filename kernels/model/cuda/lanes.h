/* lanes.h - what the model's kernels share on the device: pieces of rows, and sums over warps and blocks.
 *
 * T is float, bf16 or f16. A piece is what one thread moves at once: N elements, in 16-byte accesses where the caller
 * knows that rows start and end on 16-byte boundaries ("whole"), else one by one. All arithmetic is float.
 * Sums are butterflies and loops of a fixed order: bits repeat, and all threads get the same ones. */
#ifndef DDP_KERNELS_MODEL_CUDA_LANES_H
#define DDP_KERNELS_MODEL_CUDA_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"
#include "runtime/base/dtype.h"

#define WARP 32u
#define WARP_ALL 0xffffffffu

/* 16-bit types: the bits of one element, numbers from and to those of one or two, and cuda.h's product. */
struct bf16 {
    uint16_t bits;
    static __device__ __forceinline__ float load(uint16_t h) { return bf16_load(h); }
    static __device__ __forceinline__ uint16_t store(float x) { return bf16_store(x); }
    static __device__ __forceinline__ uint32_t store2(float low, float high) { return bf16x2_store(low, high); }
    static __device__ __forceinline__ void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2],
                                                     const float c[4])
    {
        mma_bf16_16816(d, a, b, c);
    }
};

struct f16 {
    uint16_t bits;
    static __device__ __forceinline__ float load(uint16_t h) { return f16_load(h); }
    static __device__ __forceinline__ uint16_t store(float x) { return f16_store(x); }
    static __device__ __forceinline__ uint32_t store2(float low, float high) { return f16x2_store(low, high); }
    static __device__ __forceinline__ void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2],
                                                     const float c[4])
    {
        mma_f16_16816(d, a, b, c);
    }
};

/* Of a function template, the function for elements of enum ddp_dtype type; NULL: there is none. */
#define INSTANCE_OF(function, type)                                                                                    \
    ((type) == DDP_F32    ? function<float>                                                                            \
     : (type) == DDP_BF16 ? function<bf16>                                                                             \
     : (type) == DDP_F16  ? function<f16>                                                                              \
                          : NULL)

/* Elements of T in 16 bytes. */
template <typename T> struct piece {
    static constexpr unsigned N = 16 / sizeof(T);
};

__device__ __forceinline__ float load_element(const float *p)
{
    return *p;
}

template <typename H> __device__ __forceinline__ float load_element(const H *p)
{
    return H::load(p->bits);
}

__device__ __forceinline__ void store_element(float *p, float x)
{
    *p = x;
}

template <typename H> __device__ __forceinline__ void store_element(H *p, float x)
{
    p->bits = H::store(x);
}

__device__ __forceinline__ void load_16_bytes(float *v, const float *p)
{
    float4 x = *reinterpret_cast<const float4 *>(p);
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}

template <typename H> __device__ __forceinline__ void load_16_bytes(float *v, const H *p)
{
    uint4 x = *reinterpret_cast<const uint4 *>(p);
    uint32_t pair[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = H::load((uint16_t)(pair[i] & 0xffffu));
        v[2 * i + 1] = H::load((uint16_t)(pair[i] >> 16));
    }
}

__device__ __forceinline__ void store_16_bytes(float *p, const float *v)
{
    float4 x;
    x.x = v[0], x.y = v[1], x.z = v[2], x.w = v[3];
    *reinterpret_cast<float4 *>(p) = x;
}

template <typename H> __device__ __forceinline__ void store_16_bytes(H *p, const float *v)
{
    uint4 x;
    x.x = H::store2(v[0], v[1]), x.y = H::store2(v[2], v[3]);
    x.z = H::store2(v[4], v[5]), x.w = H::store2(v[6], v[7]);
    *reinterpret_cast<uint4 *>(p) = x;
}

/* Of the N elements at `column`, so many lie before `width`. */
template <unsigned N> __device__ __forceinline__ unsigned elements_left(unsigned column, unsigned width)
{
    return column >= width ? 0 : width - column < N ? width - column : N;
}

/* Of a piece of N: by_16(i) for the i at which 16 bytes of T begin or, where it is not whole or n are less, by_1(i) for
 * each i. */
template <unsigned N, typename T, typename By16, typename By1>
__device__ __forceinline__ void over_piece(unsigned n, bool whole, const By16 &by_16, const By1 &by_1)
{
    if (whole && n == N) {
#pragma unroll
        for (unsigned i = 0; i < N; i += piece<T>::N)
            by_16(i);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        by_1(i);
}

/* v = p[0..n), zeros up to N. */
template <unsigned N, typename T>
__device__ __forceinline__ void load_piece(float (&v)[N], const T *p, unsigned n, bool whole)
{
    over_piece<N, T>(
        n, whole, [&](unsigned i) { load_16_bytes(v + i, p + i); },
        [&](unsigned i) { v[i] = i < n ? load_element(p + i) : 0.0f; });
}

template <unsigned N, typename T>
__device__ __forceinline__ void store_piece(T *p, const float (&v)[N], unsigned n, bool whole)
{
    over_piece<N, T>(
        n, whole, [&](unsigned i) { store_16_bytes(p + i, v + i); },
        [&](unsigned i) {
            if (i < n)
                store_element(p + i, v[i]);
        });
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(WARP_ALL, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, step));
    return x;
}

static inline bool is_aligned_16(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

#endif
