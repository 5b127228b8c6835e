/* Forward: a block takes a row. Backward: a stable radix sort of the rows by token, four bits a pass; then a warp
 * takes a token and adds up its rows, or a block, if they are many, or a position. */
#include "kernels/model/cuda/embedding.h"

#include "kernels/model/cuda/lanes.h"

#define FORWARD_THREADS 128u
#define SORT_THREADS 256u
#define ITEMS 8u /* a thread's, one after the other */
#define SORT_TILE (SORT_THREADS * ITEMS)
#define DIGITS 16u
#define SUM_WARPS 8u
#define AHEAD 8u /* rows */

constexpr unsigned N = piece<float>::N; /* columns that a thread takes at once */

__global__ void __launch_bounds__(FORWARD_THREADS)
    embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe, size_t length,
                      unsigned width, size_t token_stride, bool whole)
{
    size_t b = blockIdx.x / length, t = blockIdx.x % length;
    const float *token = wte + (size_t)tokens[b * token_stride + t] * width, *position = wpe + t * width;
    float *row = out + (size_t)blockIdx.x * width;
    for (unsigned column = threadIdx.x * N; column < width; column += FORWARD_THREADS * N) {
        unsigned n = elements_left<N>(column, width);
        float x[N], y[N];
        load_piece(x, token + column, n, whole);
        load_piece(y, position + column, n, whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            x[i] += y[i];
        store_piece(row + column, x, n, whole);
    }
}

/* ---- sorting ---- */

/* What a pass sorts: tokens and their rows. The first reads the batch itself. */
struct sort_input {
    const uint32_t *token, *row;
    const int32_t *batch; /* or NULL */
    size_t length, token_stride;
    unsigned n, shift;
};

__device__ __forceinline__ uint32_t sort_token(const sort_input &in, unsigned i)
{
    return in.batch ? (uint32_t)in.batch[i / in.length * in.token_stride + i % in.length] : in.token[i];
}

/* count[digit, thread] becomes the number of the tile's items with this digit before the thread's; a warp takes a
 * digit. The whole tile's go to totals[digit] unless that is NULL. */
__device__ __forceinline__ void scan_counts(uint32_t *count, uint32_t *totals, unsigned totals_stride)
{
    unsigned lane = threadIdx.x % WARP;
    for (unsigned digit = threadIdx.x / WARP; digit < DIGITS; digit += SORT_THREADS / WARP) {
        uint32_t before = 0;
        for (unsigned i = lane; i < SORT_THREADS; i += WARP) {
            uint32_t own = count[digit * SORT_THREADS + i], sum = own;
            for (unsigned step = 1; step < WARP; step *= 2) {
                uint32_t below = __shfl_sync(WARP_ALL, sum, (int)(lane - step) & 31);
                sum += lane >= step ? below : 0;
            }
            count[digit * SORT_THREADS + i] = before + sum - own;
            before += __shfl_sync(WARP_ALL, sum, 31);
        }
        if (totals && lane == 0)
            totals[digit * totals_stride] = before;
    }
}

/* One tile a block. First with scatter NULL: counts its digits into starts[digit, tile]. Then, the starts being
 * scanned, puts its items where they belong. */
__global__ void __launch_bounds__(SORT_THREADS)
    sort_pass(sort_input in, uint32_t *starts, uint32_t *token_out, uint32_t *row_out, bool scatter)
{
    CUDA_SHARED_ARRAY(uint32_t, count, DIGITS * SORT_THREADS);
    unsigned begin = blockIdx.x * SORT_TILE + threadIdx.x * ITEMS;
    uint32_t token[ITEMS];
    for (unsigned d = 0; d < DIGITS; d++)
        count[d * SORT_THREADS + threadIdx.x] = 0;
#pragma unroll
    for (unsigned k = 0; k < ITEMS; k++)
        if (begin + k < in.n) {
            token[k] = sort_token(in, begin + k);
            count[(token[k] >> in.shift) % DIGITS * SORT_THREADS + threadIdx.x]++;
        }
    __syncthreads();
    scan_counts(count, scatter ? NULL : starts + blockIdx.x, gridDim.x);
    if (!scatter)
        return;
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < ITEMS; k++)
        if (begin + k < in.n) {
            unsigned digit = (token[k] >> in.shift) % DIGITS;
            uint32_t at = starts[digit * gridDim.x + blockIdx.x] + count[digit * SORT_THREADS + threadIdx.x]++;
            token_out[at] = token[k];
            row_out[at] = in.batch ? begin + k : in.row[begin + k];
        }
}

