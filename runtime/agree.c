/* agree.c - ranks compare what must be the same, and tell each other what stops one of them, before anyone goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/handle.h"

/* rank's text, on every rank. malloc; the caller frees. */
static char *share_text(ddp_t *d, const char *mine, int rank, ddp_error_t *errp)
{
    uint64_t n = strlen(mine) + 1;
    if (comm_bcast(d->comm, &n, sizeof n, rank, errp) < 0)
        return NULL;
    char *text = malloc(n);
    if (!text) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for what rank %d has to say", rank);
        return NULL;
    }
    if (d->world.rank == rank)
        memcpy(text, mine, n);
    if (comm_bcast(d->comm, text, n, rank, errp) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

typedef int explain_f(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp);

static int explain_difference(ddp_t *d, explain_f *explain, const char *mine, int other, ddp_error_t *errp)
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
        error_set(errp, DDP_E_PEER, EINVAL, "rank %d: %s", rank, why);
    free(why);
    return -1;
}

int handle_agree(ddp_t *d, const ddp_error_t *own, ddp_error_t *errp)
{
    char mine = own->code != 0, *all = calloc((size_t)d->world.size, 1);
    int rc = all ? comm_allgather(d->comm, &mine, 1, all, errp) : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory");
    for (int r = 0; rc == 0 && r < d->world.size; r++)
        if (all[r])
            rc = tell(d, own, r, errp);
    free(all);
    return rc;
}

static int compare(ddp_t *d, const char *settings, const char *layout, uint64_t (*all)[2], ddp_error_t *errp)
{
    uint64_t mine[2] = {hash_text(settings), hash_text(layout)};
    if (comm_allgather(d->comm, mine, sizeof mine, all, errp) < 0)
        return -1;
    for (int r = 1; r < d->world.size; r++) {
        if (all[r][0] != all[0][0])
            return explain_difference(d, config_explain, settings, r, errp);
        if (all[r][1] != all[0][1])
            return explain_difference(d, layout_explain, layout, r, errp);
    }
    return 0;
}

int handle_compare(ddp_t *d, ddp_error_t *errp)
{
    uint64_t(*all)[2] = calloc((size_t)d->world.size, sizeof *all);
    char *settings = config_shared_text(&d->config, d->hook.encode ? dtype_name(d->hook.wire) : "none");
    char *layout = layout_text(&d->layout);
    int rc = all && settings && layout ? compare(d, settings, layout, all, errp)
                                       : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the layout");
    free(all);
    free(settings);
    free(layout);
    return rc;
}
