/* The product's tiles in registers: 12 x 32 with AVX-512 (24 of 32 registers), 6 x 16 with AVX2 (12 of 16). */
#include "kernels/model/cpu/gemm_impl.h"

#ifdef GEMM_HAVE_X86

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
#define AVX2 __attribute__((target("avx2,fma")))
#define ALWAYS_INLINE __attribute__((always_inline)) inline

enum { ROWS_512 = 12, COLS_512 = 32, ROWS_256 = 6, COLS_256 = 16, LINE = 16 };

/* Rows of a told from one pointer; rows of the next tile's c fetched per LINE terms. */
enum { BASE_ROWS = 3, AHEAD = 2 };

/* One term: a's rows lie at a[0], a[0] + row, a[0] + 2 row, a[1], ... */
AVX512 static ALWAYS_INLINE void term_512(__m512 (*acc)[2], const float *const *a, const float *b, int rows, size_t row)
{
    __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        __m512 x = _mm512_set1_ps(a[i / BASE_ROWS][(size_t)(i % BASE_ROWS) * row]);
        acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
        acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
    }
}

/* Pointers to a's rows: with one alone its distances to the others do not fit into the registers. The barrier keeps
 * compilers from computing them all from one again. */
AVX512 static ALWAYS_INLINE void bases_512(const float **ret, const float *a, int rows, size_t row)
{
#pragma GCC unroll 4
    for (int i = 0; i * BASE_ROWS < rows; i++) {
        ret[i] = a + (size_t)(i * BASE_ROWS) * row;
        __asm__("" : "+r"(ret[i]));
    }
}

/* Of rows a cache line each, or two. */
AVX512 static ALWAYS_INLINE void fetch_lines(const float *p, size_t ld, int rows, int lines)
{
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        for (int l = 0; l < lines; l++)
            _mm_prefetch((const char *)(p + (size_t)i * ld + l * LINE), _MM_HINT_T0);
}

/* acc = a b. Meanwhile the next tile's rows of c, and of a where that is not in panels, come to the first-level cache,
 * a few lines at a time: many at once would keep b waiting. */
AVX512 static ALWAYS_INLINE void sum_512(__m512 (*acc)[2], const struct gemm_tile *t, const float *a, const float *c,
                                         int rows, size_t row, size_t step)
{
    const float *b = t->b, *at[(ROWS_512 + BASE_ROWS - 1) / BASE_ROWS];
    const float *end = b + t->k * COLS_512, *next_c = c + (size_t)rows * t->ldc;
    const size_t ldc = t->ldc;
    bases_512(at, a, rows, row);
    for (size_t k0 = 0; k0 + LINE <= t->k; k0 += LINE) {
        if (k0 < ROWS_512 / AHEAD * LINE)
            fetch_lines(next_c, ldc, AHEAD, 2);
        next_c += AHEAD * ldc;
        if (step == 1)
            fetch_lines(a + ROWS_512 * row, row, rows, 1);
        a += LINE;
#pragma GCC unroll 1
        for (int k = 0; k < LINE; k += 4) {
#pragma GCC unroll 4
            for (size_t u = 0; u < 4; u++) {
                term_512(acc, at, b, rows, row);
#pragma GCC unroll 4
                for (int i = 0; i * BASE_ROWS < rows; i++)
                    at[i] += step;
                b += COLS_512;
            }
        }
    }
    for (; b < end; b += COLS_512) {
        term_512(acc, at, b, rows, row);
#pragma GCC unroll 4
        for (int i = 0; i * BASE_ROWS < rows; i++)
            at[i] += step;
    }
}

