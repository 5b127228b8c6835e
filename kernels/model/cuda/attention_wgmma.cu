/* Flash attention, forward, by wgmma: a block takes 256 queries of a head, a warpgroup 64 of them. While a warpgroup
 * makes exponentials of its scores, the others' products are under way. Its product with the values goes on beyond the
 * barrier to its scores of the next tile, so that there are three pairs of tiles: one that is copied in, one that is
 * worked on, and the one before. */
#include "kernels/model/cuda/attention_path.h"
#include "kernels/model/cuda/attention_rows.h"
#include "kernels/model/cuda/attention_wgmma.h"

#define FORWARD_GROUPS 4u
#define FORWARD_THREADS (FORWARD_GROUPS * GROUP_THREADS)
#define BLOCK_QUERIES (FORWARD_GROUPS * GROUP_ROWS)

template <typename H>
__global__ void __launch_bounds__(FORWARD_THREADS, 1)
    wgmma_forward(H *out, float *stats, const H *qkv, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 3 * PAIR_ELEMS); /* [3][keys, values]; at the end out */
    head_place at = place_of_head(a);
    unsigned block_query = (gridDim.y - 1 - blockIdx.y) * BLOCK_QUERIES; /* those with the most keys first */
    unsigned group_query = block_query + threadIdx.x / GROUP_THREADS * GROUP_ROWS;
    unsigned warp_row = threadIdx.x / WARP * 16, query = block_query + warp_row, valid = rows_left(query, a.length);
    unsigned end = block_query + BLOCK_QUERIES < a.length ? block_query + BLOCK_QUERIES : a.length; /* of the keys */
    const H *q = qkv + at.qkv, *k = q + a.stride;
    pair_source<H> kv = pair_of(k, a.qkv_stride, k + a.stride, a.qkv_stride);
    left<H, 1> ql, p;
    sums<1> s, o;
    row_state<1> r;
    set_zero(o);
    set_none(r);
    copy_pair(tiles, kv, 0, a.length);
    load_left(ql, q + query * a.qkv_stride, a.qkv_stride, valid);
    for (unsigned key = 0, stage = 0; key < end; key += TILE_ROWS) {
        const H *tile = tiles + stage * PAIR_ELEMS;
        meet_after_copies();
        stage = stage == 2 ? 0 : stage + 1;
        if (key + TILE_ROWS < end)
            copy_pair(tiles + stage * PAIR_ELEMS, kv, key + TILE_ROWS, a.length);
        if (key > group_query || group_query >= a.length) { /* nothing of this tile counts */
            wgmma_wait(0, o.c[0]);
            continue;
        }
        wgmma_fence(ql.a[0]);
        begin_transposed(s, ql, tile);
        wgmma_commit();
        wgmma_wait(0, s.c[0], o.c[0]);
        if (key == group_query)
            mask_scores(s, query, key);
        exponentiate(s, o, r);
        round_left(p, s);
        wgmma_fence(p.a[0], o.c[0]);
        begin_product(o, p, tile + TILE_ELEMS);
        wgmma_commit();
    }
    wgmma_wait(0, o.c[0]);
    float scale[1][2];
    __syncthreads();
    finish_rows(scale, stats + at.stats + query, valid, r);
    store_sums(out + at.out + query * a.stride, a.stride, valid, o, scale, tiles, warp_row);
}

template <typename H>
static int forward(void *out, float *stats, const void *qkv, const struct attention_shape *s, void *stream)
{
    unsigned blocks = (unsigned)((s->length + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    return (int)CUDA_LAUNCH(wgmma_forward<H>, dim3((unsigned)(s->batch * s->heads), blocks), dim3(FORWARD_THREADS), 0,
                            (cudaStream_t)stream, (H *)out, stats, (const H *)qkv, attention_args_of(s));
}

int attention_forward_wgmma(enum ddp_dtype type, void *out, float *stats, const void *qkv,
                            const struct attention_shape *s, void *stream)
{
    return type == DDP_BF16 ? forward<bf16>(out, stats, qkv, s, stream) : forward<f16>(out, stats, qkv, s, stream);
}
