/* cudaemu.h - the words of CUDA C++ for kernels that a C++ compiler compiles. Included by kernels/cuda/cuda.h alone,
 * which says what they mean; emu.h says what the emulator checks. */
#ifndef DDP_T_LIB_CUDAEMU_CUDAEMU_H
#define DDP_T_LIB_CUDAEMU_CUDAEMU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#include "kernels/bits.h"
#include "t/lib/cudaemu/runtime.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

/* Of the thread that runs now. */
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- launching ---- */

/* call() is the kernel's call with its arguments, of which it holds copies; fails as a launch does. */
cudaError_t emu_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, void *stream, const void *func,
                       std::function<void()> call);

template <typename T> struct emu_as {
    typedef T type;
};
template <typename... Param>
static inline cudaError_t emu_launch_kernel(const char *name, void (*kernel)(Param...), dim3 grid, dim3 block,
                                            size_t shared_bytes, void *stream, typename emu_as<Param>::type... arg)
{
    return emu_launch(name, grid, block, shared_bytes, stream, (const void *)kernel, [=]() { kernel(arg...); });
}

#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, ...)                                                            \
    emu_launch_kernel(#kernel, kernel, grid, block, shared_bytes, __VA_ARGS__)

template <typename Result, typename... Args>
static inline cudaError_t cudaFuncSetAttribute(Result (*func)(Args...), enum cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute((const void *)func, attribute, value);
}

/* ---- shared memory ---- */

void *emu_shared_dynamic();
void *emu_shared_array(const void *key, size_t bytes, unsigned align = 16); /* key: one for each array in the source */
uint32_t shared_address(const void *p);

#define CUDA_SHARED(type, name) type *name = (type *)emu_shared_dynamic()
#define CUDA_SHARED_ARRAY(type, name, n)                                                                               \
    static const char name##_key = 0;                                                                                  \
    type *name = (type *)emu_shared_array(&name##_key, sizeof(type) * (n))
#define CUDA_SHARED_TILES(type, name, n)                                                                               \
    static const char name##_key = 0;                                                                                  \
    type *name = (type *)emu_shared_array(&name##_key, sizeof(type) * (n), 1024)

/* ---- what threads do together ---- */

enum emu_op {
    EMU_SYNCTHREADS,
    EMU_SYNCWARP,
    EMU_SHUFFLE,
    EMU_BALLOT,
    EMU_MMA_BF16,
    EMU_MMA_F16,
    EMU_LDMATRIX,
    EMU_LDMATRIX_TRANS,
    EMU_WGMMA_FENCE, /* from here on: by a warpgroup together */
    EMU_WGMMA,
    EMU_WGMMA_COMMIT,
    EMU_WGMMA_WAIT
};

struct emu_registers { /* an array of a thread's */
    uint32_t *word;
    unsigned n;
};

/* One thread's part in it, and where in the source. */
struct emu_wait {
    enum emu_op op;
    unsigned mask;
    const char *file;
    int line;
    uint64_t value; /* shuffle: what this lane gives; ballot: 0 or 1 */
    int from;       /* shuffle: the lane whose value this one gets */
    uint64_t result;
    float *d;       /* mma, wgmma */
    const float *c;
    const uint32_t *a, *b;
    const void *row; /* ldmatrix */
    uint32_t *r;
    const struct emu_wgmma *wgmma;      /* wgmma */
    const struct emu_registers *arrays; /* wgmma's fence and wait */
    int n_arrays;
    int n; /* wgmma's wait: groups that may stay */
};

/* Returns once all have come and it is done. */
void emu_together(struct emu_wait *w);

#define EMU_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define EMU_ALL 0xffffffffu

static inline void __syncthreads(EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = EMU_SYNCTHREADS, w.file = file, w.line = line;
    emu_together(&w);
}

static inline void __syncwarp(unsigned mask = EMU_ALL, EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = EMU_SYNCWARP, w.mask = mask, w.file = file, w.line = line;
    emu_together(&w);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = EMU_BALLOT, w.mask = mask, w.file = file, w.line = line, w.value = predicate != 0;
    emu_together(&w);
    return (unsigned)w.result;
}

static inline int __any_sync(unsigned mask, int predicate, EMU_PLACE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int predicate, EMU_PLACE)
{
    return __ballot_sync(mask, predicate, file, line) == mask;
}

template <typename T> static inline T emu_shuffle(unsigned mask, T value, int from, const char *file, int line)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    struct emu_wait w = {};
    w.op = EMU_SHUFFLE, w.mask = mask, w.file = file, w.line = line, w.from = from;
    memcpy(&w.value, &value, sizeof value);
    emu_together(&w);
    memcpy(&value, &w.result, sizeof value);
    return value;
}

static inline int emu_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

/* Within groups of `width` lanes; a lane beyond the group's end gives each its own value. */
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, EMU_PLACE)
{
    return emu_shuffle(mask, value, (emu_lane() & ~(width - 1)) + (from & (width - 1)), file, line);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMU_PLACE)
{
    int from = emu_lane() ^ bits;
    return emu_shuffle(mask, value, from > (emu_lane() | (width - 1)) ? emu_lane() : from, file, line);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_PLACE)
{
    int from = emu_lane() + (int)by;
    return emu_shuffle(mask, value, from > (emu_lane() | (width - 1)) ? emu_lane() : from, file, line);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_PLACE)
{
    int from = emu_lane() - (int)by;
    return emu_shuffle(mask, value, from < (emu_lane() & ~(width - 1)) ? emu_lane() : from, file, line);
}

static inline void emu_mma(enum emu_op op, float *d, const uint32_t *a, const uint32_t *b, const float *c, EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = op, w.mask = EMU_ALL, w.file = file, w.line = line, w.d = d, w.a = a, w.b = b, w.c = c;
    emu_together(&w);
}

static inline void mma_bf16_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], EMU_PLACE)
{
    emu_mma(EMU_MMA_BF16, d, a, b, c, file, line);
}

