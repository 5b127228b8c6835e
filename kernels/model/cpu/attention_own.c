/* Attention's products by tiles of our own (gemm_impl.h). Keys and values are copied into panels once per head and stay
 * in the cache; tiles beyond the diagonal are left out, and so are, within a tile's sum, the terms that are zero for
 * all of its rows. */
#include "kernels/model/cpu/attention_impl.h"
#include "kernels/model/cpu/gemm_impl.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t padded(size_t n)
{
    return (n + GEMM_PANEL - 1) / GEMM_PANEL * GEMM_PANEL;
}

/* Panels of a matrix of `rows` rows: [columns / kernel->cols] of [rows, kernel->cols]. */
struct panels {
    float *data;
    size_t rows, cols;
};

static struct panels copy_panels(float **at, const float *from, size_t ld, bool transposed, size_t rows, size_t cols)
{
    const struct gemm_kernel *kernel = gemm_kernel();
    struct gemm_in in = {from, ld, transposed};
    struct panels p = {*at, rows, cols};
    for (size_t j = 0; j < cols; j += kernel->cols)
        gemm_copy_panel(kernel, &in, 0, rows, j, smaller(kernel->cols, cols - j), p.data + j * rows);
    *at += rows * padded(cols);
    return p;
}

size_t attention_own_panel_elems(const struct attention_shape *s)
{
    size_t size = s->width / s->heads;
    return 2 * size * padded(s->length) + s->length * padded(size) + 2 * QUERY_TILE * padded(size);
}

/* c = (add ? c : 0) + a b, for the rows of one tile and all of b's columns, over b's rows [0, k). */
static void run_tile(struct gemm_tile t, const struct panels *b, size_t first_k, size_t k)
{
    const struct gemm_kernel *kernel = gemm_kernel();
    const float *a = t.a;
    float *c = t.c;
    bool add = t.add;
    for (size_t j = 0; j < b->cols; j += kernel->cols)
        for (size_t l = 0; l < k; l += GEMM_K_BLOCK) {
            t.a = a + l * (t.lda ? 1 : t.step);
            t.b = b->data + j * b->rows + (first_k + l) * kernel->cols;
            t.c = c + j;
            t.k = smaller(GEMM_K_BLOCK, k - l);
            t.add = add || l > 0;
            gemm_tile_run(kernel, &t, smaller(kernel->cols, b->cols - j));
        }
}

/* to[i, j] = x[i] . column j of b, for keys j up to the diagonal and to their panel's end; to's rows ldp apart. */
static void dots(const struct head *a, float *to, const float *x, size_t ld, const struct panels *b, size_t first,
                 size_t rows)
{
    size_t step = gemm_kernel()->rows, width = gemm_kernel()->cols;
    for (size_t i = 0; i < rows; i += step) {
        size_t n = smaller(step, rows - i);
        struct panels seen = {b->data, b->rows, (first + i + n + width - 1) / width * width};
        run_tile((struct gemm_tile){.a = x + i * ld, .lda = ld, .c = to + i * a->ldp, .ldc = a->ldp, .rows = n}, &seen,
                 0, a->size);
    }
}

/* to[i] = sum over keys j up to the diagonal of p[i, j] b[j]; to's rows ld apart. */
static void mix(const struct head *a, float *to, size_t ld, const float *p, const struct panels *b, size_t first,
                size_t rows)
{
    size_t step = gemm_kernel()->rows;
    for (size_t i = 0; i < rows; i += step) {
        size_t n = smaller(step, rows - i);
        run_tile((struct gemm_tile){.a = p + i * a->ldp, .lda = a->ldp, .c = to + i * ld, .ldc = ld, .rows = n}, b, 0,
                 first + i + n);
    }
}

/* to[j] (+)= sum over queries i from the diagonal on of p[i, j] b[i], for keys j; to's rows a->ld apart. */
static void gather(const struct head *a, float *to, const float *p, const struct panels *b, size_t first, bool add)
{
    size_t step = gemm_kernel()->rows;
    for (size_t j = 0; j < first + b->rows; j += step) {
        size_t from = j > first ? j - first : 0;
        run_tile((struct gemm_tile){.a = p + from * a->ldp + j, .step = a->ldp, .c = to + j * a->ld, .ldc = a->ld,
                                    .rows = smaller(step, first + b->rows - j), .add = add},
                 b, from, b->rows - from);
    }
}

void attention_own_forward(const struct head *a)
{
    float *at = a->panels;
    struct panels keys = copy_panels(&at, a->k, a->ld, true, a->size, a->length);
    struct panels values = copy_panels(&at, a->v, a->ld, false, a->length, a->size);
    for (size_t first = 0; first < a->length; first += QUERY_TILE) {
        size_t rows = head_tile_rows(a, first);
        dots(a, a->p, a->q + first * a->ld, a->ld, &keys, first, rows);
        head_softmax(a, first, rows, 0, true);
        mix(a, a->out + first * a->ld_out, a->ld_out, a->p, &values, first, rows);
    }
}

/* From the last queries, which see every key, to the first: so the first product sets dk and dv, later ones add. */
void attention_own_backward(const struct head *a)
{
    float *at = a->panels;
    struct panels keys = copy_panels(&at, a->k, a->ld, true, a->size, a->length);
    struct panels values = copy_panels(&at, a->v, a->ld, true, a->size, a->length);
    struct panels key_rows = copy_panels(&at, a->k, a->ld, false, a->length, a->size);
    bool add = false;
    for (size_t tile = (a->length + QUERY_TILE - 1) / QUERY_TILE; tile-- > 0; add = true) {
        size_t first = tile * QUERY_TILE, rows = head_tile_rows(a, first);
        const float *q = a->q + first * a->ld, *dout = a->dout + first * a->ld_out;
        float *here = at;
        struct panels queries = copy_panels(&here, q, a->ld, false, rows, a->size);
        struct panels douts = copy_panels(&here, dout, a->ld_out, false, rows, a->size);
        dots(a, a->p, q, a->ld, &keys, first, rows);
        head_softmax(a, first, rows, 0, false);
        gather(a, a->dv, a->p, &douts, first, add);
        dots(a, a->dp, dout, a->ld_out, &values, first, rows);
        head_softmax_backward(a, first, rows, 0);
        mix(a, a->dq + first * a->ld, a->ld, a->dp, &key_rows, first, rows);
        gather(a, a->dk, a->dp, &queries, first, add);
    }
}
