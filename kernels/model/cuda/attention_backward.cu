/* Flash attention, backward. With p = softmax's probabilities and d = dout . out per query: dv = p^T dout,
 * dp = dout v^T, ds = p (dp - d), dq = scale ds k, dk = scale ds^T q. One kernel goes over the keys for 64 queries, one
 * over the queries for 64 keys: p and dp are made twice, and nothing is added across blocks. */
#include "kernels/model/cuda/attention_f32.h"
#include "kernels/model/cuda/attention_gradients.h"
#include "kernels/model/cuda/attention_path.h"

/* ---- d ---- */

/* Eight lanes take a head's row, 16 bytes each; rows are [batch, length, heads], d is [batch, heads, length]. */
template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    flash_dots(float *d, const H *dout, const H *out, attention_args a, size_t rows)
{
    size_t row = (size_t)blockIdx.x * (ATTENTION_THREADS / CHUNKS) + threadIdx.x / CHUNKS;
    unsigned chunk = threadIdx.x % CHUNKS;
    float x[8] = {0}, y[8] = {0}, sum = 0;
    if (row < rows) {
        load_16_bytes(x, dout + row * HEAD + chunk * 8);
        load_16_bytes(y, out + row * HEAD + chunk * 8);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += x[i] * y[i];
#pragma unroll
    for (int step = 4; step > 0; step /= 2)
        sum += __shfl_xor_sync(WARP_ALL, sum, step);
    size_t position = row / a.heads, b = position / a.length, h = row % a.heads;
    if (row < rows && chunk == 0)
        d[(b * a.heads + h) * a.length + position % a.length] = sum;
}

/* ---- dq ---- */

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS) flash_dq(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_ARRAY(H, tiles, 4 * TILE_ELEMS); /* [2][keys, values], at first [1] queries and dout */
    head_place at = place_of_head(a);
    unsigned block_query = (a.parts - 1 - at.part) * TILE_ROWS; /* those with the most keys first */
    unsigned lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16, query = block_query + row;
    unsigned block_valid = rows_left(block_query, a.length), valid = rows_left(query, a.length);
    const H *q = x.qkv + at.qkv, *k = q + a.stride, *v = k + a.stride;
    H *second = tiles + 2 * TILE_ELEMS;
    float log2_sum[2], d[2];
    left<H, 1> ql, dol;
    sums<1> dq;
    set_zero(dq);
    copy_tile<TILE_ROWS>(second, q + block_query * a.qkv_stride, a.qkv_stride, block_valid);
    copy_tile<TILE_ROWS>(second + TILE_ELEMS, x.dout + at.out + block_query * a.stride, a.stride, block_valid);
    copy_tile<TILE_ROWS>(tiles, k, a.qkv_stride, a.length);
    copy_tile<TILE_ROWS>(tiles + TILE_ELEMS, v, a.qkv_stride, a.length);
    cp_async_commit();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned i = half * 8 + lane / 4;
        log2_sum[half] = i < valid ? x.stats[at.stats + query + i] * LOG2_E : 0.0f;
        d[half] = i < valid ? x.d[at.stats + query + i] : 0.0f;
    }
    cp_async_wait(0);
    __syncthreads();
    load_left(ql, second, row);
    load_left(dol, second + TILE_ELEMS, row);
    for (unsigned key = 0, stage = 0; key <= block_query; key += TILE_ROWS, stage ^= 1) {
        const H *tile = tiles + stage * 2 * TILE_ELEMS;
        cp_async_wait(0);
        __syncthreads();
        if (key < block_query) {
            H *next = tiles + (stage ^ 1) * 2 * TILE_ELEMS;
            size_t from = (key + TILE_ROWS) * a.qkv_stride;
            copy_tile<TILE_ROWS>(next, k + from, a.qkv_stride, a.length - key - TILE_ROWS);
            copy_tile<TILE_ROWS>(next + TILE_ELEMS, v + from, a.qkv_stride, a.length - key - TILE_ROWS);
            cp_async_commit();
        }
        sums<1> s, dp;
        left<H, 1> ds;
        set_zero(s);
        set_zero(dp);
        multiply_transposed(s, ql, tile);
        multiply_transposed(dp, dol, tile + TILE_ELEMS);
        query_probabilities(s, log2_sum, row, key == block_query);
        query_gradients(s, dp, d);
        round_left(ds, s);
        multiply(dq, ds, tile);
    }
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}};
    __syncthreads();
    store_sums(x.dqkv + at.qkv + query * a.qkv_stride, a.qkv_stride, valid, dq, scale, tiles, row);
}

/* ---- dk, dv ---- */

