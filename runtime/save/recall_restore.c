/* recall_restore.c - which snapshot all ranks hold, and going on from it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/save/resume.h"
#include "runtime/save/save.h"

/* A snapshot that a rank has. */
struct held {
    uint64_t step, generation;
    bool is_there;
};

/* What a rank holds: its own, found whole, and its guest's. */
struct holding {
    struct held own[SLOTS_N], guest[SLOTS_N];
    bool is_foreign; /* its own are of a program to which they mean something else */
    bool is_damaged; /* one of its own */
    uint64_t damaged; /* of this step */
};

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

static bool is_at(const struct save *save, const struct holding *all, int rank, const struct held *h)
{
    int keeper = recall_keeper(save, rank);
    return slot_of(all[rank].own, h) >= 0 || (keeper >= 0 && slot_of(all[keeper].guest, h) >= 0);
}

static bool is_everywhere(const struct save *save, const struct holding *all, const struct held *h)
{
    int rank = 0, n = save->team->me.size;
    while (rank < n && is_at(save, all, rank, h))
        rank++;
    return rank == n;
}

/* The newest before step `limit` that all ranks hold, or somebody for them: some rank has it itself. */
static bool choose(const struct save *save, const struct holding *all, uint64_t limit, struct held *ret)
{
    *ret = (struct held){0};
    for (const struct holding *k = all; k < all + save->team->me.size; k++)
        for (const struct held *h = k->own; h < k->own + SLOTS_N; h++)
            if (h->is_there && h->step < limit && (!ret->is_there || h->step > ret->step) &&
                is_everywhere(save, all, h))
                *ret = *h;
    return ret->is_there;
}

static bool has_none(const struct holding *h)
{
    return !h->own[0].is_there && !h->own[1].is_there;
}

/* It never had any. */
static bool is_new(const struct holding *h)
{
    return has_none(h) && !h->is_damaged && !h->is_foreign;
}

