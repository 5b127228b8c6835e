#include "runtime/save/recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/save/save.h"

/* ---- the slots ---- */

static uint64_t mix(uint64_t key, const void *data, size_t n)
{
    return key * 0x9e3779b97f4a7c15 + checksum_bytes(data, n);
}

/* What the bytes of a slot mean: which bytes of which tensor lie where, of which data. */
static uint64_t key_of(const struct save *save, const struct snapshot *plan)
{
    const struct files *f = &save->checkpoint.plan.files;
    const struct data_config *data = &save->state->data.cfg;
    const uint64_t first[] = {(uint64_t)save->team->me.rank, (uint64_t)save->team->me.size, f->n_tensors,
                              plan->n_pieces, data->n_samples, data->seed, (uint64_t)data->order,
                              sizeof(struct slots_seal)};
    uint64_t key = mix(mix(0, DDP_VERSION, strlen(DDP_VERSION)), first, sizeof first);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct st_tensor *t = &f->tensor[i].t;
        key = mix(key, t->name, strlen(t->name));
        key = mix(key, t->shape, (size_t)t->ndim * sizeof *t->shape);
    }
    for (const struct snapshot_piece *p = plan->piece; p < plan->piece + plan->n_pieces; p++) {
        const uint64_t place[] = {p->piece->tensor, p->piece->at, p->piece->n, p->offset};
        key = mix(key, place, sizeof place);
    }
    return key;
}

static bool is_wanted(const struct save *save)
{
    return save->config->snapshot_every != 0 && !save->foreign.is_open && !save->checkpoint.plan.cut_micro;
}

/* The slots of the generation before, where they fit; else nothing of them stays. */
static void plan(struct save *save, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    const struct checkpoint_plan *p = &save->checkpoint.plan;
    if (snapshot_plan(&r->plan, &p->files, p->split.piece, p->split.n, errp) < 0)
        return;
    uint64_t key = key_of(save, &r->plan);
    r->is_foreign = r->handover.memory[HANDOVER_OWN] >= 0;
    if (slots_adopt(&r->slots, r->handover.memory[HANDOVER_OWN], r->plan.n_bytes, key)) {
        r->handover.memory[HANDOVER_OWN] = -1;
        r->is_foreign = slots_are_foreign(&r->slots);
        return;
    }
    handover_forget(&r->handover, HANDOVER_OWN);
    const struct budget_part part = {"snapshots for restarts", slots_bytes(r->plan.n_bytes)};
    budget_check("", &part, 1, save->team->me.local_size, errp);
}

static void make(struct save *save, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    const struct writer_source source = readback_source(&save->checkpoint.readback);
    if (!r->slots.map) {
        if (slots_make(&r->slots, r->plan.n_bytes, key_of(save, &r->plan), errp) < 0)
            return;
        handover_keep(&r->handover, HANDOVER_OWN, r->slots.fd);
    }
    r->copier = copier_create(&r->plan, save->checkpoint.plan.files.n_tensors,
                              save->state->arena.device ? &source : NULL, errp);
}

void recall_shut(struct save *save)
{
    struct recall *r = &save->recall;
    copier_destroy(r->copier); /* which calls the mirror */
    mirror_destroy(r->mirror);
    r->copier = NULL;
    r->mirror = NULL;
    int own = slots_close(&r->slots), guest = slots_close(&r->guest);
    if (own >= 0)
        r->handover.memory[HANDOVER_OWN] = own;
    if (guest >= 0)
        r->handover.memory[HANDOVER_GUEST] = guest;
    snapshot_clear(&r->plan);
    free(r->part);
    r->part = NULL;
    r->is_open = r->is_due = false;
}

/* Nothing stays, of what guards keep either. */
static void drop(struct save *save)
{
    struct recall *r = &save->recall;
    recall_shut(save);
    if (!r->handover.is_there)
        return;
    for (int i = 0; i < HANDOVER_KINDS; i++)
        handover_forget(&r->handover, i);
}

int recall_open(struct save *save, ddp_error_t *errp)
{
    struct recall *r = &save->recall;
    ddp_error_t own = {0}, told;
    int32_t is_everywhere = r->handover.is_there;
    if (!is_wanted(save)) {
        drop(save);
        return 0;
    }
    if (comm_allreduce(save->team->comm, &is_everywhere, 1, DDP_I32, DDP_MIN, errp) < 0)
        return team_break(save->team);
    if (!is_everywhere || r->is_open)
        return 0;
    plan(save, &own);
    if (checkpoint_agree(save, &own, &told, errp) < 0)
        return -1;
    if (!told.code) {
        make(save, &own);
        if (checkpoint_agree(save, &own, &told, errp) < 0)
            return -1;
    }
    if (told.code) {
        drop(save);
        checkpoint_warn(save, "no snapshots in memory for restarts: %s", told.text);
        return 0;
    }
    r->is_open = true;
    r->has_begun = false;
    r->newest = r->pinned = -1;
    return recall_open_mirror(save, errp);
}

void recall_close(struct save *save)
{
    recall_shut(save);
    handover_close(&save->recall.handover);
}

size_t recall_bytes(const struct save *save)
{
    const struct recall *r = &save->recall;
    return (r->is_open ? slots_bytes(r->plan.n_bytes) : 0) + (r->guest.map ? slots_bytes(r->guest.bytes) : 0);
}

/* ---- taking them ---- */

static void seal(void *ctx, const uint64_t *sum)
{
    struct recall_flight *f = ctx;
    f->seal.sum = checksum_bytes(sum, f->n_tensors * sizeof *sum);
    slots_seal(f->slots, f->slot, &f->seal);
    if (f->mirror)
        mirror_send(f->mirror, f->slot);
}

