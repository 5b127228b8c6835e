/* recall_restore.c - which snapshot all ranks hold, and going on from it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/save/resume.h"
#include "runtime/save/save.h"

/* A snapshot that a rank has. */
struct held {
    uint64_t step, generation;
    bool is_there;
};

static void look(const struct save *save, const char *dir, struct held ret[SLOTS_N])
{
    uint64_t folder = checksum_bytes(dir, strlen(dir));
    struct slots_seal s;
    for (int i = 0; i < SLOTS_N; i++) {
        ret[i] = (struct held){0};
        if (slots_read(&save->recall.slots, i, &s) && s.folder == folder)
            ret[i] = (struct held){s.state.step, s.generation, true};
    }
}

static bool is_same(const struct held *a, const struct held *b)
{
    return a->is_there && b->is_there && a->step == b->step && a->generation == b->generation;
}

/* The slot among held[SLOTS_N]; -1: none. */
static int slot_of(const struct held *held, const struct held *h)
{
    for (int i = 0; i < SLOTS_N; i++)
        if (is_same(&held[i], h))
            return i;
    return -1;
}

static bool is_everywhere(const struct held *all, int n_ranks, const struct held *h)
{
    int rank = 0;
    while (rank < n_ranks && slot_of(all + (size_t)rank * SLOTS_N, h) >= 0)
        rank++;
    return rank == n_ranks;
}

/* The newest that all ranks hold, and that was not tried. */
static bool choose(const struct held *all, int n_ranks, const struct held *tried, struct held *ret)
{
    *ret = (struct held){0};
    for (const struct held *h = all; h < all + SLOTS_N; h++)
        if (h->is_there && !is_same(h, tried) && (!ret->is_there || h->step > ret->step) &&
            is_everywhere(all, n_ranks, h))
            *ret = *h;
    return ret->is_there;
}

static bool has_none(const struct held *held)
{
    return !held[0].is_there && !held[1].is_there;
}

/* Why there is nothing to choose from. */
static void explain(const struct held *all, int n_ranks, ddp_error_t *ret)
{
    int rank = 0;
    while (rank < n_ranks && !has_none(all + (size_t)rank * SLOTS_N))
        rank++;
    if (rank < n_ranks)
        error_set(ret, DDP_E_DATA, ENOENT, "rank %d has none that fits", rank);
    else
        error_set(ret, DDP_E_DATA, ENOENT, "no step's is on all ranks");
}

static int check(const struct save *save, int slot, const struct slots_seal *seal, ddp_error_t *errp)
{
    const struct recall *r = &save->recall;
    size_t n = save->checkpoint.plan.files.n_tensors;
    uint64_t *sum = calloc(n + 1, sizeof *sum);
    if (!sum)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for checksums");
    for (const struct snapshot_piece *p = r->plan.piece; p < r->plan.piece + r->plan.n_pieces; p++)
        sum[p->piece->tensor] += checksum_blocks(slots_data(&r->slots, slot) + p->offset, p->piece->n,
                                                 p->piece->at / CKPT_BLOCK_BYTES);
    bool is_whole = checksum_bytes(sum, n * sizeof *sum) == seal->sum;
    free(sum);
    return is_whole ? 0 : error_set(errp, DDP_E_DATA, EBADMSG, "that of step %" PRIu64 " is damaged",
                                    seal->state.step);
}

/* This rank's part, into place. */
static int place(struct save *save, int slot, ddp_error_t *errp)
{
    const struct recall *r = &save->recall;
    struct arena *a = &save->state->arena;
    for (const struct snapshot_piece *p = r->plan.piece; p < r->plan.piece + r->plan.n_pieces; p++) {
        void *to = (void *)(uintptr_t)p->piece->from; /* our own arenas */
        if (arena_write(a, to, slots_data(&r->slots, slot) + p->offset, p->piece->n, errp) < 0)
            return team_fail(save->team, errp);
    }
    return 0;
}

/* 1: done; 0: it does not count, as *why says; -1 with *errp. errp is not NULL here and below. */
static int restore(struct save *save, int slot, ddp_error_t *why, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    struct recall *r = &save->recall;
    struct slots_seal seal;
    ddp_error_t own = {0};
    slots_read(&r->slots, slot, &seal);
    check(save, slot, &seal, &own);
    if (checkpoint_agree(save, &own, why, errp) < 0)
        return -1;
    if (why->code)
        return 0;
    if (comm_bcast(save->team->comm, &seal.state, sizeof seal.state, 0, errp) < 0)
        return team_break(save->team);
    if (checkpoint_state_check(save, &seal.state, why) < 0)
        return 0;
    if (place(save, slot, errp) < 0 || resume_exchange(save, errp) < 0)
        return -1;
    checkpoint_state_compare(save, &seal.state);
    if (checkpoint_state_restore(save, &seal.state, errp) < 0 || arena_round(&save->state->arena, errp) < 0)
        return -1;
    snprintf(c->status.path, sizeof c->status.path, "%s", RECALL_PATH);
    c->has_last = false;
    r->newest = slot;
    r->step[slot] = seal.state.step;
    r->has_begun = true;
    return 1;
}

static int try_all(struct save *save, const struct held *all, uint64_t newest_file, ddp_error_t *why, ddp_error_t *errp)
{
    const struct held *mine = all + (size_t)save->team->me.rank * SLOTS_N;
    struct held tried = {0}, h;
    int n = save->team->me.size, rc = 0;
    explain(all, n, why);
    for (int i = 0; i < SLOTS_N && rc == 0 && choose(all, n, &tried, &h); i++, tried = h)
        if (h.step < newest_file)
            error_set(why, DDP_E_DATA, ENOENT, "there is a checkpoint of step %" PRIu64 ", after that of step %" PRIu64,
                      newest_file, h.step);
        else
            rc = restore(save, slot_of(mine, &h), why, errp);
    return rc;
}

int recall_restore(struct save *save, const char *dir, uint64_t newest_file, ddp_error_t *errp)
{
    const struct recall *r = &save->recall;
    struct held mine[SLOTS_N];
    ddp_error_t why, own = {0};
    if (!r->is_open || r->handover.generation == 0)
        return 0;
    look(save, dir, mine);
    struct held *all = team_gather(save->team, mine, sizeof mine, errp);
    if (!all)
        return -1;
    bool is_new = newest_file == 0; /* nobody had come to anything */
    for (int rank = 0; rank < save->team->me.size; rank++)
        is_new = is_new && has_none(all + (size_t)rank * SLOTS_N);
    int rc = is_new ? 0 : try_all(save, all, newest_file, &why, &own);
    free(all);
    if (rc == 0 && !is_new)
        checkpoint_warn(save, "snapshots in memory are not used: %s", why.text);
    if (rc < 0 && errp)
        *errp = own;
    return rc;
}
