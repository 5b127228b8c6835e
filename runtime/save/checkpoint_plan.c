/* checkpoint_plan.c - what a checkpoint holds, which part of it is this rank's, and the memory for that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/save/save.h"

/* The layout's parameters as tensors NAME, or NAME.SUFFIX, into t[0..n). */
static void name_tensors(const struct layout *l, const char *suffix, struct st_tensor *t)
{
    for (int i = 0; i < l->n; i++) {
        const struct layout_param *p = &l->param[i];
        t[i] = (struct st_tensor){.dtype = ST_F32, .ndim = p->ndim};
        snprintf(t[i].name, sizeof t[i].name, "%s%s%s", p->name, suffix ? "." : "", suffix ? suffix : "");
        for (int k = 0; k < p->ndim; k++)
            t[i].shape[k] = p->shape[k];
    }
}

static int make_files(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    const struct optim_rule *rule = save->state->optimizer.rule;
    size_t n = (size_t)save->state->layout.n, n_moments = (size_t)rule->n_moments;
    struct st_tensor *t = calloc((1 + n_moments) * n + 1, sizeof *t), *cut = NULL;
    size_t n_cut = 0;
    if (!t)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", (1 + n_moments) * n);
    name_tensors(&save->state->layout, NULL, t);
    for (size_t k = 0; k < n_moments; k++)
        name_tensors(&save->state->layout, rule->suffix[k], t + (1 + k) * n);
    struct files_group group[3] = {{"model", t, n}, {"optimizer", t + n, n_moments * n}};
    int n_groups = n_moments ? 2 : 1, rc = cut_tensors(save, &cut, &n_cut, errp);
    if (rc == 0 && n_cut)
        group[n_groups++] = (struct files_group){CUT_GROUP, cut, n_cut};
    c->plan.cut_micro = n_cut > 0 ? save->cut.micro : 0;
    if (rc == 0)
        rc = files_make(&c->plan.files, group, n_groups, (uint64_t)(save->config->ckpt_file_mb * (1 << 20)), errp);
    free(cut);
    free(t);
    for (int i = 0; rc == 0 && i < c->n_attached; i++)
        rc = files_attach(&c->plan.files, c->attached[i].name, c->attached[i].text, errp);
    return rc;
}

/* Arenas that every rank holds whole: the values, and moments that are not spread, whose slices are then the
 * parameters. */
static int make_arenas(struct save *save, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    size_t n = (size_t)save->state->layout.n;
    plan->n_arenas = CHECKPOINT_MOMENTS + (save->state->arena.is_spread ? 0 : save->state->optimizer.rule->n_moments);
    for (int a = 0; a < plan->n_arenas; a++) {
        plan->offset[a] = calloc(n + 1, sizeof *plan->offset[a]);
        if (!plan->offset[a])
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu offsets", n);
        for (size_t i = 0; i < n; i++)
            plan->offset[a][i] = a == CHECKPOINT_VALUES ? save->state->layout.param[i].offset_bytes
                                                        : save->state->optimizer.slice[i].state * sizeof(float);
        float *base = a == CHECKPOINT_VALUES ? save->state->arena.values
                                             : save->state->optimizer.moment[a - CHECKPOINT_MOMENTS];
        plan->arena[a] = (struct split_arena){(char *)base, (size_t)a * n, n, plan->offset[a]};
    }
    return 0;
}

/* Spread moments: those of this rank's slices. */
static int share_slices(struct save *save, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    const struct optimizer *o = &save->state->optimizer;
    for (size_t i = 0; i < o->n_slices; i++) {
        const struct optimizer_slice *s = &o->slice[i];
        const struct layout_param *p = &save->state->layout.param[s->id];
        uint64_t at = s->at * sizeof(float) - p->offset_bytes;
        for (int k = 0; k < o->rule->n_moments; k++) {
            size_t tensor = (size_t)(1 + k) * (size_t)save->state->layout.n + (size_t)s->id;
            const struct writer_piece piece = {o->moment[k] + s->state, tensor, at, s->n_elems * sizeof(float)};
            if (split_add(&plan->split, &piece, errp) < 0)
                return -1;
        }
    }
    return 0;
}

