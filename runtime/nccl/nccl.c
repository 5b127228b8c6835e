/* nccl.c - the NCCL communicator's life.
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

static void forget_ids(nccl_t *n)
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

/* Waits for what `code` says has begun. */
static int become_ready(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp)
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
    forget_ids(n);
    return become_ready(n, code, WATCH_IN_NCCL_INIT, errp);
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
    return become_ready(n, NCCL_OK, WATCH_IN_NCCL, errp);
}

int nccl_wait(nccl_t *n, nccl_done_f *done, void *ctx, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    return nccl_await(n, WATCH_IN_NCCL, done, ctx, errp);
}

/* ---- memory ---- */

#define MIB ((size_t)1 << 20)

static int register_memory(nccl_t *n, struct nccl_memory *m, ddp_error_t *errp)
{
    int code = n->lib->reg(n->handle, m->data, m->n_bytes, &m->handle);
    if (code != NCCL_OK && code != NCCL_IN_PROGRESS)
        return nccl_break(n, code, WATCH_IN_NCCL, errp);
    return become_ready(n, code, WATCH_IN_NCCL, errp);
}

void *nccl_memory_create(nccl_t *n, size_t n_bytes, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return NULL;
    if (n_bytes == 0) { /* NCCL gives NULL for it, which says nothing */
        error_set(errp, DDP_E_USAGE, EINVAL, "NCCL memory of no bytes");
        return NULL;
    }
    struct nccl_memory *m = calloc(1, sizeof *m);
    if (!m) {
        error_errno(errp, "NCCL memory");
        nccl_break(n, 0, WATCH_IN_NCCL, errp);
        return NULL;
    }
    m->n_bytes = n_bytes;
    int code = n->lib->alloc(&m->data, n_bytes);
    if (code != NCCL_OK) {
        free(m);
        error_set(errp, DDP_E_COMM, ENOMEM, "rank %d: NCCL cannot allocate %zu MiB on its GPU (%.100s): take a smaller "
                  "--batch, --recompute, --ddp-zero=1 or a smaller --model", n->world->rank, (n_bytes + MIB - 1) / MIB,
                  n->lib->last_error());
        nccl_break(n, 0, WATCH_IN_NCCL, errp);
        return NULL;
    }
    m->next = n->memories;
    n->memories = m;
    return register_memory(n, m, errp) < 0 ? NULL : m->data;
}

static int deregister_all(nccl_t *n, ddp_error_t *errp)
{
    for (struct nccl_memory *m = n->memories; m; m = m->next) {
        int code = m->handle ? n->lib->dereg(n->handle, m->handle) : NCCL_OK;
        m->handle = NULL;
        if (code != NCCL_OK && code != NCCL_IN_PROGRESS)
            return nccl_break(n, code, WATCH_IN_NCCL_END, errp);
        if (become_ready(n, code, WATCH_IN_NCCL_END, errp) < 0)
            return -1;
    }
    return 0;
}

/* ---- the end ---- */

int nccl_close(nccl_t *n, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0 || deregister_all(n, errp) < 0)
        return -1;
    n->life = NCCL_ENDING;
    int code = n->lib->finalize(n->handle);
    if (become_ready(n, code, WATCH_IN_NCCL_END, errp) < 0)
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
    forget_ids(n);
    for (struct nccl_memory *m = n->memories, *next; m; m = next) {
        next = m->next;
        if (!n->is_stuck && !n->leaves_memory)
            n->lib->free(m->data);
        free(m);
    }
    free(n);
    errno = saved;
}

const char *nccl_version(const nccl_t *n)
{
    return n->version;
}
