/* blas.h - the only file that uses a BLAS: OpenBLAS, opened when it is first needed, so that its core type can be
 * chosen before.
 *
 * Debian's OpenBLAS takes "Haswell" for AVX-512 machines that it does not know, at half the speed; unless the user set
 * OPENBLAS_CORETYPE, such machines get SkylakeX. OpenBLAS's own threads stay off: its bits depend on their number. */
#ifndef DDP_KERNELS_MODEL_CPU_BLAS_H
#define DDP_KERNELS_MODEL_CPU_BLAS_H

#include <stdbool.h>

#include "runtime/base/error.h"

/* Opens the library; later calls do nothing. 0, or -1 with an error that names the Debian package. */
int blas_open(ddp_error_t *errp);

/* The core type in use ("SkylakeX"), part of what results depend on. "none" before blas_open. */
const char *blas_core(void);

/* A row-major matrix, or its transpose. ld: elements from one row to the next in memory. */
struct blas_in {
    const float *data;
    int ld;
    bool transposed;
};

/* c[m, n] = a[m, k] b[k, n] + beta c, row-major, c's rows ldc apart; with beta 0, c is only written. On the
 * calling thread alone. blas_open must have succeeded. */
void blas_sgemm(int m, int n, int k, struct blas_in a, struct blas_in b, float beta, float *c, int ldc);

#endif
