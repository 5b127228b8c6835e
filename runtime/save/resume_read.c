#include "runtime/save/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/reader.h"
#include "runtime/save/save.h"

#define READ_BYTES (512 * CKPT_BLOCK_BYTES)

/* A checkpoint that is broken may be passed over, and removed later. One that cannot be read now, or not by this
 * version (ENOTSUP), may not. */
static bool is_broken(const ddp_error_t *e)
{
    return (e->domain == DDP_E_DATA && e->code != ENOTSUP) ||
           (e->domain == DDP_E_SYSTEM &&
            (e->code == ENOENT || e->code == ENOTDIR || e->code == EISDIR || e->code == EIO));
}

/* ---- the manifest ---- */

/* Rank 0's text on all ranks; NULL with *errp where there is none. malloc; the caller frees. */
static char *share_text(struct save *save, char *text, uint64_t *n, ddp_error_t *errp)
{
    if (comm_bcast(save->team->comm, n, sizeof *n, 0, errp) < 0) {
        team_break(save->team);
        return NULL;
    }
    char *all = text ? text : malloc(*n + 1);
    ddp_error_t none = {0}, told;
    if (!all)
        error_set(&none, DDP_E_SYSTEM, ENOMEM, "no memory for a text of %llu bytes", (unsigned long long)*n);
    bool is_told = checkpoint_agree(save, &none, &told, errp) == 0;
    if (!is_told || told.code) {
        if (!text)
            free(all);
        if (is_told && errp)
            *errp = told;
        return NULL;
    }
    if (comm_bcast(save->team->comm, all, *n, 0, errp) < 0) {
        team_break(save->team);
        if (!text)
            free(all);
        return NULL;
    }
    return all;
}

int resume_text(struct save *save, const char *path, const struct manifest *m, const char *name, char **ret,
                ddp_error_t *errp)
{
    ddp_error_t why = {0}, told;
    uint64_t n = 0;
    char *text = save->team->me.rank == 0 ? reader_text(path, m, name, &n, &why) : NULL;
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code) {
        if (errp)
            *errp = told;
        return is_broken(&told) ? 0 : -1;
    }
    char *all = share_text(save, text, &n, errp);
    if (!all) {
        free(text);
        return -1;
    }
    all[n] = 0;
    *ret = all;
    return 1;
}

int resume_manifest(struct save *save, const char *path, struct manifest *ret, ddp_error_t *errp)
{
    struct manifest m = {0};
    ddp_error_t why = {0}, told;
    uint64_t n = 0;
    size_t bytes = 0;
    char *text = NULL;
    if (save->team->me.rank == 0 && reader_open(path, &m, &why) == 0) {
        text = manifest_encode(&m, &bytes);
        n = bytes;
        if (!text)
            error_set(&why, DDP_E_SYSTEM, ENOMEM, "no memory for a manifest");
    }
    manifest_clear(&m);
    if (comm_bcast(save->team->comm, &why, sizeof why, 0, errp) < 0)
        return team_break(save->team);
    if (why.code) {
        if (errp)
            *errp = why;
        return is_broken(&why) ? 0 : -1;
    }
    char *all = share_text(save, text, &n, errp);
    if (all)
        manifest_decode(all, n, &m, &why);
    if (all != text)
        free(all);
    free(text);
    if (!all || checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code) {
        manifest_clear(&m);
        if (errp)
            *errp = told;
        return is_broken(&told) ? 0 : -1;
    }
    *ret = m;
    return 1;
}

/* ---- the tensors' names and shapes ---- */

static bool is_same_shape(const struct st_tensor *a, const struct st_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

static void shape_text(const struct st_tensor *t, char *ret, size_t size)
{
    size_t n = (size_t)snprintf(ret, size, "%s [", st_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, "%s%llu", i ? "," : "", (unsigned long long)t->shape[i]);
    if (n < size)
        snprintf(ret + n, size - n, "]");
}

/* Most often it is where it is here. */
static size_t find(const struct manifest *m, const char *name, size_t guess)
{
    if (guess < m->n_tensors && !strcmp(m->tensor[guess].at.t.name, name))
        return guess;
    size_t i = 0;
    while (i < m->n_tensors && strcmp(m->tensor[i].at.t.name, name) != 0)
        i++;
    return i;
}

/* A tensor of a step that was cut (cut.h): no part of the model. */
static bool is_of_cut(const struct manifest *m, size_t i)
{
    return m->state.cut.micro && !strncmp(m->file[m->tensor[i].at.file].name, CUT_GROUP "-", sizeof CUT_GROUP);
}

static size_t count_own(const struct manifest *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        n += !is_of_cut(m, i);
    return n;
}

/* A tensor of the checkpoint that is not in index[0..n); there is one. */
static const char *name_extra(const struct manifest *m, const size_t *index, size_t n)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        size_t t = 0;
        while (t < n && index[t] != i)
            t++;
        if (t == n && !is_of_cut(m, i))
            return m->tensor[i].at.t.name;
    }
    return "";
}

