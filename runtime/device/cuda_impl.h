/* cuda_impl.h - what the files of the cuda backend share. The one file here that includes CUDA's header. */
#ifndef DDP_RUNTIME_DEVICE_CUDA_IMPL_H
#define DDP_RUNTIME_DEVICE_CUDA_IMPL_H

#include <cuda_runtime_api.h>

#include "runtime/device/device_impl.h"

/* Describes a cudaError_t (device_ops.explain). */
void cuda_explain(int code, struct device_fault *ret);

/* For an error before any device is open: fills *errp with "CALL: cudaErrorX: meaning". Returns -1. */
int cuda_refuse(int code, const char *call, ddp_error_t *errp);

/* Fills *errp with why cudaGetDeviceCount failed, for device_cuda_count. */
void cuda_explain_absence(int code, ddp_error_t *errp);

#endif
