/* Flash attention, forward. A block takes 128 queries of a head, a warp 32 of them; all go over the keys and values in
 * tiles of 64, of which the next is copied in while the present one is worked on. */
#include "kernels/model/cuda/attention_f32.h"
#include "kernels/model/cuda/attention_path.h"
#include "kernels/model/cuda/attention_rows.h"

#define M 2 /* times 16 queries a warp */
#define WARP_QUERIES (M * 16u)
#define BLOCK_QUERIES (ATTENTION_WARPS * WARP_QUERIES)

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    flash_forward(H *out, float *stats, const H *qkv, attention_args a)
{
    CUDA_SHARED_ARRAY(H, queries, BLOCK_QUERIES * HEAD);
    CUDA_SHARED_ARRAY(H, tiles, 4 * TILE_ELEMS); /* [2][keys, values] */
    head_place at = place_of_head(a);
    unsigned block_query = (a.parts - 1 - at.part) * BLOCK_QUERIES; /* those with the most keys first */
    unsigned warp_row = threadIdx.x / WARP * WARP_QUERIES, query = block_query + warp_row;
    unsigned end = block_query + BLOCK_QUERIES < a.length ? block_query + BLOCK_QUERIES : a.length; /* of the keys */
    const H *q = qkv + at.qkv, *k = q + a.stride, *v = k + a.stride;
    left<H, M> ql;
    sums<M> o;
    row_state<M> r;
    set_zero(o);
    set_none(r);
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
    attention_args a = attention_args_of(s, BLOCK_QUERIES);
    return (int)CUDA_LAUNCH(flash_forward<H>, attention_grid(s, a), dim3(ATTENTION_THREADS), 0, (cudaStream_t)stream,
                            (H *)out, stats, (const H *)qkv, a);
}

int cuda_attention_forward(enum ddp_dtype type, enum cuda_attention_way way, void *out, float *stats,
                           const void *qkv, const struct attention_shape *s, void *stream)
{
    if (type == DDP_F32)
        return attention_forward_f32((float *)out, stats, (const float *)qkv, s, stream);
    if ((type != DDP_BF16 && type != DDP_F16) || attention_shape_is_bad(s) || !is_aligned_16(out) ||
        !is_aligned_16(qkv))
        return cudaErrorInvalidValue;
    if (!cuda_attention_stats_elems(s))
        return 0;
    if (way == CUDA_ATTENTION_WGMMA)
        return attention_forward_wgmma(type, out, stats, qkv, s, stream);
    return type == DDP_BF16 ? forward<bf16>(out, stats, qkv, s, stream) : forward<f16>(out, stats, qkv, s, stream);
}
