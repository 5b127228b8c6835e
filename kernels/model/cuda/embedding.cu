/* Forward: a block takes a row. Backward: a stable radix sort of the rows by token, four bits a pass; then a block
 * takes a token (or a position) and adds up its rows. */
#include "kernels/model/cuda/embedding.h"

#include "kernels/model/cuda/lanes.h"

#define FORWARD_THREADS 128u
#define SORT_THREADS 256u
#define ITEMS 8u /* a thread's, one after the other */
#define SORT_TILE (SORT_THREADS * ITEMS)
#define DIGITS 16u
#define SUM_WARPS 8u

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
    float *out;            /* [.., width] */
    const uint32_t *token, *row; /* sorted; NULL: rows of one position */
    unsigned n, length, width;   /* n rows; length: positions */
    bool whole;
};

/* The i-th row that block `first` adds up, or false. */
__device__ __forceinline__ bool sum_row(const sum_args &a, unsigned first, unsigned i, size_t *row)
{
    if (!a.token) {
        *row = (size_t)i * a.length + first;
        return *row < a.n;
    }
    if (first + i >= a.n || a.token[first + i] != a.token[first])
        return false;
    *row = a.row[first + i];
    return true;
}

/* out[token] += its rows of dout, where the block's place among the sorted is the token's first. Warp w takes rows w,
 * w + 8, ...; then the warps are added in order. */
__global__ void __launch_bounds__(SUM_WARPS *WARP) embedding_sum(sum_args a, const float *dout)
{
    CUDA_SHARED_ARRAY(float, sums, SUM_WARPS * WARP * N); /* [warps, N, 32] */
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, first = blockIdx.x;
    unsigned column = (blockIdx.y * WARP + lane) * N, n = elements_left<N>(column, a.width);
    if (a.token && first > 0 && a.token[first - 1] == a.token[first])
        return;
    float sum[N] = {0}, x[N];
    size_t row;
    for (unsigned i = warp; sum_row(a, first, i, &row); i += SUM_WARPS) {
        load_piece(x, dout + row * a.width + column, n, a.whole);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            sum[k] += x[k];
    }
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        sums[(warp * N + k) * WARP + lane] = sum[k];
    __syncthreads();
    if (warp != 0)
        return;
    float *out = a.out + (size_t)(a.token ? a.token[first] : first) * a.width + column;
    load_piece(x, out, n, a.whole);
#pragma unroll
    for (unsigned k = 0; k < N; k++) {
        for (unsigned w = 1; w < SUM_WARPS; w++)
            sum[k] += sums[(w * N + k) * WARP + lane];
        x[k] += sum[k];
    }
    store_piece(out, x, n, a.whole);
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
    int rc = (int)CUDA_LAUNCH(embedding_sum, dim3(n, columns), dim3(SUM_WARPS * WARP), 0, (cudaStream_t)stream, token,
                              dout);
    return rc ? rc
              : (int)CUDA_LAUNCH(embedding_sum, dim3((unsigned)s->length, columns), dim3(SUM_WARPS * WARP), 0,
                                 (cudaStream_t)stream, position, dout);
}
