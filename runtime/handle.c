/* handle.c - what every call of ddp.h asks of its handle: the phase, the end of it after an error, and the agreement of
 * all ranks before anyone goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/handle.h"

int handle_expect(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp)
{
    static const char *const why[] = {
        [PHASE_OPEN] = "call ddp_commit first",
        [PHASE_COMMITTED] = "call ddp_data_open first (parameters and data are set up once, in that order)",
        [PHASE_IDLE] = "call ddp_batch_next first",
        [PHASE_MICRO] = "a micro-step is open: call ddp_backward_end first",
        [PHASE_SUMMED] = "gradients are summed: call ddp_step first",
        [PHASE_BROKEN] = "an earlier call failed on this handle: only ddp_abort and ddp_finalize may follow",
    };
    if (phases & 1u << d->phase)
        return 0;
    if (phases == 1u << PHASE_OPEN && d->phase != PHASE_BROKEN)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: comes too late: parameters, options and hooks are "
                         "declared before ddp_commit, which comes once", d->world.rank, call);
    return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: %s", d->world.rank, call, why[d->phase]);
}

int handle_break(ddp_t *d)
{
    d->phase = PHASE_BROKEN;
    return -1;
}

int handle_fail(ddp_t *d, ddp_error_t *errp)
{
    comm_abort(d->comm, errp->text);
    if (error_of_rank(errp->text, d->world.rank) == errp->text)
        error_prefix(errp, "rank %d", d->world.rank);
    return handle_break(d);
}

int handle_no_memory(ddp_t *d, const char *what, ddp_error_t *errp)
{
    ddp_error_t e;
    error_set(&e, DDP_E_SYSTEM, ENOMEM, "no memory for %s", what);
    handle_fail(d, &e);
    if (errp)
        *errp = e;
    return -1;
}

/* ---- what ranks agree on ---- */

/* rank's text, on every rank. malloc; the caller frees. NULL: d is broken. */
static char *share_text(ddp_t *d, const char *mine, int rank, ddp_error_t *errp)
{
    uint64_t n = strlen(mine) + 1;
    if (comm_bcast(d->comm, &n, sizeof n, rank, errp) < 0) {
        handle_break(d);
        return NULL;
    }
    char *text = malloc(n);
    if (!text) {
        handle_no_memory(d, "what another rank has to say", errp);
        return NULL;
    }
    if (d->world.rank == rank)
        memcpy(text, mine, n);
    if (comm_bcast(d->comm, text, n, rank, errp) == 0)
        return text;
    free(text);
    handle_break(d);
    return NULL;
}

static int explain_difference(ddp_t *d, handle_explain_f *explain, const char *mine, int other, ddp_error_t *errp)
{
    char *first = share_text(d, mine, 0, errp), *second = first ? share_text(d, mine, other, errp) : NULL;
    if (second)
        explain(first, 0, second, other, errp);
    free(first);
    free(second);
    return -1;
}

static int tell(ddp_t *d, const ddp_error_t *own, int rank, ddp_error_t *errp)
{
    char *why = share_text(d, own->text, rank, errp);
    if (own->code && errp)
        *errp = *own; /* whatever became of the telling */
    else if (why)
        error_set(errp, DDP_E_PEER, EINVAL, "rank %d: %s", rank, error_of_rank(why, rank));
    free(why);
    return -1;
}

void *handle_gather(ddp_t *d, const void *mine, size_t n, ddp_error_t *errp)
{
    void *all = malloc((size_t)d->world.size * n);
    if (!all) {
        handle_no_memory(d, "what all ranks have to say", errp);
        return NULL;
    }
    if (comm_allgather(d->comm, mine, n, all, errp) == 0)
        return all;
    free(all);
    handle_break(d);
    return NULL;
}

int handle_agree(ddp_t *d, const ddp_error_t *own, ddp_error_t *errp)
{
    char mine = own->code != 0, *all = handle_gather(d, &mine, sizeof mine, errp);
    int rc = all ? 0 : -1;
    for (int r = 0; rc == 0 && r < d->world.size; r++)
        if (all[r])
            rc = tell(d, own, r, errp);
    free(all);
    return rc;
}

int handle_same(ddp_t *d, const char *text, handle_explain_f *explain, ddp_error_t *errp)
{
    uint64_t mine = hash_text(text), *all = handle_gather(d, &mine, sizeof mine, errp);
    int rc = all ? 0 : -1;
    for (int r = 1; rc == 0 && r < d->world.size; r++)
        if (all[r] != all[0])
            rc = explain_difference(d, explain, text, r, errp);
    free(all);
    return rc;
}

int handle_compare(ddp_t *d, ddp_error_t *errp)
{
    char optimizer[512];
    char *settings = config_shared_text(&d->config, d->hook.encode ? dtype_name(d->hook.wire) : "none");
    char *layout = layout_text(&d->layout);
    int rc = settings && layout ? 0 : handle_no_memory(d, "the layout", errp);
    optimizer_text(&d->optimizer, optimizer, sizeof optimizer);
    if (rc == 0 && (handle_same(d, settings, config_explain, errp) < 0 ||
                    handle_same(d, layout, layout_explain, errp) < 0 ||
                    handle_same(d, optimizer, config_explain, errp) < 0))
        rc = -1;
    free(settings);
    free(layout);
    return rc;
}
