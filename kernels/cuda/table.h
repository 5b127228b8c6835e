/* table.h - launches over a list of ranges: each range is cut into chunks, and a block of threads takes one chunk. The
 * list is passed in the launch's arguments, which may have 4 KiB; a longer list takes several launches. */
#ifndef DDP_KERNELS_CUDA_TABLE_H
#define DDP_KERNELS_CUDA_TABLE_H

#include "kernels/cuda/cuda.h"

template <typename Range, int Max> struct table {
    Range range[Max];               /* has a member n, its elements */
    unsigned first_chunk[Max + 1];  /* range i has chunks [first_chunk[i], first_chunk[i + 1]) */
    int n;
};

/* The range that chunk c belongs to. */
template <typename Range, int Max>
static __device__ __forceinline__ int table_find(const table<Range, Max> &t, unsigned c)
{
    int low = 0, high = t.n;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (c < t.first_chunk[mid])
            high = mid;
        else
            low = mid;
    }
    return low;
}

/* Calls launch(table) for as many tables as the ranges need; the first error ends it. Empty ranges are left out. */
template <int Max, typename Range, typename Launch>
static cudaError_t table_launch(const Range *range, size_t n_ranges, size_t chunk, const Launch &launch)
{
    table<Range, Max> t;
    t.n = 0;
    t.first_chunk[0] = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        if (range[i].n) {
            t.range[t.n] = range[i];
            t.first_chunk[t.n + 1] = t.first_chunk[t.n] + (unsigned)((range[i].n + chunk - 1) / chunk);
            t.n++;
        }
        if (t.n == Max || (t.n && i + 1 == n_ranges)) {
            cudaError_t e = launch(t);
            if (e != cudaSuccess)
                return e;
            t.n = 0;
        }
    }
    return cudaSuccess;
}

#endif
