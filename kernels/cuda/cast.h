/* cast.h - converts ranges of float32 to bfloat16 or float16, times a factor: gradients for buckets, values for their
 * 16-bit copies. The CPU twin is kernels/cast.h, which rounds in the same way.
 *
 * For all functions in kernels/cuda: data is in device memory; structs of arguments are in host memory, which the
 * caller may change after the call; the work is enqueued on `stream` (a cudaStream_t, NULL for the default one) of the
 * current device; the result is 0 or a cudaError_t. A call with nothing to do is no error. */
#ifndef DDP_KERNELS_CUDA_CAST_H
#define DDP_KERNELS_CUDA_CAST_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each pointer is a multiple of its type's size; multiples of 16 are fastest. */
struct cuda_range {
    void *out; /* of 16-bit elements */
    const float *in;
    size_t n; /* elements */
};

/* out[i] = to(scale * in[i]) for each of n_ranges, rounded to nearest even; infinities and NaNs stay (not a NaN's
 * payload), too large becomes infinite. to is DDP_BF16 or DDP_F16, another one cudaErrorInvalidValue. Ranges do not
 * overlap. */
int cuda_cast(const struct cuda_range *range, size_t n_ranges, enum ddp_dtype to, float scale, void *stream);

#ifdef __cplusplus
}
#endif
#endif