int resume_match(const struct save *save, const struct manifest *m, size_t *ret_index, ddp_error_t *errp)
{
    const struct files *f = &save->checkpoint.plan.files;
    unsigned long long step = m->state.step;
    for (size_t t = 0; t < f->n_tensors; t++) {
        const struct st_tensor *mine = &f->tensor[t].t;
        char want[80], has[80];
        size_t i = ret_index[t] = find(m, mine->name, t);
        if (i == m->n_tensors)
            return error_set(errp, DDP_E_LAYOUT, ENOENT, "the checkpoint of step %llu has no tensor %.100s: start with "
                             "the options of the model that was trained", step, mine->name);
        shape_text(mine, want, sizeof want);
        shape_text(&m->tensor[i].at.t, has, sizeof has);
        if (!is_same_shape(mine, &m->tensor[i].at.t))
            return error_set(errp, DDP_E_LAYOUT, EINVAL, "the checkpoint of step %llu has %.60s as %s, not %s: start "
                             "with the options of the model that was trained", step, mine->name, has, want);
    }
    if (count_own(m) > f->n_tensors)
        return error_set(errp, DDP_E_LAYOUT, EEXIST, "the checkpoint of step %llu has a tensor %.100s that is not in "
                         "this model: start with the options of the model that was trained", step,
                         name_extra(m, ret_index, f->n_tensors));
    return 0;
}

/* ---- the tensors' bytes ---- */

/* A piece, through `buffer` where the processor cannot write it. A device that fails ends all: the checkpoint is not to
 * blame. */
static int read_piece(struct save *save, const char *path, const struct manifest *m, size_t t,
                      const struct writer_piece *p, void *buffer, uint64_t *sum, int *fd, ddp_error_t *errp)
{
    for (size_t at = 0, n; at < p->n; at += n) {
        n = p->n - at < READ_BYTES ? p->n - at : READ_BYTES;
        char *to = (char *)(uintptr_t)p->from + at; /* our own arenas */
        void *host = arena_staging(&save->state->arena, to, buffer);
        if (reader_read(path, m, t, p->at + at, n, host, sum, fd, errp) < 0)
            return -1;
        if (arena_write(&save->state->arena, to, host, n, errp) < 0)
            return team_fail(save->team, errp);
    }
    return 0;
}

static int read_share(struct save *save, const char *path, const struct manifest *m, const size_t *index, uint64_t *sum,
                      ddp_error_t *errp)
{
    const struct split *s = &save->checkpoint.plan.split;
    int *fd = malloc((m->n_files + 1) * sizeof *fd), rc = 0;
    void *buffer = malloc(READ_BYTES);
    if (!fd || !buffer)
        rc = error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu files", m->n_files);
    for (size_t i = 0; fd && i < m->n_files; i++)
        fd[i] = -1;
    for (const struct writer_piece *p = s->piece; rc == 0 && p < s->piece + s->n; p++)
        rc = read_piece(save, path, m, index[p->tensor], p, buffer, &sum[p->tensor], fd, errp);
    if (fd)
        reader_close_files(fd, m->n_files);
    free(buffer);
    free(fd);
    return rc;
}

/* Each rank has its part of the arenas that all hold whole. */
int resume_exchange(struct save *save, ddp_error_t *errp)
{
    const struct checkpoint_plan *plan = &save->checkpoint.plan;
    for (int a = 0; a < plan->n_arenas; a++)
        for (int r = 0; r < save->team->me.size; r++) {
            size_t at, n;
            split_span(&plan->files, &plan->arena[a], r, save->team->me.size, &at, &n);
            if (n && arena_bcast(&save->state->arena, plan->arena[a].base + at, n, r, errp) < 0)
                return team_break(save->team);
        }
    return arena_round(&save->state->arena, errp) < 0 ? team_break(save->team) : 0;
}

int resume_tensors(struct save *save, const char *path, const struct manifest *m, const size_t *index, uint64_t *sum,
                   ddp_error_t *errp)
{
    ddp_error_t why = {0}, told;
    read_share(save, path, m, index, sum, &why);
    if (save->team->is_broken) {
        if (errp)
            *errp = why;
        return -1;
    }
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code) {
        if (errp)
            *errp = told;
        return is_broken(&told) ? 0 : -1;
    }
    if (checkpoint_add_sums(save, sum, errp) < 0)
        return -1;
    for (size_t t = 0; t < save->checkpoint.plan.files.n_tensors; t++)
        if (sum[t] != m->tensor[index[t]].checksum) {
            reader_explain_sum(path, m, index[t], errp);
            return 0;
        }
    return resume_exchange(save, errp) < 0 ? -1 : 1;
}
