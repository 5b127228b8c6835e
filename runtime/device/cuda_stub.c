/* cuda_stub.c - the backend of a build without CUDA. */
#include <errno.h>

#include "runtime/device/device_impl.h"

static int absent(ddp_error_t *errp)
{
    return error_set(errp, DDP_E_SYSTEM, ENODEV, "this build has no CUDA: configure it where nvcc is installed");
}

int device_cuda_count(ddp_error_t *errp)
{
    absent(errp);
    return 0;
}

int device_cuda_info(int ordinal, struct device_info *ret, ddp_error_t *errp)
{
    (void)ordinal;
    (void)ret;
    return absent(errp);
}

int device_cuda_open(device_t *d, int ordinal, ddp_error_t *errp)
{
    (void)ordinal;
    return absent(errp) < 0 ? error_prefix(errp, "rank %d", d->rank) : 0;
}
