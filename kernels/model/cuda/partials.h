/* partials.h - the second half of a sum over rows: adds the partial sums of the blocks, in their order. */
#ifndef DDP_KERNELS_MODEL_CUDA_PARTIALS_H
#define DDP_KERNELS_MODEL_CUDA_PARTIALS_H

#include "kernels/model/cuda/lanes.h"

#define PARTIAL_GROUPS 32u
#define PARTIAL_OUTS 3u

struct partial_outs {
    float *out[PARTIAL_OUTS]; /* [width] each, or NULL */
};

/* outs.out[o][i] += sum over p of partial[p][o][i], i in [0, width), o in [0, gridDim.y); group g of threads takes
 * partials g, g + 32, ...; then the groups are added in order. One block per 32 columns of an output. */
static __global__ void __launch_bounds__(WARP *PARTIAL_GROUPS)
    add_partials(partial_outs outs, const float *partial, unsigned n_partials, unsigned width)
{
    CUDA_SHARED_ARRAY(float, sums, WARP * PARTIAL_GROUPS);
    unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, column = blockIdx.x * WARP + lane;
    float sum = 0, *out = blockIdx.y == 0 ? outs.out[0] : blockIdx.y == 1 ? outs.out[1] : outs.out[2];
    if (!out)
        return;
    if (column < width)
        for (unsigned p = group; p < n_partials; p += PARTIAL_GROUPS)
            sum += partial[((size_t)p * gridDim.y + blockIdx.y) * width + column];
    sums[group * WARP + lane] = sum;
    __syncthreads();
    if (group != 0 || column >= width)
        return;
    for (unsigned g = 1; g < PARTIAL_GROUPS; g++)
        sum += sums[g * WARP + lane];
    out[column] += sum;
}

/* partial: [n_partials, n_outs, width], n_outs of 3 at most. */
static inline int launch_add_partials(float *const *out, unsigned n_outs, const float *partial, unsigned n_partials,
                                      unsigned width, void *stream)
{
    partial_outs outs = {{NULL}};
    for (unsigned i = 0; i < n_outs; i++)
        outs.out[i] = out[i];
    return (int)CUDA_LAUNCH(add_partials, dim3((width + WARP - 1) / WARP, n_outs), dim3(WARP * PARTIAL_GROUPS), 0,
                            (cudaStream_t)stream, outs, partial, n_partials, width);
}

#endif
