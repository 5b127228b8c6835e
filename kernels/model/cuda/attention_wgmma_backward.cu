/* Flash attention, backward, by wgmma: the products of attention_backward.cu, in two kernels as there. (One kernel for
 * all would save two of the seven products per tile, but must write dq's parts per tile of keys, in float32, for
 * another to add in a fixed order: with heads of 64 those bytes take longer than the products.)
 *
 * Every product is waited for before the next barrier, so that two pairs of tiles are enough. */
#include "kernels/model/cuda/attention_gradients.h"
#include "kernels/model/cuda/attention_path.h"
#include "kernels/model/cuda/attention_wgmma.h"

/* ---- dq ---- */

#define DQ_GROUPS 3u
#define DQ_THREADS (DQ_GROUPS * GROUP_THREADS)
#define DQ_QUERIES (DQ_GROUPS * GROUP_ROWS)

/* Later keys do not count. (query_gradients' own comparison would be made for every tile.) */
__device__ __forceinline__ void mask_gradients(sums<1> &ds, unsigned row)
{
    each_sum(ds, [=](float &x, unsigned query, unsigned key) { x = key <= row + query ? x : 0.0f; });
}

template <typename H>
__global__ void __launch_bounds__(DQ_THREADS, 1) wgmma_dq(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 2 * PAIR_ELEMS); /* [2][keys, values]; at the end dq */
    head_place at = place_of_head(a);
    unsigned block_query = (gridDim.y - 1 - blockIdx.y) * DQ_QUERIES; /* those with the most keys first */
    unsigned group_query = block_query + threadIdx.x / GROUP_THREADS * GROUP_ROWS;
    unsigned lane = threadIdx.x % WARP, block_row = threadIdx.x / WARP * 16, query = block_query + block_row;
    unsigned valid = rows_left(query, a.length);
    unsigned end = block_query + DQ_QUERIES < a.length ? block_query + DQ_QUERIES : a.length; /* of the keys */
    const H *q = x.qkv + at.qkv, *k = q + a.stride;
    pair_source<H> kv = pair_of(k, a.qkv_stride, k + a.stride, a.qkv_stride);
    float log2_sum[2], d[2];
    left<H, 1> ql, dol, ds;
    sums<1> s, dp, dq;
    set_zero(dq);
    copy_pair(tiles, kv, 0, a.length);
    load_left(ql, q + query * a.qkv_stride, a.qkv_stride, valid);
    load_left(dol, x.dout + at.out + query * a.stride, a.stride, valid);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        unsigned i = half * 8 + lane / 4;
        log2_sum[half] = i < valid ? x.stats[at.stats + query + i] * LOG2_E : 0.0f;
        d[half] = i < valid ? x.d[at.stats + query + i] : 0.0f;
    }
    for (unsigned key = 0, stage = 0; key < end; key += TILE_ROWS, stage ^= 1) {
        const H *tile = tiles + stage * PAIR_ELEMS;
        meet_after_copies();
        if (key + TILE_ROWS < end)
            copy_pair(tiles + (stage ^ 1) * PAIR_ELEMS, kv, key + TILE_ROWS, a.length);
        if (key > group_query || group_query >= a.length) /* nothing of this tile counts */
            continue;
        wgmma_fence(ql.a[0], dol.a[0]);
        begin_transposed(s, ql, tile);
        begin_transposed(dp, dol, tile + TILE_ELEMS);
        wgmma_commit();
        wgmma_wait(0, s.c[0], dp.c[0]);
        query_gradients(s, dp, log2_sum, d, 0, false);
        if (key == group_query)
            mask_gradients(s, block_row % GROUP_ROWS);
        round_left(ds, s);
        wgmma_fence(ds.a[0], dq.c[0]);
        begin_product(dq, ds, tile);
        wgmma_commit();
        wgmma_wait(0, dq.c[0]);
    }
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}};
    __syncthreads();
    store_sums(x.dqkv + at.qkv + query * a.qkv_stride, a.qkv_stride, valid, dq, scale, tiles, block_row);
}

/* ---- dk, dv ---- */

#define DKV_GROUPS 2u
#define DKV_THREADS (DKV_GROUPS * GROUP_THREADS)
#define DKV_KEYS (DKV_GROUPS * GROUP_ROWS)

