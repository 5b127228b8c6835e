/* pack.h - for kernels over arrays of one element type: each lane of a warp reads and writes a few elements at a time,
 * 8 or 16 bytes beside those of the next lane. An element type T has T::raw, the type in memory, and T::load and
 * T::store, which convert between that and float, the type for arithmetic. */
#ifndef DDP_KERNELS_CUDA_PACK_H
#define DDP_KERNELS_CUDA_PACK_H

#include "kernels/cuda/cuda.h"
#include "runtime/base/dtype.h"

constexpr int PACK = 4;

struct type_f32 {
    typedef float raw;
    static __device__ __forceinline__ float load(float x) { return x; }
    static __device__ __forceinline__ float store(float x) { return x; }
};

struct type_bf16 {
    typedef uint16_t raw;
    static __device__ __forceinline__ float load(uint16_t h) { return bf16_load(h); }
    static __device__ __forceinline__ uint16_t store(float x) { return bf16_store(x); }
};

struct type_f16 {
    typedef uint16_t raw;
    static __device__ __forceinline__ float load(uint16_t h) { return f16_load(h); }
    static __device__ __forceinline__ uint16_t store(float x) { return f16_store(x); }
};

/* Copied whole, in accesses of up to 16 bytes. */
template <typename T> struct alignas(PACK * sizeof(typename T::raw)) pack {
    typename T::raw x[PACK];
};

template <typename T> static __device__ __forceinline__ pack<T> pack_read(const typename T::raw *p)
{
    return *reinterpret_cast<const pack<T> *>(p);
}

template <typename T> static __device__ __forceinline__ void pack_write(typename T::raw *p, const pack<T> &x)
{
    *reinterpret_cast<pack<T> *>(p) = x;
}

/* True if p is aligned for pack_read and pack_write; NULL is. */
template <typename T> static __host__ __device__ __forceinline__ bool is_packed(const typename T::raw *p)
{
    return (size_t)p % alignof(pack<T>) == 0;
}

#endif