static int open_writer(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    const struct writer_source source = readback_source(&c->readback);
    device_t *device = save->state->arena.device;
    bool has_memory = !save->recall.is_open;
    if (device && readback_open(&c->readback, device, save->team->timeout_s, errp) < 0)
        return -1;
    c->writer = writer_create(&c->plan.files, c->plan.split.piece, c->plan.split.n, device ? &source : NULL, has_memory,
                              errp);
    return c->writer ? 0 : -1;
}

static void close_writer(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    writer_destroy(c->writer);
    c->writer = NULL;
    recall_shut(save);
    readback_close(&c->readback);
}

void checkpoint_drop_plan(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    close_writer(save);
    files_clear(&c->plan.files);
    split_clear(&c->plan.split);
    for (int a = 0; a < CHECKPOINT_ARENAS; a++)
        free(c->plan.offset[a]);
    c->plan = (struct checkpoint_plan){0};
    c->status.bytes = 0;
}

/* Parameters and optimizer state that are libddp's. */
static int plan_own(struct save *save, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    const struct ddp_world *me = &save->team->me;
    if (make_files(save, errp) < 0 || make_arenas(save, errp) < 0)
        return -1;
    for (int a = 0; a < plan->n_arenas; a++)
        if (split_add_arena(&plan->split, &plan->files, &plan->arena[a], me->rank, me->size, errp) < 0)
            return -1;
    if (save->state->arena.is_spread && share_slices(save, errp) < 0)
        return -1;
    return cut_share(save, errp);
}

int checkpoint_plan(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    struct checkpoint_plan *plan = &c->plan;
    if (plan->is_made)
        return 0;
    checkpoint_drop_plan(save); /* what an attempt that failed has left */
    if ((save->foreign.is_open ? foreign_plan : plan_own)(save, errp) < 0)
        return -1;
    for (int i = 0; i < plan->files.n_files; i++)
        c->status.bytes += plan->files.file[i].n_bytes;
    for (int i = 0; i < plan->files.n_small; i++)
        c->status.bytes += plan->files.small[i].n_bytes;
    plan->is_made = true;
    if (!c->has_state)
        checkpoint_state_begin(save);
    c->has_state = true;
    return 0;
}

static size_t bytes_planned(const struct save *save)
{
    const struct checkpoint_plan *plan = &save->checkpoint.plan;
    size_t n_buffers = save->state->arena.device ? READBACK_BYTES : 0;
    size_t n_own = save->recall.is_open ? 0 : writer_bytes(&plan->files, plan->split.piece, plan->split.n);
    return n_own + n_buffers;
}

size_t checkpoint_bytes(const struct save *save)
{
    return save->checkpoint.writer ? bytes_planned(save) + recall_bytes(save) : 0;
}

static int allocate(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    const struct budget_part part = {"snapshot of a checkpoint", bytes_planned(save)};
    if (budget_check("", &part, 1, save->team->me.local_size, errp) < 0)
        return -1;
    free(c->sum);
    c->sum = calloc(c->plan.files.n_tensors + 1, sizeof *c->sum);
    if (!c->sum)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for checksums");
    return 0;
}

int checkpoint_take_memory(struct save *save, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    ddp_error_t why = {0}, told;
    if (c->writer)
        return 0;
    checkpoint_plan(save, &why);
    if (checkpoint_agree(save, &why, &told, errp) < 0 || (!told.code && recall_open(save, errp) < 0))
        return -1;
    if (!told.code) {
        allocate(save, &why);
        if (checkpoint_agree(save, &why, &told, errp) < 0)
            return -1;
    }
    if (!told.code) {
        open_writer(save, &why);
        if (checkpoint_agree(save, &why, &told, errp) < 0)
            return -1;
    }
    if (told.code)
        close_writer(save); /* on all ranks, which try again together */
    if (told.code && errp)
        *errp = told;
    return told.code ? -1 : 0;
}

int checkpoint_plan_cut(struct save *save, ddp_error_t *errp)
{
    ddp_error_t why;
    checkpoint_drop_plan(save);
    if (checkpoint_take_memory(save, &why) == 0)
        return 0;
    if (!save->team->is_broken) {
        checkpoint_warn(save, "the step that was begun is not saved, and will begin anew: %s", why.text);
        save->cut.is_refused = true;
        checkpoint_drop_plan(save);
        return checkpoint_take_memory(save, errp);
    }
    if (errp)
        *errp = why;
    return -1;
}

