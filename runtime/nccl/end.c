/* end.c - how an NCCL communicator ends: in order, or by an abort; and its memory, in this order: registrations, then
 * NCCL's communicator, which an abort ends with all that is registered, then the memory itself. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/nccl/impl.h"

int nccl_close(nccl_t *n, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0 || nccl_memory_release(n, errp) < 0)
        return -1;
    n->life = NCCL_ENDING;
    int code = n->lib->finalize(n->handle);
    if (nccl_become_ready(n, code, WATCH_IN_NCCL_END, errp) < 0)
        return -1;
    n->life = NCCL_ENDING;
    code = nccl_call(n, n->lib->destroy);
    n->handle = NULL;
    n->life = NCCL_CLOSED;
    if (n->is_stuck)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "rank %d: NCCL's communicator was ended, but ncclCommDestroy "
                         "does not return: end this process", n->world->rank);
    return code == NCCL_OK ? 0 : nccl_error(n, code, WATCH_IN_NCCL_END, errp);
}

void nccl_abort(nccl_t *n)
{
    nccl_drop(n);
}

void nccl_leave_memory(nccl_t *n)
{
    n->leaves_memory = true;
}

void nccl_destroy(nccl_t *n)
{
    if (!n)
        return;
    int saved = errno;
    nccl_drop(n);
    nccl_forget_ids(n);
    if (!n->is_stuck) /* else a thread of NCCL's may yet write a window there */
        nccl_memory_free(n);
    free(n);
    errno = saved;
}
