/* attention_tile.h - 64 x 64 tiles of a 16-bit type H in shared memory, and products of a warp's fragments with them.
 *
 * A row is 128 bytes, 8 chunks of 16; chunk c of row r lies at c ^ (r % 8), so that neither the copies in nor ldmatrix
 * meet a bank twice. Fragments are those of mma.m16n8k16 (PTX ISA): lane l = 4 g + t holds, of a 16 x 8 tile of sums,
 * rows g (elements 0, 1) and g + 8 (2, 3), columns 2t and 2t + 1. */
#ifndef DDP_KERNELS_MODEL_CUDA_ATTENTION_TILE_H
#define DDP_KERNELS_MODEL_CUDA_ATTENTION_TILE_H

#include "kernels/model/cuda/attention.h"
#include "kernels/model/cuda/lanes.h"

#define HEAD 64u
#define CHUNKS 8u /* of 16 bytes in a row of HEAD */
#define TILE_ROWS 64u
#define TILE_ELEMS (TILE_ROWS * HEAD)
#define ATTENTION_WARPS 4u
#define ATTENTION_THREADS (ATTENTION_WARPS * WARP)
#define SOFTMAX_SCALE 0.125f            /* 1 / sqrt(HEAD) */
#define LOG2_E 1.44269504f
#define EXP2_SCALE (SOFTMAX_SCALE * LOG2_E) /* e^(scale x) = 2^(this x) */

struct attention_args {
    unsigned length, heads, parts; /* parts: blocks of a head */
    size_t qkv_stride, stride; /* from one position to the next, in elements */
};

/* One of the parts of one head of one sequence. A head's blocks follow each other, and find in L2 what they share. */
struct head_place {
    size_t qkv, out, stats; /* the head's first element in the tensors */
    unsigned part;
};

__device__ __forceinline__ head_place place_of_head(const attention_args &a)
{
    unsigned head = blockIdx.x / a.parts;
    size_t b = head / a.heads, h = head % a.heads;
    head_place p = {b * a.length * a.qkv_stride + h * HEAD, b * a.length * a.stride + h * HEAD,
                    (size_t)head * a.length, blockIdx.x % a.parts};
    return p;
}

__device__ __forceinline__ unsigned tile_at(unsigned row, unsigned chunk)
{
    return row * HEAD + (chunk ^ (row % CHUNKS)) * 8;
}

/* ROWS rows of `from`, of which the first `valid` exist: asynchronous copies, zeros for the others. By THREADS
 * threads: each has one chunk of every STEP-th row, which lie alike in the tile (STEP is a multiple of 8). */
template <unsigned ROWS, unsigned THREADS = ATTENTION_THREADS, typename H>
__device__ __forceinline__ void copy_tile(H *tile, const H *from, size_t stride, unsigned valid)
{
    constexpr unsigned STEP = THREADS / CHUNKS;
    static_assert(STEP % CHUNKS == 0 && ROWS % STEP == 0, "a thread's rows lie alike");
    unsigned row = threadIdx.x % THREADS / CHUNKS, chunk = threadIdx.x % CHUNKS;
    H *to = tile + tile_at(row, chunk);
    from += row * stride + chunk * 8;
#pragma unroll
    for (unsigned i = 0; i < ROWS; i += STEP, from += STEP * stride)
        cp_async_16(to + i * HEAD, from, row + i < valid ? 16 : 0);
}

__device__ __forceinline__ unsigned rows_left(unsigned begin, unsigned length)
{
    return begin < length ? length - begin : 0;
}

template <typename H, int M> struct left {
    uint32_t a[M][4][4]; /* two H each: M times 16 rows, 4 times 16 columns */
};

template <int M> struct sums {
    float c[M][8][4]; /* M times 16 rows, 8 times 8 columns */
};

/* f(sum, row, column) for each of the lane's, rows and columns counted from the warp's first. */
template <int M, typename F> __device__ __forceinline__ void each_sum(sums<M> &s, const F &f)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                f(s.c[m][n][i], m * 16 + i / 2 * 8 + lane / 4, n * 8 + lane % 4 * 2 + i % 2);
}

