/* gemm_impl.h - between gemm.c and the kernels per vector level: one tile of c in registers. */
#ifndef DDP_KERNELS_MODEL_CPU_GEMM_IMPL_H
#define DDP_KERNELS_MODEL_CPU_GEMM_IMPL_H

#include "kernels/model/cpu/gemm.h"

#if defined(__x86_64__)
#define GEMM_HAVE_X86 1
#endif

#define GEMM_TILE_ROWS 12 /* at most */
#define GEMM_ROWS_AHEAD 8 /* how many rows of a to prefetch: a comes from beyond the second-level cache */

/* Elements from one panel of a, copied by k, to the next: a cache line more than a panel holds, so that panels do not
 * share cache sets. */
#define GEMM_PANEL_ELEMS(rows) ((rows) * GEMM_K_BLOCK + 16)

/* c[rows, cols] = (add ? c : bias or 0) + a b, over k <= GEMM_K_BLOCK terms. */
struct gemm_tile {
    const float *a;    /* rows lda apart; or, lda = 0, the rows of one k side by side, and `step` to the next k's */
    const float *b;    /* [k, cols], 64-byte aligned */
    float *c;
    const float *bias; /* [cols] or NULL */
    size_t rows, k, lda, step, ldc;
    bool add;
};

struct gemm_kernel {
    const char *name;
    size_t rows, cols; /* of a tile; a tile may have fewer rows */
    void (*run)(const struct gemm_tile *t);
    /* to[m, k] = from[m, k], to's rows GEMM_LD apart */
    void (*copy_rows)(float *to, const float *from, size_t ld, size_t m, size_t k);
    /* from's elements, a panel's rows to each panel: `whole` full ones, `left` more for a last one */
    void (*copy_panels)(float *to, const float *from, size_t whole, size_t left);
    /* to[k, cols] = from[k, cols], from's rows ld apart */
    void (*copy_cols)(float *to, const float *from, size_t ld, size_t k);
    /* to[k, cols] = from[cols, k] transposed, from's rows ld apart */
    void (*transpose)(float *to, const float *from, size_t ld, size_t k);
};

extern const struct gemm_kernel gemm_avx512, gemm_avx2;

/* The one in use; NULL where there is none. */
const struct gemm_kernel *gemm_kernel(void);

/* A tile of `cols` columns, at most the kernel's. bias and c have so many. */
void gemm_tile_run(const struct gemm_kernel *kernel, const struct gemm_tile *t, size_t cols);

/* b's rows [k0, k0 + k), columns [j, j + cols), into a panel, zeros beyond. */
void gemm_copy_panel(const struct gemm_kernel *kernel, const struct gemm_in *b, size_t k0, size_t k, size_t j,
                     size_t cols, float *to);

#endif
