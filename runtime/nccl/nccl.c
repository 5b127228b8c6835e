/* nccl.c - the NCCL communicator's life; what ends it is in end.c.
 *
 *   CREATED    all ranks agree, ids are at hand; roots listen
 *   STARTING   ncclCommInitRank* has been called; NCCL's own thread wires up
 *   READY      no call is under way: the only state in which the next call may be made, an event be recorded
 *   ISSUED     an operation has been called, and NCCL's own thread is putting it on its stream
 *   ENDING     ncclCommFinalize has been called
 *   CLOSED     nothing of NCCL's is left
 *   BROKEN     a call or a wait has failed; the watch has a cause, which is the same on all ranks
 *
 *   CREATED -> STARTING -> READY <-> ISSUED,  READY -> ENDING -> CLOSED
 *   STARTING, READY, ISSUED, ENDING -> BROKEN
 *
 * What holds: `handle` is NCCL's communicator from STARTING to ENDING, else NULL. Between STARTING, ISSUED or ENDING
 * and what follows lies nccl_await, which nobody leaves before NCCL says so, or the watch breaks. Calls that may wait
 * inside NCCL (abort, destroy) run in a thread that is left behind at a deadline; then is_stuck, and NCCL is not called
 * again, since its calls must not overlap. All others come from the caller's thread. So an abort finds no other thread
 * inside; and every live rank aborts, for the watch's cause reaches all. */
#include <config.h> /* explicit_bzero */

#include "runtime/nccl/nccl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl/impl.h"

void nccl_forget_ids(nccl_t *n)
{
    if (n->ids)
        explicit_bzero(n->ids, (size_t)n->n_ids * NCCL_ID_BYTES);
    free(n->ids);
    n->ids = NULL;
}

static int wrong_life(const char *call, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "%s: the NCCL communicator is not in a state for it (nccl.h)", call);
}

int nccl_become_ready(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp)
{
    if (!n->handle || (code != NCCL_OK && code != NCCL_IN_PROGRESS))
        return nccl_break(n, code == NCCL_OK || code == NCCL_IN_PROGRESS ? NCCL_INTERNAL_ERROR : code, what, errp);
    if (nccl_await(n, what, NULL, NULL, errp) < 0)
        return -1;
    n->life = NCCL_READY;
    return 0;
}

int nccl_start(nccl_t *n, ddp_error_t *errp)
{
    if (n->life != NCCL_CREATED)
        return wrong_life("nccl_start", errp);
    n->life = NCCL_STARTING;
    int code = n->lib->init(&n->handle, n->world->size, n->world->rank, n->ids, n->n_ids);
    nccl_forget_ids(n);
    return nccl_become_ready(n, code, WATCH_IN_NCCL_INIT, errp);
}

int nccl_begin(nccl_t *n, ddp_error_t *errp)
{
    if (n->life == NCCL_ISSUED)
        return nccl_settle(n, errp);
    if (n->life == NCCL_BROKEN)
        return n->watch && watch_is_broken(n->watch) ? watch_error(n->watch, errp) : wrong_life("NCCL", errp);
    if (n->life != NCCL_READY)
        return wrong_life("an operation of NCCL", errp);
    return watch_is_broken(n->watch) ? nccl_break(n, 0, WATCH_IN_NCCL, errp) : 0;
}

int nccl_settle(nccl_t *n, ddp_error_t *errp)
{
    if (n->life != NCCL_ISSUED)
        return nccl_begin(n, errp);
    return nccl_become_ready(n, NCCL_OK, WATCH_IN_NCCL, errp);
}

int nccl_wait(nccl_t *n, nccl_done_f *done, void *ctx, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    return nccl_await(n, WATCH_IN_NCCL, done, ctx, errp);
}

const char *nccl_version(const nccl_t *n)
{
    return n->version;
}
