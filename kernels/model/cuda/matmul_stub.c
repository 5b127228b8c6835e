/* matmul_stub.c - in place of matmul.c in a build without cublasLt.h. */
#include <errno.h>

#include "kernels/model/cuda/matmul.h"

cuda_blas_t *cuda_blas_create(void *workspace, size_t workspace_bytes, ddp_error_t *errp)
{
    (void)workspace;
    (void)workspace_bytes;
    error_set(errp, DDP_E_USAGE, ENOTSUP, "this build has no matrix products for GPUs: cublasLt.h was missing when it "
              "was configured (install libcublas-dev and build again)");
    return NULL;
}

void cuda_blas_destroy(cuda_blas_t *b, bool leaves_gpu)
{
    (void)leaves_gpu;
    (void)b;
}

const char *cuda_blas_name(const cuda_blas_t *b)
{
    (void)b;
    return "none";
}

int cuda_matmul(cuda_blas_t *blas, void *out, const void *a, const void *b, const struct cuda_matmul *s, void *stream,
                ddp_error_t *errp)
{
    (void)blas, (void)out, (void)a, (void)b, (void)s, (void)stream;
    return error_set(errp, DDP_E_USAGE, ENOTSUP, "this build has no matrix products for GPUs");
}

const char *cuda_matmul_algorithm(const cuda_blas_t *b, const struct cuda_matmul *s, char *buf, size_t size)
{
    (void)b, (void)s;
    if (size > 0)
        *buf = '\0';
    return buf;
}
