/* runtime_memory.c - the emulated CUDA runtime: memory. */
#include <stdlib.h>
#include <string.h>

#include "t/lib/cudaemu/foreign.h"
#include "t/lib/cudaemu/runtime_impl.h"

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
    cudaError_t e = devPtr ? cudaDeviceSynchronize() : cudaSuccess;
    return e ? e : give(devPtr, false);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    (void)flags;
    BEGIN_ON_GPU();
    return take(pHost, size, -1);
}

cudaError_t cudaFreeHost(void *ptr)
{
    BEGIN_ON_GPU();
    return give(ptr, true);
}
