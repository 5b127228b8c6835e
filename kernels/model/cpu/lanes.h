/* lanes.h - sums and maxima over arrays in a fixed order: LANES running values, element i in lane i % LANES, combined
 * pairwise at the end. The order is part of the promise that bits do not depend on the vector width. */
#ifndef DDP_KERNELS_MODEL_CPU_LANES_H
#define DDP_KERNELS_MODEL_CPU_LANES_H

#include <stddef.h>

#include "kernels/model/cpu/inline.h"

#define LANES 16

KERNEL_INLINE float lanes_total(float *lane)
{
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

KERNEL_INLINE float lanes_sum(const float *x, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return lanes_total(lane);
}

KERNEL_INLINE float lanes_dot(const float *x, const float *y, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i] * y[i];
    return lanes_total(lane);
}

/* n >= 1. A nan may or may not show: the sum that follows carries it. */
KERNEL_INLINE float lanes_max(const float *x, size_t n)
{
    float lane[LANES];
    size_t i = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; i < n; i++, l++)
        lane[l] = x[i] > lane[l] ? x[i] : lane[l];
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    return lane[0];
}

#endif
