/* Ranges are cut into chunks; a block takes one. Up to MAX_RANGES of them travel in the launch's arguments. */
#include "kernels/cuda/cast.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"

constexpr int THREADS = 256, UNROLL = 8, MAX_RANGES = 64;
constexpr size_t CHUNK = (size_t)THREADS * UNROLL * PACK;

struct table {
    cuda_range range[MAX_RANGES];
    unsigned first_chunk[MAX_RANGES + 1]; /* range i has chunks [first_chunk[i], first_chunk[i + 1]) */
    int n;
};

template <typename From, typename To>
static __device__ __forceinline__ void cast_packs(typename To::raw *out, const typename From::raw *in, float scale,
                                                  size_t n_packs)
{
    pack<From> p[UNROLL];
    for (int u = 0; u < UNROLL; u++) { /* all loads under way before the first store */
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs)
            p[u].read(in + i * PACK);
    }
    for (int u = 0; u < UNROLL; u++) {
        size_t i = threadIdx.x + (size_t)u * THREADS;
        if (i < n_packs) {
            float x[PACK];
            pack<To> q;
            p[u].get(x);
            for (int j = 0; j < PACK; j++)
                x[j] *= scale;
            q.set(x);
            q.write(out + i * PACK);
        }
    }
}

template <typename From, typename To> static __global__ void __launch_bounds__(THREADS) cast(const table t, float scale)
{
    int r = 0;
    while (r + 1 < t.n && blockIdx.x >= t.first_chunk[r + 1])
        r++;
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

typedef cudaError_t launch_f(const table &t, float scale, void *stream);

template <typename From, typename To> static cudaError_t launch(const table &t, float scale, void *stream)
{
    return CUDA_LAUNCH((cast<From, To>), t.first_chunk[t.n], THREADS, 0, stream, t, scale);
}

static int kind(enum ddp_dtype type)
{
    return type == DDP_F32 ? 0 : type == DDP_BF16 ? 1 : type == DDP_F16 ? 2 : -1;
}

extern "C" int cuda_cast(const struct cuda_range *range, size_t n_ranges, enum ddp_dtype from, enum ddp_dtype to,
                         float scale, void *stream)
{
    static launch_f *const launches[3][3] = {
        {launch<type_f32, type_f32>, launch<type_f32, type_bf16>, launch<type_f32, type_f16>},
        {launch<type_bf16, type_f32>, launch<type_bf16, type_bf16>, launch<type_bf16, type_f16>},
        {launch<type_f16, type_f32>, launch<type_f16, type_bf16>, launch<type_f16, type_f16>}};
    if (kind(from) < 0 || kind(to) < 0)
        return cudaErrorInvalidValue;
    table t;
    t.n = 0;
    t.first_chunk[0] = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        if (range[i].n) {
            t.range[t.n] = range[i];
            t.first_chunk[t.n + 1] = t.first_chunk[t.n] + (unsigned)((range[i].n + CHUNK - 1) / CHUNK);
            t.n++;
        }
        if (t.n == MAX_RANGES || (t.n && i + 1 == n_ranges)) {
            cudaError_t e = launches[kind(from)][kind(to)](t, scale, stream);
            if (e != cudaSuccess)
                return e;
            t.n = 0;
        }
    }
    return 0;
}
