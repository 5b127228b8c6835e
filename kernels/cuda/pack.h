/* pack.h - for kernels over arrays of float32, bfloat16 and float16: four elements at a time, so that
 * the lanes of a warp read and write neighbouring 16 (or 8) bytes. A type T here has T::raw, T::load(raw) and
 * T::store(float). */
#ifndef DDP_KERNELS_CUDA_PACK_H
#define DDP_KERNELS_CUDA_PACK_H

#include "kernels/cuda/cuda.h"

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

/* p is aligned to a pack's bytes, as is_packed<T>(p) tells. */
template <typename T> struct pack;

template <> struct pack<type_f32> {
    float4 a;
    __device__ __forceinline__ void read(const float *p) { a = *(const float4 *)p; }
    __device__ __forceinline__ void write(float *p) const { *(float4 *)p = a; }
    __device__ __forceinline__ void get(float x[PACK]) const { x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w; }
    __device__ __forceinline__ void set(const float x[PACK]) { a = make_float4(x[0], x[1], x[2], x[3]); }
};

template <typename T> struct pack_16bit {
    uint2 a;
    __device__ __forceinline__ void read(const uint16_t *p) { a = *(const uint2 *)p; }
    __device__ __forceinline__ void write(uint16_t *p) const { *(uint2 *)p = a; }
    __device__ __forceinline__ void get(float x[PACK]) const
    {
        x[0] = T::load((uint16_t)a.x), x[1] = T::load((uint16_t)(a.x >> 16));
        x[2] = T::load((uint16_t)a.y), x[3] = T::load((uint16_t)(a.y >> 16));
    }
    __device__ __forceinline__ void set(const float x[PACK])
    {
        a = make_uint2((unsigned)T::store(x[0]) | (unsigned)T::store(x[1]) << 16,
                       (unsigned)T::store(x[2]) | (unsigned)T::store(x[3]) << 16);
    }
};

template <> struct pack<type_bf16> : pack_16bit<type_bf16> {};
template <> struct pack<type_f16> : pack_16bit<type_f16> {};

template <typename T> static __device__ __forceinline__ bool is_packed(const typename T::raw *p)
{
    return (size_t)p % (PACK * sizeof(typename T::raw)) == 0;
}

#endif
