/* arena.c - values and optimizer state, wherever they lie: in the processor's memory, or in a GPU's. */
#include <string.h>

#include "runtime/handle.h"

int handle_read(ddp_t *d, void *host, const void *from, size_t n, ddp_error_t *errp)
{
    if (d->gpu)
        return gpu_read(d->gpu, host, from, n, errp);
    if (host != from)
        memcpy(host, from, n);
    return 0;
}

int handle_write(ddp_t *d, void *to, const void *host, size_t n, ddp_error_t *errp)
{
    if (d->gpu)
        return gpu_write(d->gpu, to, host, n, errp);
    if (to != host)
        memcpy(to, host, n);
    return 0;
}

int handle_bcast(ddp_t *d, void *at, size_t n, int root, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    if (!d->gpu)
        return comm_bcast(d->team.comm, at, n, root, errp);
    if (gpu_bcast(d->gpu, at, n, root, &why) == 0)
        return 0;
    if (why.domain != DDP_E_PEER) /* the others wait in NCCL */
        comm_abort(d->team.comm, why.text);
    if (errp)
        *errp = why;
    return -1;
}

int handle_values_changed(ddp_t *d, ddp_error_t *errp)
{
    return d->gpu ? gpu_round(d->gpu, errp) : 0;
}

void *handle_staging(const ddp_t *d, void *to, void *buffer)
{
    return d->gpu ? buffer : to;
}
