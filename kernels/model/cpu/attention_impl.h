/* attention_impl.h - attention of one sequence and head, and the two implementations of its products: our own tiles, or
 * a BLAS. */
#ifndef DDP_KERNELS_MODEL_CPU_ATTENTION_IMPL_H
#define DDP_KERNELS_MODEL_CPU_ATTENTION_IMPL_H

#include <stdbool.h>

#include "kernels/model/attention.h"
#include "kernels/model/cpu/inline.h"

#define QUERY_TILE 132 /* queries at a time: bounds the scratch. A multiple of the products' tiles of 12 and 6 rows */

/* Pointers to the first query, key and value. Positions are ld apart in qkv, ld_out in out. */
struct head {
    const float *q, *k, *v, *dout;
    float *dq, *dk, *dv, *out;
    float *max, *inv;    /* [length] each: the row's largest score and 1 / sum of exp */
    float *p, *dp;       /* [QUERY_TILE, ldp]: probabilities and their gradient */
    float *panels;       /* attention_own.c's */
    size_t size, length; /* head width, positions */
    size_t ld, ld_out, ldp;
    float scale;
};

/* Columns of a row of p. Scores are written to p in pieces of at most 32 columns; zeros after the diagonal may reach 16
 * + 12 columns further. */
KERNEL_INLINE size_t head_ldp(size_t length)
{
    return (length + 31) / 32 * 32 + 16;
}

KERNEL_INLINE size_t head_tile_rows(const struct head *a, size_t first)
{
    return first + QUERY_TILE < a->length ? QUERY_TILE : a->length - first;
}

/* ---- attention_softmax.c ---- */

/* p's rows [0, rows), those of queries from `first` on: scores become probabilities, 0 from the query's own position on
 * up to at least `zeros` columns and 12 beyond the row's own. Fills max and inv (fill), or uses them. p must be finite
 * up to the next multiple of 16 columns. */
void head_softmax(const struct head *a, size_t first, size_t rows, size_t zeros, bool fill);

/* dp, the probabilities' gradient, becomes that of the scores before scaling; zeros as above. */
void head_softmax_backward(const struct head *a, size_t first, size_t rows, size_t zeros);

/* ---- the two ways ---- */

size_t attention_own_panel_elems(const struct attention_shape *s);
void attention_own_forward(const struct head *a);
void attention_own_backward(const struct head *a);

void attention_blas_forward(const struct head *a);
void attention_blas_backward(const struct head *a);

#endif
