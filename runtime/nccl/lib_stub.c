/* lib_stub.c - in place of nccl/lib.c in a build without nccl.h. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/nccl/lib.h"

const struct nccl_lib *nccl_lib_open(ddp_error_t *errp)
{
    error_set(errp, DDP_E_COMM, ENOSYS, "this build of slurm-ddp lacks NCCL: install nccl.h (libnccl-dev) and the CUDA "
              "headers, and build again; configure says whether it found them");
    return NULL;
}
