#include "runtime/core/team.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"

struct team team_of(struct world *w, comm_t *c, double timeout_s)
{
    int node = w->node_of[w->rank];
    const struct ddp_world me = {
        .rank = w->rank,
        .size = w->size,
        .local_rank = w->local_of[w->rank],
        .local_size = world_local_size(w, node),
        .node = node,
        .n_nodes = w->n_nodes,
    };
    return (struct team){.map = w, .me = me, .comm = c, .timeout_s = timeout_s};
}

int team_break(struct team *t)
{
    t->is_broken = true;
    return -1;
}

int team_fail(struct team *t, ddp_error_t *errp)
{
    comm_abort(t->comm, errp->text);
    if (error_of_rank(errp->text, t->me.rank) == errp->text)
        error_prefix(errp, "rank %d", t->me.rank);
    return team_break(t);
}

int team_no_memory(struct team *t, const char *what, ddp_error_t *errp)
{
    ddp_error_t e;
    error_set(&e, DDP_E_SYSTEM, ENOMEM, "no memory for %s", what);
    team_fail(t, &e);
    if (errp)
        *errp = e;
    return -1;
}

/* ---- what ranks agree on ---- */

/* rank's text, on every rank. malloc; the caller frees. NULL: t is broken. */
static char *share_text(struct team *t, const char *mine, int rank, ddp_error_t *errp)
{
    uint64_t n = strlen(mine) + 1;
    if (comm_bcast(t->comm, &n, sizeof n, rank, errp) < 0) {
        team_break(t);
        return NULL;
    }
    char *text = malloc(n);
    if (!text) {
        team_no_memory(t, "what another rank has to say", errp);
        return NULL;
    }
    if (t->me.rank == rank)
        memcpy(text, mine, n);
    if (comm_bcast(t->comm, text, n, rank, errp) == 0)
        return text;
    free(text);
    team_break(t);
    return NULL;
}

static int explain_difference(struct team *t, team_explain_f *explain, const char *mine, int other, ddp_error_t *errp)
{
    char *first = share_text(t, mine, 0, errp), *second = first ? share_text(t, mine, other, errp) : NULL;
    if (second)
        explain(first, 0, second, other, errp);
    free(first);
    free(second);
    return -1;
}

static int tell(struct team *t, const ddp_error_t *own, int rank, ddp_error_t *errp)
{
    char *why = share_text(t, own->text, rank, errp);
    if (own->code && errp)
        *errp = *own; /* whatever became of the telling */
    else if (why)
        error_set(errp, DDP_E_PEER, EINVAL, "rank %d: %s", rank, error_of_rank(why, rank));
    free(why);
    return -1;
}

void *team_gather(struct team *t, const void *mine, size_t n, ddp_error_t *errp)
{
    void *all = malloc((size_t)t->me.size * n);
    if (!all) {
        team_no_memory(t, "what all ranks have to say", errp);
        return NULL;
    }
    if (comm_allgather(t->comm, mine, n, all, errp) == 0)
        return all;
    free(all);
    team_break(t);
    return NULL;
}

int team_agree(struct team *t, const ddp_error_t *own, ddp_error_t *errp)
{
    char mine = own->code != 0, *all = team_gather(t, &mine, sizeof mine, errp);
    int rc = all ? 0 : -1;
    for (int r = 0; rc == 0 && r < t->me.size; r++)
        if (all[r])
            rc = tell(t, own, r, errp);
    free(all);
    return rc;
}

int team_same(struct team *t, const char *text, team_explain_f *explain, ddp_error_t *errp)
{
    uint64_t mine = hash_text(text), *all = team_gather(t, &mine, sizeof mine, errp);
    int rc = all ? 0 : -1;
    for (int r = 1; rc == 0 && r < t->me.size; r++)
        if (all[r] != all[0])
            rc = explain_difference(t, explain, text, r, errp);
    free(all);
    return rc;
}
