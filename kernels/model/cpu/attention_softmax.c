/* attention_softmax.c - scores to probabilities, and the way back. */
#include <math.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/attention_impl.h"
#include "kernels/model/cpu/lanes.h"
#include "kernels/model/cpu/mathfun.h"

enum { GROUP = 12, EXP_ELEMS = 128 };

/* Whole vectors: what lies beyond n up to a multiple of LANES counts as -inf. */
KERNEL_INLINE size_t whole(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

KERNEL_INLINE void fill(float *x, size_t from, size_t to, float with)
{
    for (size_t i = from; i < to; i++)
        x[i] = with;
}

KERNEL_INLINE size_t zeros_end(size_t n, size_t zeros)
{
    size_t least = whole(n + 12);
    return zeros > least ? zeros : least;
}

/* x = e^((x - max) scale). n is a multiple of LANES. In two loops: see mathfun.h. */
KERNEL_INLINE void exp_row(float *x, float max, float scale, size_t n)
{
    float power[EXP_ELEMS];
    for (size_t at = 0; at < n; at += EXP_ELEMS, x += EXP_ELEMS) {
        size_t part = n - at < EXP_ELEMS ? n - at : EXP_ELEMS;
        for (size_t i = 0; i < part; i++)
            math_exp_split((x[i] - max) * scale, &x[i], &power[i]);
        for (size_t i = 0; i < part; i++)
            x[i] = math_exp_finish(x[i], power[i]);
    }
}

/* Rows in groups: between one step and the next of a row's chain there are those of others to do. Columns beyond a
 * row's own up to n, its group's, are -inf and change no bit. */
KERNEL_INLINE void softmax_group(const struct head *a, size_t first, size_t row, size_t rows, size_t n, bool with_stats)
{
    float *p = a->p + row * a->ldp, *max = a->max + first + row, *inv = a->inv + first + row;
    size_t ldp = a->ldp;
    for (size_t r = 0; r < rows; r++)
        fill(p + r * ldp, first + row + r + 1, n, -INFINITY);
    for (size_t r = 0; with_stats && r < rows; r++)
        max[r] = lanes_max(p + r * ldp, n);
    for (size_t r = 0; r < rows; r++)
        exp_row(p + r * ldp, max[r], a->scale, n);
    for (size_t r = 0; with_stats && r < rows; r++)
        inv[r] = 1.0f / lanes_sum(p + r * ldp, n);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            p[r * ldp + i] *= inv[r];
}

CPU_DISPATCH void head_softmax(const struct head *a, size_t first, size_t rows, size_t zeros, bool with_stats)
{
    for (size_t row = 0, n_rows; row < rows; row += n_rows) {
        n_rows = rows - row < GROUP ? rows - row : GROUP;
        size_t n = whole(first + row + n_rows);
        softmax_group(a, first, row, n_rows, n, with_stats);
        for (size_t r = row; r < row + n_rows; r++)
            fill(a->p + r * a->ldp, n, zeros_end(first + r + 1, zeros), 0);
    }
}

/* dp = scale * p * (dp - sum(p dp)). */
CPU_DISPATCH void head_softmax_backward(const struct head *a, size_t first, size_t rows, size_t zeros)
{
    for (size_t r = 0; r < rows; r++) {
        const float *p = a->p + r * a->ldp;
        float *dp = a->dp + r * a->ldp;
        size_t n = first + r + 1, n_whole = whole(n);
        fill(dp, n, n_whole, 0);
        float sum = lanes_dot(p, dp, n_whole), scale = a->scale;
        for (size_t i = 0; i < n_whole; i++)
            dp[i] = scale * p[i] * (dp[i] - sum);
        fill(dp, n_whole, zeros_end(n, zeros), 0);
    }
}