/* rows is a constant of each call: the loops over it unroll, acc stays in registers. */
AVX512 static ALWAYS_INLINE void tile_512(const struct gemm_tile *t, const float *a, float *c, int rows, size_t row,
                                          size_t step)
{
    __m512 acc[ROWS_512][2];
    const float *bias = t->bias;
    const size_t ldc = t->ldc;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        acc[i][0] = acc[i][1] = _mm512_setzero_ps();
    sum_512(acc, t, a, c, rows, row, step);
    if (t->add) {
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++, c += ldc) {
            _mm512_storeu_ps(c, _mm512_add_ps(_mm512_loadu_ps(c), acc[i][0]));
            _mm512_storeu_ps(c + 16, _mm512_add_ps(_mm512_loadu_ps(c + 16), acc[i][1]));
        }
        return;
    }
    __m512 bias0 = bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps();
    __m512 bias1 = bias ? _mm512_loadu_ps(bias + 16) : _mm512_setzero_ps();
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++, c += ldc) {
        _mm512_storeu_ps(c, _mm512_add_ps(bias0, acc[i][0]));
        _mm512_storeu_ps(c + 16, _mm512_add_ps(bias1, acc[i][1]));
    }
}

/* A tile's rows in pieces of 12, 8, 4, 2, 1. */
AVX512 static ALWAYS_INLINE void rows_512(const struct gemm_tile *t, size_t row, size_t step)
{
    if (t->rows == ROWS_512) {
        tile_512(t, t->a, t->c, 12, row, step);
        return;
    }
    const float *a = t->a;
    float *c = t->c;
    if (t->rows & 8) {
        tile_512(t, a, c, 8, row, step);
        a += 8 * row;
        c += 8 * t->ldc;
    }
    if (t->rows & 4) {
        tile_512(t, a, c, 4, row, step);
        a += 4 * row;
        c += 4 * t->ldc;
    }
    if (t->rows & 2) {
        tile_512(t, a, c, 2, row, step);
        a += 2 * row;
        c += 2 * t->ldc;
    }
    if (t->rows & 1)
        tile_512(t, a, c, 1, row, step);
}

AVX512 static void run_512(const struct gemm_tile *t)
{
    if (t->lda)
        rows_512(t, t->lda, 1);
    else
        rows_512(t, 1, t->step);
}

AVX2 static ALWAYS_INLINE void tile_256(const struct gemm_tile *t, const float *a, float *c, int rows, size_t row,
                                        size_t step)
{
    __m256 acc[ROWS_256][2];
    const float *b = t->b;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        acc[i][0] = acc[i][1] = _mm256_setzero_ps();
        _mm_prefetch((const char *)(c + (size_t)i * t->ldc), _MM_HINT_T0);
    }
    for (size_t k = 0; k < t->k; k++, a += step, b += COLS_256) {
        __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m256 x = _mm256_set1_ps(a[(size_t)i * row]);
            acc[i][0] = _mm256_fmadd_ps(x, b0, acc[i][0]);
            acc[i][1] = _mm256_fmadd_ps(x, b1, acc[i][1]);
        }
    }
    __m256 bias0 = t->bias ? _mm256_loadu_ps(t->bias) : _mm256_setzero_ps();
    __m256 bias1 = t->bias ? _mm256_loadu_ps(t->bias + 8) : _mm256_setzero_ps();
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        float *to = c + (size_t)i * t->ldc;
        __m256 from0 = t->add ? _mm256_loadu_ps(to) : bias0, from1 = t->add ? _mm256_loadu_ps(to + 8) : bias1;
        _mm256_storeu_ps(to, _mm256_add_ps(from0, acc[i][0]));
        _mm256_storeu_ps(to + 8, _mm256_add_ps(from1, acc[i][1]));
    }
}

AVX2 static ALWAYS_INLINE void rows_256(const struct gemm_tile *t, size_t row, size_t step)
{
    if (t->rows == ROWS_256) {
        tile_256(t, t->a, t->c, 6, row, step);
        return;
    }
    const float *a = t->a;
    float *c = t->c;
    if (t->rows & 4) {
        tile_256(t, a, c, 4, row, step);
        a += 4 * row;
        c += 4 * t->ldc;
    }
    if (t->rows & 2) {
        tile_256(t, a, c, 2, row, step);
        a += 2 * row;
        c += 2 * t->ldc;
    }
    if (t->rows & 1)
        tile_256(t, a, c, 1, row, step);
}

