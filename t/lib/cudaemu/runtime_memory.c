/* runtime_memory.c - the emulated CUDA runtime: memory, and copies of it. */
#include <stdlib.h>
#include <string.h>

#include "t/lib/cudaemu/foreign.h"
#include "t/lib/cudaemu/runtime_impl.h"
#include "t/lib/cudaemu/script.h"

/* Nobody knows of these where one ends. */
static struct block foreign = {.p = (char *)CUDAEMU_FOREIGN_BASE, .n = CUDAEMU_FOREIGN_BYTES};

struct block *cudaemu_block_of(const void *p, size_t n, bool of_host)
{
    if (!of_host && (uintptr_t)p - CUDAEMU_FOREIGN_BASE < CUDAEMU_FOREIGN_BYTES)
        return &foreign;
    for (struct block *b = cudaemu_all.blocks; b; b = b->next)
        if ((b->device < 0) == of_host && (const char *)p >= b->p && (size_t)((const char *)p - b->p) <= b->n)
            return n <= b->n - (size_t)((const char *)p - b->p) ? b : NULL;
    return NULL;
}

static cudaError_t take(void **ret, size_t n, int device)
{
    struct block *b = malloc(sizeof *b);
    void *p = NULL;
    if (!b || posix_memalign(&p, ALIGN, n) != 0) {
        free(b);
        return cudaemu_keep(cudaErrorMemoryAllocation);
    }
    memset(p, 0xff, n);
    *b = (struct block){cudaemu_all.blocks, p, n, device};
    cudaemu_all.blocks = b;
    if (device >= 0)
        cudaemu_all.used[device] += n;
    *ret = b->p;
    return cudaSuccess;
}

static cudaError_t give(void *p, bool of_host)
{
    if (!p)
        return cudaSuccess;
    for (struct block **at = &cudaemu_all.blocks; *at; at = &(*at)->next)
        if ((*at)->p == p && ((*at)->device < 0) == of_host) {
            struct block *b = *at;
            *at = b->next;
            if (b->device >= 0)
                cudaemu_all.used[b->device] -= b->n;
            free(b->p);
            free(b);
            return cudaSuccess;
        }
    return cudaemu_keep(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    BEGIN_ON_GPU();
    *left = cudaemu_all.memory - cudaemu_all.used[cudaemu_mine.device];
    *total = cudaemu_all.memory;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    BEGIN_ON_GPU();
    REFUSE(cudaemu_refuse_unsafe());
    if (size == 0) {
        *devPtr = NULL;
        return cudaSuccess;
    }
    if (size > cudaemu_all.memory - cudaemu_all.used[cudaemu_mine.device])
        return cudaemu_keep(cudaErrorMemoryAllocation);
    return take(devPtr, size, cudaemu_mine.device);
}

cudaError_t cudaFree(void *devPtr)
{
    BEGIN_ON_GPU();
    REFUSE(cudaemu_refuse_unsafe());
    if (devPtr)
        cudaemu_drain_all();
    return give(devPtr, false);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    (void)flags;
    BEGIN_ON_GPU();
    REFUSE(cudaemu_refuse_unsafe());
    return take(pHost, size, -1);
}

cudaError_t cudaFreeHost(void *ptr)
{
    BEGIN_ON_GPU();
    REFUSE(cudaemu_refuse_unsafe());
    return give(ptr, true);
}

bool cudaemu_is_device(const void *p, size_t n)
{
    return cudaemu_block_of(p, n, false) != NULL;
}

/* Does p lie in a GPU's memory at all? */
static bool is_device(const void *p)
{
    return cudaemu_is_device(p, 0);
}

/* A kind is what the caller says of the two sides; a range must end where its block does. */
static cudaError_t check_copy(const void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to = is_device(dst);
        from = is_device(src);
    }
    if (to != is_device(dst) || from != is_device(src))
        return cudaErrorInvalidValue;
    if ((to && !cudaemu_block_of(dst, n, false)) || (from && !cudaemu_block_of(src, n, false)))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    cudaError_t e = check_copy(dst, src, n, kind);
    return e ? cudaemu_keep(e) : cudaemu_ask(stream, &(struct work){.what = WORK_COPY, .to = dst, .from = src, .n = n});
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    BEGIN_ON_GPU();
    cudaError_t e = check_copy(dst, src, n, kind);
    if (e)
        return cudaemu_keep(e);
    REFUSE(cudaemu_refuse_unsafe());
    REFUSE(cudaemu_refuse_implicit());
    cudaemu_drain(&cudaemu_all.standard);
    memmove(dst, src, n);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t n, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!cudaemu_block_of(devPtr, n, false))
        return cudaemu_keep(cudaErrorInvalidValue);
    return cudaemu_ask(stream, &(struct work){.what = WORK_FILL, .to = devPtr, .byte = value, .n = n});
}

cudaError_t cudaMemset(void *devPtr, int value, size_t n)
{
    return cudaMemsetAsync(devPtr, value, n, NULL);
}
