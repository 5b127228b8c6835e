#include "kernels/cuda/cast.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 256, UNROLL = 4, MAX_RANGES = 64;
constexpr size_t CHUNK = (size_t)THREADS * UNROLL * PACK;

typedef table<cuda_range, MAX_RANGES> ranges;

template <typename To>
static __device__ __forceinline__ void cast_packs(uint16_t *out, const float *in, float scale, size_t n_packs)
{
    pack<type_f32> p[UNROLL];
    for (int u = 0; u < UNROLL; u++) { /* all loads under way before the first store */
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs)
            p[u] = pack_read<type_f32>(in + i * PACK);
    }
    for (int u = 0; u < UNROLL; u++) {
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs) {
            pack<To> q;
            for (int j = 0; j < PACK; j++)
                q.x[j] = To::store(p[u].x[j] * scale);
            pack_write<To>(out + i * PACK, q);
        }
    }
}

template <typename To>
static __global__ void __launch_bounds__(THREADS) cast(const ranges t, float scale)
{
    int r = table_find(t, blockIdx.x);
    size_t at = (size_t)(blockIdx.x - t.first_chunk[r]) * CHUNK, left = t.range[r].n - at;
    size_t n = left < CHUNK ? left : CHUNK, done = 0;
    uint16_t *out = (uint16_t *)t.range[r].out + at;
    const float *in = t.range[r].in + at;
    if (is_packed<To>(out) && is_packed<type_f32>(in)) {
        cast_packs<To>(out, in, scale, n / PACK);
        done = n / PACK * PACK;
    }
    for (size_t i = done + threadIdx.x; i < n; i += THREADS)
        out[i] = To::store(in[i] * scale);
}

template <typename To>
static cudaError_t launch(const cuda_range *range, size_t n_ranges, float scale, void *stream)
{
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(cast<To>, t.first_chunk[t.n], THREADS, 0, stream, t, scale);
    });
}

extern "C" int cuda_cast(const struct cuda_range *range, size_t n_ranges, enum ddp_dtype to, float scale, void *stream)
{
    if (to == DDP_BF16)
        return launch<type_bf16>(range, n_ranges, scale, stream);
    return to == DDP_F16 ? launch<type_f16>(range, n_ranges, scale, stream) : cudaErrorInvalidValue;
}
