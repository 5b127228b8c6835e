/* matmul.h - float32 matrix products, row-major and contiguous, and what the model does with a product while it is
 * still in the cache.
 *
 * On x86-64 with FMA the products are our own (kernels/model/cpu/gemm.h): their bits depend on the numbers alone.
 * Elsewhere, or with DDP_MATMUL=openblas in the environment, they are OpenBLAS's: bits depend on the shapes and the
 * BLAS core type too. In either case not on the number of threads. */
#ifndef DDP_KERNELS_MODEL_MATMUL_H
#define DDP_KERNELS_MODEL_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

/* Prepares the products: allocates scratch, or opens a BLAS. 0 or -1. Call it before any product. A second call reads
 * DDP_MATMUL again. */
int kernel_matmul_open(ddp_error_t *errp);

/* The implementation of the products: "own AVX-512" or "OpenBLAS SkylakeX". Static storage. */
const char *kernel_matmul_name(void);

/* Unused fields are 0. At most one of add, gelu and scale. */
struct matmul {
    size_t m, n, k;
    bool a_transposed;  /* a is stored [k, m] */
    bool b_transposed;  /* b is stored [n, k] */
    bool accumulate;    /* c += instead of c =; without bias and what follows */
    const float *bias;  /* [n], added to every row */
    float *b_sums;      /* [n] += column sums of b (not transposed), in a fixed order */
    const float *add;   /* [m, n], added to the product: a residual connection */
    const float *scale; /* [m, n], multiplied with the product, element by element */
    float *gelu;        /* [m, n] = gelu(c), and c becomes gelu'(c) */
};

/* c[m, n] (+)= a[m, k] b[k, n], and the rest of s.
 * gelu is its tanh form (Hendrycks, Gimpel, arXiv:1606.08415): gelu(x) = x/2 (1 + tanh(u)) = x logistic(2u),
 * u = sqrt(2/pi) (x + 0.044715 x^3). */
void kernel_matmul(float *c, const float *a, const float *b, const struct matmul *s);

/* The gradients of out = in[rows, n_in] weight[n_in, n_out] + bias: dweight += in^T dout and
 * dbias += column sums of dout; din = dout weight^T, times scale[rows, n_in]
 * unless that is NULL. */
void kernel_linear_dweight(float *dweight, float *dbias, const float *dout, const float *in, size_t rows, size_t n_in,
                           size_t n_out);
void kernel_linear_din(float *din, const float *dout, const float *weight, const float *scale, size_t rows, size_t n_in,
                       size_t n_out);

#endif