/* x[i] becomes the sum of x[0..i). One warp. */
__global__ void __launch_bounds__(WARP) sort_scan(uint32_t *x, unsigned n)
{
    unsigned lane = threadIdx.x;
    uint32_t before = 0;
    for (unsigned begin = 0; begin < n; begin += WARP) {
        uint32_t own = begin + lane < n ? x[begin + lane] : 0, sum = own;
        for (unsigned step = 1; step < WARP; step *= 2) {
            uint32_t below = __shfl_sync(WARP_ALL, sum, (int)(lane - step) & 31);
            sum += lane >= step ? below : 0;
        }
        if (begin + lane < n)
            x[begin + lane] = before + sum - own;
        before += __shfl_sync(WARP_ALL, sum, 31);
    }
}

/* ---- sums of rows ---- */

struct sum_args {
    float *out;                  /* [.., width] */
    const uint32_t *token, *row; /* sorted; of positions NULL */
    unsigned n, length, width;   /* n rows; length: positions */
    bool whole;
};

/* The thread's columns of a row. */
struct sum_columns {
    unsigned first, n;
};

__device__ __forceinline__ sum_columns thread_columns(const sum_args &a)
{
    unsigned first = (blockIdx.y * WARP + threadIdx.x % WARP) * N;
    return {first, elements_left<N>(first, a.width)};
}

/* Of the group-th 32 rows that belong together, from the first on: how many there are, and lane i's of them. */
__device__ __forceinline__ unsigned group_rows(const sum_args &a, unsigned first, unsigned group, size_t *row)
{
    unsigned i = group * WARP + threadIdx.x % WARP;
    bool is;
    *row = 0;
    if (a.token) {
        is = first + i < a.n && a.token[first + i] == a.token[first];
        if (is)
            *row = a.row[first + i];
    } else {
        *row = (size_t)i * a.length + first;
        is = *row < a.n;
    }
    return (unsigned)__popc(__ballot_sync(WARP_ALL, is));
}

/* sum += `count` rows of dout, lane i's the i-th; some loads are on their way at a time. */
__device__ __forceinline__ void add_rows(float (&sum)[N], const sum_args &a, const float *dout, const sum_columns &c,
                                         size_t row, unsigned count)
{
    for (unsigned i = 0; i < count; i += AHEAD) {
        float x[AHEAD][N];
#pragma unroll
        for (unsigned u = 0; u < AHEAD; u++) {
            size_t at = __shfl_sync(WARP_ALL, row, (int)(i + u) % 32);
            load_piece(x[u], dout + at * a.width + c.first, i + u < count ? c.n : 0, a.whole);
        }
#pragma unroll
        for (unsigned u = 0; u < AHEAD; u++)
#pragma unroll
            for (unsigned k = 0; k < N; k++)
                sum[k] += x[u][k];
    }
}

__device__ __forceinline__ void add_to_out(const sum_args &a, const float (&sum)[N], const sum_columns &c, size_t row)
{
    float x[N], *out = a.out + row * a.width + c.first;
    load_piece(x, out, c.n, a.whole);
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        x[k] += sum[k];
    store_piece(out, x, c.n, a.whole);
}

/* out's row += all rows that belong to `first`: warp w takes groups w, w + 8, ...; then the warps are added in order.
 * By the whole block. sums: [warps, N, 32]. */
__device__ __forceinline__ void add_by_block(const sum_args &a, const float *dout, const sum_columns &c,
                                             unsigned first, size_t out_row, float *sums)
{
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, count = WARP;
    float sum[N] = {0};
    for (unsigned group = warp; count == WARP; group += SUM_WARPS) {
        size_t row;
        count = group_rows(a, first, group, &row);
        add_rows(sum, a, dout, c, row, count);
    }
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        sums[(warp * N + k) * WARP + lane] = sum[k];
    __syncthreads();
    if (warp == 0) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            for (unsigned w = 1; w < SUM_WARPS; w++)
                sum[k] += sums[(w * N + k) * WARP + lane];
        add_to_out(a, sum, c, out_row);
    }
}

/* A block has 8 places among the sorted rows. Of a place that is its token's first, a warp adds up the rows, where
 * they are less than 32; the whole block, where they are more. */
__global__ void __launch_bounds__(SUM_WARPS *WARP) embedding_sum_tokens(sum_args a, const float *dout)
{
    CUDA_SHARED_ARRAY(float, sums, SUM_WARPS * WARP * N);
    CUDA_SHARED_ARRAY(bool, is_long, SUM_WARPS);
    unsigned warp = threadIdx.x / WARP, begin = blockIdx.x * SUM_WARPS, first = begin + warp, count = 0;
    sum_columns c = thread_columns(a);
    size_t row = 0;
    if (first < a.n && (first == 0 || a.token[first - 1] != a.token[first]))
        count = group_rows(a, first, 0, &row);
    if (count > 0 && count < WARP) {
        float sum[N] = {0};
        add_rows(sum, a, dout, c, row, count);
        add_to_out(a, sum, c, a.token[first]);
    }
    if (threadIdx.x % WARP == 0)
        is_long[warp] = count == WARP;
    __syncthreads();
    for (unsigned w = 0; w < SUM_WARPS; w++)
        if (is_long[w]) { /* and no other is: it fills the places behind */
            add_by_block(a, dout, c, begin + w, a.token[begin + w], sums);
            return;
        }
}

