/* pack.h - for kernels over arrays of one element type: a few elements at a time, so that the lanes of a warp read and
 * write neighbouring pieces of 8 to 32 bytes. An element type T has T::raw, what lies in memory, T::acc, what is
 * computed with, and T::load and T::store between them. */
#ifndef DDP_KERNELS_CUDA_PACK_H
#define DDP_KERNELS_CUDA_PACK_H

#include "kernels/cuda/cuda.h"
#include "runtime/base/dtype.h"

constexpr int PACK = 4;

template <typename Number> struct type_plain {
    typedef Number raw;
    typedef Number acc;
    static __device__ __forceinline__ Number load(Number x) { return x; }
    static __device__ __forceinline__ Number store(Number x) { return x; }
};

typedef type_plain<float> type_f32;
typedef type_plain<double> type_f64;
typedef type_plain<int32_t> type_i32;
typedef type_plain<int64_t> type_i64;
typedef type_plain<uint32_t> type_u32; /* their sums wrap */
typedef type_plain<uint64_t> type_u64;

struct type_bf16 {
    typedef uint16_t raw;
    typedef float acc;
    static __device__ __forceinline__ float load(uint16_t h) { return bf16_load(h); }
    static __device__ __forceinline__ uint16_t store(float x) { return bf16_store(x); }
};

struct type_f16 {
    typedef uint16_t raw;
    typedef float acc;
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

/* Whether p may be read and written so; NULL may. */
template <typename T> static __host__ __device__ __forceinline__ bool is_packed(const typename T::raw *p)
{
    return (size_t)p % alignof(pack<T>) == 0;
}

#endif
