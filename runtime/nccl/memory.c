/* memory.c - memory for what NCCL sums and moves: allocated by NCCL and registered with it, on all ranks or on none.
 *
 * Where some ranks of a node have registered what is summed and others have not, the former wait for the latter in
 * NCCL without end (2.28.9, src/transport/nvls.cc: ncclNvlsLocalRegisterBuffer); and ncclCommWindowRegister is
 * collective. So the ranks agree after each step, over the host communicator. That is once in a job: memory does not
 * move. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/nccl/impl.h"

#define MIB ((size_t)1 << 20)

/* Has `code` been NCCL_OK on every rank? 1: yes; 0: no, and the user has been warned, of the first rank where it was
 * not: "NCCL of rank 1 (n0) cannot VERB N MiB (...): EFFECT, and ..."; -1: the ranks could not agree. */
static int agree(nccl_t *n, int code, size_t n_bytes, const char *verb, const char *effect, ddp_error_t *errp)
{
    int32_t first = code == NCCL_OK ? n->world->size : n->world->rank;
    char who[96], why[NCCL_SAID_MAX] = "", line[512];
    if (comm_allreduce(n->comm, &first, 1, DDP_I32, DDP_MIN, errp) < 0)
        return nccl_break(n, 0, WATCH_IN_NCCL_MEMORY, errp);
    if (first == n->world->size)
        return 1;
    if (first == n->world->rank)
        nccl_said(n, why);
    if (comm_bcast(n->comm, why, sizeof why, first, errp) < 0)
        return nccl_break(n, 0, WATCH_IN_NCCL_MEMORY, errp);
    snprintf(line, sizeof line, "NCCL of %s cannot %s %zu MiB (%s): %s, and NCCL copies what travels to and from "
             "buffers of its own", world_rank_name(n->world, first, who, sizeof who), verb, (n_bytes + MIB - 1) / MIB,
             why, effect);
    nccl_warn(n, line);
    return 0;
}

static int allocate(nccl_t *n, struct nccl_memory *m, ddp_error_t *errp)
{
    int code = n->lib->alloc(&m->data, m->n_bytes);
    int all = agree(n, code, m->n_bytes, "allocate", "all ranks take other memory of their GPUs", errp);
    if (all != 1 && code == NCCL_OK && !n->is_stuck)
        n->lib->free(m->data);
    return all;
}

static bool is_error(int code)
{
    return code != NCCL_OK && code != NCCL_IN_PROGRESS;
}

/* A window, where the communicator has any: m->window. In one node only: between nodes NCCL 2.30.7 has no symmetric
 * kernel for an all-reduce. What fails here has failed within a collective, so there is no way back from it. */
static int open_window(nccl_t *n, struct nccl_memory *m, ddp_error_t *errp)
{
    if (!n->lib->has[NCCL_WINDOWS] || n->world->n_nodes > 1)
        return 0;
    int code = n->lib->window(n->handle, m->data, m->n_bytes, &m->window);
    return nccl_become_ready(n, code, WATCH_IN_NCCL_WINDOW, errp);
}

static int end_registration(nccl_t *n, struct nccl_memory *m, enum watch_what what, ddp_error_t *errp)
{
    int code = NCCL_OK;
    if (m->window)
        code = n->lib->unwindow(n->handle, m->window);
    else if (m->handle)
        code = n->lib->dereg(n->handle, m->handle);
    m->window = m->handle = NULL;
    return nccl_become_ready(n, code, what, errp);
}

static int register_plainly(nccl_t *n, struct nccl_memory *m, ddp_error_t *errp)
{
    int code = n->lib->reg(n->handle, m->data, m->n_bytes, &m->handle);
    if (!is_error(code) && nccl_become_ready(n, code, WATCH_IN_NCCL_MEMORY, errp) < 0)
        return -1;
    int all = agree(n, is_error(code) ? code : NCCL_OK, m->n_bytes, "register", "no rank does", errp);
    if (all != 0)
        return all < 0 ? -1 : 0;
    m->handle = is_error(code) ? NULL : m->handle;
    return end_registration(n, m, WATCH_IN_NCCL_MEMORY, errp);
}

int nccl_memory_create(nccl_t *n, size_t n_bytes, bool is_summed, void **ret, ddp_error_t *errp)
{
    if (nccl_begin(n, errp) < 0)
        return -1;
    if (n_bytes == 0) /* NCCL gives NULL for it, which says nothing */
        return error_set(errp, DDP_E_USAGE, EINVAL, "NCCL memory of no bytes");
    struct nccl_memory *m = calloc(1, sizeof *m);
    if (!m) {
        error_errno(errp, "NCCL memory");
        return nccl_break(n, 0, WATCH_IN_NCCL_MEMORY, errp);
    }
    m->n_bytes = n_bytes;
    int rc = allocate(n, m, errp);
    if (rc <= 0) {
        free(m);
        *ret = NULL;
        return rc;
    }
    m->next = n->memories;
    n->memories = m;
    if ((is_summed && open_window(n, m, errp) < 0) || (!m->window && register_plainly(n, m, errp) < 0))
        return -1;
    *ret = m->data;
    return 0;
}

int nccl_memory_release(nccl_t *n, ddp_error_t *errp)
{
    for (struct nccl_memory *m = n->memories; m; m = m->next)
        if (end_registration(n, m, WATCH_IN_NCCL_END, errp) < 0)
            return -1;
    return 0;
}

void nccl_memory_free(nccl_t *n)
{
    for (struct nccl_memory *m = n->memories, *next; m; m = next) {
        next = m->next;
        if (!n->leaves_memory)
            n->lib->free(m->data);
        free(m);
    }
    n->memories = NULL;
}
