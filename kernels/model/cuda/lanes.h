/* lanes.h - what the model's kernels share on the device: pieces of rows, and sums over warps and blocks.
 *
 * T is float, bf16 or f16. A piece is what one thread moves at once: N elements, in accesses of 16 bytes, or 8 if that
 * is all, where the caller knows that rows start on 16-byte boundaries and end with a piece ("whole"), else one by one.
 * All arithmetic is float.
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

/* 16 bytes of T: N elements. */
template <typename T> struct piece {
    static constexpr unsigned N = 16 / sizeof(T);
    static __device__ __forceinline__ void unpack2(float *v, uint32_t pair)
    {
        v[0] = T::load((uint16_t)(pair & 0xffffu));
        v[1] = T::load((uint16_t)(pair >> 16));
    }
    static __device__ __forceinline__ void unpack(float *v, const uint4 &x)
    {
        unpack2(v, x.x), unpack2(v + 2, x.y), unpack2(v + 4, x.z), unpack2(v + 6, x.w);
    }
    static __device__ __forceinline__ uint4 pack(const float *v)
    {
        return make_uint4(T::store2(v[0], v[1]), T::store2(v[2], v[3]), T::store2(v[4], v[5]), T::store2(v[6], v[7]));
    }
};

template <> struct piece<float> {
    static constexpr unsigned N = 4;
    static __device__ __forceinline__ void unpack(float *v, const uint4 &x)
    {
        v[0] = __uint_as_float(x.x), v[1] = __uint_as_float(x.y);
        v[2] = __uint_as_float(x.z), v[3] = __uint_as_float(x.w);
    }
    static __device__ __forceinline__ uint4 pack(const float *v)
    {
        return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
    }
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

template <typename T> __device__ __forceinline__ void load_16_bytes(float *v, const T *p)
{
    piece<T>::unpack(v, *reinterpret_cast<const uint4 *>(p));
}

template <typename T> __device__ __forceinline__ void store_16_bytes(T *p, const float *v)
{
    *reinterpret_cast<uint4 *>(p) = piece<T>::pack(v);
}

/* COUNT elements: a piece of T, or half of one. */
template <unsigned COUNT, typename T> __device__ __forceinline__ void load_at_once(float *v, const T *p)
{
    if constexpr (COUNT == piece<T>::N) {
        load_16_bytes(v, p);
    } else {
        uint2 x = *reinterpret_cast<const uint2 *>(p);
        piece<T>::unpack2(v, x.x), piece<T>::unpack2(v + 2, x.y);
    }
}

template <unsigned COUNT, typename T> __device__ __forceinline__ void store_at_once(T *p, const float *v)
{
    if constexpr (COUNT == piece<T>::N)
        store_16_bytes(p, v);
    else
        *reinterpret_cast<uint2 *>(p) = make_uint2(T::store2(v[0], v[1]), T::store2(v[2], v[3]));
}

/* Of the N elements at `column`, so many lie before `width`. */
template <unsigned N> __device__ __forceinline__ unsigned elements_left(unsigned column, unsigned width)
{
    return column >= width ? 0 : width - column < N ? width - column : N;
}

/* Elements of T that one access moves of N side by side. */
template <unsigned N, typename T> struct access {
    static constexpr unsigned COUNT = N < piece<T>::N ? N : piece<T>::N;
};

/* Of N elements: at_once(i) for the i at which an access begins or, where they are not whole or n are less,
 * one_by_one(i) for each i. */
template <unsigned N, typename T, typename AtOnce, typename OneByOne>
__device__ __forceinline__ void over_piece(unsigned n, bool whole, const AtOnce &at_once, const OneByOne &one_by_one)
{
    if (whole && n == N) {
#pragma unroll
        for (unsigned i = 0; i < N; i += access<N, T>::COUNT)
            at_once(i);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        one_by_one(i);
}

/* v = p[0..n), zeros up to N. */
template <unsigned N, typename T>
__device__ __forceinline__ void load_piece(float (&v)[N], const T *p, unsigned n, bool whole)
{
    over_piece<N, T>(
        n, whole, [&](unsigned i) { load_at_once<access<N, T>::COUNT>(v + i, p + i); },
        [&](unsigned i) { v[i] = i < n ? load_element(p + i) : 0.0f; });
}

template <unsigned N, typename T>
__device__ __forceinline__ void store_piece(T *p, const float (&v)[N], unsigned n, bool whole)
{
    over_piece<N, T>(
        n, whole, [&](unsigned i) { store_at_once<access<N, T>::COUNT>(p + i, v + i); },
        [&](unsigned i) {
            if (i < n)
                store_element(p + i, v[i]);
        });
}

/* The same of columns that are all WHOLE, so that n is N or 0 and no branch comes between one load and the next; or
 * that need not be. */
template <bool WHOLE, unsigned N, typename T>
__device__ __forceinline__ void load_columns(float (&v)[N], const T *p, unsigned n)
{
#pragma unroll
    for (unsigned i = 0; WHOLE && i < N; i++)
        v[i] = 0;
    if (!WHOLE || n)
        load_piece(v, p, WHOLE ? N : n, WHOLE);
}

template <bool WHOLE, unsigned N, typename T>
__device__ __forceinline__ void store_columns(T *p, const float (&v)[N], unsigned n)
{
    if (!WHOLE || n)
        store_piece(p, v, WHOLE ? N : n, WHOLE);
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