template <typename H>
__global__ void __launch_bounds__(ATTENTION_THREADS) flash_dkv(backward_tensors<H> x, attention_args a)
{
    CUDA_SHARED_ARRAY(H, tiles, 4 * TILE_ELEMS); /* [2][queries, dout], at first [1] keys and values */
    CUDA_SHARED_ARRAY(float, numbers, 2 * QUERY_NUMBERS);
    head_place at = place_of_head(a);
    unsigned block_key = at.part * TILE_ROWS, row = threadIdx.x / WARP * 16, key = block_key + row;
    unsigned block_valid = rows_left(block_key, a.length), valid = rows_left(key, a.length);
    const H *q = x.qkv + at.qkv, *k = q + a.stride, *v = k + a.stride, *dout = x.dout + at.out;
    H *second = tiles + 2 * TILE_ELEMS;
    left<H, 1> kl, vl;
    sums<1> dk, dv;
    set_zero(dk);
    set_zero(dv);
    copy_tile<TILE_ROWS>(second, k + block_key * a.qkv_stride, a.qkv_stride, block_valid);
    copy_tile<TILE_ROWS>(second + TILE_ELEMS, v + block_key * a.qkv_stride, a.qkv_stride, block_valid);
    copy_tile<TILE_ROWS>(tiles, q + block_key * a.qkv_stride, a.qkv_stride, block_valid);
    copy_tile<TILE_ROWS>(tiles + TILE_ELEMS, dout + block_key * a.stride, a.stride, block_valid);
    cp_async_commit();
    store_query_number(numbers, load_query_number(x, at.stats, block_key, a.length));
    cp_async_wait(0);
    __syncthreads();
    load_left(kl, second, row);
    load_left(vl, second + TILE_ELEMS, row);
    for (unsigned query = block_key, stage = 0; query < a.length; query += TILE_ROWS, stage ^= 1) {
        const H *tile = tiles + stage * 2 * TILE_ELEMS;
        const float *number = numbers + stage * QUERY_NUMBERS;
        float next_number = 0;
        cp_async_wait(0);
        __syncthreads();
        if (query + TILE_ROWS < a.length) {
            unsigned next = query + TILE_ROWS;
            H *to = tiles + (stage ^ 1) * 2 * TILE_ELEMS;
            copy_tile<TILE_ROWS>(to, q + next * a.qkv_stride, a.qkv_stride, a.length - next);
            copy_tile<TILE_ROWS>(to + TILE_ELEMS, dout + next * a.stride, a.stride, a.length - next);
            cp_async_commit();
            next_number = load_query_number(x, at.stats, next, a.length);
        }
        sums<1> p, dp;
        left<H, 1> f;
        set_zero(p);
        set_zero(dp);
        multiply_transposed(p, kl, tile);
        key_probabilities(p, number, row, query == block_key);
        round_left(f, p);
        multiply(dv, f, tile + TILE_ELEMS);
        multiply_transposed(dp, vl, tile + TILE_ELEMS);
        key_gradients(dp, p, number);
        round_left(f, dp);
        multiply(dk, f, tile);
        store_query_number(numbers + (stage ^ 1) * QUERY_NUMBERS, next_number);
    }
    float scale[1][2] = {{SOFTMAX_SCALE, SOFTMAX_SCALE}}, one[1][2] = {{1, 1}};
    H *to = x.dqkv + at.qkv + a.stride + key * a.qkv_stride;
    __syncthreads();
    store_sums(to, a.qkv_stride, valid, dk, scale, tiles, row);
    store_sums(to + a.stride, a.qkv_stride, valid, dv, one, tiles, row);
}

template <typename H, enum ddp_dtype TYPE>
static int backward(enum cuda_attention_way way, void *dqkv, float *work, const void *dout, const void *out,
                    const void *qkv, const float *stats, const struct attention_shape *s, void *stream)
{
    size_t rows = cuda_attention_stats_elems(s), dots = ATTENTION_THREADS / CHUNKS;
    attention_args a = attention_args_of(s, TILE_ROWS);
    backward_tensors<H> x = {(H *)dqkv, (const H *)dout, (const H *)qkv, stats, work};
    dim3 grid = attention_grid(s, a);
    int rc = (int)CUDA_LAUNCH(flash_dots<H>, dim3((unsigned)((rows + dots - 1) / dots)), dim3(ATTENTION_THREADS), 0,
                              (cudaStream_t)stream, work, x.dout, (const H *)out, a, rows);
    if (!rc && way == CUDA_ATTENTION_WGMMA)
        return attention_backward_wgmma(TYPE, dqkv, work, dout, qkv, stats, s, stream);
    if (!rc)
        rc = (int)CUDA_LAUNCH(flash_dq<H>, grid, dim3(ATTENTION_THREADS), 0, (cudaStream_t)stream, x, a);
    if (!rc)
        rc = (int)CUDA_LAUNCH(flash_dkv<H>, grid, dim3(ATTENTION_THREADS), 0, (cudaStream_t)stream, x, a);
    return rc;
}

int cuda_attention_backward(enum ddp_dtype type, enum cuda_attention_way way, void *dqkv, float *work,
                            const void *dout, const void *out, const void *qkv, const float *stats,
                            const struct attention_shape *s, void *stream)
{
    if (type == DDP_F32)
        return attention_backward_f32((float *)dqkv, work, (const float *)dout, (const float *)out, (const float *)qkv,
                                      stats, s, stream);
    if ((type != DDP_BF16 && type != DDP_F16) || attention_shape_is_bad(s) || !is_aligned_16(dqkv) ||
        !is_aligned_16(dout) || !is_aligned_16(out) || !is_aligned_16(qkv))
        return cudaErrorInvalidValue;
    if (!cuda_attention_stats_elems(s))
        return 0;
    return type == DDP_BF16 ? backward<bf16, DDP_BF16>(way, dqkv, work, dout, out, qkv, stats, s, stream)
                            : backward<f16, DDP_F16>(way, dqkv, work, dout, out, qkv, stats, s, stream);
}
