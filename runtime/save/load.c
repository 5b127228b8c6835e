#include "runtime/save/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cast.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/reader.h"
#include "runtime/save/save.h"
#include "runtime/save/sources.h"

#define CHUNK_ELEMS ((size_t)1 << 20) /* whole blocks of checksum.h */

/* What a chunk goes through: bytes of the file's type, then values. */
struct chunk {
    float value[CHUNK_ELEMS];
    uint16_t raw[CHUNK_ELEMS];
};

/* From bytes of the file's type. *sum is that of the values' blocks. */
static int read_values(struct save *save, const struct source_tensor *from, float *to, size_t n_elems, struct chunk *c,
                       uint64_t *sum, ddp_error_t *errp)
{
    enum st_dtype dtype = from->t->dtype;
    size_t size = st_dtype_size(dtype);
    *sum = 0;
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < CHUNK_ELEMS ? n_elems - at : CHUNK_ELEMS;
        float *value = arena_staging(&save->state->arena, to + at, c->value);
        void *here = dtype == ST_F32 ? (void *)value : c->raw;
        if (source_read(from, here, n * size, at * size, errp) < 0)
            return -1;
        if (dtype == ST_F16)
            kernel_load_f16(value, c->raw, n);
        else if (dtype == ST_BF16)
            kernel_load_bf16(value, c->raw, n);
        *sum += checksum_blocks(value, n * sizeof *value, at * sizeof *value / CKPT_BLOCK_BYTES);
        if (arena_write(&save->state->arena, to + at, value, n * sizeof *value, errp) < 0)
            return -1;
    }
    return 0;
}

static int check(const struct layout_param *p, const struct source_tensor *from, ddp_error_t *errp)
{
    const struct st_tensor *t = from->t;
    if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16)
        return error_set(errp, DDP_E_LAYOUT, ENOTSUP, "%.100s: %s is of type %s: F32, F16 and BF16 can be loaded",
                         from->in->path, t->name, st_dtype_name(t->dtype));
    bool is_same = t->ndim == p->ndim;
    for (int i = 0; is_same && i < p->ndim; i++)
        is_same = t->shape[i] == p->shape[i];
    if (is_same)
        return 0;
    char shape[2][80];
    for (int k = 0; k < 2; k++) {
        size_t n = 0;
        shape[k][0] = 0;
        for (int i = 0; i < (k ? p->ndim : t->ndim) && n < sizeof shape[k]; i++)
            n += (size_t)snprintf(shape[k] + n, sizeof shape[k] - n, "%s%llu", i ? "," : "",
                                  (unsigned long long)(k ? p->shape[i] : t->shape[i]));
    }
    return error_set(errp, DDP_E_LAYOUT, EINVAL, "%.80s: %.60s is [%s], not [%s]: start with the options of that model",
                     from->in->path, t->name, shape[0], shape[1]);
}

static int check_sum(const struct manifest *m, const char *dir, const char *name, uint64_t sum, ddp_error_t *errp)
{
    for (size_t t = 0; t < m->n_tensors; t++)
        if (!strcmp(m->tensor[t].at.t.name, name))
            return sum == m->tensor[t].checksum ? 0 : reader_explain_sum(dir, m, t, errp);
    return 0;
}

/* Parameter id, if this rank is the one that reads it; all ranks check all names and shapes. */
static int load_one(struct save *save, const char *dir, const struct sources *all, int id, const char *prefix,
                    struct chunk *chunk, ddp_error_t *errp)
{
    const struct layout_param *p = &save->state->layout.param[id];
    float *value = save->state->arena.values + p->offset_bytes / sizeof(float);
    uint64_t sum;
    char name[ST_NAME_MAX + 1];
    const struct source_tensor *t = sources_find(all, p->name);
    snprintf(name, sizeof name, "%.100s.%s", prefix ? prefix : "", p->name);
    if (!t && prefix)
        t = sources_find(all, name);
    if (!t)
        return error_set(errp, DDP_E_LAYOUT, ENOENT, "%.100s has no tensor %.100s: start with the options of that "
                         "model", dir, p->name);
    if (check(p, t, errp) < 0)
        return -1;
    if (id % save->team->me.size != save->team->me.rank)
        return 0;
    return read_values(save, t, value, p->n_elems, chunk, &sum, errp) < 0 ||
           check_sum(&all->manifest, dir, p->name, sum, errp) < 0 ? -1 : 0;
}

static int load_own(struct save *save, const char *dir, const char *prefix, ddp_error_t *errp)
{
    struct sources all = {0};
    if (!dir || !*dir)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_load: no folder or file is named");
    struct chunk *chunk = malloc(sizeof *chunk);
    int rc =
        chunk ? sources_open(&all, dir, errp) : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to load %.100s", dir);
    for (int id = 0; rc == 0 && id < save->state->layout.n; id++)
        rc = load_one(save, dir, &all, id, prefix, chunk, errp);
    sources_close(&all);
    free(chunk);
    return rc;
}

int load_values(struct save *save, const char *dir, const char *prefix, ddp_error_t *errp)
{
    struct state *st = save->state;
    ddp_error_t why = {0}, told;
    checkpoint_wait_copied(save);
    load_own(save, dir, prefix, &why);
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code && errp)
        *errp = told;
    for (int id = 0; !told.code && id < st->layout.n; id++) {
        const struct layout_param *p = &st->layout.param[id];
        char *value = (char *)st->arena.values + p->offset_bytes;
        if (arena_bcast(&st->arena, value, p->n_elems * sizeof(float), id % save->team->me.size, errp) < 0)
            return team_break(save->team);
    }
    if (!told.code && arena_round(&st->arena, errp) < 0)
        return team_break(save->team);
    return told.code ? -1 : 0;
}
