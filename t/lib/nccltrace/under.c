/* under.c - the libnccl underneath. See trace.h. */
#include "t/lib/nccltrace/trace.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct under table;

static void find(void *handle, const char *name, void *at)
{
    void *symbol = dlsym(handle, name);
    memcpy(at, &symbol, sizeof symbol);
}

const struct under *under(void)
{
    static void *handle;
    const char *path = getenv("NCCLTRACE_LIBRARY");
    if (handle)
        return &table;
    handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) {
        fprintf(stderr, "nccltrace: NCCLTRACE_LIBRARY: %s\n", path ? dlerror() : "not set");
        _exit(REFUSED);
    }
#define FIND(name) find(handle, #name, &table.name);
    UNDER_FUNCTIONS(FIND)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    FIND(ncclCommInitRankScalable)
#endif
    FIND(nccldouble_pending)
    return &table;
}

int own_rank(void)
{
    const char *text = getenv("RANK");
    text = text ? text : getenv("SLURM_PROCID");
    return text ? atoi(text) : 0;
}

double now_ms(void)
{
    static double first;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
    first = first > 0 ? first : now;
    return now - first;
}