/* Why there is nothing to choose from. */
static void explain(const struct holding *all, int n_ranks, ddp_error_t *ret)
{
    int foreign = 0, damaged = 0, bare = 0;
    while (foreign < n_ranks && !all[foreign].is_foreign)
        foreign++;
    while (damaged < n_ranks && !all[damaged].is_damaged)
        damaged++;
    while (bare < n_ranks && !has_none(&all[bare]))
        bare++;
    if (foreign < n_ranks)
        error_set(ret, DDP_E_DATA, ENOENT, "rank %d has none that fits: its own are of another libddp, number of "
                  "ranks, model or data", foreign);
    else if (damaged < n_ranks)
        error_set(ret, DDP_E_DATA, EBADMSG, "rank %d: its own of step %" PRIu64 " is damaged", damaged,
                  all[damaged].damaged);
    else if (bare < n_ranks)
        error_set(ret, DDP_E_DATA, ENOENT, "rank %d has none that fits", bare);
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

static void look(const struct save *save, struct holding *ret)
{
    const struct recall *r = &save->recall;
    uint64_t folder = save->checkpoint.resumed_sum;
    struct slots_seal s;
    ddp_error_t e;
    memset(ret, 0, sizeof *ret);
    ret->is_foreign = r->is_foreign;
    for (int i = 0; i < SLOTS_N; i++) {
        if (r->guest.map && slots_read(&r->guest, i, &s) && s.folder == folder)
            ret->guest[i] = (struct held){s.state.step, s.generation, true};
        if (!slots_read(&r->slots, i, &s) || s.folder != folder)
            continue;
        bool is_whole = check(save, i, &s, &e) == 0;
        ret->own[i] = (struct held){s.state.step, s.generation, is_whole};
        if (!is_whole && (!ret->is_damaged || s.state.step > ret->damaged))
            ret->damaged = s.state.step;
        ret->is_damaged = ret->is_damaged || !is_whole;
    }
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

/* What ranks have lost, from those that keep a copy. *ret_slot: this rank's; *ret_n: how many. */
static int fetch(struct save *save, const struct holding *all, const struct held *h, int *ret_slot, int *ret_n,
                 ddp_error_t *errp)
{
    struct slots_seal s;
    *ret_n = 0;
    for (int rank = 0; rank < save->team->me.size; rank++) {
        if (slot_of(all[rank].own, h) >= 0)
            continue;
        ++*ret_n;
        if (recall_fetch(save, rank, h->step, h->generation, errp) < 0)
            return -1;
    }
    for (int i = 0; i < SLOTS_N; i++)
        if (slots_read(&save->recall.slots, i, &s) && s.state.step == h->step && s.generation == h->generation)
            *ret_slot = i;
    return 0;
}

static void take_over(struct save *save, int slot, uint64_t step)
{
    struct checkpoint *c = &save->checkpoint;
    struct recall *r = &save->recall;
    snprintf(c->status.path, sizeof c->status.path, "%s", RECALL_PATH);
    c->has_last = false;
    r->newest = slot;
    r->step[slot] = step;
    r->has_begun = true;
    if (r->mirror) /* which may not have had it */
        mirror_send(r->mirror, slot);
}

/* 1: done; 0: it does not count, as *why says; -1 with *errp. errp is not NULL here and below. */
static int restore(struct save *save, const struct holding *all, const struct held *h, ddp_error_t *why,
                   ddp_error_t *errp)
{
    struct slots_seal seal = {0};
    ddp_error_t own = {0};
    int slot = 0, n_fetched;
    if (fetch(save, all, h, &slot, &n_fetched, errp) < 0)
        return -1;
    if (!slots_read(&save->recall.slots, slot, &seal))
        error_set(&own, DDP_E_DATA, EBADMSG, "the copy of step %" PRIu64 " is damaged", h->step);
    else if (slot_of(all[save->team->me.rank].own, h) < 0)
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
    take_over(save, slot, seal.state.step);
    if (n_fetched)
        checkpoint_warn(save, "%d rank%s had no snapshot of step %" PRIu64 " and took the copy that another node kept",
                        n_fetched, PLURAL(n_fetched), h->step);
    return 1;
}

static int try_all(struct save *save, const struct holding *all, uint64_t newest_file, ddp_error_t *why,
                   ddp_error_t *errp)
{
    struct held h;
    int rc = 0;
    explain(all, save->team->me.size, why);
    for (uint64_t limit = UINT64_MAX; rc == 0 && choose(save, all, limit, &h); limit = h.step) {
        if (h.step >= newest_file)
            rc = restore(save, all, &h, why, errp);
        else if (limit == UINT64_MAX) /* else there was one, which was damaged */
            error_set(why, DDP_E_DATA, ENOENT, "there is a checkpoint of step %" PRIu64 ", after that of step %" PRIu64,
                      newest_file, h.step);
    }
    return rc;
}

int recall_restore(struct save *save, uint64_t newest_file, ddp_error_t *errp)
{
    const struct recall *r = &save->recall;
    struct holding mine;
    ddp_error_t why, own = {0};
    if (!r->is_open || r->handover.generation == 0)
        return 0;
    look(save, &mine);
    struct holding *all = team_gather(save->team, &mine, sizeof mine, errp);
    if (!all)
        return -1;
    bool is_first = newest_file == 0; /* nobody had come to anything */
    for (int rank = 0; rank < save->team->me.size; rank++)
        is_first = is_first && is_new(&all[rank]);
    int rc = is_first ? 0 : try_all(save, all, newest_file, &why, &own);
    free(all);
    if (rc == 0 && !is_first)
        checkpoint_warn(save, "snapshots in memory are not used: %s%s", why.text,
                        newest_file ? "" : "; there is no checkpoint: training begins anew");
    if (rc < 0 && errp)
        *errp = own;
    return rc;
}
