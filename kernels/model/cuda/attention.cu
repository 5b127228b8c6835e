/* Flash attention, forward. A block takes 128 queries of a head, a warp 32 of them; all go over the keys and values in
 * tiles of 64, of which the next is copied in while the present one is worked on. */
#include "kernels/model/cuda/attention_f32.h"
#include "kernels/model/cuda/attention_tile.h"

#define M 2 /* times 16 queries a warp */
#define WARP_QUERIES (M * 16u)
#define BLOCK_QUERIES (ATTENTION_WARPS * WARP_QUERIES)

/* Per row (two a lane and m): the largest score so far and the sum of exponentials relative to it, of this lane's
 * columns only; the quad's are added at the end. */
struct row_state {
    float max[M][2], sum[M][2];
};

__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 1));
    return fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(WARP_ALL, x, 1);
    return x + __shfl_xor_sync(WARP_ALL, x, 2);
}

/* Keys after the row's query do not count. */
__device__ __forceinline__ void mask_scores(sums<M> &s, unsigned query, unsigned key)
{
    each_sum(s, [=](float &score, unsigned row, unsigned column) {
        if (key + column > query + row)
            score = -INFINITY;
    });
}

/* Scores become exponentials; what was summed before is scaled to the new maximum. Every row has had a score by then:
 * the first tile holds key 0, which no query comes before. */
__device__ __forceinline__ void exponentiate(sums<M> &s, sums<M> &out, row_state &r)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float max = r.max[m][half], sum = 0;
#pragma unroll
            for (int n = 0; n < 8; n++)
                max = fmaxf(max, fmaxf(s.c[m][n][2 * half], s.c[m][n][2 * half + 1]));
            max = quad_max(max);
            float before = exp2_fast((r.max[m][half] - max) * EXP2_SCALE), offset = max * EXP2_SCALE;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    s.c[m][n][i] = exp2_fast(s.c[m][n][i] * EXP2_SCALE - offset);
                    sum += s.c[m][n][i];
                    out.c[m][n][i] *= before;
                }
            r.sum[m][half] = r.sum[m][half] * before + sum;
            r.max[m][half] = max;
        }
}

/* scale = 1 / sum; the statistics of the first `valid` rows from `query` go to stats. */
__device__ __forceinline__ void finish_rows(float (&scale)[M][2], float *stats, unsigned valid, const row_state &r)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned row = m * 16 + half * 8 + lane / 4;
            float sum = quad_sum(r.sum[m][half]);
            scale[m][half] = 1.0f / sum;
            if (lane % 4 == 0 && row < valid)
                stats[row] = r.max[m][half] * SOFTMAX_SCALE + logf(sum);
        }
}

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    flash_forward(H *out, float *stats, const H *qkv, attention_args a)
{
    CUDA_SHARED_ARRAY(H, queries, BLOCK_QUERIES * HEAD);
    CUDA_SHARED_ARRAY(H, tiles, 4 * TILE_ELEMS); /* [2][keys, values] */
    head_place at = place_of_head(a);
    unsigned block_query = (gridDim.y - 1 - blockIdx.y) * BLOCK_QUERIES; /* those with the most keys first */
    unsigned warp_row = threadIdx.x / WARP * WARP_QUERIES, query = block_query + warp_row;
    unsigned end = block_query + BLOCK_QUERIES < a.length ? block_query + BLOCK_QUERIES : a.length; /* of the keys */
    const H *q = qkv + at.qkv, *k = q + a.stride, *v = k + a.stride;
    left<H, M> ql;
    sums<M> o;
    row_state r;
    set_zero(o);
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        r.max[i / 2][i % 2] = -INFINITY;
        r.sum[i / 2][i % 2] = 0;
    }
    copy_tile<BLOCK_QUERIES>(queries, q + block_query * a.qkv_stride, a.qkv_stride, rows_left(block_query, a.length));
    copy_tile<TILE_ROWS>(tiles, k, a.qkv_stride, a.length);
    copy_tile<TILE_ROWS>(tiles + TILE_ELEMS, v, a.qkv_stride, a.length);
    cp_async_commit();
    for (unsigned key = 0, stage = 0; key < end; key += TILE_ROWS, stage ^= 1) {
        const H *tile = tiles + stage * 2 * TILE_ELEMS;
        cp_async_wait(0);
        __syncthreads();
        if (key == 0)
            load_left(ql, queries, warp_row);
        if (key + TILE_ROWS < end) {
            H *next = tiles + (stage ^ 1) * 2 * TILE_ELEMS;
            size_t from = (key + TILE_ROWS) * a.qkv_stride;
            copy_tile<TILE_ROWS>(next, k + from, a.qkv_stride, a.length - key - TILE_ROWS);
            copy_tile<TILE_ROWS>(next + TILE_ELEMS, v + from, a.qkv_stride, a.length - key - TILE_ROWS);
            cp_async_commit();
        }
        if (key >= query + WARP_QUERIES)
            continue;
        sums<M> s;
        left<H, M> p;
        set_zero(s);
        multiply_transposed(s, ql, tile);
        if (key + TILE_ROWS > query + 1)
            mask_scores(s, query, key);
        exponentiate(s, o, r);
        round_left(p, s);
        multiply(o, p, tile + TILE_ELEMS);
    }
    float scale[M][2];
    unsigned valid = rows_left(query, a.length);
    finish_rows(scale, stats + at.stats + query, valid, r);
    store_sums(out + at.out + query * a.stride, a.stride, valid, o, scale, queries, warp_row);
}

template <typename H>
static int forward(void *out, float *stats, const void *qkv, const struct attention_shape *s, void *stream)
{
    if (attention_shape_is_bad(s) || !is_aligned_16(out) || !is_aligned_16(qkv))
        return cudaErrorInvalidValue;
    if (!cuda_attention_stats_elems(s))
        return 0;
    unsigned blocks = (unsigned)((s->length + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    return (int)CUDA_LAUNCH(flash_forward<H>, dim3((unsigned)(s->batch * s->heads), blocks), dim3(ATTENTION_THREADS), 0,
                            (cudaStream_t)stream, (H *)out, stats, (const H *)qkv, attention_args_of(s));
}

int cuda_attention_forward(enum ddp_dtype type, void *out, float *stats, const void *qkv,
                           const struct attention_shape *s, void *stream)
{
    if (type == DDP_F32)
        return attention_forward_f32((float *)out, stats, (const float *)qkv, s, stream);
    if (type == DDP_BF16)
        return forward<bf16>(out, stats, qkv, s, stream);
    return type == DDP_F16 ? forward<f16>(out, stats, qkv, s, stream) : (int)cudaErrorInvalidValue;
}