AVX2 static void run_256(const struct gemm_tile *t)
{
    if (t->lda)
        rows_256(t, t->lda, 1);
    else
        rows_256(t, 1, t->step);
}

/* to[8, width] = from[8, 8] transposed. */
AVX2 static ALWAYS_INLINE void transpose_8x8(float *to, size_t width, const float *from, size_t ld)
{
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(from + (size_t)i * ld);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_store_ps(to + (size_t)i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_store_ps(to + (size_t)(i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

AVX2 static ALWAYS_INLINE void transpose(float *to, size_t width, const float *from, size_t ld, size_t k)
{
    size_t whole = k - k % 8;
    for (size_t l = 0; l < whole; l += 8)
        for (size_t j = 0; j < width; j += 8)
            transpose_8x8(to + l * width + j, width, from + j * ld + l, ld);
    for (size_t l = whole; l < k; l++)
        for (size_t j = 0; j < width; j++)
            to[l * width + j] = from[j * ld + l];
}

AVX2 static void transpose_512(float *to, const float *from, size_t ld, size_t k)
{
    transpose(to, COLS_512, from, ld, k);
}

AVX2 static void transpose_256(float *to, const float *from, size_t ld, size_t k)
{
    transpose(to, COLS_256, from, ld, k);
}

AVX512 static void copy_cols_512(float *to, const float *from, size_t ld, size_t k)
{
    for (; k > 0; k--, to += COLS_512, from += ld) {
        _mm512_store_ps(to, _mm512_loadu_ps(from));
        _mm512_store_ps(to + 16, _mm512_loadu_ps(from + 16));
    }
}

AVX2 static void copy_cols_256(float *to, const float *from, size_t ld, size_t k)
{
    for (; k > 0; k--, to += COLS_256, from += ld) {
        _mm256_store_ps(to, _mm256_loadu_ps(from));
        _mm256_store_ps(to + 8, _mm256_loadu_ps(from + 8));
    }
}

AVX2 static void copy_rows(float *to, const float *from, size_t ld, size_t m, size_t k)
{
    size_t whole = k - k % 8;
    for (; m > 0; m--, to += GEMM_LD, from += ld) {
        for (size_t l = 0; l < k; l += LINE)
            __builtin_prefetch(from + GEMM_ROWS_AHEAD * ld + l);
        for (size_t l = 0; l < whole; l += 8)
            _mm256_store_ps(to + l, _mm256_loadu_ps(from + l));
        for (size_t l = whole; l < k; l++)
            to[l] = from[l];
    }
}

AVX2 static void copy_panels_512(float *to, const float *from, size_t whole, size_t left)
{
    for (; whole > 0; whole--, to += GEMM_PANEL_ELEMS(ROWS_512), from += ROWS_512) {
        _mm256_storeu_ps(to, _mm256_loadu_ps(from));
        _mm_storeu_ps(to + 8, _mm_loadu_ps(from + 8));
    }
    for (size_t r = 0; r < left; r++)
        to[r] = from[r];
}

AVX2 static void copy_panels_256(float *to, const float *from, size_t whole, size_t left)
{
    for (; whole > 0; whole--, to += GEMM_PANEL_ELEMS(ROWS_256), from += ROWS_256) {
        _mm_storeu_ps(to, _mm_loadu_ps(from));
        _mm_storel_pi((__m64 *)(to + 4), _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)(from + 4)));
    }
    for (size_t r = 0; r < left; r++)
        to[r] = from[r];
}

const struct gemm_kernel gemm_avx512 = {
    .name = "AVX-512", .rows = ROWS_512, .cols = COLS_512, .run = run_512, .copy_rows = copy_rows,
    .copy_panels = copy_panels_512, .copy_cols = copy_cols_512, .transpose = transpose_512,
};
const struct gemm_kernel gemm_avx2 = {
    .name = "AVX2", .rows = ROWS_256, .cols = COLS_256, .run = run_256, .copy_rows = copy_rows,
    .copy_panels = copy_panels_256, .copy_cols = copy_cols_256, .transpose = transpose_256,
};

#endif