template <int M> __device__ __forceinline__ void set_zero(sums<M> &s)
{
    each_sum(s, [](float &sum, unsigned, unsigned) { sum = 0; });
}

/* Rows row, row + 1, ... of a tile. */
template <typename H, int M> __device__ __forceinline__ void load_left(left<H, M> &f, const H *tile, unsigned row)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            ldmatrix_x4(f.a[m][k], tile + tile_at(row + m * 16 + lane % 16, 2 * k + lane / 16));
}

/* The sums, rounded, as the left factor of the next product: their fragments are the same but for pairing. */
template <typename H, int M> __device__ __forceinline__ void round_left(left<H, M> &f, const sums<M> &s)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = &s.c[m][2 * k + i / 2][i % 2 * 2];
                f.a[m][k][i] = H::store2(pair[0], pair[1]);
            }
}

/* s += f tile^T: the tile's rows are the sums' columns. */
template <typename H, int M>
__device__ __forceinline__ void multiply_transposed(sums<M> &s, const left<H, M> &f, const H *tile)
{
    unsigned lane = threadIdx.x % WARP, row = lane / 16 * 8 + lane % 8, chunk = lane / 8 % 2;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            uint32_t b[4];
            ldmatrix_x4(b, tile + tile_at(n * 8 + row, 2 * k + chunk));
#pragma unroll
            for (int m = 0; m < M; m++) {
                H::mma_16816(s.c[m][n], f.a[m][k], b, s.c[m][n]);
                H::mma_16816(s.c[m][n + 1], f.a[m][k], b + 2, s.c[m][n + 1]);
            }
        }
}

/* s += f tile. */
template <typename H, int M>
__device__ __forceinline__ void multiply(sums<M> &s, const left<H, M> &f, const H *tile)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, tile + tile_at(k * 16 + lane % 16, n + lane / 16));
#pragma unroll
            for (int m = 0; m < M; m++) {
                H::mma_16816(s.c[m][n], f.a[m][k], b, s.c[m][n]);
                H::mma_16816(s.c[m][n + 1], f.a[m][k], b + 2, s.c[m][n + 1]);
            }
        }
}

/* The warp's sums times scale[m][0] (rows g) and scale[m][1] (rows g + 8) to rows `to` of global memory, of which the
 * first `valid` exist, by way of `tile`'s rows from `row`, which nobody else uses. */
template <typename H, int M>
__device__ __forceinline__ void store_sums(H *to, size_t stride, unsigned valid, const sums<M> &s,
                                           const float (&scale)[M][2], H *tile, unsigned row)
{
    unsigned lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    __syncwarp(WARP_ALL);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                H *at = tile + tile_at(row + m * 16 + half * 8 + g, n) + 2 * t;
                const float *pair = &s.c[m][n][2 * half];
                *reinterpret_cast<uint32_t *>(at) = H::store2(pair[0] * scale[m][half], pair[1] * scale[m][half]);
            }
    __syncwarp(WARP_ALL);
    for (unsigned i = lane; i < M * 16 * CHUNKS; i += WARP)
        if (i / CHUNKS < valid)
            *reinterpret_cast<uint4 *>(to + i / CHUNKS * stride + i % CHUNKS * 8) =
                *reinterpret_cast<const uint4 *>(tile + tile_at(row + i / CHUNKS, i % CHUNKS));
}

/* For blocks that take `rows` rows of a head. */
static inline attention_args attention_args_of(const struct attention_shape *s, unsigned rows)
{
    attention_args a = {(unsigned)s->length, (unsigned)s->heads, (unsigned)((s->length + rows - 1) / rows),
                        3 * s->width, s->width};
    return a;
}

static inline dim3 attention_grid(const struct attention_shape *s, const attention_args &a)
{
    return dim3((unsigned)(s->batch * s->heads) * a.parts);
}

static inline bool attention_shape_is_bad(const struct attention_shape *s)
{
    return s->width != s->heads * HEAD || s->length > INT32_MAX || s->batch > INT32_MAX || s->heads > INT32_MAX ||
           s->batch * s->heads > INT32_MAX || s->batch * s->heads * (s->length / TILE_ROWS + 1) > INT32_MAX;
}

#endif
