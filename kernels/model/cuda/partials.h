/* partials.h - the second half of a sum over rows: adds the partial sums of the blocks, in their order. */
#ifndef DDP_KERNELS_MODEL_CUDA_PARTIALS_H
#define DDP_KERNELS_MODEL_CUDA_PARTIALS_H

#include "kernels/model/cuda/lanes.h"

#define PARTIAL_GROUPS 8u

/* out[i] += sum over p of partial[p][i], i in [0, width), partial [n_partials, stride]; group g of threads takes
 * partials g, g + 8, ...; then the groups are added in order. One block per 32 columns. */
static __global__ void __launch_bounds__(WARP *PARTIAL_GROUPS)
    add_partials(float *out, const float *partial, unsigned n_partials, unsigned stride, unsigned width)
{
    CUDA_SHARED_ARRAY(float, sums, WARP * PARTIAL_GROUPS);
    unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, column = blockIdx.x * WARP + lane;
    float sum = 0;
    if (column < width)
        for (unsigned p = group; p < n_partials; p += PARTIAL_GROUPS)
            sum += partial[(size_t)p * stride + column];
    sums[group * WARP + lane] = sum;
    __syncthreads();
    if (group != 0 || column >= width)
        return;
    for (unsigned g = 1; g < PARTIAL_GROUPS; g++)
        sum += sums[g * WARP + lane];
    out[column] += sum;
}

static inline int launch_add_partials(float *out, const float *partial, unsigned n_partials, unsigned stride,
                                      unsigned width, void *stream)
{
    return (int)CUDA_LAUNCH(add_partials, dim3((width + WARP - 1) / WARP), dim3(WARP * PARTIAL_GROUPS), 0,
                            (cudaStream_t)stream, out, partial, n_partials, stride, width);
}

#endif
