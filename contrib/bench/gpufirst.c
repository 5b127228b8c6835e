/* gpufirst.c - the first thing that contrib/gpu-check runs on a GPU: what is there, one launch of a kernel of ours, one
 * product by cuBLASLt. A line each as soon as it is known; the first that fails ends it, as nothing else would work
 * then. NCCL is looked for, too, but not needed. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cast.h"
#include "kernels/model/cuda/matmul.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"

#define WAIT_S 30
#define SIDE ((size_t)64) /* of the product's matrices */
#define N (SIDE * SIDE)

struct first {
    device_t *device;
    device_stream_t *stream;
    float *host;            /* pinned, [3][N]: two operands and a result */
    char *data, *workspace; /* the device's: room for as much; cuBLASLt's */
    cuda_blas_t *blas;
};

static void tell_nccl(void)
{
    int version, (*get)(int *);
    void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "ncclGetVersion") : NULL;
    memcpy(&get, &symbol, sizeof get);
    if (symbol && get(&version) == 0)
        printf("NCCL %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    else
        printf("no NCCL: %s\n", lib ? "libnccl.so.2 has no version" : dlerror());
}

static int open_all(struct first *f, ddp_error_t *errp)
{
    size_t n_free;
    if (device_cuda_count(errp) <= 0)
        return -1;
    f->device = device_open(0, 0, errp);
    if (!f->device || device_memory_free(f->device, &n_free, errp) < 0)
        return -1;
    const struct device_info *about = device_info(f->device);
    printf("GPU %s, %s, compute capability %d.%d, %zu MiB free\n", about->name, about->bus_id, about->major,
           about->minor, n_free >> 20);
    f->stream = device_stream_create(f->device, DEVICE_NORMAL, errp);
    f->host = f->stream ? device_host_malloc(f->device, 3 * N * sizeof(float), "a trial", errp) : NULL;
    f->data = f->host ? device_malloc(f->device, 3 * N * sizeof(float), "a trial", errp) : NULL;
    f->workspace = f->data ? device_malloc(f->device, CUDA_BLAS_WORKSPACE, "cuBLASLt's workspace", errp) : NULL;
    return f->workspace ? 0 : -1;
}

static int wait_for(struct first *f, ddp_error_t *errp)
{
    return device_stream_wait(f->stream, deadline_in(WAIT_S), NULL, NULL, errp);
}

/* Whole numbers up to 255 and their halves are the same in bfloat16. */
static int launch(struct first *f, ddp_error_t *errp)
{
    struct cuda_range range = {.out = f->data + N * sizeof(float), .in = (const float *)f->data, .n = N};
    for (size_t i = 0; i < N; i++)
        f->host[i] = (float)(i % 256);
    if (device_copy(f->stream, f->data, f->host, N * sizeof(float), DEVICE_TO, errp) < 0 ||
        device_result(f->device, cuda_cast(&range, 1, DDP_BF16, 0.5f, device_native_stream(f->stream)), "cuda_cast",
                      errp) < 0 ||
        device_copy(f->stream, f->host + N, range.out, N * 2, DEVICE_FROM, errp) < 0 || wait_for(f, errp) < 0)
        return -1;
    for (size_t i = 0; i < N; i++) {
        uint16_t got = ((uint16_t *)(f->host + N))[i];
        uint32_t bits = (uint32_t)got << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        if (x != f->host[i] / 2)
            return error_set(errp, DDP_E_DATA, EPROTO, "a kernel cast element %zu, %g, to %g, not %g", i,
                             (double)f->host[i], (double)x, (double)f->host[i] / 2);
    }
    printf("a kernel of ours: right\n");
    return 0;
}

/* a[i, k] = i + k, b[k, j] = 1 where k = j: the product is a, exactly. */
static int multiply(struct first *f, ddp_error_t *errp)
{
    struct cuda_matmul shape = {.m = SIDE, .n = SIDE, .k = SIDE, .in = DDP_F32, .out = DDP_F32};
    char *a = f->data, *b = a + N * sizeof(float), *out = b + N * sizeof(float);
    f->blas = cuda_blas_create(f->workspace, CUDA_BLAS_WORKSPACE, errp);
    if (!f->blas)
        return -1;
    printf("%s\n", cuda_blas_name(f->blas));
    for (size_t i = 0; i < N; i++) {
        f->host[i] = (float)(i / SIDE + i % SIDE);
        f->host[N + i] = i / SIDE == i % SIDE;
    }
    if (device_copy(f->stream, a, f->host, 2 * N * sizeof(float), DEVICE_TO, errp) < 0 ||
        cuda_matmul(f->blas, out, a, b, &shape, device_native_stream(f->stream), errp) < 0 ||
        device_copy(f->stream, f->host + 2 * N, out, N * sizeof(float), DEVICE_FROM, errp) < 0 || wait_for(f, errp) < 0)
        return -1;
    if (memcmp(f->host + 2 * N, f->host, N * sizeof(float)) != 0)
        return error_set(errp, DDP_E_DATA, EPROTO, "%s: the product of a matrix and the unit matrix is another one",
                         cuda_blas_name(f->blas));
    printf("a product: right\n");
    return 0;
}

static void close_all(struct first *f)
{
    cuda_blas_destroy(f->blas, device_is_broken(f->device));
    if (f->device) {
        device_free(f->device, f->workspace);
        device_free(f->device, f->data);
        device_host_free(f->device, f->host);
    }
    device_stream_destroy(f->stream);
    device_close(f->device);
}

int main(void)
{
    struct first f = {0};
    ddp_error_t e = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    tell_nccl();
    int rc = open_all(&f, &e) < 0 || launch(&f, &e) < 0 || multiply(&f, &e) < 0;
    if (rc)
        fprintf(stderr, "gpufirst: %s\n", e.text);
    if (f.device)
        close_all(&f);
    return rc;
}
