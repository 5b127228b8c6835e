/* Going on without the dead, by NCCL's own means.
 *
 * In a non-blocking communicator the parent's state tells when the child is there; until then a thread of NCCL's may
 * write where the child's handle goes (init.cc, ncclCommInitChildComm: the job belongs to the parent). So that cell
 * lives until the parent has been aborted, and is lost where that does not end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/comm/host.h"
#include "runtime/comm/nccl_impl.h"

struct request {
    struct nccl_device device;
    const struct nccl_lib *lib;
    void *parent, **cell;
    int *gone, n_gone, code;
};

static void make(void *state)
{
    struct request *r = state;
    nccl_enter(&r->device);
    r->code = r->lib->shrink(r->parent, r->gone, r->n_gone, r->cell);
}

static void drop(void *state)
{
    struct request *r = state;
    free(r->gone);
}

bool nccl_can_shrink(const nccl_t *n)
{
    return n->cfg.will_shrink && n->lib && n->lib->has[NCCL_SHRINK] && n->handle && !n->is_stuck;
}

/* The call itself, which may wait for the device: NCCL's code, or -1 with n->is_stuck. */
static int call_shrink(nccl_t *n, const int *gone, size_t n_gone)
{
    struct request *r = malloc(sizeof *r);
    int *copy = malloc(n_gone * sizeof *copy), code = NCCL_SYSTEM_ERROR, rc = -1;
    if (r && copy) {
        memcpy(copy, gone, n_gone * sizeof *copy);
        *r = (struct request){.device = n->cfg.device,
                              .lib = n->lib,
                              .parent = n->handle,
                              .cell = n->child,
                              .gone = copy,
                              .n_gone = (int)n_gone};
        rc = call_within(make, drop, r, deadline_in(n->cfg.timeout_s), NULL);
    }
    if (rc == 1) {
        n->is_stuck = true;
        return -1;
    }
    code = rc == 0 ? r->code : code;
    free(copy);
    free(r);
    return code;
}

static int register_again(nccl_t *n, ddp_error_t *errp)
{
    for (struct nccl_memory *m = n->memories; m; m = m->next) {
        int code = n->lib->reg(n->handle, m->data, m->n_bytes, &m->handle);
        if (code != NCCL_OK && code != NCCL_IN_PROGRESS)
            return nccl_break(n, code, WATCH_IN_NCCL_INIT, errp);
        if (nccl_await(n, WATCH_IN_NCCL_INIT, NULL, NULL, errp) < 0)
            return -1;
    }
    return 0;
}

int nccl_shrink(nccl_t *n, const int *gone, size_t n_gone, const struct world *w, comm_t *c, ddp_error_t *errp)
{
    if (!nccl_can_shrink(n) || n->life == NCCL_CLOSED || n_gone == 0 || w->size + (int)n_gone != n->world->size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "NCCL %s cannot shrink this communicator: wire up again",
                         n->version);
    if (!n->child && !(n->child = calloc(1, sizeof *n->child)))
        return error_errno(errp, "NCCL's shrink");
    n->world = w; /* from here on the survivors' watch tells who fails */
    n->comm = c;
    n->watch = c->watch;
    n->life = NCCL_STARTING;
    int code = call_shrink(n, gone, n_gone);
    if (!n->is_stuck && code != NCCL_OK && code != NCCL_IN_PROGRESS)
        return nccl_break(n, code, WATCH_IN_NCCL_INIT, errp);
    if (!n->is_stuck && nccl_await(n, WATCH_IN_NCCL_INIT, NULL, NULL, errp) < 0)
        return -1;
    nccl_drop(n); /* the parent */
    if (n->is_stuck) {
        error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "rank %d: ncclCommShrink or ncclCommAbort does not return: wire up "
                  "again in new processes", w->rank);
        return nccl_break(n, 0, WATCH_IN_NCCL_INIT, errp);
    }
    n->handle = *n->child;
    if (nccl_await(n, WATCH_IN_NCCL_INIT, NULL, NULL, errp) < 0)
        return -1;
    n->life = NCCL_READY;
    return register_again(n, errp);
}
