/* fold.h - a sum of several arrays in device memory, added from the last one to the first: the twin of kernels/fold.h,
 * with the same bits. cast.h says what all functions of kernels/cuda have in common. */
#ifndef DDP_KERNELS_CUDA_FOLD_H
#define DDP_KERNELS_CUDA_FOLD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_FOLD_MAX 256

/* out[i] = in[0][i] + (in[1][i] + (... + in[n_in - 1][i])) for i in [0, n). out may be any of in[], otherwise overlaps
 * none. n_in outside of [1, CUDA_FOLD_MAX]: cudaErrorInvalidValue. */
int cuda_fold(float *out, const float *const *in, int n_in, size_t n, void *stream);

#ifdef __cplusplus
}
#endif
#endif
