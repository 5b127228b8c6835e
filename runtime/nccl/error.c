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

const char *nccl_said(const nccl_t *n, char buf[NCCL_SAID_MAX])
{
    const char *said = n->lib->last_error();
    snprintf(buf, NCCL_SAID_MAX, "%s", said && said[0] ? said : "it says no more");
    buf[strcspn(buf, "\n")] = 0;
    return buf;
}

void nccl_warn(const nccl_t *n, const char *line)
{
    if (n->cfg.warn)
        n->cfg.warn(n->cfg.warn_ctx, line);
}

static const char *cure(int code, enum watch_what what)
{
    if (what == WATCH_IN_NCCL_WINDOW)
        return "NCCL_WIN_ENABLE=0, on all ranks, goes without windows, NCCL_DEBUG=INFO tells more";
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
    char last[NCCL_SAID_MAX];
    nccl_said(n, last);
    if (strstr(last, "Duplicate GPU")) /* found by NCCL: devices were not named, or nodes share one */
        return error_set(errp, DDP_E_USAGE, EBUSY, "two ranks use one GPU (%s): start as many ranks on a node as it "
                         "has GPUs (srun --gpus-per-node), and look at CUDA_VISIBLE_DEVICES", last);
    return error_set(errp, DDP_E_COMM, code, "%s failed: %s (%s): %s", watch_what_name(what), n->lib->code_text(code),
                     last, cure(code, what));
}