static inline void mma_f16_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], EMU_PLACE)
{
    emu_mma(EMU_MMA_F16, d, a, b, c, file, line);
}

static inline void ldmatrix_x4(uint32_t r[4], const void *smem, EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = EMU_LDMATRIX, w.mask = EMU_ALL, w.file = file, w.line = line, w.r = r, w.row = smem;
    emu_together(&w);
}

static inline void ldmatrix_x4_trans(uint32_t r[4], const void *smem, EMU_PLACE)
{
    struct emu_wait w = {};
    w.op = EMU_LDMATRIX_TRANS, w.mask = EMU_ALL, w.file = file, w.line = line, w.r = r, w.row = smem;
    emu_together(&w);
}

void cp_async_16(void *smem, const void *gmem, unsigned bytes, EMU_PLACE);
void cp_async_commit();
void cp_async_wait(int n);
void async_proxy_fence();

/* ---- wgmma, as kernels/cuda/wgmma.h says ---- */

/* d (32 floats) = a b, plus d if add; a from registers, or from shared memory. */
struct emu_wgmma {
    bool f16, transposed, add;
    uint64_t b;
    bool a_is_shared;
    uint64_t a;
};

template <typename... Arrays>
static inline void emu_wgmma_arrays(enum emu_op op, int n, const char *file, int line, Arrays &...x)
{
    const struct emu_registers arrays[] = {{nullptr, 0}, {(uint32_t *)&x, sizeof x / 4}...};
    struct emu_wait w = {};
    w.op = op, w.mask = EMU_ALL, w.file = file, w.line = line, w.n = n;
    w.arrays = arrays + 1, w.n_arrays = (int)sizeof...(x);
    emu_together(&w);
}

