/* What NCCL's failures are told as. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/nccl/impl.h"

const char *nccl_version_text(int version, char buf[32])
{
    if (version < 10000) /* the code before 2.9 */
        snprintf(buf, 32, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
    else
        snprintf(buf, 32, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return buf;
}

static const char *cure(int code)
{
    switch (code) {
    case NCCL_CUDA_ERROR:
        return "look for this GPU's Xid in dmesg and at nvidia-smi";
    case NCCL_SYSTEM_ERROR:
        return "check NCCL_SOCKET_IFNAME and the limits on locked and shared memory";
    case NCCL_REMOTE_ERROR:
        return "another rank or the network failed, see the other ranks' errors";
    }
    return "NCCL_DEBUG=INFO tells more";
}

int nccl_error(const nccl_t *n, int code, enum watch_what what, ddp_error_t *errp)
{
    char last[100];
    const char *said = n->lib->last_error();
    snprintf(last, sizeof last, "%s", said && said[0] ? said : "it says no more");
    last[strcspn(last, "\n")] = 0;
    if (strstr(last, "Duplicate GPU")) /* found by NCCL: devices were not named, or nodes share one */
        return error_set(errp, DDP_E_USAGE, EBUSY, "two ranks use one GPU (%s): start as many ranks on a node as it "
                         "has GPUs (srun --gpus-per-node), and look at CUDA_VISIBLE_DEVICES", last);
    return error_set(errp, DDP_E_COMM, code, "%s failed: %s (%s): %s", watch_what_name(what), n->lib->code_text(code),
                     last, cure(code));
}
