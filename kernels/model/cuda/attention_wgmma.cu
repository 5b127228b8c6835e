/* Flash attention, forward, by wgmma: a block takes 64 queries of a head. */
#include "kernels/model/cuda/attention_path.h"
#include "kernels/model/cuda/attention_rows.h"
#include "kernels/model/cuda/attention_wgmma.h"

#define RESIDENT 5 /* blocks of a multiprocessor: what registers and shared memory allow */

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS, RESIDENT)
    wgmma_forward(H *out, float *stats, const H *qkv, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 2 * PAIR_ELEMS + TILE_ELEMS); /* [2][keys, values], queries; at the end out */
    head_place at = place_of_head(a);
    unsigned block_query = (a.parts - 1 - at.part) * TILE_ROWS; /* those with the most keys first */
    unsigned row = threadIdx.x / WARP * 16, query = block_query + row, valid = rows_left(query, a.length);
    const H *q = qkv + at.qkv, *k = q + a.stride;
    pair_source<H> kv = {k, k + a.stride, a.qkv_stride, a.qkv_stride};
    H *queries = tiles + 2 * PAIR_ELEMS;
    left<H, 1> p;
    sums<1> s, o;
    row_state<1> r;
    set_zero(o);
    set_none(r);
    copy_tile<TILE_ROWS>(queries, q + block_query * a.qkv_stride, a.qkv_stride, a.length - block_query);
    copy_pair(tiles, kv, 0, a.length);
    each_pair(0, block_query + 1, [&](auto pair, unsigned key) {
        const H *tile = tiles + pair.HERE * PAIR_ELEMS;
        meet_after_copies();
        if (key < block_query)
            copy_pair(tiles + pair.NEXT * PAIR_ELEMS, kv, key + TILE_ROWS, a.length);
        wgmma_fence();
        begin_transposed(s, queries, tile);
        wgmma_commit();
        wgmma_wait(0, s.c[0]);
        if (key == block_query)
            mask_scores(s, query, key);
        exponentiate(s, o, r);
        round_left(p, s);
        wgmma_fence(p.a[0], o.c[0]);
        begin_product(o, p, tile + TILE_ELEMS);
        wgmma_commit();
        wgmma_wait(0, o.c[0]);
    });
    float scale[1][2];
    __syncthreads();
    finish_rows(scale, stats + at.stats + query, valid, r);
    store_sums(out + at.out + query * a.stride, a.stride, valid, o, scale, tiles, row);
}

template <typename H>
static int forward(void *out, float *stats, const void *qkv, const struct attention_shape *s, void *stream)
{
    attention_args a = attention_args_of(s, TILE_ROWS);
    return (int)CUDA_LAUNCH(wgmma_forward<H>, attention_grid(s, a), dim3(ATTENTION_THREADS), 0, (cudaStream_t)stream,
                            (H *)out, stats, (const H *)qkv, a);
}

int attention_forward_wgmma(enum ddp_dtype type, void *out, float *stats, const void *qkv,
                            const struct attention_shape *s, void *stream)
{
    return type == DDP_BF16 ? forward<bf16>(out, stats, qkv, s, stream) : forward<f16>(out, stats, qkv, s, stream);
}
