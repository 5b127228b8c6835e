/* cut_ckpt.c - the sums of a step that was cut, in a checkpoint. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/ckpt/reader.h"
#include "runtime/save/save.h"

/* Tensor `i` of a rank: its name and shape, and where it lies; false: there are not so many. micro says which levels
 * are in use. */
static bool describe(struct save *save, int rank, int micro, size_t i, struct st_tensor *t, void **ret_at)
{
    size_t n_arena = save->state->layout.n_bytes / sizeof(float);
    *t = (struct st_tensor){.dtype = ST_F32, .ndim = 1, .shape = {n_arena}};
    if (i == 0) {
        snprintf(t->name, sizeof t->name, "rank-%05d.state", rank);
        t->dtype = ST_F64;
        t->shape[0] = cut_n_state(save->state);
        *ret_at = save->cut.state;
        return true;
    }
    if (!save->state->data.cfg.n_shards) {
        snprintf(t->name, sizeof t->name, "rank-%05d.grads", rank);
        *ret_at = save->cut.grads;
        return i == 1;
    }
    for (int j = 0; j < save->state->shards.n_levels; j++)
        if (micro & 1 << j && --i == 0) {
            snprintf(t->name, sizeof t->name, "rank-%05d.level-%02d", rank, j);
            *ret_at = save->state->shards.level[j];
            return true;
        }
    return false;
}

static size_t tensor_bytes(const struct st_tensor *t)
{
    return (size_t)t->shape[0] * st_dtype_size(t->dtype);
}

static size_t n_per_rank(struct save *save)
{
    struct st_tensor t;
    void *at;
    size_t n = 0;
    while (describe(save, 0, save->cut.micro, n, &t, &at))
        n++;
    return n;
}

bool cut_is_wanted(const struct save *save)
{
    return save->cut.is_kept && !save->cut.is_refused;
}

int cut_tensors(struct save *save, struct st_tensor **ret, size_t *ret_n, ddp_error_t *errp)
{
    size_t n = cut_is_wanted(save) ? n_per_rank(save) : 0, n_all = n * (size_t)save->team->me.size;
    struct st_tensor *t = calloc(n_all + 1, sizeof *t);
    void *at;
    if (!t)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", n_all);
    for (size_t i = 0; i < n_all; i++)
        describe(save, (int)(i / n), save->cut.micro, i % n, &t[i], &at);
    *ret = t;
    *ret_n = n_all;
    return 0;
}

int cut_share(struct save *save, ddp_error_t *errp)
{
    const struct files *f = &save->checkpoint.plan.files;
    size_t n = cut_is_wanted(save) ? n_per_rank(save) : 0;
    size_t first = f->n_tensors - n * (size_t)(save->team->me.size - save->team->me.rank);
    for (size_t i = 0; i < n; i++) {
        struct st_tensor t;
        void *at;
        describe(save, save->team->me.rank, save->cut.micro, i, &t, &at);
        const struct writer_piece p = {at, first + i, 0, tensor_bytes(&t)};
        if (split_add(&save->checkpoint.plan.split, &p, errp) < 0)
            return -1;
    }
    return 0;
}

/* ---- reading ---- */

/* Parameters lie in the sums as they were declared, and a manifest has them in that order, too. */
static bool is_same_order(const struct layout *l, const struct manifest *m)
{
    int i = 0;
    while (i < l->n && (size_t)i < m->n_tensors && !strcmp(m->tensor[i].at.t.name, l->param[i].name))
        i++;
    return i == l->n;
}

/* How a step was begun that this job cannot go on with; "": nothing but ranks and batches can be in the way. */
static const char *begun_otherwise(const struct save *save, const struct manifest *m)
{
    const struct state *st = save->state;
    double scale = m->state.cut.scale > 0 ? m->state.cut.scale : 1;
    if (st->arena.device)
        return ", on processors";
    if (scale != loss_scale_factor(&st->loss_scale))
        return ", with another loss scale";
    return is_same_order(&st->layout, m) ? "" : ", with parameters in another order";
}

static bool is_for_us(const struct save *save, const struct manifest *m)
{
    const struct data_config *c = &save->state->data.cfg;
    const struct manifest_state *s = &m->state;
    return !*begun_otherwise(save, m) && s->cut.n_ranks == save->team->me.size && s->data.batch == c->batch &&
           s->data.accum == c->accum && s->data.shards == c->n_shards;
}

static int read_tensor(const char *path, const struct manifest *m, const struct st_tensor *want, void *at, int *fd,
                       ddp_error_t *errp)
{
    size_t t = 0;
    uint64_t sum = 0;
    while (t < m->n_tensors && strcmp(m->tensor[t].at.t.name, want->name) != 0)
        t++;
    if (t == m->n_tensors || m->tensor[t].at.t.dtype != want->dtype || m->tensor[t].at.t.ndim != 1 ||
        m->tensor[t].at.t.shape[0] != want->shape[0])
        return error_set(errp, DDP_E_LAYOUT, ENOENT, "there is no %s as this job has it", want->name);
    if (reader_read(path, m, t, 0, tensor_bytes(want), at, &sum, fd, errp) < 0)
        return -1;
    return sum == m->tensor[t].checksum ? 0 : reader_explain_sum(path, m, t, errp);
}

static int read_own(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    int *fd = malloc((m->n_files + 1) * sizeof *fd), rc = 0;
    struct st_tensor t;
    void *at;
    if (!fd)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu files", m->n_files);
    for (size_t i = 0; i < m->n_files; i++)
        fd[i] = -1;
    for (size_t i = 0; rc == 0 && describe(save, save->team->me.rank, m->state.cut.micro, i, &t, &at); i++)
        rc = read_tensor(path, m, &t, at, fd, errp);
    reader_close_files(fd, m->n_files);
    free(fd);
    return rc;
}

/* The step goes on where it was cut. */
static int go_on(struct save *save, const struct manifest_state *s, ddp_error_t *errp)
{
    const struct data_position at = {.epoch = s->data.epoch, .cursor = s->data.cursor, .micro = s->cut.micro};
    if (data_seek(&save->state->data, &at, errp) < 0)
        return -1;
    save->checkpoint.last_micro = save->cut.micro = s->cut.micro;
    save->cut.is_kept = true; /* ddp_batch_next puts it back */
    save->state->micro.is_unfinished = true;
    save->state->micro.began_ns = clock_ns();
    return 0;
}

int cut_load(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    const struct manifest_state *s = &m->state;
    ddp_error_t why = {0}, told;
    if (!s->cut.micro)
        return 0;
    if (!is_for_us(save, m)) {
        checkpoint_warn(save, "step %" PRIu64 " was begun on %d rank%s%s: it begins anew", s->step + 1,
                        s->cut.n_ranks, PLURAL(s->cut.n_ranks), begun_otherwise(save, m));
        return 0;
    }
    if (cut_take_memory(save, &why) == 0)
        read_own(save, path, m, &why);
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (!told.code)
        return go_on(save, s, errp);
    checkpoint_warn(save, "step %" PRIu64 " was begun, and begins anew: %s", s->step + 1, told.text);
    return 0;
}
