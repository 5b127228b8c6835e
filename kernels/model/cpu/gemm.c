#include "kernels/model/cpu/gemm.h"

#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/gemm_impl.h"
#include "kernels/model/cpu/pool.h"

#define LINE 16     /* elements of a cache line */
#define SUM_LANES 4 /* of column sums: enough to hide the addition's latency */

static const struct gemm_kernel *kernel;
static float *work_of_all;

#ifdef GEMM_HAVE_X86
static const struct gemm_kernel *best(bool avx2_only)
{
    if (!avx2_only && __builtin_cpu_supports("avx512f"))
        return &gemm_avx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &gemm_avx2 : NULL;
}
#else
static const struct gemm_kernel *best(bool avx2_only)
{
    (void)avx2_only;
    return NULL;
}
#endif

const struct gemm_kernel *gemm_kernel(void)
{
    if (!kernel)
        kernel = best(false);
    return kernel;
}

const char *gemm_level(void)
{
    return gemm_kernel() ? kernel->name : NULL;
}

void gemm_prefer_avx2(bool prefer)
{
    kernel = best(prefer);
}

int gemm_open(ddp_error_t *errp)
{
    if (work_of_all)
        return 0;
    void *p = mmap(NULL, sizeof(float) * GEMM_WORK_ELEMS * POOL_MAX_THREADS, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return error_errno(errp, "no address space for matrix products (ulimit -v, ulimit -d)");
    work_of_all = p;
    return 0;
}

float *gemm_work(int worker)
{
    return work_of_all ? work_of_all + (size_t)worker * GEMM_WORK_ELEMS : NULL;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* a's columns [k0, k0 + k) as a tile reads them: rows, or, where a is stored transposed, panels of the tile's rows, one
 * k after the other. Rows are read where they lie, unless they lie at multiples of 4 KiB: then all rows of a tile share
 * one set of the first-level cache. */
struct a_block {
    const float *data;
    size_t tile; /* from one tile's first element to the next's */
    size_t ld;   /* between rows; 0: panels */
};

static struct a_block a_rows(const struct gemm *g, size_t k0, size_t k, float *to)
{
    if (g->a.ld % 1024)
        return (struct a_block){g->a.data + k0, g->a.ld * kernel->rows, g->a.ld};
    kernel->copy_rows(to, g->a.data + k0, g->a.ld, g->m, k);
    return (struct a_block){to, GEMM_LD * kernel->rows, GEMM_LD};
}

static struct a_block a_panels(const struct gemm *g, size_t k0, size_t k, float *to)
{
    size_t whole = g->m / kernel->rows, left = g->m % kernel->rows;
    for (size_t l = 0; l < k; l++) {
        const float *from = g->a.data + (k0 + l) * g->a.ld;
        for (size_t i = 0; i < g->m; i += LINE)
            __builtin_prefetch(from + GEMM_ROWS_AHEAD * g->a.ld + i);
        kernel->copy_panels(to + l * kernel->rows, from, whole, left);
    }
    return (struct a_block){to, GEMM_PANEL_ELEMS(kernel->rows), 0};
}

void gemm_copy_panel(const struct gemm_kernel *kern, const struct gemm_in *b, size_t k0, size_t k, size_t j,
                     size_t cols, float *to)
{
    size_t width = kern->cols;
    if (cols == width && b->transposed) {
        kern->transpose(to, b->data + j * b->ld + k0, b->ld, k);
        return;
    }
    if (cols == width) {
        kern->copy_cols(to, b->data + k0 * b->ld + j, b->ld, k);
        return;
    }
    memset(to, 0, k * width * sizeof *to);
    size_t row = b->transposed ? 1 : b->ld, col = b->transposed ? b->ld : 1;
    for (size_t l = 0; l < k; l++)
        for (size_t c = 0; c < cols; c++)
            to[l * width + c] = b->data[(k0 + l) * row + (j + c) * col];
}

/* sums[0..cols) += panel's column sums: row l into lane l % SUM_LANES, lanes pairwise. */
CPU_DISPATCH static void add_columns(float *sums, const float *panel, size_t width, size_t k, size_t cols)
{
    float lane[SUM_LANES][GEMM_PANEL] = {{0}};
    for (size_t l = 0; l < k; l++)
        for (size_t c = 0; c < width; c++)
            lane[l % SUM_LANES][c] += panel[l * width + c];
    for (size_t c = 0; c < cols; c++)
        sums[c] += (lane[0][c] + lane[1][c]) + (lane[2][c] + lane[3][c]);
}

/* Narrower than the kernel's: through a buffer. */
static void run_narrow(const struct gemm_kernel *kern, struct gemm_tile t, size_t cols)
{
    float buffer[GEMM_PANEL * GEMM_TILE_ROWS], *c = t.c;
    const float *bias = t.bias;
    size_t ldc = t.ldc;
    bool add = t.add;
    t.c = buffer;
    t.ldc = kern->cols;
    t.add = false;
    t.bias = NULL;
    kern->run(&t);
    for (size_t r = 0; r < t.rows; r++)
        for (size_t l = 0; l < cols; l++) {
            float x = buffer[r * kern->cols + l], *to = &c[r * ldc + l];
            *to = add ? *to + x : bias ? bias[l] + x : x;
        }
}

void gemm_tile_run(const struct gemm_kernel *kern, const struct gemm_tile *t, size_t cols)
{
    if (cols == kern->cols)
        kern->run(t);
    else
        run_narrow(kern, *t, cols);
}

/* Where the next panel of b lies, as lines to fetch while this one is worked on: its rows are pages apart, which no
 * prefetcher of the processor's follows. */
struct ahead {
    const float *at;
    size_t ld, rows, lines; /* rows of so many cache lines */
    size_t next;
};

static struct ahead ahead_of(const struct gemm *g, size_t k0, size_t k, size_t j)
{
    size_t cols = j < g->n ? smaller(kernel->cols, g->n - j) : 0;
    if (g->b.transposed)
        return (struct ahead){g->b.data + j * g->b.ld + k0, g->b.ld, cols, (k + 15) / 16, 0};
    return (struct ahead){g->b.data + k0 * g->b.ld + j, g->b.ld, cols ? k : 0, (cols + 15) / 16, 0};
}

static void fetch(struct ahead *p, size_t n_lines)
{
    for (; n_lines > 0 && p->next < p->rows; p->next++)
        for (size_t l = 0; l < p->lines; l++, n_lines -= n_lines > 0)
            __builtin_prefetch(p->at + p->next * p->ld + l * 16, 0, 2);
}

static void run_panel(const struct gemm *g, struct a_block a, const float *b, size_t k0, size_t k, size_t j,
                      size_t cols)
{
    struct gemm_tile t = {.b = b, .k = k, .ldc = g->ldc, .lda = a.ld, .step = kernel->rows,
                          .add = g->accumulate || k0 > 0, .bias = g->bias && k0 == 0 ? g->bias + j : NULL};
    struct ahead next = ahead_of(g, k0, k, j + cols);
    size_t n_tiles = (g->m + kernel->rows - 1) / kernel->rows, share = (next.rows * next.lines + n_tiles - 1) / n_tiles;
    for (size_t i = 0; i < g->m; i += kernel->rows) {
        t.a = a.data + i / kernel->rows * a.tile;
        t.c = g->c + i * g->ldc + j;
        t.rows = smaller(kernel->rows, g->m - i);
        fetch(&next, share);
        gemm_tile_run(kernel, &t, cols);
    }
}

void gemm_run(const struct gemm *g, float *work)
{
    float *a = work, *b = work + GEMM_MAX_ROWS * GEMM_LD;
    for (size_t k0 = 0; k0 < g->k; k0 += GEMM_K_BLOCK) {
        size_t k = smaller(GEMM_K_BLOCK, g->k - k0);
        struct a_block rows = g->a.transposed ? a_panels(g, k0, k, a) : a_rows(g, k0, k, a);
        for (size_t j = 0; j < g->n; j += kernel->cols) {
            size_t cols = smaller(kernel->cols, g->n - j);
            gemm_copy_panel(kernel, &g->b, k0, k, j, cols, b);
            if (g->column_sums)
                add_columns(g->column_sums + j, b, kernel->cols, k, cols);
            run_panel(g, rows, b, k0, k, j, cols);
            if (g->done && k0 + k == g->k)
                g->done(g, j, cols);
        }
    }
}
