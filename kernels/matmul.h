/* matmul.h - float32 matrix products, row-major and contiguous.
 *
 * Results depend on the shapes and the BLAS core type, not on the number of threads: work is cut into output tiles of
 * MATMUL_TILE_ROWS x MATMUL_TILE_COLS, each computed by one thread. */
#ifndef DDP_KERNELS_MATMUL_H
#define DDP_KERNELS_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

#define MATMUL_TILE_ROWS 256
#define MATMUL_TILE_COLS 1024

/* What the products need of the machine (a BLAS). 0 or -1; call it once before any of them. */
int kernel_matmul_open(ddp_error_t *errp);

/* What their bits depend on beside the shapes: "OpenBLAS SkylakeX". Static storage. */
const char *kernel_matmul_name(void);

struct matmul {
    size_t m, n, k;
    bool a_transposed; /* a is stored [k, m] */
    bool b_transposed; /* b is stored [n, k] */
    bool accumulate;   /* c += instead of c = */
};

/* c[m, n] (+)= a[m, k] b[k, n]. */
void kernel_matmul(float *c, const float *a, const float *b, const struct matmul *s);

/* out[rows, n_out] = in[rows, n_in] weight[n_in, n_out] + bias[n_out]. */
void kernel_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t rows,
                           size_t n_in, size_t n_out);

/* The linear layer's gradients: din = dout weight^T, dweight += in^T dout, dbias += column sums of dout. */
void kernel_linear_backward(float *din, float *dweight, float *dbias, const float *dout, const float *in,
                            const float *weight, size_t rows, size_t n_in, size_t n_out);

#endif