/* The next slot, empty, for the present step. A folder that cannot be written has been resumed from. */
static struct writer_target begin(struct save *save)
{
    struct recall *r = &save->recall;
    const struct checkpoint *c = &save->checkpoint;
    uint64_t step = save->state->optimizer.n_steps;
    for (int i = 0; i < SLOTS_N && !r->has_begun; i++)
        slots_clear(&r->slots, i);
    bool is_again = r->newest >= 0 && r->step[r->newest] == step; /* a checkpoint of a step that has a snapshot */
    int slot = is_again ? r->newest : r->pinned >= 0 ? !r->pinned : r->newest < 0 ? 0 : !r->newest;
    slots_clear(&r->slots, slot);
    r->flight = (struct recall_flight){.slots = &r->slots, .mirror = r->mirror, .slot = slot,
                                       .n_tensors = c->plan.files.n_tensors,
                                       .seal = {.generation = (uint64_t)r->handover.generation,
                                                .folder = c->path ? c->path_sum : c->resumed_sum,
                                                .state = c->state}};
    checkpoint_state_fill(save, &r->flight.seal.state);
    strcpy(r->flight.seal.state.reason, "periodic"); /* whoever needs it has failed since */
    r->newest = slot;
    r->step[slot] = step;
    r->has_begun = true;
    return (struct writer_target){slots_data(&r->slots, slot), seal, &r->flight};
}

const struct writer_target *recall_target(struct save *save)
{
    struct recall *r = &save->recall;
    if (!r->is_open)
        return NULL;
    copier_wait(r->copier);
    r->pinned = -1;
    r->target = begin(save);
    r->pinned = r->newest;
    return &r->target;
}

void recall_take(struct save *save)
{
    struct recall *r = &save->recall;
    const struct checkpoint *c = &save->checkpoint;
    bool is_due = r->is_due;
    r->is_due = false;
    if (!r->is_open || !is_due || (!c->path && !c->resumed_path) ||
        (r->newest >= 0 && r->step[r->newest] == save->state->optimizer.n_steps))
        return;
    if (c->phase != CHECKPOINT_SAVING)
        r->pinned = -1;
    if (save->state->arena.device &&
        readback_after(&save->checkpoint.readback, save->state->arena.program, NULL) < 0)
        return; /* the step says so, too */
    r->limit_s = r->began_ns ? 2 * r->cost_s : INFINITY; /* who is held up once is not slow */
    r->took_s = 0;
    r->began_ns = clock_ns();
    r->target = begin(save);
    copier_start(r->copier, &r->target);
}

void recall_wait(struct save *save)
{
    if (save->recall.is_open)
        copier_wait(save->recall.copier);
}

/* Also a checkpoint's copy, whose slot has to be whole like any other. */
static void wait_copied(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    uint64_t began = clock_ns();
    recall_wait(save);
    writer_wait_copied(c->writer);
    if (c->phase == CHECKPOINT_SAVING)
        c->status.blocked_s += (double)(clock_ns() - began) / 1e9;
}

static bool is_due(const struct save *save)
{
    const struct recall *r = &save->recall;
    int64_t every = save->config->snapshot_every;
    if (save->team->me.rank != 0)
        return false;
    if (every > 0)
        return (save->state->optimizer.n_steps + 1) % (uint64_t)every == 0;
    return (double)(clock_ns() - r->began_ns) / 1e9 >= r->cost_s / RECALL_SHARE;
}

void recall_fill_tail(struct save *save, double *tail)
{
    struct recall *r = &save->recall;
    uint64_t began = clock_ns();
    tail[TAIL_SNAPSHOT] = tail[TAIL_UNMIRRORED] = tail[TAIL_MIRRORLESS] = 0;
    if (!r->is_open)
        return;
    wait_copied(save);
    double mirror_s = r->mirror ? mirror_cpu_s(r->mirror) : 0;
    r->took_s += (double)(clock_ns() - began) / 1e9 + mirror_s - r->mirror_s;
    r->mirror_s = mirror_s;
    r->cost_s = fmin(copier_cpu_s(r->copier) + r->took_s, r->limit_s);
    tail[TAIL_UNMIRRORED] = r->mirror && !mirror_is_done(r->mirror);
    tail[TAIL_MIRRORLESS] = r->mirror && mirror_has_failed(r->mirror);
    tail[TAIL_SNAPSHOT] = is_due(save);
}

void recall_after_step(struct save *save, const double *tail, bool is_skipped)
{
    struct recall *r = &save->recall;
    r->is_due = tail[TAIL_SNAPSHOT] > 0 && !is_skipped && tail[TAIL_JOINED] == 0 && tail[TAIL_UNMIRRORED] == 0;
    if (tail[TAIL_MIRRORLESS] > 0 && !r->is_mirrorless)
        checkpoint_warn(save, "snapshots of %g rank%s have no copy on another node any more: a connection has failed",
                        tail[TAIL_MIRRORLESS], PLURAL(tail[TAIL_MIRRORLESS]));
    r->is_mirrorless = tail[TAIL_MIRRORLESS] > 0;
}

void recall_distrust(struct save *save, uint64_t agreed)
{
    struct recall *r = &save->recall;
    struct slots_seal found;
    if (!r->is_open)
        return;
    wait_copied(save);
    mirror_destroy(r->mirror); /* training ends */
    r->mirror = r->flight.mirror = NULL;
    for (int i = 0; i < SLOTS_N; i++) {
        if (slots_read(&r->slots, i, &found) && found.state.step > agreed)
            slots_clear(&r->slots, i);
        if (r->guest.map && slots_read(&r->guest, i, &found) && found.state.step > agreed)
            slots_clear(&r->guest, i);
    }
}
