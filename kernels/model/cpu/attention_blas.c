/* Attention's products by a BLAS: whole rectangles, the upper triangle included as zeros. */
#include "kernels/model/cpu/attention_impl.h"
#include "kernels/model/cpu/blas.h"

static struct blas_in rows_of(const float *data, size_t ld)
{
    return (struct blas_in){data, (int)ld, false};
}

static struct blas_in transposed(const float *data, size_t ld)
{
    return (struct blas_in){data, (int)ld, true};
}

/* p = scores of queries [first, first + rows) with keys [0, keys). */
static void scores(const struct head *a, size_t first, size_t rows, size_t keys)
{
    blas_sgemm((int)rows, (int)keys, (int)a->size, rows_of(a->q + first * a->ld, a->ld), transposed(a->k, a->ld), 0,
               a->p, (int)a->ldp);
}

void attention_blas_forward(const struct head *a)
{
    for (size_t first = 0; first < a->length; first += QUERY_TILE) {
        size_t rows = head_tile_rows(a, first), keys = first + rows;
        scores(a, first, rows, keys);
        head_softmax(a, first, rows, keys, true);
        blas_sgemm((int)rows, (int)a->size, (int)keys, rows_of(a->p, a->ldp), rows_of(a->v, a->ld), 0,
                   a->out + first * a->ld_out, (int)a->ld_out);
    }
}

/* From the last queries, which see every key, to the first: so the first product sets dk and dv, later ones add. */
void attention_blas_backward(const struct head *a)
{
    float beta = 0;
    size_t n_tiles = (a->length + QUERY_TILE - 1) / QUERY_TILE;
    for (size_t tile = n_tiles; tile-- > 0; beta = 1) {
        size_t first = tile * QUERY_TILE, rows = head_tile_rows(a, first), keys = first + rows;
        struct blas_in dout = rows_of(a->dout + first * a->ld_out, a->ld_out);
        int m = (int)rows, n = (int)keys, size = (int)a->size, ld = (int)a->ld;
        scores(a, first, rows, keys);
        head_softmax(a, first, rows, keys, false);
        blas_sgemm(n, size, m, transposed(a->p, a->ldp), dout, beta, a->dv, ld);
        blas_sgemm(m, n, size, dout, transposed(a->v, a->ld), 0, a->dp, (int)a->ldp);
        head_softmax_backward(a, first, rows, keys);
        blas_sgemm(m, size, n, rows_of(a->dp, a->ldp), rows_of(a->k, a->ld), 0, a->dq + first * a->ld, ld);
        blas_sgemm(n, size, m, transposed(a->dp, a->ldp), rows_of(a->q + first * a->ld, a->ld), beta, a->dk, ld);
    }
}
