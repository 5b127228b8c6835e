/* matmul.h - kernels/model/matmul.h on a GPU: matrix products by cuBLASLt, float32, bfloat16 or float16, row-major.
 *
 * libcublasLt is opened at run time, in the major version of the header that matmul.c was built with (another version
 * has other structs). matmul.c is the one file that includes cublasLt.h; a build without it has matmul_stub.c in its
 * place.
 *
 * float32 products are true float32 (no TF32); those of 16-bit types are added in float32, pieces of split sums too,
 * and rounded once. GELU is no part of a product here: on an H200 cuBLASLt 13.1 takes 0.584 ms for 65536 x 3072 x 768
 * with it, 0.624 in two calls, and backward, with the bias's gradient, 1.72 ms, 0.751 in two. If cuBLASLt has no
 * algorithm that adds a bias, bias and add are first written to out (bias.h), and the product is then added to it; an
 * out of 16 bits with both is rounded twice then. The same bits every run, on one GPU model and library version.
 *
 * Pointers to data are device memory and multiples of 16 bytes; one that is not is refused by its name, and so is a
 * matrix of more than CUDA_MATMUL_ELEMS_MAX elements. Rows that are multiples of 16 bytes are fast. */
#ifndef DDP_KERNELS_MODEL_CUDA_MATMUL_H
#define DDP_KERNELS_MODEL_CUDA_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_BLAS_WORKSPACE ((size_t)32 << 20) /* bytes; what NVIDIA advises for sm_90 */

/* From the first to the last element of a matrix. Beyond it cuBLASLt 13.6 chooses kernels that then fail
 * (github.com/NVIDIA/raft, issue 3097), and cuBLAS up to 10.2 computed something else (cupy/cupy, issue 3284). */
#define CUDA_MATMUL_ELEMS_MAX ((size_t)INT32_MAX)

typedef struct cuda_blas cuda_blas_t;

/* For products on the current device. workspace: device memory for as long as it lives, 256-byte aligned, used by one
 * stream at a time. NULL: *errp says what to install. The caller destroys. */
cuda_blas_t *cuda_blas_create(void *workspace, size_t workspace_bytes, ddp_error_t *errp);
/* leaves_gpu: the GPU has failed, and must not be called. NULL is allowed. */
void cuda_blas_destroy(cuda_blas_t *b, bool leaves_gpu);

/* "cuBLASLt 13.1.0". Owned by b. */
const char *cuda_blas_name(const cuda_blas_t *b);

/* Unused fields are 0. */
struct cuda_matmul {
    size_t m, n, k;
    enum ddp_dtype in, out; /* of a and b: DDP_F32, DDP_BF16 or DDP_F16; of out, bias and add: the same or DDP_F32 */
    bool a_transposed;      /* a is stored [k, m] */
    bool b_transposed;      /* b is stored [n, k] */
    bool accumulate;        /* out += instead of out =; without bias and add */
    const void *bias;       /* [n], added to every row */
    const void *add;        /* [m, n], added to the product: a residual connection; not out */
};

/* out[m, n] (+)= a[m, k] b[k, n], and the rest of s, queued on `stream`. m, n and k are at least 1. 0 or -1. The
 * first call of a shape asks cuBLASLt how to do it best; that is remembered. */
int cuda_matmul(cuda_blas_t *blas, void *out, const void *a, const void *b, const struct cuda_matmul *s, void *stream,
                ddp_error_t *errp);

/* What cuBLASLt chose for such a product, for people: "id 66 tile 24 stages 35 cluster 4 split-k 1 workspace 0",
 * numbers as in cublasLt.h, workspace in bytes; "" before its first call. Returns buf. */
const char *cuda_matmul_algorithm(const cuda_blas_t *b, const struct cuda_matmul *s, char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif
