#include "kernels/cuda/cast.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 256, UNROLL = 4, MAX_RANGES = 64;
constexpr size_t CHUNK = (size_t)THREADS * UNROLL * PACK;

typedef table<cuda_range, MAX_RANGES> ranges;

template <typename From, typename To>
static __device__ __forceinline__ void cast_packs(typename To::raw *out, const typename From::raw *in, float scale,
                                                  size_t n_packs)
{
    pack<From> p[UNROLL];
    for (int u = 0; u < UNROLL; u++) { /* all loads under way before the first store */
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs)
            p[u] = pack_read<From>(in + i * PACK);
    }
    for (int u = 0; u < UNROLL; u++) {
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs) {
            pack<To> q;
            for (int j = 0; j < PACK; j++)
                q.x[j] = To::store(From::load(p[u].x[j]) * scale);
            pack_write<To>(out + i * PACK, q);
        }
    }
}

template <typename From, typename To>
static __global__ void __launch_bounds__(THREADS) cast(const ranges t, float scale)
{
    int r = table_find(t, blockIdx.x);
    size_t at = (size_t)(blockIdx.x - t.first_chunk[r]) * CHUNK, left = t.range[r].n - at;
    size_t n = left < CHUNK ? left : CHUNK, done = 0;
    typename To::raw *out = (typename To::raw *)t.range[r].out + at;
    const typename From::raw *in = (const typename From::raw *)t.range[r].in + at;
    if (is_packed<To>(out) && is_packed<From>(in)) {
        cast_packs<From, To>(out, in, scale, n / PACK);
        done = n / PACK * PACK;
    }
    for (size_t i = done + threadIdx.x; i < n; i += THREADS)
        out[i] = To::store(From::load(in[i]) * scale);
}

template <typename From, typename To>
static cudaError_t launch(const cuda_range *range, size_t n_ranges, float scale, void *stream)
{
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH((cast<From, To>), t.first_chunk[t.n], THREADS, 0, stream, t, scale);
    });
}

template <typename From>
static cudaError_t launch_to(const cuda_range *range, size_t n_ranges, enum ddp_dtype to, float scale, void *stream)
{
    if (to == DDP_F32)
        return launch<From, type_f32>(range, n_ranges, scale, stream);
    if (to == DDP_BF16)
        return launch<From, type_bf16>(range, n_ranges, scale, stream);
    return to == DDP_F16 ? launch<From, type_f16>(range, n_ranges, scale, stream) : cudaErrorInvalidValue;
}

extern "C" int cuda_cast(const struct cuda_range *range, size_t n_ranges, enum ddp_dtype from, enum ddp_dtype to,
                         float scale, void *stream)
{
    if (from == DDP_F32)
        return launch_to<type_f32>(range, n_ranges, to, scale, stream);
    if (from == DDP_BF16)
        return launch_to<type_bf16>(range, n_ranges, to, scale, stream);
    return from == DDP_F16 ? launch_to<type_f16>(range, n_ranges, to, scale, stream) : cudaErrorInvalidValue;
}
