/* recall_mirror.c - copies of snapshots on other nodes. */
#include <stdlib.h>

#include "runtime/base/budget.h"
#include "runtime/comm/pair.h"
#include "runtime/save/save.h"

#define FETCH_BYTES ((size_t)4 << 20)

static int neighbour(const struct save *save, int rank, int step)
{
    const struct world *w = save->team->map;
    if (w->n_nodes < 2 || world_min_local_size(w) * w->n_nodes != w->size)
        return -1;
    return world_rank_at(w, (w->node_of[rank] + step + w->n_nodes) % w->n_nodes, w->local_of[rank]);
}

int recall_keeper(const struct save *save, int rank)
{
    return neighbour(save, rank, 1);
}

/* What the generation before has kept of that rank's, where it fits. */
static void adopt(struct save *save, const struct recall_part *of, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    const struct budget_part part = {"other nodes' snapshots", slots_bytes(of->n_bytes)};
    if (slots_adopt(&r->guest, r->handover.memory[HANDOVER_GUEST], of->n_bytes, of->key)) {
        r->handover.memory[HANDOVER_GUEST] = -1;
        return;
    }
    handover_forget(&r->handover, HANDOVER_GUEST);
    budget_check("", &part, 1, save->team->me.local_size, errp);
}

static void make(struct save *save, const struct recall_part *of, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    if (r->guest.map || slots_make(&r->guest, of->n_bytes, of->key, errp) < 0)
        return;
    handover_keep(&r->handover, HANDOVER_GUEST, r->guest.fd);
}

static void connect_nodes(struct save *save, int to, int from, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    const struct team *t = save->team;
    int out, in;
    if (pair_open(t->comm, t->map, config_text(save->config->interface), to, from, t->timeout_s / 4, &out, &in, errp) ==
        0)
        r->mirror = mirror_create(&r->slots, &r->guest, out, in, errp);
}

/* Each step is taken by all ranks, or by none. */
static int open_all(struct save *save, int to, int from, ddp_error_t *told, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    ddp_error_t own = {0};
    adopt(save, &r->part[from], &own);
    if (checkpoint_agree(save, &own, told, errp) < 0)
        return -1;
    if (told->code)
        return 0;
    make(save, &r->part[from], &own);
    if (checkpoint_agree(save, &own, told, errp) < 0)
        return -1;
    if (told->code)
        return 0;
    connect_nodes(save, to, from, &own);
    return checkpoint_agree(save, &own, told, errp);
}

int recall_open_mirror(struct save *save, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    int me = save->team->me.rank, to = neighbour(save, me, 1), from = neighbour(save, me, -1);
    const struct recall_part mine = {r->slots.bytes, r->slots.key};
    ddp_error_t told = {0};
    if (to < 0)
        return 0;
    r->part = team_gather(save->team, &mine, sizeof mine, errp);
    if (!r->part || open_all(save, to, from, &told, errp) < 0)
        return -1;
    if (!told.code)
        return 0;
    mirror_destroy(r->mirror);
    r->mirror = NULL;
    int fd = slots_close(&r->guest);
    if (fd >= 0)
        r->handover.memory[HANDOVER_GUEST] = fd;
    handover_forget(&r->handover, HANDOVER_GUEST);
    free(r->part);
    r->part = NULL;
    checkpoint_warn(save, "no copies of snapshots on other nodes: %s", told.text);
    return 0;
}

/* ---- back again ---- */

static int find(const struct slots *s, uint64_t step, uint64_t generation, struct slots_seal *ret)
{
    for (int i = 0; i < SLOTS_N; i++)
        if (slots_read(s, i, ret) && ret->state.step == step && ret->generation == generation)
            return i;
    return -1;
}

int recall_fetch(struct save *save, int rank, uint64_t step, uint64_t generation, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    int me = save->team->me.rank, root = recall_keeper(save, rank);
    struct {
        int slot;
        struct slots_seal seal;
    } is = {0};
    size_t n_all = r->part[rank].n_bytes;
    char *scratch = malloc(FETCH_BYTES), *at = NULL;
    if (!scratch)
        return team_no_memory(save->team, "a snapshot", errp);
    if (me == root)
        is.slot = find(&r->guest, step, generation, &is.seal);
    int rc = comm_bcast(save->team->comm, &is, sizeof is, root, errp);
    if (rc == 0 && is.slot < 0) { /* it is not whole, as the check behind this says */
        free(scratch);
        return 0;
    }
    if (rc == 0 && me == rank)
        slots_clear(&r->slots, is.slot);
    if (rc == 0 && (me == root || me == rank))
        at = slots_data(me == root ? &r->guest : &r->slots, is.slot);
    for (size_t i = 0, n; rc == 0 && i < n_all; i += n) {
        n = n_all - i < FETCH_BYTES ? n_all - i : FETCH_BYTES;
        rc = comm_bcast(save->team->comm, at ? at + i : scratch, n, root, errp);
    }
    if (rc == 0 && me == rank)
        slots_seal(&r->slots, is.slot, &is.seal);
    free(scratch);
    return rc < 0 ? team_break(save->team) : 0;
}
