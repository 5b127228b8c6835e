/* cuda.h - the language that the .cu files are written in: CUDA C++ under nvcc or, with DDP_CUDA_EMULATED, plain C++
 * over t/lib/cudaemu, which runs the same source on a machine without a GPU. A .cu file includes nothing of CUDA
 * itself. The tests of a kernel (cuda_NAME.c below t/unit) are the same on the emulator (make check) and on a GPU (make
 * gpu-tests); t/t8020-cuda-mutants.t plants faults that they must find. `make cubins` compares registers, shared memory
 * and spills with doc/gpu/registers.txt.
 *
 * Beside CUDA's own words (threadIdx, __syncthreads(), __shfl_xor_sync(), atomicAdd() ...), both sides give:
 *   CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, args...)  the only way to launch: a cudaError_t. A kernel
 *                                        with template arguments goes in parentheses.
 *   CUDA_SHARED(type, name)              the block's dynamic shared memory, 16-byte aligned, as a type *
 *   CUDA_SHARED_ARRAY(type, name, n)     n elements of the block's own, 16-byte aligned; name decays to type *.
 *                                        (The emulator cannot see a bare __shared__, and does not know the word.)
 *   CUDA_SHARED_TILES(type, name, n)     the same, 1024-byte aligned
 *   shared_address(p)                    p's place in the block's shared memory, in bytes
 *   bf16_load, bf16_store, f16_load, f16_store   float32 from and to the bits of a 16-bit type, as kernels/cast.h says
 *   bf16x2_store, f16x2_store(low, high) two of them in 32 bits
 *   exp2_fast                            2^x to 2 units in the last place, without subnormal numbers
 *   reciprocal_fast                      1 / x to one unit in the last place, likewise
 *   mma_bf16_16816, mma_f16_16816, ldmatrix_x4, ldmatrix_x4_trans, cp_async_16, cp_async_commit, cp_async_wait
 *                                        PTX's instructions for matrix fragments, by a whole warp together
 * Warps have 32 lanes, all of them present: block sizes are multiples of 32. */
#ifndef DDP_KERNELS_CUDA_CUDA_H
#define DDP_KERNELS_CUDA_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef DDP_CUDA_EMULATED

#include "t/lib/cudaemu/cudaemu.h"

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                    \
    (kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>(__VA_ARGS__), cudaGetLastError())

#define CUDA_SHARED(type, name)                                                                                        \
    extern __shared__ uint4 cuda_shared_memory[];                                                                      \
    type *name = reinterpret_cast<type *>(cuda_shared_memory)
#define CUDA_SHARED_ARRAY(type, name, n) __shared__ __align__(16) type name[n]
#define CUDA_SHARED_TILES(type, name, n) __shared__ __align__(1024) type name[n]

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ float bf16_load(uint16_t h)
{
    return __uint_as_float((unsigned)h << 16);
}

static __device__ __forceinline__ uint16_t bf16_store(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

static __device__ __forceinline__ float f16_load(uint16_t h)
{
    return __half2float(__ushort_as_half(h));
}

static __device__ __forceinline__ uint16_t f16_store(float x)
{
    return __half_as_ushort(__float2half_rn(x));
}

static __device__ __forceinline__ uint32_t bf16x2_store(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

static __device__ __forceinline__ uint32_t f16x2_store(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* d = a b + c for 16 x 16 a (row-major fragments), 16 x 8 b (column-major), by mma.sync.m16n8k16 of the PTX ISA. */
#define MMA_16816(type, d, a, b, c)                                                                                    \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                                                 \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                                          \
        : "=f"((d)[0]), "=f"((d)[1]), "=f"((d)[2]), "=f"((d)[3])                                                       \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]), "f"((c)[0]), "f"((c)[1]),      \
          "f"((c)[2]), "f"((c)[3]))

static __device__ __forceinline__ void mma_bf16_16816(float d[4], const uint32_t a[4], const uint32_t b[2],
                                                      const float c[4])
{
    MMA_16816("bf16", d, a, b, c);
}

static __device__ __forceinline__ void mma_f16_16816(float d[4], const uint32_t a[4], const uint32_t b[2],
                                                     const float c[4])
{
    MMA_16816("f16", d, a, b, c);
}

/* Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8 in shared memory,
 * 16-byte aligned, and receives in r[j] elements 2 * (l % 4) and the next of row l / 4 of matrix j; of its transpose in
 * ldmatrix_x4_trans. */
#define LDMATRIX_X4(r, smem, trans)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                           \
                 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                                              \
                 : "r"(shared_address(smem))                                                                          \
                 : "memory")

static __device__ __forceinline__ void ldmatrix_x4(uint32_t r[4], const void *smem)
{
    LDMATRIX_X4(r, smem, "");
}

static __device__ __forceinline__ void ldmatrix_x4_trans(uint32_t r[4], const void *smem)
{
    LDMATRIX_X4(r, smem, ".trans");
}

/* Writes 16 bytes to shared memory: `bytes` of them from global memory, both 16-byte aligned, then zeros. This thread
 * may read them after cp_async_wait, other threads after a barrier that follows it. With 0 bytes gmem is not read. */
static __device__ __forceinline__ void cp_async_16(void *smem, const void *gmem, unsigned bytes)
{
    unsigned at = shared_address(smem);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(gmem), "r"(bytes) : "memory");
}

/* The copies since the last commit become a group. */
static __device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all but this thread's n youngest groups are done; n is a constant. */
#define cp_async_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#endif
#endif