/* A block has one position. */
__global__ void __launch_bounds__(SUM_WARPS *WARP) embedding_sum_positions(sum_args a, const float *dout)
{
    CUDA_SHARED_ARRAY(float, sums, SUM_WARPS * WARP * N);
    add_by_block(a, dout, thread_columns(a), blockIdx.x, blockIdx.x, sums);
}

/* ---- host ---- */

static size_t n_rows(const struct embedding_shape *s)
{
    return s->batch * s->length;
}

static bool shape_is_bad(const struct embedding_shape *s)
{
    return !s->width || s->width > INT32_MAX || s->token_stride < s->length || n_rows(s) > INT32_MAX;
}

int cuda_embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe,
                           const struct embedding_shape *s, void *stream)
{
    if (shape_is_bad(s))
        return cudaErrorInvalidValue;
    if (!n_rows(s))
        return 0;
    bool whole = s->width % N == 0 && is_aligned_16(out) && is_aligned_16(wte) && is_aligned_16(wpe);
    return (int)CUDA_LAUNCH(embedding_forward, dim3((unsigned)n_rows(s)), dim3(FORWARD_THREADS), 0,
                            (cudaStream_t)stream, out, tokens, wte, wpe, s->length, (unsigned)s->width,
                            s->token_stride, whole);
}

static unsigned n_tiles(const struct embedding_shape *s)
{
    return (unsigned)((n_rows(s) + SORT_TILE - 1) / SORT_TILE);
}

/* sorted holds the tokens, their rows, the same again for passes in between, and the tiles' starts. */
size_t cuda_embedding_sorted_elems(const struct embedding_shape *s)
{
    return 4 * n_rows(s) + DIGITS * n_tiles(s);
}

int cuda_embedding_sort(uint32_t *sorted, const int32_t *tokens, const struct embedding_shape *s, size_t vocab,
                        void *stream)
{
    unsigned n = (unsigned)n_rows(s), tiles = n_tiles(s), passes = 1;
    int rc = shape_is_bad(s) || vocab > INT32_MAX ? cudaErrorInvalidValue : 0;
    while (vocab > (size_t)1 << 4 * passes)
        passes++;
    uint32_t *starts = sorted + 4 * (size_t)n;
    sort_input in = {NULL, NULL, tokens, s->length, s->token_stride, n, 0};
    for (unsigned p = 0; p < passes && n && !rc; p++) {
        uint32_t *out = sorted + ((passes - p) % 2 ? 0 : 2 * (size_t)n); /* the last pass's is the first half */
        rc = (int)CUDA_LAUNCH(sort_pass, dim3(tiles), dim3(SORT_THREADS), 0, (cudaStream_t)stream, in, starts, out,
                              out + n, false);
        if (!rc)
            rc = (int)CUDA_LAUNCH(sort_scan, dim3(1), dim3(WARP), 0, (cudaStream_t)stream, starts, DIGITS * tiles);
        if (!rc)
            rc = (int)CUDA_LAUNCH(sort_pass, dim3(tiles), dim3(SORT_THREADS), 0, (cudaStream_t)stream, in, starts, out,
                                  out + n, true);
        in.token = out, in.row = out + n, in.batch = NULL, in.shift += 4;
    }
    return rc;
}

int cuda_embedding_backward(float *dwte, float *dwpe, const float *dout, const uint32_t *sorted,
                            const struct embedding_shape *s, void *stream)
{
    if (shape_is_bad(s))
        return cudaErrorInvalidValue;
    if (!n_rows(s))
        return 0;
    unsigned n = (unsigned)n_rows(s), w = (unsigned)s->width, columns = (w + WARP * N - 1) / (WARP * N);
    bool whole = w % N == 0 && is_aligned_16(dout);
    sum_args token = {dwte, sorted, sorted + n, n, 0, w, whole && is_aligned_16(dwte)};
    sum_args position = {dwpe, NULL, NULL, n, (unsigned)s->length, w, whole && is_aligned_16(dwpe)};
    int rc = (int)CUDA_LAUNCH(embedding_sum_tokens, dim3((n + SUM_WARPS - 1) / SUM_WARPS, columns),
                              dim3(SUM_WARPS * WARP), 0, (cudaStream_t)stream, token, dout);
    return rc ? rc
              : (int)CUDA_LAUNCH(embedding_sum_positions, dim3((unsigned)s->length, columns), dim3(SUM_WARPS * WARP), 0,
                                 (cudaStream_t)stream, position, dout);
}
