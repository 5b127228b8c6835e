/* gemm.h - our own matrix product for x86-64 with FMA, float32, on one thread.
 *
 * Every element of the product is: for each block of GEMM_K_BLOCK terms a chain of fused multiply-adds in the order of
 * k that starts at 0; the blocks' results added up in order. That depends on nothing else: AVX2 and AVX-512, any cut
 * into tiles and threads, and any number of rows give the same bits.
 *
 * The method is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34 (2008),
 * for row-major output: a block of a is copied to where it stays in the second-level cache, a panel of b of a few
 * vectors' width to the first; a tile of c lives in registers. */
#ifndef DDP_KERNELS_MODEL_CPU_GEMM_H
#define DDP_KERNELS_MODEL_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

#define GEMM_K_BLOCK 256
#define GEMM_MAX_ROWS 516 /* of c per call: what the scratch holds */
#define GEMM_PANEL 32     /* columns of c at a time at most: cut work at multiples of it */
#define GEMM_LD (GEMM_K_BLOCK + 16)
#define GEMM_WORK_ELEMS (GEMM_MAX_ROWS * GEMM_LD + GEMM_K_BLOCK * GEMM_PANEL)

/* The name of the vector level in use ("AVX-512"), or NULL if this machine has none that our product runs on. */
const char *gemm_level(void);

/* For tests: AVX2 (true) although there is AVX-512. */
void gemm_prefer_avx2(bool prefer);

/* A row-major matrix, or its transpose. ld: elements from one row to the next in memory. */
struct gemm_in {
    const float *data;
    size_t ld;
    bool transposed;
};

struct gemm;

/* Called when c's columns [j, j + cols) are complete, all m rows of them. */
typedef void gemm_done_f(const struct gemm *g, size_t j, size_t cols);

/* c[m, n] = a[m, k] b[k, n]; m <= GEMM_MAX_ROWS. Unused fields are 0. */
struct gemm {
    size_t m, n, k;
    struct gemm_in a, b;
    float *c;
    size_t ldc;
    bool accumulate;    /* c += */
    const float *bias;  /* [n], added to every row; not together with accumulate */
    float *column_sums; /* [n] += sums over b's rows, in a fixed order */
    gemm_done_f *done;
    const void *arg;    /* for done */
};

/* work: GEMM_WORK_ELEMS floats, 64-byte aligned. */
void gemm_run(const struct gemm *g, float *work);

/* gemm_open reserves a `work` area for each worker of the pool (pool.h): address space for the largest number of
 * workers; pages are allocated when they are used. gemm_work is NULL before gemm_open, and where products are
 * OpenBLAS's. */
int gemm_open(ddp_error_t *errp);
float *gemm_work(int worker);

#endif
