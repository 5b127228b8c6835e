/* kernels_stub.c - in a build without CUDA's compiler: the kernels that libddp asks for, which say that they are not
 * there. No device can be opened there, so nothing comes as far. */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/fold.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/reduce.h"

enum { NOT_SUPPORTED = 801 }; /* cudaErrorNotSupported */

int cuda_cast(const struct cuda_range *range, size_t n_ranges, enum ddp_dtype to, float scale, void *stream)
{
    (void)range, (void)n_ranges, (void)to, (void)scale, (void)stream;
    return NOT_SUPPORTED;
}

int cuda_norm_blocks(const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
                     void *stream)
{
    (void)range, (void)n_ranges, (void)from, (void)scale, (void)stream;
    return NOT_SUPPORTED;
}

cuda_optim_f *cuda_optim_find(const char *rule)
{
    (void)rule;
    return NULL;
}

int cuda_fold(float *out, const float *const *in, int n_in, size_t n, void *stream)
{
    (void)out, (void)in, (void)n_in, (void)n, (void)stream;
    return NOT_SUPPORTED;
}

int cuda_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                     enum ddp_dtype dtype, void *stream)
{
    (void)out, (void)n_out, (void)in, (void)n_in, (void)n_elems, (void)dtype, (void)stream;
    return NOT_SUPPORTED;
}
