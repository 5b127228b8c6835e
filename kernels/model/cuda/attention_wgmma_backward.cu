/* Flash attention, backward, by wgmma: the products of attention_backward.cu, in two kernels as there. (One kernel for
 * all would save two of the seven products per tile, but must write dq's parts per tile of keys, in float32, for
 * another to add in a fixed order: with heads of 64 those bytes take longer than the products.) */
#include "kernels/model/cuda/attention_gradients.h"
#include "kernels/model/cuda/attention_path.h"
#include "kernels/model/cuda/attention_wgmma.h"

/* Blocks of a multiprocessor: what registers and shared memory allow. */
#define DQ_RESIDENT 4
#define DKV_RESIDENT 3

/* ---- dq ---- */

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS, DQ_RESIDENT) wgmma_dq(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 3 * PAIR_ELEMS); /* [2][keys, values], queries, dout; at the end dq */
    head_place at = place_of_head(a);
    unsigned block_query = (a.parts - 1 - at.part) * TILE_ROWS; /* those with the most keys first */
    unsigned lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16, query = block_query + row;
    unsigned valid = rows_left(query, a.length);
    const H *q = x.qkv + at.qkv, *k = q + a.stride;
    pair_source<H> kv = {k, k + a.stride, a.qkv_stride, a.qkv_stride};
    pair_source<H> own = {q, x.dout + at.out, a.qkv_stride, a.stride};
    H *queries = tiles + 2 * PAIR_ELEMS, *douts = queries + TILE_ELEMS;
    float log2_sum[2], d[2];
    left<H, 1> ds;
    sums<1> p, dp, dq;
    set_zero(dq);
    copy_pair(queries, own, block_query, a.length);
    copy_pair(tiles, kv, 0, a.length);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        unsigned i = half * 8 + lane / 4;
        log2_sum[half] = i < valid ? x.stats[at.stats + query + i] * LOG2_E : 0.0f;
        d[half] = i < valid ? x.d[at.stats + query + i] : 0.0f;
    }
    each_pair(0, block_query + 1, [&](auto pair, unsigned key) {
        const H *tile = tiles + pair.HERE * PAIR_ELEMS;
        meet_after_copies();
        if (key < block_query)
            copy_pair(tiles + pair.NEXT * PAIR_ELEMS, kv, key + TILE_ROWS, a.length);
        wgmma_fence();
        begin_transposed(p, queries, tile);
        wgmma_commit();
        begin_transposed(dp, douts, tile + TILE_ELEMS);
        wgmma_commit();
        wgmma_wait(1, p.c[0]);
        query_probabilities(p, log2_sum, row, key == block_query);
        wgmma_wait(0, dp.c[0]);
        query_gradients(p, dp, d);
        round_left(ds, p);
        wgmma_fence(ds.a[0], dq.c[0]);
        begin_product(dq, ds, tile);
        wgmma_commit();
        wgmma_wait(0, dq.c[0]);
    });
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}};
    __syncthreads();
    store_sums(x.dqkv + at.qkv + query * a.qkv_stride, a.qkv_stride, valid, dq, scale, tiles, row);
}

/* ---- dk, dv ---- */

#define NUMBERS_BYTES (2 * QUERY_NUMBERS * sizeof(float)) /* of two tiles of queries */

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS, DKV_RESIDENT) wgmma_dkv(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 3 * PAIR_ELEMS); /* [2][queries, dout], keys, values; at the end dk, then dv */
    CUDA_SHARED(float, numbers);
    head_place at = place_of_head(a);
    unsigned block_key = at.part * TILE_ROWS, row = threadIdx.x / WARP * 16, key = block_key + row;
    unsigned valid = rows_left(key, a.length);
    const H *q = x.qkv + at.qkv, *k = q + a.stride;
    pair_source<H> source = {q, x.dout + at.out, a.qkv_stride, a.stride};
    pair_source<H> own = {k, k + a.stride, a.qkv_stride, a.qkv_stride};
    H *keys = tiles + 2 * PAIR_ELEMS, *values = keys + TILE_ELEMS;
    left<H, 1> pl, dsl;
    sums<1> p, dp, dk, dv;
    set_zero(dk);
    set_zero(dv);
    copy_pair(keys, own, block_key, a.length);
    copy_pair(tiles, source, block_key, a.length);
    store_query_number(numbers, load_query_number(x, at.stats, block_key, a.length));
    each_pair(block_key, a.length, [&](auto pair, unsigned query) {
        const H *tile = tiles + pair.HERE * PAIR_ELEMS;
        const float *number = numbers + pair.HERE * QUERY_NUMBERS;
        float next_number = 0;
        meet_after_copies();
        if (query + TILE_ROWS < a.length) {
            next_number = load_query_number(x, at.stats, query + TILE_ROWS, a.length);
            copy_pair(tiles + pair.NEXT * PAIR_ELEMS, source, query + TILE_ROWS, a.length);
        }
        wgmma_fence();
        begin_transposed(p, keys, tile);
        wgmma_commit();
        begin_transposed(dp, values, tile + TILE_ELEMS);
        wgmma_commit();
        wgmma_wait(1, p.c[0]);
        key_probabilities(p, number, row, query == block_key);
        round_left(pl, p);
        wgmma_wait(0, dp.c[0]);
        wgmma_fence(pl.a[0], dv.c[0]);
        begin_product(dv, pl, tile + TILE_ELEMS);
        wgmma_commit();
        key_gradients(dp, p, number);
        round_left(dsl, dp);
        wgmma_fence(dsl.a[0], dk.c[0]);
        begin_product(dk, dsl, tile);
        wgmma_commit();
        store_query_number(numbers + pair.NEXT * QUERY_NUMBERS, next_number);
        wgmma_wait(0, dv.c[0], dk.c[0]);
    });
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}}, one[1][2] = {{1, 1}};
    H *to = x.dqkv + at.qkv + a.stride + key * a.qkv_stride;
    __syncthreads();
    store_sums(to, a.qkv_stride, valid, dk, scale, tiles, row);
    store_sums(to + a.stride, a.qkv_stride, valid, dv, one, tiles, row);
}

template <typename H>
static int backward(void *dqkv, const float *d, const void *dout, const void *qkv, const float *stats,
                    const struct attention_shape *s, void *stream)
{
    attention_args a = attention_args_of(s, TILE_ROWS);
    backward_tensors<H> x = {(H *)dqkv, (const H *)dout, (const H *)qkv, stats, d};
    dim3 grid = attention_grid(s, a), block(ATTENTION_THREADS);
    int rc = (int)CUDA_LAUNCH(wgmma_dq<H>, grid, block, 0, (cudaStream_t)stream, x, a);
    rc = rc ? rc : (int)cudaFuncSetAttribute(wgmma_dkv<H>, cudaFuncAttributeMaxDynamicSharedMemorySize, NUMBERS_BYTES);
    return rc ? rc : (int)CUDA_LAUNCH(wgmma_dkv<H>, grid, block, NUMBERS_BYTES, (cudaStream_t)stream, x, a);
}

int attention_backward_wgmma(enum ddp_dtype type, void *dqkv, const float *d, const void *dout, const void *qkv,
                             const float *stats, const struct attention_shape *s, void *stream)
{
    return type == DDP_BF16 ? backward<bf16>(dqkv, d, dout, qkv, stats, s, stream)
                            : backward<f16>(dqkv, d, dout, qkv, stats, s, stream);
}