#define wgmma_fence(...) emu_wgmma_arrays(EMU_WGMMA_FENCE, 0, __FILE__, __LINE__ __VA_OPT__(,) __VA_ARGS__)
#define wgmma_commit() emu_wgmma_arrays(EMU_WGMMA_COMMIT, 0, __FILE__, __LINE__)
#define wgmma_wait(n, ...) emu_wgmma_arrays(EMU_WGMMA_WAIT, n, __FILE__, __LINE__, __VA_ARGS__)

static inline void emu_multiply(float *d, const uint32_t *a, struct emu_wgmma what, const char *file, int line)
{
    struct emu_wait w = {};
    w.op = EMU_WGMMA, w.mask = EMU_ALL, w.file = file, w.line = line, w.d = d, w.a = a, w.wgmma = &what;
    emu_together(&w);
}

template <bool TRANSPOSED, bool ADD>
static inline void wgmma_bf16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, EMU_PLACE)
{
    emu_multiply(d[0], a, {false, TRANSPOSED, ADD, b, false, 0}, file, line);
}

template <bool TRANSPOSED, bool ADD>
static inline void wgmma_bf16(float (&d)[8][4], uint64_t a, uint64_t b, EMU_PLACE)
{
    emu_multiply(d[0], nullptr, {false, TRANSPOSED, ADD, b, true, a}, file, line);
}

template <bool TRANSPOSED, bool ADD>
static inline void wgmma_f16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, EMU_PLACE)
{
    emu_multiply(d[0], a, {true, TRANSPOSED, ADD, b, false, 0}, file, line);
}

template <bool TRANSPOSED, bool ADD>
static inline void wgmma_f16(float (&d)[8][4], uint64_t a, uint64_t b, EMU_PLACE)
{
    emu_multiply(d[0], nullptr, {true, TRANSPOSED, ADD, b, true, a}, file, line);
}

/* ---- what a thread does alone ---- */

template <typename T> static inline T atomicAdd(T *at, T value)
{
    T old = *at;
    *at = old + value;
    return old;
}
template <typename T> static inline T atomicMax(T *at, T value)
{
    T old = *at;
    *at = old < value ? value : old;
    return old;
}
template <typename T> static inline T __ldg(const T *p) { return *p; }

static inline uint32_t __float_as_uint(float x) { return f32_bits(x); }
static inline float __uint_as_float(uint32_t u) { return f32_from_bits(u); }
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline float __int_as_float(int i) { return __uint_as_float((uint32_t)i); }

/* Approximations err as much as PTX lets a device err (ex2.approx.ftz by 2 units in the last place, rcp.approx.ftz by
 * one), up or down as x's bits have it, so that what passes here does not lean on a better one; and they know no
 * subnormal numbers. */
static inline float emu_approximate(float y, float x, uint32_t units)
{
    bool up = f32_bits(x) * 2654435761u >> 31;
    if (fabsf(y) < 0x1p-126f)
        return copysignf(0, y);
    return isfinite(y) ? f32_from_bits(f32_bits(y) + (up ? units : -units)) : y;
}
static inline float exp2_fast(float x) { return x == 0 ? 1 : emu_approximate(exp2f(x), x, 2); }
static inline float reciprocal_fast(float x) { return emu_approximate(1 / emu_approximate(x, x, 0), x, 1); }

/* Better than the device's, where it approximates. */
static inline float emu_rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
#define rsqrtf emu_rsqrtf /* newer C libraries have one of their own */
#define __expf(x) expf(x)
#define __logf(x) logf(x)
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

static inline float bf16_load(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
float f16_load(uint16_t h);
uint16_t bf16_store(float x);
uint16_t f16_store(float x);
static inline uint32_t bf16x2_store(float low, float high)
{
    return (uint32_t)bf16_store(high) << 16 | bf16_store(low);
}
static inline uint32_t f16x2_store(float low, float high)
{
    return (uint32_t)f16_store(high) << 16 | f16_store(low);
}

#endif
