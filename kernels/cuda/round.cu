/* A thread takes the elements that one block of random bits is for: eight, whose number / 8 is the same. */
#include "kernels/cuda/round.h"

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/table.h"

constexpr unsigned THREADS = 256, GROUP = 8;
constexpr int ROUNDS = 10, MAX_RANGES = 48;
constexpr size_t CHUNK = (size_t)THREADS * GROUP * 4;

/* n counts from the element whose number is the multiple of GROUP at or below `first`: skip are not there. */
struct round_range {
    bf16 *out; /* of the element with that number, had it been there */
    const float *in;
    size_t n;
    uint64_t group;
    unsigned skip;
    bool whole;
};

typedef table<round_range, MAX_RANGES> ranges;

static __device__ __forceinline__ void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1)
{
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

/* x as the float that bfloat16 has. */
static __device__ __forceinline__ float round_one(float x, uint32_t random)
{
    return isnan(x) ? x : __uint_as_float((__float_as_uint(x) + random) & 0xffff0000u);
}

static __global__ void __launch_bounds__(THREADS) round_groups(const ranges t, rounding r)
{
    int k = table_find(t, blockIdx.x);
    const round_range a = t.range[k];
    size_t begin = (size_t)(blockIdx.x - t.first_chunk[k]) * CHUNK, end = a.n - begin < CHUNK ? a.n : begin + CHUNK;
    for (size_t at = begin + threadIdx.x * GROUP; at < end; at += (size_t)THREADS * GROUP) {
        uint64_t group = a.group + at / GROUP;
        uint32_t random[4] = {(uint32_t)group, (uint32_t)(group >> 32), (uint32_t)r.step, (uint32_t)(r.step >> 32)};
        unsigned from = at == 0 ? a.skip : 0, to = a.n - at < GROUP ? (unsigned)(a.n - at) : GROUP;
        bool all = a.whole && from == 0 && to == GROUP;
        float x[GROUP];
        philox(random, (uint32_t)r.seed, (uint32_t)(r.seed >> 32));
        if (all)
            load_piece(x, a.in + at, GROUP, true);
#pragma unroll
        for (unsigned i = 0; i < GROUP; i++) {
            if (!all)
                x[i] = i >= from && i < to ? a.in[at + i] : 0.0f;
            x[i] = round_one(x[i], random[i / 2] >> (i % 2 * 16) & 0xffffu);
            if (!all && i >= from && i < to)
                store_element(a.out + at + i, x[i]);
        }
        if (all)
            store_piece(a.out + at, x, GROUP, true);
    }
}

extern "C" int cuda_round_bf16(const struct cuda_round_range *range, size_t n_ranges, const struct rounding *r,
                               void *stream)
{
    const rounding by = *r;
    for (size_t done = 0; done < n_ranges; done += MAX_RANGES) {
        round_range grouped[MAX_RANGES];
        size_t n = n_ranges - done < MAX_RANGES ? n_ranges - done : MAX_RANGES;
        for (size_t i = 0; i < n; i++) {
            const cuda_round_range &a = range[done + i];
            unsigned skip = (unsigned)(a.first % GROUP);
            bf16 *out = (bf16 *)((uintptr_t)a.out - skip * sizeof *a.out);
            const float *in = (const float *)((uintptr_t)a.in - skip * sizeof *a.in);
            bool whole = is_aligned_16(out) && is_aligned_16(in);
            grouped[i] = {out, in, a.n ? a.n + skip : 0, a.first / GROUP, skip, whole};
        }
        cudaError_t e = table_launch<MAX_RANGES>(grouped, n, CHUNK, [=](const ranges &t) {
            return CUDA_LAUNCH(round_groups, t.first_chunk[t.n], THREADS, 0, stream, t, by);
        });
        if (e != cudaSuccess)
            return e;
    }
    return cudaSuccess;
}