template <typename H>
__global__ void __launch_bounds__(DKV_THREADS, 1) wgmma_dkv(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_TILES(H, tiles, 2 * PAIR_ELEMS); /* [2][queries, dout]; at the end dk, then dv */
    CUDA_SHARED_ARRAY(float, numbers, 2 * QUERY_NUMBERS);
    head_place at = place_of_head(a);
    unsigned block_key = blockIdx.y * DKV_KEYS, block_row = threadIdx.x / WARP * 16, key = block_key + block_row;
    unsigned group_key = block_key + threadIdx.x / GROUP_THREADS * GROUP_ROWS, valid = rows_left(key, a.length);
    const H *q = x.qkv + at.qkv, *k = q + a.stride + key * a.qkv_stride;
    pair_source<H> source = pair_of(q, a.qkv_stride, x.dout + at.out, a.stride);
    left<H, 1> kl, vl, pl, dsl;
    sums<1> p, dp, dk, dv;
    set_zero(dk);
    set_zero(dv);
    copy_pair(tiles, source, block_key, a.length);
    load_left(kl, k, a.qkv_stride, valid);
    load_left(vl, k + a.stride, a.qkv_stride, valid);
    if (threadIdx.x < QUERY_NUMBERS)
        numbers[threadIdx.x] = query_number(x, at.stats, block_key, a.length);
    for (unsigned query = block_key, stage = 0; query < a.length; query += TILE_ROWS, stage ^= 1) {
        const H *tile = tiles + stage * PAIR_ELEMS;
        const float *number = numbers + stage * QUERY_NUMBERS;
        float next_number = 0;
        meet_after_copies();
        if (query + TILE_ROWS < a.length) {
            copy_pair(tiles + (stage ^ 1) * PAIR_ELEMS, source, query + TILE_ROWS, a.length);
            if (threadIdx.x < QUERY_NUMBERS)
                next_number = query_number(x, at.stats, query + TILE_ROWS, a.length);
        }
        if (query >= group_key && group_key < a.length) {
            wgmma_fence(kl.a[0], vl.a[0]);
            begin_transposed(p, kl, tile);
            wgmma_commit();
            begin_transposed(dp, vl, tile + TILE_ELEMS);
            wgmma_commit();
            wgmma_wait(1, p.c[0]);
            key_probabilities(p, number, block_row % GROUP_ROWS, query == group_key);
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
            wgmma_wait(0, dv.c[0], dk.c[0]);
        }
        if (threadIdx.x < QUERY_NUMBERS)
            numbers[(stage ^ 1) * QUERY_NUMBERS + threadIdx.x] = next_number;
    }
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}}, one[1][2] = {{1, 1}};
    H *to = x.dqkv + at.qkv + a.stride + key * a.qkv_stride;
    __syncthreads();
    store_sums(to, a.qkv_stride, valid, dk, scale, tiles, block_row);
    store_sums(to + a.stride, a.qkv_stride, valid, dv, one, tiles, block_row);
}

template <typename H>
static int backward(void *dqkv, const float *d, const void *dout, const void *qkv, const float *stats,
                    const struct attention_shape *s, void *stream)
{
    attention_args a = attention_args_of(s);
    backward_tensors<H> x = {(H *)dqkv, (const H *)dout, (const H *)qkv, stats, d};
    unsigned heads = (unsigned)(s->batch * s->heads), length = (unsigned)s->length;
    int rc = (int)CUDA_LAUNCH(wgmma_dq<H>, dim3(heads, (length + DQ_QUERIES - 1) / DQ_QUERIES), dim3(DQ_THREADS), 0,
                              (cudaStream_t)stream, x, a);
    if (!rc)
        rc = (int)CUDA_LAUNCH(wgmma_dkv<H>, dim3(heads, (length + DKV_KEYS - 1) / DKV_KEYS), dim3(DKV_THREADS), 0,
                              (cudaStream_t)stream, x, a);
    return rc;
}

int attention_backward_wgmma(enum ddp_dtype type, void *dqkv, const float *d, const void *dout, const void *qkv,
                             const float *stats, const struct attention_shape *s, void *stream)
{
    return type == DDP_BF16 ? backward<bf16>(dqkv, d, dout, qkv, stats, s, stream)
                            : backward<f16>(dqkv, d, dout, qkv, stats, s, stream);
}
